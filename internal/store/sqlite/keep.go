package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/retryqueue/retryqueue/internal/queue"
)

var (
	sqlLost = `select ` + hotColumns + ` from jobs j where j.state = 1 and j.lease_until < ? order by j.lease_until, j.seq limit ?`

	sqlForget = `delete from jobs where seq in (select seq from jobs where expires_at > 0 and expires_at <= ? order by expires_at limit ?)
		returning state`

	sqlOldestDead = `select j.seq, j.bytes, j.died_at from jobs j where j.state = 3 order by j.dead_seq limit ?`

	sqlDrop = inList(`update jobs set state = 4, expires_at = ?, bytes = 0 where seq in %s`)
)

// Reap implements [queue.Store].
func (s *Store) Reap(ctx context.Context, p queue.Policy, limit int) (queue.Reaped, error) {
	var reaped queue.Reaped
	err := s.do(ctx, kindOther, limit, func(t *tx) error {
		now, _ := t.s.clock.read()
		rows, err := t.hotJobs(sqlLost, int64(now), limit)
		if err != nil {
			return err
		}
		lost := make([]failure, len(rows))
		for i, r := range rows {
			lost[i] = failure{row: r, result: workerLost(), ended: r.leaseUntil}
		}
		reaped = queue.Reaped{Lost: len(lost), Deaths: queue.Deaths{}}
		return t.fail(p, lost, now, reaped.Deaths)
	})
	if err != nil {
		return queue.Reaped{}, fmt.Errorf("reaping lost leases: %w", err)
	}
	return reaped, nil
}

func workerLost() queue.Result {
	return queue.Result{Outcome: queue.OutcomeRetryable, Failure: &queue.Failure{
		Kind: queue.KindWorkerLost, Message: "the lease ran out before the attempt was settled",
	}}
}

// Sweep implements [queue.Store]. limit bounds the forgotten and the expired together.
func (s *Store) Sweep(ctx context.Context, p queue.Policy, limit int) (queue.Swept, error) {
	var swept queue.Swept
	err := s.do(ctx, kindOther, limit, func(t *tx) (err error) {
		now, _ := t.s.clock.read()
		swept = queue.Swept{}
		if swept.Forgotten, err = t.forget(now, limit); err != nil {
			return fmt.Errorf("forgetting ids: %w", err)
		}
		if swept.Expired, err = t.expire(p, now, limit-swept.Forgotten); err != nil {
			return fmt.Errorf("expiring dead jobs: %w", err)
		}
		return t.forgetItems(now, limit)
	})
	if err != nil {
		return queue.Swept{}, fmt.Errorf("sweeping: %w", err)
	}
	return swept, nil
}

func (t *tx) forget(now queue.Time, limit int) (int, error) {
	rows, err := t.w.query(sqlForget, int64(now), limit)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	n := 0
	for ; rows.Next(); n++ {
		var state int
		if err := rows.Scan(&state); err != nil {
			return n, err
		}
		if state == stateSucceeded {
			t.succeeded--
		}
		t.dirty = true
	}
	return n, rows.Err()
}

// expire drops dead jobs past their retention. Times of death rise with their order, so it looks at the oldest.
func (t *tx) expire(p queue.Policy, now queue.Time, limit int) (int, error) {
	if p.Retention <= 0 || limit <= 0 {
		return 0, nil
	}
	rows, err := t.w.query(sqlOldestDead, limit)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	var seqs []int64
	var size int64
	for rows.Next() {
		var seq, bytes int64
		var died queue.Time
		if err := rows.Scan(&seq, &bytes, &died); err != nil {
			return 0, err
		}
		if died.Add(p.Retention) > now {
			break
		}
		seqs = append(seqs, seq)
		size += bytes
	}
	if err := rows.Err(); err != nil {
		return 0, err
	}
	rows.Close()
	return len(seqs), t.drop(p, seqs, size, now)
}

// drop deletes dead jobs for good; their ids are remembered for the dedupe window.
func (t *tx) drop(p queue.Policy, seqs []int64, size int64, now queue.Time) error {
	if len(seqs) == 0 {
		return nil
	}
	err := padded(seqs, func(_ []int64, args []any) error {
		_, err := t.exec(sqlDrop[len(args)], append([]any{int64(now.Add(p.DedupeWindow))}, args...)...)
		return err
	})
	if err != nil {
		return err
	}
	t.dead -= int64(len(seqs))
	t.bytes -= size
	return errors.Join(t.dropPayloads(seqs), t.dropDetails(seqs))
}
