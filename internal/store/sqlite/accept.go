package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/retryqueue/retryqueue/internal/queue"
)

var (
	sqlInsertJobs = perRow(`insert into jobs (seq, id, state, max_attempts, available_at, deadline, received_at, bytes, content_sha, content_type)
		values `, `(?,?,0,?,?,?,?,?,?,?)`, ` on conflict (id) do nothing`)

	sqlInsertPayloads = perRow(`insert into payloads (seq, headers, payload) values `, `(?,?,?)`, ``)

	sqlKnown = inList(`select ` + rowColumns + `, coalesce(d.history, '') from jobs j left join details d on d.seq = j.seq where j.id in %s`)
)

// newRow is a job about to be stored.
type newRow struct {
	queue.NewJob
	row
	headers string
	known   bool
	same    int // index of the first job of the call with this id
}

// Accept implements [queue.Store].
func (s *Store) Accept(ctx context.Context, p queue.Policy, jobs []queue.NewJob) ([]queue.Accepted, error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	rows, err := prepareJobs(p, jobs)
	if err != nil {
		return nil, err
	}
	var accepted []queue.Accepted
	err = s.do(ctx, kindAccept, len(jobs), func(t *tx) (err error) {
		accepted, err = t.accept(p, rows)
		return err
	})
	if err != nil {
		return nil, acceptError(err)
	}
	return accepted, nil
}

func acceptError(err error) error {
	if _, ok := errors.AsType[*queue.ConflictError](err); ok {
		return err
	}
	if _, ok := errors.AsType[*queue.LimitError](err); ok {
		return err
	}
	return fmt.Errorf("accepting jobs: %w", err)
}

// prepareJobs checks jobs by themselves and against each other.
func prepareJobs(p queue.Policy, jobs []queue.NewJob) ([]newRow, error) {
	var invalid []error
	var large *queue.LimitError
	var conflicts []int
	rows := make([]newRow, len(jobs))
	first := make(map[string]int, len(jobs))
	for i, j := range jobs {
		if err := queue.ValidateNewJob(p, j); err != nil {
			if l, ok := errors.AsType[*queue.LimitError](err); ok {
				l.Index = i
				large = cmp.Or(large, l)
			} else if e, ok := errors.AsType[*queue.InvalidError](err); ok {
				e.Index = i
				invalid = append(invalid, e)
			}
			continue
		}
		headers, err := encodeHeaders(j.Headers)
		if err != nil {
			return nil, fmt.Errorf("encoding headers: %w", err)
		}
		rows[i] = newRow{NewJob: j, headers: headers, same: i}
		rows[i].bytes = contentBytes(j)
		if k, ok := first[j.ID]; ok {
			rows[i].same = k
			if jobs[k].ContentSHA != j.ContentSHA {
				conflicts = append(conflicts, i)
			}
			continue
		}
		first[j.ID] = i
	}
	if len(invalid) > 0 {
		return nil, errors.Join(invalid...)
	}
	if large != nil {
		return nil, large
	}
	if len(conflicts) > 0 {
		return nil, &queue.ConflictError{Indexes: conflicts}
	}
	return rows, nil
}

// contentBytes is what a job counts for in limits.maxBytes.
func contentBytes(j queue.NewJob) int64 {
	n := len(j.Payload)
	for _, h := range j.Headers {
		n += len(h.Name) + len(h.Value)
	}
	return int64(n)
}

// accept stores what is new among rows. In the usual case everything is: then nothing is looked up.
func (t *tx) accept(p queue.Policy, rows []newRow) ([]queue.Accepted, error) {
	now, _ := t.s.clock.read()
	firstSeq := t.nextSeq
	fresh := make([]*newRow, 0, len(rows))
	var size int64
	for i := range rows {
		rows[i].known = rows[i].same != i
		if !rows[i].known {
			rows[i].stamp(p, now, firstSeq+int64(len(fresh)))
			fresh = append(fresh, &rows[i])
			size += rows[i].bytes
		}
	}
	var allNew bool
	var err error
	room := t.limits(p, int64(len(fresh)), size) == nil
	if room {
		if allNew, err = t.insertJobs(fresh); err != nil {
			return nil, err
		}
	}
	stored := map[string]queue.Job{}
	if !allNew {
		if fresh, err = t.sortOut(rows, firstSeq, stored); err != nil {
			return nil, err
		}
		size = 0
		for _, r := range fresh {
			size += r.bytes
		}
		if err := t.limits(p, int64(len(fresh)), size); err != nil {
			return nil, err
		}
		if !room {
			if _, err := t.insertJobs(fresh); err != nil {
				return nil, err
			}
		}
	}
	if err := t.insertPayloads(fresh); err != nil {
		return nil, err
	}
	t.bytes += size
	t.pending += int64(len(fresh))
	return t.answer(rows, stored), nil
}

// stamp gives r its budget.
func (r *newRow) stamp(p queue.Policy, now queue.Time, seq int64) {
	attempts, deadline := queue.EffectiveBudget(p, r.NewJob)
	r.row = row{
		seq: seq, id: r.ID, bytes: r.bytes, sha: r.ContentSHA[:], contentType: r.ContentType, receivedAt: now,
		maxAttempts: attempts, availableAt: now.Add(r.Delay), deadline: now.Add(deadline),
	}
}

// insertJobs inserts rows, those with a known id excepted, and says whether there were none of these.
func (t *tx) insertJobs(fresh []*newRow) (all bool, err error) {
	inserted := 0
	err = chunks(fresh, func(part []*newRow) error {
		args := make([]any, 0, len(part)*9)
		for _, r := range part {
			args = append(args, r.seq, r.id, r.maxAttempts, int64(r.availableAt), int64(r.deadline), int64(r.receivedAt),
				r.bytes, r.sha, r.contentType)
			t.nextSeq = max(t.nextSeq, r.seq+1)
		}
		n, err := t.exec(sqlInsertJobs[len(part)], args...)
		inserted += int(n)
		return err
	})
	return inserted == len(fresh), err
}

func (t *tx) insertPayloads(fresh []*newRow) error {
	return chunks(fresh, func(part []*newRow) error {
		args := make([]any, 0, len(part)*3)
		for _, r := range part {
			payload := r.Payload
			if payload == nil {
				payload = []byte{}
			}
			args = append(args, r.seq, r.headers, payload)
		}
		_, err := t.exec(sqlInsertPayloads[len(part)], args...)
		return err
	})
}

// sortOut finds out which of rows are known: jobs stored before firstSeq. It marks them, puts their jobs into
// stored, and returns the others, each id once.
func (t *tx) sortOut(rows []newRow, firstSeq int64, stored map[string]queue.Job) ([]*newRow, error) {
	ids := make([]string, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	shas := map[string][]byte{}
	err := padded(ids, func(_ []string, args []any) error {
		return t.eachJob(sqlKnown[len(args)], args, func(r *row, history string) error {
			if r.seq >= firstSeq {
				return nil // inserted just now
			}
			job, err := t.s.jobOf(r, history)
			shas[r.id], stored[r.id] = r.sha, job
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	var conflicts []int
	fresh := make([]*newRow, 0, len(rows))
	for i := range rows {
		sha, known := shas[rows[i].ID]
		switch {
		case known && !bytes.Equal(sha, rows[i].ContentSHA[:]):
			conflicts = append(conflicts, i)
		case known:
			rows[i].known = true
		case !rows[i].known:
			fresh = append(fresh, &rows[i])
		}
	}
	if len(conflicts) > 0 {
		return nil, &queue.ConflictError{Indexes: conflicts}
	}
	return fresh, nil
}

// limits says whether n more jobs with so many bytes fit.
func (t *tx) limits(p queue.Policy, n, size int64) error {
	exceeded := queue.LimitError{}
	switch {
	case n == 0:
		return nil
	case t.pending+t.leased+n > p.Limits.MaxPending:
		exceeded = queue.LimitError{Limit: "maxPending", Max: p.Limits.MaxPending}
	case t.bytes+size > p.Limits.MaxBytes:
		exceeded = queue.LimitError{Limit: "maxBytes", Max: p.Limits.MaxBytes}
	default:
		return nil
	}
	var err error
	if exceeded.RetryAfter, err = t.retryAfter(p); err != nil {
		return err
	}
	return &exceeded
}

// Bounds of retryAfter.
const (
	minRetryAfter = queue.Millis(1_000)
	maxRetryAfter = queue.Millis(60_000)
)

// retryAfter is when room may have been made: when an attempt that runs, or that is due, must have ended; else when
// the next falls due. Where every job is dead only a purge or the retention makes room, and there is no telling when.
func (t *tx) retryAfter(p queue.Policy) (queue.Millis, error) {
	wait := p.AttemptTimeout
	switch {
	case t.leased > 0:
	case t.pending == 0:
		wait = maxRetryAfter
	default:
		next, err := t.number(sqlNextDue)
		if err != nil {
			return 0, err
		}
		now, _ := t.s.clock.read()
		if due := queue.Time(next); due > now {
			wait = due.Sub(now)
		}
	}
	return min(max(wait, minRetryAfter), maxRetryAfter), nil
}

func (t *tx) answer(rows []newRow, stored map[string]queue.Job) []queue.Accepted {
	accepted := make([]queue.Accepted, len(rows))
	for i := range rows {
		job, ok := stored[rows[i].ID]
		if !ok {
			job = rows[rows[i].same].job(t.s.queue, "")
		}
		accepted[i] = queue.Accepted{Job: job, Known: rows[i].known}
	}
	return accepted
}
