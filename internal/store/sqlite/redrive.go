package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/retryqueue/retryqueue/internal/queue"
)

const redriveColumns = `rid, uid, spec, summary, selected, canary, state, held, message, run_until, started_at, finished_at,
	next_pos, pace, waited, released, unstarted, failing, delivered, died, gone, canary_delivered, canary_died, canary_gone`

const (
	sqlRedrive = `select ` + redriveColumns + ` from redrives where uid = ?`

	sqlSetPermit = `update redrives set state = ?, run_until = ?, waited = ? where rid = ?`

	sqlFinish = `update redrives set state = ?, held = '', message = ?, finished = 1, finished_at = ? where rid = ?`

	sqlPlans = `select rid, uid, canary from redrives`

	sqlExecuted = `select count(*) from redrives where name = ? and spec_digest = ? and uid <> ? and released > 0`

	sqlForgettable = `select rid from redrives where finished = 1 and kept = 1 and finished_at <= ? and released = delivered + died
		order by finished_at limit 1`

	sqlForgetItems = `delete from redrive_items where rid = ? and pos in (select pos from redrive_items where rid = ? order by pos limit ?)`

	sqlForgot = `update redrives set kept = 0 where rid = ?`
)

// keepItems is how long the items of a finished redrive are kept; its counts are kept for good.
const keepItems = queue.Millis(7 * 24 * 60 * 60 * 1000)

// redrive is one row of redrives.
type redrive struct {
	rid, selected, canary                              int64
	nextPos                                            int64
	pace                                               queue.Pace
	waited                                             queue.Millis
	unstarted, canaryDelivered, canaryDied, canaryGone int64
	queue.Redrive
}

// outstanding is how many were released and are unfinished.
func (r *redrive) outstanding() int64 {
	return r.Progress.Released - r.Progress.Delivered - r.Progress.DiedAgain
}

// remaining is how many may still be released.
func (r *redrive) remaining() int64 { return r.selected - r.Progress.Released - r.Progress.Gone }

// show is r for the caller, as of now.
func (r *redrive) show(now queue.Time) queue.Redrive {
	out := r.Redrive
	out.Progress.Outstanding, out.Progress.Remaining, out.Now = r.outstanding(), r.remaining(), now
	return out
}

type scanner interface{ Scan(dest ...any) error }

func scanRedrive(row scanner) (*redrive, error) {
	r := &redrive{}
	var spec, summary, pace string
	err := row.Scan(&r.rid, &r.UID, &spec, &summary, &r.selected, &r.canary, &r.State, &r.Held, &r.Message, &r.RunUntil, &r.StartedAt,
		&r.FinishedAt, &r.nextPos, &pace, &r.waited, &r.Progress.Released, &r.unstarted, &r.Progress.Failing, &r.Progress.Delivered,
		&r.Progress.DiedAgain, &r.Progress.Gone, &r.canaryDelivered, &r.canaryDied, &r.canaryGone)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, queue.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("reading a redrive: %w", err)
	}
	for text, into := range map[string]any{spec: &r.Spec, summary: &r.Summary, pace: &r.pace} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			return nil, fmt.Errorf("reading a redrive: %w", err)
		}
	}
	return r, nil
}

// loadPlans reads what never changes of the redrives.
func (s *Store) loadPlans(ctx context.Context) error {
	rows, err := s.write.conn.QueryContext(ctx, sqlPlans)
	if err != nil {
		return fmt.Errorf("reading redrives: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var rid int64
		var p plan
		if err := rows.Scan(&rid, &p.uid, &p.canary); err != nil {
			return fmt.Errorf("reading redrives: %w", err)
		}
		s.plans.Store(rid, p)
	}
	return rows.Err()
}

// Redrive implements [queue.Redriver].
func (s *Store) Redrive(ctx context.Context, uid string) (queue.Redrive, error) {
	st, err := s.stmts.get(ctx, sqlRedrive)
	if err != nil {
		return queue.Redrive{}, err
	}
	r, err := scanRedrive(st.QueryRowContext(ctx, uid))
	if err != nil {
		return queue.Redrive{}, fmt.Errorf("redrive %q: %w", uid, err)
	}
	now, _ := s.clock.read()
	return r.show(now), nil
}

// redrive reads one inside the transaction.
func (t *tx) redrive(uid string) (*redrive, error) {
	st, err := t.w.stmt(sqlRedrive)
	if err != nil {
		return nil, err
	}
	r, err := scanRedrive(st.QueryRow(uid))
	if err != nil {
		return nil, fmt.Errorf("redrive %q: %w", uid, err)
	}
	return r, nil
}

// PermitRedrive implements [queue.Redriver].
func (s *Store) PermitRedrive(ctx context.Context, p queue.RedrivePermit) (queue.Redrive, error) {
	var out queue.Redrive
	err := s.do(ctx, kindOther, 1, func(t *tx) (err error) {
		out, err = t.permit(p)
		return err
	})
	if err != nil {
		return queue.Redrive{}, fmt.Errorf("permitting: %w", err)
	}
	return out, nil
}

func (t *tx) permit(p queue.RedrivePermit) (queue.Redrive, error) {
	now, _ := t.s.clock.read()
	r, err := t.redrive(p.UID)
	if err != nil || r.State.Finished() {
		return shown(r, now), err
	}
	switch {
	case p.Hash != r.Summary.Hash:
		return queue.Redrive{}, &queue.RedriveError{Reason: queue.RedriveHashMismatch,
			Detail: fmt.Sprintf("the permission names the plan %q, redrive %s has %q: approve this one", p.Hash, p.UID, r.Summary.Hash)}
	case p.For < 0 || p.For > queue.MaxPermit:
		return queue.Redrive{}, &queue.RedriveError{Reason: queue.RedriveInvalid,
			Detail: fmt.Sprintf("for must be from 0 to %s, is %s", queue.MaxPermit, p.For)}
	case p.For == 0:
		r.waited = 0
		if mem, ok := t.s.paces[r.rid]; ok {
			mem.waited = 0
			t.remember(r.rid, mem)
		}
	default:
		if r.Progress.Released == 0 {
			if err := t.once(r.Spec); err != nil {
				return queue.Redrive{}, err
			}
		}
		r.State = queue.RedriveRunning
	}
	r.RunUntil = now.Add(p.For)
	_, err = t.exec(sqlSetPermit, string(r.State), int64(r.RunUntil), int64(r.waited), r.rid)
	return r.show(now), err
}

func shown(r *redrive, now queue.Time) queue.Redrive {
	if r == nil {
		return queue.Redrive{}
	}
	return r.show(now)
}

// once refuses spec when one of the same name and content has released anything under another uid.
func (t *tx) once(spec queue.RedriveSpec) error {
	n, err := t.number(sqlExecuted, spec.Name, spec.SpecDigest, spec.UID)
	if err == nil && n > 0 {
		err = &queue.RedriveError{Reason: queue.RedriveAlreadyExecuted,
			Detail: fmt.Sprintf("a redrive named %s with the same spec has run before: give a new one another name", spec.Name)}
	}
	return err
}

// CancelRedrive implements [queue.Redriver].
func (s *Store) CancelRedrive(ctx context.Context, uid string) (queue.Redrive, error) {
	var out queue.Redrive
	err := s.do(ctx, kindOther, 1, func(t *tx) error {
		now, _ := t.s.clock.read()
		r, err := t.redrive(uid)
		if err == nil && !r.State.Finished() {
			err = t.finish(r, queue.RedriveCancelled, "", now)
		}
		out = shown(r, now)
		return err
	})
	if err != nil {
		return queue.Redrive{}, fmt.Errorf("cancelling: %w", err)
	}
	return out, nil
}

// finish ends r for good.
func (t *tx) finish(r *redrive, state queue.RedriveState, message string, now queue.Time) error {
	r.State, r.Held, r.Message, r.FinishedAt = state, "", message, now
	t.forgetPace(r.rid)
	_, err := t.exec(sqlFinish, string(state), message, int64(now), r.rid)
	return err
}

// forgetItems deletes items of a redrive that has long been finished.
func (t *tx) forgetItems(now queue.Time, limit int) error {
	rid, err := t.number(sqlForgettable, int64(now.Add(-keepItems)))
	if err != nil || rid == 0 {
		return err
	}
	n, err := t.exec(sqlForgetItems, rid, rid, limit)
	if err == nil && n < int64(limit) {
		_, err = t.exec(sqlForgot, rid)
	}
	return err
}
