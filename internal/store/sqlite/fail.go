package sqlite

import (
	"fmt"

	"github.com/retryqueue/retryqueue/internal/queue"
)

var (
	sqlHistories = inList(`select seq, history from details where seq in %s`)

	sqlRetry = `update jobs set state = 0, token = 0, lease_until = 0, available_at = ?, previous_delay = ?, first_failed_at = ? where seq = ?`

	sqlDie = `update jobs set state = 3, token = 0, lease_until = 0, dead_seq = ?, died_at = ?, reason = ?, http_status = ?,
		fingerprint = ?, first_failed_at = ? where seq = ?`

	sqlSetHistory = `insert into details (seq, history) values (?, ?) on conflict (seq) do update set history = excluded.history`
)

// failure is an attempt that failed, or was lost.
type failure struct {
	*row
	result queue.Result
	ended  queue.Time
}

// fail decides what becomes of jobs whose attempt has failed, and writes it with its history.
func (t *tx) fail(p queue.Policy, failed []failure, now queue.Time, deaths queue.Deaths) error {
	if len(failed) == 0 {
		return nil
	}
	rows := make([]*row, len(failed))
	for i, f := range failed {
		rows[i] = f.row
	}
	histories, err := t.histories(rows)
	if err != nil {
		return err
	}
	outcomes := outcomes{}
	for _, f := range failed {
		d, err := queue.Decide(p, f.budget(), f.result, now, t.s.draw(f))
		if err != nil {
			return fmt.Errorf("deciding about job %s: %w", f.id, err)
		}
		history := queue.AppendHistory(histories[f.seq], queue.Attempt{
			Attempt: f.attempts, Redrive: t.s.uid(f.redrive), StartedAt: f.claimedAt, EndedAt: f.ended,
			Outcome: f.result.Outcome, Error: f.result.Failure,
		})
		if f.firstFailedAt == 0 {
			f.firstFailedAt = f.ended
		}
		if err := t.setHistory(f.row, history); err != nil {
			return err
		}
		t.leased--
		if d.State == queue.Dead {
			outcomes.add(t.s, f.row, itemDied, f.attempts > 1)
			deaths[d.Reason]++
			err = t.die(f.row, d.Reason, history, now)
		} else {
			outcomes.add(t.s, f.row, itemFailing, f.attempts > 1)
			t.pending++
			_, err = t.exec(sqlRetry, int64(d.AvailableAt), int64(d.Delay), int64(f.firstFailedAt), f.seq)
		}
		if err != nil {
			return err
		}
	}
	return t.writeOutcomes(outcomes)
}

// draw is the jitter of a failure; it is drawn only where a delay may follow.
func (s *Store) draw(f failure) float64 {
	if f.result.Outcome != queue.OutcomeRetryable || f.attempts >= f.maxAttempts {
		return 0
	}
	return s.ratio()
}

// bury lets pending jobs die that may not start any more. Those that were never started in this budget say so.
func (t *tx) bury(overdue []*row, now queue.Time, obstacle string, deaths queue.Deaths) error {
	if len(overdue) == 0 {
		return nil
	}
	histories, err := t.histories(overdue)
	if err != nil {
		return err
	}
	outcomes, starts := outcomes{}, starts{}
	for _, r := range overdue {
		reason, _ := queue.Overdue(r.budget(), now)
		history := histories[r.seq]
		if r.attempts == 0 {
			history = queue.AppendHistory(history, queue.Attempt{
				Redrive: t.s.uid(r.redrive), EndedAt: now, Outcome: queue.OutcomeRetryable, Error: neverStarted(obstacle),
			})
			if err := t.setHistory(r, history); err != nil {
				return err
			}
			if r.redrive != 0 {
				starts[r.redrive]++
			}
		}
		outcomes.add(t.s, r, itemDied, r.attempts > 0)
		deaths[reason]++
		t.pending--
		if err := t.die(r, reason, history, now); err != nil {
			return err
		}
	}
	if err := t.started(starts); err != nil {
		return err
	}
	return t.writeOutcomes(outcomes)
}

func neverStarted(obstacle string) *queue.Failure {
	if obstacle == "" {
		obstacle = "the deadline passed before a worker was free to start it"
	}
	return &queue.Failure{Kind: queue.KindNeverStarted, Message: obstacle}
}

// die writes a death; the caller takes r out of the count of its former state.
func (t *tx) die(r *row, reason queue.Reason, history []queue.Attempt, now queue.Time) error {
	last := lastError(history)
	status := 0
	if last != nil {
		status = last.HTTPStatus
	}
	_, err := t.exec(sqlDie, t.nextDead, int64(now), reasonCode(reason), status, queue.Fingerprint(reason, last), int64(r.firstFailedAt), r.seq)
	t.nextDead++
	t.dead++
	return err
}

func (t *tx) histories(rows []*row) (map[int64][]queue.Attempt, error) {
	seqs := make([]int64, len(rows))
	for i, r := range rows {
		seqs[i] = r.seq
	}
	histories := make(map[int64][]queue.Attempt, len(rows))
	err := padded(seqs, func(_ []int64, args []any) error {
		found, err := t.w.query(sqlHistories[len(args)], args...)
		if err != nil {
			return fmt.Errorf("reading histories: %w", err)
		}
		defer found.Close()
		for found.Next() {
			var seq int64
			var stored string
			if err := found.Scan(&seq, &stored); err != nil {
				return fmt.Errorf("reading histories: %w", err)
			}
			if histories[seq], err = decodeHistory(stored); err != nil {
				return err
			}
		}
		return found.Err()
	})
	return histories, err
}

func (t *tx) setHistory(r *row, history []queue.Attempt) error {
	stored, err := encodeHistory(history)
	if err != nil {
		return fmt.Errorf("encoding the history of job %s: %w", r.id, err)
	}
	_, err = t.exec(sqlSetHistory, r.seq, stored)
	return err
}
