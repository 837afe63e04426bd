package sqlite

import (
	"context"
	"fmt"

	"github.com/retryqueue/retryqueue/internal/queue"
)

var (
	sqlByID = inList(`select ` + hotColumns + ` from jobs j where j.id in %s`)

	sqlSucceed = inList(`update jobs set state = 2, token = 0, lease_until = 0, finished_at = ?, expires_at = ?, bytes = 0 where seq in %s`)

	sqlDropPayloads = inList(`delete from payloads where seq in %s`)
	sqlDropDetails  = inList(`delete from details where seq in %s`)
)

// Settle implements [queue.Store].
func (s *Store) Settle(ctx context.Context, p queue.Policy, ss []queue.Settlement) (queue.Settled, error) {
	if err := checkSettlements(ss); err != nil {
		return queue.Settled{}, err
	}
	if len(ss) == 0 {
		return queue.Settled{}, nil
	}
	var settled queue.Settled
	err := s.do(ctx, kindOther, len(ss), func(t *tx) (err error) {
		settled, err = t.settle(p, ss)
		return err
	})
	if err != nil {
		return queue.Settled{}, fmt.Errorf("settling jobs: %w", err)
	}
	return settled, nil
}

// checkSettlements refuses what is a mistake of the caller.
func checkSettlements(ss []queue.Settlement) error {
	ids := make(map[string]bool, len(ss))
	for _, s := range ss {
		if ids[s.ID] {
			return fmt.Errorf("settling jobs: job %s is in the call twice", s.ID)
		}
		ids[s.ID] = true
		switch s.Result.Outcome {
		case queue.OutcomeSucceeded, queue.OutcomePermanent, queue.OutcomeRetryable:
		default:
			return fmt.Errorf("settling jobs: job %s has the outcome %q, which must not be settled", s.ID, s.Result.Outcome)
		}
	}
	return nil
}

func (t *tx) settle(p queue.Policy, ss []queue.Settlement) (queue.Settled, error) {
	now, _ := t.s.clock.read()
	settled := queue.Settled{Errs: make([]error, len(ss)), Deaths: queue.Deaths{}}
	held, err := t.byID(ss)
	if err != nil {
		return settled, err
	}
	var done []*row
	var failed []failure
	for i, s := range ss {
		r := held[s.ID]
		switch {
		case r == nil || r.state != stateLeased || r.token != s.Token || s.Token == 0:
			settled.Errs[i] = queue.ErrLeaseLost
		case now < r.claimedAt:
			settled.Errs[i] = queue.ErrClockBackwards
		case s.Result.Outcome == queue.OutcomeSucceeded:
			done = append(done, r)
		default:
			failed = append(failed, failure{row: r, result: s.Result, ended: now})
		}
	}
	if err := t.succeed(p, done, now); err != nil {
		return settled, fmt.Errorf("writing successes: %w", err)
	}
	if err := t.fail(p, failed, now, settled.Deaths); err != nil {
		return settled, fmt.Errorf("writing failures: %w", err)
	}
	return settled, nil
}

func (t *tx) byID(ss []queue.Settlement) (map[string]*row, error) {
	ids := make([]string, len(ss))
	for i, s := range ss {
		ids[i] = s.ID
	}
	held := make(map[string]*row, len(ids))
	err := padded(ids, func(_ []string, args []any) error {
		rows, err := t.hotJobs(sqlByID[len(args)], args...)
		for _, r := range rows {
			held[r.id] = r
		}
		return err
	})
	return held, err
}

// succeed leaves a tombstone of every job.
func (t *tx) succeed(p queue.Policy, done []*row, now queue.Time) error {
	if len(done) == 0 {
		return nil
	}
	seqs := make([]int64, len(done))
	var failedBefore []int64
	outcomes := outcomes{}
	for i, r := range done {
		seqs[i] = r.seq
		if r.firstFailedAt != 0 || r.redrive != 0 {
			failedBefore = append(failedBefore, r.seq)
		}
		t.bytes -= r.bytes
		outcomes.add(t.s, r, itemDelivered, r.attempts > 1)
	}
	err := padded(seqs, func(_ []int64, args []any) error {
		_, err := t.exec(sqlSucceed[len(args)], append([]any{int64(now), int64(now.Add(p.DedupeWindow))}, args...)...)
		return err
	})
	if err != nil {
		return err
	}
	if err := t.dropPayloads(seqs); err != nil {
		return err
	}
	if err := t.dropDetails(failedBefore); err != nil {
		return err
	}
	t.leased -= int64(len(done))
	t.succeeded += int64(len(done))
	return t.writeOutcomes(outcomes)
}

func (t *tx) dropPayloads(seqs []int64) error { return t.drops(sqlDropPayloads, seqs) }

func (t *tx) dropDetails(seqs []int64) error { return t.drops(sqlDropDetails, seqs) }

func (t *tx) drops(q queries, seqs []int64) error {
	return padded(seqs, func(_ []int64, args []any) error {
		_, err := t.exec(q[len(args)], args...)
		return err
	})
}
