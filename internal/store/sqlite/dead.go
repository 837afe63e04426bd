package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// maxPage bounds a page of a listing, so that no read holds a snapshot, and with it the write-ahead log, for long.
const maxPage = 1000

// DeadJobs implements [queue.Store].
func (s *Store) DeadJobs(ctx context.Context, q queue.DeadQuery) (queue.DeadPage, error) {
	var page queue.DeadPage
	if q.Limit < 1 || q.Limit > maxPage {
		return page, &queue.InvalidError{Field: "limit", Detail: fmt.Sprintf("must be from 1 to %d, is %d", maxPage, q.Limit)}
	}
	sel, err := compile(q.Selector)
	if err != nil {
		return page, err
	}
	rows, err := s.reads.QueryContext(ctx, deadPage(sel), sel.with(q.After, q.Limit+1)...)
	if err != nil {
		return page, fmt.Errorf("listing dead jobs: %w", err)
	}
	err = scanJobs(rows, func(r *row, history string) error {
		if len(page.Jobs) == q.Limit {
			page.Next = page.Jobs[q.Limit-1].DeadSeq
			return nil
		}
		job, err := s.jobOf(r, history)
		page.Jobs = append(page.Jobs, job)
		return err
	})
	return page, err
}

func deadPage(sel selection) string {
	return `select ` + rowColumns + `, coalesce(d.history, '') from jobs j ` + sel.index() + ` left join details d on d.seq = j.seq
		where ` + sel.where + ` and j.dead_seq > ? order by j.dead_seq limit ?`
}

// deadGroups counts; the sample is the job that died first.
func deadGroups(sel selection) string {
	return `select j.reason, j.fingerprint, count(*), min(j.died_at), max(j.died_at), min(j.dead_seq) from jobs j ` + sel.index() + `
		where ` + sel.where + ` group by j.reason, j.fingerprint order by count(*) desc, min(j.dead_seq) limit ?`
}

const sqlSample = `select j.id, coalesce(d.history, '') from jobs j left join details d on d.seq = j.seq where j.state = 3 and j.dead_seq = ?`

// DeadGroups implements [queue.Store].
func (s *Store) DeadGroups(ctx context.Context, selector queue.Selector, limit int) ([]queue.DeadGroup, error) {
	if limit < 1 || limit > maxPage {
		return nil, &queue.InvalidError{Field: "limit", Detail: fmt.Sprintf("must be from 1 to %d, is %d", maxPage, limit)}
	}
	sel, err := compile(selector)
	if err != nil {
		return nil, err
	}
	tx, err := s.reads.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, fmt.Errorf("grouping dead jobs: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	groups, err := groupDead(tx, deadGroups(sel), sel.with(limit)...)
	if err != nil {
		return nil, fmt.Errorf("grouping dead jobs: %w", err)
	}
	return groups, nil
}

// groupDead runs a query of reason, fingerprint, count, first and last time of death, and first dead_seq, and
// adds a sample to every group.
func groupDead(tx *sql.Tx, query string, args ...any) ([]queue.DeadGroup, error) {
	rows, err := tx.Query(query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var groups []queue.DeadGroup
	var samples []int64
	for rows.Next() {
		var g queue.DeadGroup
		var reason int
		var sample int64
		if err := rows.Scan(&reason, &g.Fingerprint, &g.Count, &g.FirstDiedAt, &g.LastDiedAt, &sample); err != nil {
			return nil, err
		}
		g.Reason = reasonName(reason)
		groups, samples = append(groups, g), append(samples, sample)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	rows.Close()
	for i, seq := range samples {
		if groups[i].SampleID, groups[i].SampleError, err = scanSample(tx.QueryRow(sqlSample, seq)); err != nil {
			return nil, err
		}
	}
	return groups, nil
}

// scanSample reads a row of sqlSample.
func scanSample(row scanner) (id string, last *queue.Failure, err error) {
	var stored string
	if err := row.Scan(&id, &stored); err != nil {
		return "", nil, err
	}
	history, err := decodeHistory(stored)
	return id, lastError(history), err
}
