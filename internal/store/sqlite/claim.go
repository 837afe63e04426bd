package sqlite

import (
	"context"
	"fmt"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// Predicates of these statements repeat those of the partial indexes word by word, or SQLite would not use them.
var (
	sqlDue = `select j.seq, j.id, j.attempts, j.max_attempts, j.deadline, j.received_at, j.content_type, j.first_failed_at, j.redrives,
		j.redrive, j.item, p.headers, p.payload from jobs j join payloads p on p.seq = j.seq
		where j.state = 0 and j.available_at <= ? order by j.available_at, j.seq limit ?`

	sqlOverdue = `select ` + hotColumns + ` from jobs j where j.state = 0 and j.deadline <= ? order by j.deadline, j.seq limit ?`

	sqlNextDue = `select available_at from jobs where state = 0 order by available_at limit 1`

	sqlLease = inList(`update jobs set state = 1, attempts = attempts + 1, token = ?, claimed_at = ?, lease_until = ? where seq in %s`)
)

// buryMax bounds how many overdue jobs one claim buries.
const buryMax = 256

// Claim implements [queue.Store]. The jobs of its leases come without history.
func (s *Store) Claim(ctx context.Context, p queue.Policy, c queue.ClaimRequest) (queue.Claimed, error) {
	var claimed queue.Claimed
	err := s.do(ctx, kindClaim, c.Max, func(t *tx) (err error) {
		claimed, err = t.claim(p, c)
		return err
	})
	if err != nil {
		return queue.Claimed{}, fmt.Errorf("claiming jobs: %w", err)
	}
	return claimed, nil
}

func (t *tx) claim(p queue.Policy, c queue.ClaimRequest) (queue.Claimed, error) {
	now, jumped := t.s.clock.read()
	claimed := queue.Claimed{Now: now, Deaths: queue.Deaths{}}
	if jumped {
		return claimed, queue.ErrClockJump
	}
	if err := t.buryOverdue(now, c.Obstacle, claimed.Deaths); err != nil {
		return claimed, fmt.Errorf("burying overdue jobs: %w", err)
	}
	if c.Max > 0 {
		if err := t.lease(p, c, &claimed); err != nil {
			return claimed, err
		}
	}
	next, err := t.number(sqlNextDue)
	claimed.NextAt = queue.Time(next)
	return claimed, err
}

// buryOverdue lets jobs die whose deadline has come. No pending job is due after its deadline, so these are due.
func (t *tx) buryOverdue(now queue.Time, obstacle string, deaths queue.Deaths) error {
	overdue, err := t.hotJobs(sqlOverdue, int64(now), buryMax)
	if err != nil {
		return err
	}
	return t.bury(overdue, now, obstacle, deaths)
}

// lease takes up to c.Max due jobs, and buries those that turn out to be overdue.
func (t *tx) lease(p queue.Policy, c queue.ClaimRequest, claimed *queue.Claimed) error {
	now := claimed.Now
	token := t.nextToken
	var overdue []*row
	var seqs []int64
	due, err := t.due(now, c.Max)
	if err != nil {
		return err
	}
	starts := starts{}
	for _, d := range due {
		if _, over := queue.Overdue(d.budget(), now); over {
			overdue = append(overdue, &d.row)
			continue
		}
		if d.redrive != 0 && d.attempts == 0 {
			starts[d.redrive]++
		}
		seqs = append(seqs, d.seq)
		d.state, d.attempts = stateLeased, d.attempts+1
		job := d.job(t.s.queue, t.s.uid(d.redrive))
		job.Headers, job.Payload = d.headers, d.payload
		claimed.Leases = append(claimed.Leases, queue.Lease{Job: job, Token: token})
	}
	if err := t.bury(overdue, now, c.Obstacle, claimed.Deaths); err != nil {
		return fmt.Errorf("burying overdue jobs: %w", err)
	}
	if len(seqs) == 0 {
		return nil
	}
	err = padded(seqs, func(_ []int64, args []any) error {
		_, err := t.exec(sqlLease[len(args)], append([]any{token, int64(now), int64(now.Add(p.Lease()))}, args...)...)
		return err
	})
	if err != nil {
		return fmt.Errorf("leasing: %w", err)
	}
	t.nextToken++
	t.pending -= int64(len(seqs))
	t.leased += int64(len(seqs))
	return t.started(starts)
}

// dueJob is a job with its content.
type dueJob struct {
	row
	headers []queue.Header
	payload []byte
}

// due reads up to n due jobs, oldest due first.
func (t *tx) due(now queue.Time, n int) ([]*dueJob, error) {
	rows, err := t.w.query(sqlDue, int64(now), n)
	if err != nil {
		return nil, fmt.Errorf("finding due jobs: %w", err)
	}
	defer rows.Close()
	var due []*dueJob
	for rows.Next() {
		d := &dueJob{}
		var headers string
		if err := rows.Scan(&d.seq, &d.id, &d.attempts, &d.maxAttempts, &d.deadline, &d.receivedAt, &d.contentType, &d.firstFailedAt,
			&d.redrives, &d.redrive, &d.item, &headers, &d.payload); err != nil {
			return nil, fmt.Errorf("reading a due job: %w", err)
		}
		if d.headers, err = decodeHeaders(headers); err != nil {
			return nil, err
		}
		due = append(due, d)
	}
	return due, rows.Err()
}
