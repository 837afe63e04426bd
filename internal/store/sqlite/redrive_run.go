package sqlite

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/retryqueue/retryqueue/internal/queue"
)

const (
	sqlRunning = `select ` + redriveColumns + ` from redrives where state = 'Running' order by rid`

	sqlCandidates = `select i.pos, coalesce(j.seq, 0) from redrive_items i
		left join jobs j on j.seq = i.job and j.state = 3 and j.dead_seq = i.dead_seq
		where i.rid = ? and i.pos between ? and ? and i.state = 0 order by i.pos limit ?`

	sqlTried = `select i.state, count(*) from (select state from redrive_items indexed by redrive_items_tried where rid = ? and state in (2, 3, 4) order by pos desc limit ?) i
		group by i.state`

	sqlSetAdvance = `update redrives set held = ?, message = ?, next_pos = ?, pace = ?, waited = ?, started_at = ?,
		released = released + ?, unstarted = unstarted + ?, gone = gone + ?, canary_gone = canary_gone + ? where rid = ?`
)

// A released job is as if accepted anew, but for its identity, its history and its content.
var sqlRelease = perRow(`update jobs set state = 0, attempts = 0, max_attempts = ?, deadline = v.column3 + ?, redrive = ?,
	redrives = redrives + 1, item = v.column2, available_at = v.column3, previous_delay = 0, dead_seq = 0, died_at = 0,
	reason = 0, http_status = 0, fingerprint = '' from (values `, `(?,?,?)`, `) v where jobs.seq = v.column1`)

const (
	// advanceMax bounds what one advance of one redrive releases, or finds gone.
	advanceMax = 1000
	// waitStep bounds what one advance counts as time that the canary has had: nobody looked for longer.
	waitStep = queue.Millis(1000)
	// waitSaved is how much of that time a restart may forget.
	waitSaved = queue.Millis(5000)
)

// pacing is what the writer remembers of a running redrive from one advance to the next, so that an advance that
// releases nothing writes nothing. It is saved whenever something is released or the reason for holding changes.
type pacing struct {
	pace   queue.Pace
	waited queue.Millis // that the canary has had
	at     queue.Time   // of the latest advance
}

// AdvanceRedrives implements [queue.Redriver].
func (s *Store) AdvanceRedrives(ctx context.Context, p queue.Policy, obstacle queue.HeldReason) (int, error) {
	released := 0
	err := s.do(ctx, kindOther, 100, func(t *tx) error {
		released = 0
		running, err := t.running()
		if err != nil {
			return err
		}
		for _, r := range running {
			n, err := t.advance(p, r, obstacle)
			if err != nil {
				return fmt.Errorf("redrive %q: %w", r.UID, err)
			}
			released += n
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("advancing redrives: %w", err)
	}
	return released, nil
}

func (t *tx) running() (running []*redrive, err error) {
	rows, err := t.w.query(sqlRunning)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		r, err := scanRedrive(rows)
		if err != nil {
			return nil, err
		}
		running = append(running, r)
	}
	return running, rows.Err()
}

// step is one advance of one redrive.
type step struct {
	*tx
	r       *redrive
	now     queue.Time
	mem     pacing
	live    []candidate // may be released next, in order
	nextPos int64
	gone    int64 // found gone in this step
	inFront int64 // of these, in the canary
}

// candidate is an item whose job is still dead of the planned death.
type candidate struct{ pos, seq int64 }

// advance releases what r may release now, and says how many.
func (t *tx) advance(p queue.Policy, r *redrive, obstacle queue.HeldReason) (int, error) {
	now, _ := t.s.clock.read()
	s := &step{tx: t, r: r, now: now, nextPos: r.nextPos}
	if err := s.recall(); err != nil {
		return 0, err
	}
	if err := s.look(); err != nil {
		return 0, fmt.Errorf("finding jobs to release: %w", err)
	}
	if r.remaining()+r.outstanding() == 0 {
		return 0, s.end(queue.RedriveComplete, "")
	}
	g, err := s.judge(obstacle)
	if err != nil {
		return 0, fmt.Errorf("judging the outcomes: %w", err)
	}
	if g.end != "" {
		return 0, s.end(g.end, g.message)
	}
	return s.release(p, g)
}

// recall finds what is remembered of the pace. After a restart that is what was saved; if the redrive was held
// then, it was held ever since.
func (s *step) recall() (err error) {
	mem, ok := s.s.paces[s.r.rid]
	if !ok {
		mem = pacing{pace: s.r.pace, waited: s.r.waited, at: s.now}
		if s.r.Held != "" {
			if mem.pace, _, err = mem.pace.Advance(s.r.Spec.Rate, s.input(s.r.Held)); err != nil {
				return err
			}
		}
	}
	if s.r.StartedAt != 0 && isOwn(s.r.Held) {
		mem.waited += min(max(s.now.Sub(mem.at), 0), waitStep)
	}
	mem.at = s.now
	s.mem = mem
	return nil
}

// isOwn says that a redrive held by h waits for its own jobs, not for somebody to let it go on.
func isOwn(h queue.HeldReason) bool {
	switch h {
	case "", queue.HeldCanary, queue.HeldFailing, queue.HeldOutstanding, queue.HeldUnstarted:
		return true
	}
	return false
}

func (s *step) input(gate queue.HeldReason) queue.PaceInput {
	return queue.PaceInput{
		Now: s.now, Released: s.r.Progress.Released, Unstarted: s.r.unstarted, Outstanding: s.r.outstanding(),
		MaxOutstanding: s.r.Spec.MaxOutstanding, Left: int64(len(s.live)), Gate: gate,
	}
}

func (s *step) canary() queue.Verdict {
	return queue.CanaryVerdict(s.r.Spec.Canary, queue.CanaryCount{
		Jobs: s.r.canary, Gone: s.r.canaryGone, Delivered: s.r.canaryDelivered, Died: s.r.canaryDied, Waited: s.mem.waited,
	})
}

// look finds what may be released next, within the canary until that has passed, and notes what is gone.
func (s *step) look() error {
	for s.canary() != queue.VerdictPass {
		if err := s.lookIn(s.r.canary); err != nil || s.canary() != queue.VerdictPass {
			return err
		}
		// What is gone has made the canary small enough.
	}
	return s.lookIn(s.r.canary + s.r.selected)
}

// lookIn looks at items up to the position last, no further than for what can be released at once.
func (s *step) lookIn(last int64) error {
	want := min(s.r.Spec.Rate.Burst, s.r.Spec.MaxOutstanding-s.r.outstanding(), advanceMax)
	rows, err := s.w.query(sqlCandidates, s.r.rid, s.nextPos, last, advanceMax)
	if err != nil {
		return err
	}
	defer rows.Close()
	s.live = s.live[:0]
	var gone []int64
	for rows.Next() && int64(len(s.live)) < max(want, 1) {
		var c candidate
		if err := rows.Scan(&c.pos, &c.seq); err != nil {
			return err
		}
		if c.seq != 0 {
			s.live = append(s.live, c)
			continue
		}
		gone = append(gone, c.pos)
		if c.pos <= s.r.canary {
			s.inFront++
			s.r.canaryGone++
		}
		if len(s.live) == 0 {
			s.nextPos = c.pos + 1
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	rows.Close()
	s.gone += int64(len(gone))
	s.r.Progress.Gone += int64(len(gone))
	return s.setItems(s.r.rid, itemGone, gone)
}

// gate is what keeps a redrive from releasing, or ends it.
type gate struct {
	held    queue.HeldReason
	end     queue.RedriveState
	message string
}

// judge asks, in this order: may it run, how does the canary fare, and how do the latest.
func (s *step) judge(obstacle queue.HeldReason) (gate, error) {
	switch {
	case s.r.RunUntil <= s.now:
		return gate{held: queue.HeldNoPermission}, nil
	case obstacle != "":
		return gate{held: obstacle}, nil
	}
	canary := s.canary()
	spec := s.r.Spec
	switch canary {
	case queue.VerdictFail:
		return gate{end: queue.RedriveAborted, message: fmt.Sprintf("%d of the canary's %d jobs died again, more than %d %%",
			s.r.canaryDied, s.r.canary-s.r.canaryGone, spec.Canary.MaxFailurePercent)}, nil
	case queue.VerdictInconclusive:
		return gate{held: queue.HeldCanaryInconclusive, message: fmt.Sprintf(
			"the canary was undecided after %s: suspend and resume the redrive to wait as long again, or cancel it", spec.Canary.Timeout)}, nil
	}
	latest, err := s.latest()
	if err != nil {
		return gate{}, err
	}
	switch queue.AbortVerdict(spec.Abort, latest) {
	case queue.VerdictFail:
		return gate{end: queue.RedriveAborted, message: fmt.Sprintf("%d of the latest %d finished jobs died again, more than %d %%",
			latest.Died, latest.Died+latest.Delivered, spec.Abort.MaxFailurePercent)}, nil
	case queue.VerdictHold:
		return gate{held: queue.HeldFailing, message: fmt.Sprintf("%d of the latest %d released jobs fail or died again, more than %d %%",
			latest.Died+latest.Failing, latest.Died+latest.Failing+latest.Delivered, spec.Abort.MaxFailurePercent)}, nil
	}
	if canary == queue.VerdictHold && len(s.live) == 0 {
		return gate{held: queue.HeldCanary}, nil
	}
	return gate{}, nil
}

// latest counts how the latest released and tried items fared.
func (s *step) latest() (n queue.AbortCount, err error) {
	rows, err := s.w.query(sqlTried, s.r.rid, s.r.Spec.Abort.Window())
	if err != nil {
		return n, err
	}
	defer rows.Close()
	for rows.Next() {
		var state int
		var count int64
		if err := rows.Scan(&state, &count); err != nil {
			return n, err
		}
		switch state {
		case itemFailing:
			n.Failing = count
		case itemDelivered:
			n.Delivered = count
		case itemDied:
			n.Died = count
		}
	}
	return n, rows.Err()
}

// release lets go what the pace allows.
func (s *step) release(p queue.Policy, g gate) (int, error) {
	pace, out, err := s.mem.pace.Advance(s.r.Spec.Rate, s.input(g.held))
	if err != nil {
		return 0, err
	}
	s.mem.pace = pace
	n := len(out.At)
	if n > 0 {
		if err := s.revive(p, out.At); err != nil {
			return 0, fmt.Errorf("releasing jobs: %w", err)
		}
	}
	return n, s.save(out.Held, g.message, int64(n))
}

// revive makes the first jobs pending, each at its slot.
func (s *step) revive(p queue.Policy, at []queue.Time) error {
	budget := s.r.Spec.Budget.Within(p)
	released := s.live[:len(at)]
	positions := make([]int64, len(at))
	slots := make(map[int64]queue.Time, len(at))
	for i, c := range released {
		positions[i] = c.pos
		slots[c.pos] = at[i]
	}
	err := chunks(released, func(part []candidate) error {
		args := []any{budget.MaxAttempts, int64(budget.Deadline), s.r.rid}
		for _, c := range part {
			args = append(args, c.seq, c.pos, int64(slots[c.pos]))
		}
		_, err := s.exec(sqlRelease[len(part)], args...)
		return err
	})
	if err != nil {
		return err
	}
	s.nextPos = released[len(released)-1].pos + 1
	s.dead -= int64(len(at))
	s.pending += int64(len(at))
	return s.setItems(s.r.rid, itemReleased, positions)
}

// end finishes the redrive.
func (s *step) end(state queue.RedriveState, message string) error {
	if err := s.save("", message, 0); err != nil {
		return err
	}
	return s.finish(s.r, state, message, s.now)
}

// save remembers where the redrive is; it writes only what matters after a restart.
func (s *step) save(held queue.HeldReason, message string, released int64) error {
	s.remember(s.r.rid, s.mem)
	r := s.r
	if released == 0 && s.gone == 0 && held == r.Held && message == r.Message && s.mem.waited-r.waited < waitSaved {
		return nil
	}
	if r.StartedAt == 0 && released > 0 {
		r.StartedAt = s.now
	}
	pace, err := json.Marshal(s.mem.pace)
	if err != nil {
		return fmt.Errorf("encoding the pace: %w", err)
	}
	_, err = s.exec(sqlSetAdvance, string(held), message, s.nextPos, string(pace), int64(s.mem.waited), int64(r.StartedAt),
		released, released, s.gone, s.inFront, r.rid)
	return err
}

// remember keeps the pace of a redrive until the transaction is undone.
func (t *tx) remember(rid int64, p pacing) {
	if t.s.paces == nil {
		t.s.paces = map[int64]pacing{}
	}
	t.s.paces[rid] = p
	t.paced = true
}

// forgetPace drops it.
func (t *tx) forgetPace(rid int64) {
	delete(t.s.paces, rid)
	t.paced = true
}
