package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/retryqueue/retryqueue/internal/queue"
)

var sqlJob = `select ` + rowColumns + `, coalesce(d.history, ''), coalesce(p.headers, ''), coalesce(p.payload, x'')
	from jobs j left join details d on d.seq = j.seq left join payloads p on p.seq = j.seq where j.id = ? and j.state < 4`

// statements are the prepared statements of the reading connections.
type statements struct {
	db    *sql.DB
	mu    sync.Mutex
	known map[string]*sql.Stmt
}

func (s *statements) get(ctx context.Context, query string) (*sql.Stmt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st, ok := s.known[query]; ok {
		return st, nil
	}
	st, err := s.db.PrepareContext(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("preparing %q: %w", query, err)
	}
	if s.known == nil {
		s.known = map[string]*sql.Stmt{}
	}
	s.known[query] = st
	return st, nil
}

func (s *statements) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, st := range s.known {
		errs = append(errs, st.Close())
	}
	return errors.Join(errs...)
}

// Job implements [queue.Store].
func (s *Store) Job(ctx context.Context, id string) (queue.Job, error) {
	st, err := s.stmts.get(ctx, sqlJob)
	if err != nil {
		return queue.Job{}, err
	}
	var r row
	var history, headers string
	var payload []byte
	err = st.QueryRowContext(ctx, id).Scan(append(r.into(), &history, &headers, &payload)...)
	if errors.Is(err, sql.ErrNoRows) {
		return queue.Job{}, fmt.Errorf("job %q: %w", id, queue.ErrNotFound)
	}
	if err != nil {
		return queue.Job{}, fmt.Errorf("reading a job: %w", err)
	}
	job, err := s.jobOf(&r, history)
	if err != nil {
		return queue.Job{}, err
	}
	job.Payload = payload
	job.Headers, err = decodeHeaders(headers)
	return job, err
}

// jobOf is r as it is shown, with its history.
func (s *Store) jobOf(r *row, history string) (queue.Job, error) {
	job := r.job(s.queue, s.uid(r.redrive))
	var err error
	job.History, err = decodeHistory(history)
	job.LastError = lastError(job.History)
	return job, err
}

// eachJob calls f for the rows of a query that selects rowColumns and a history.
func (t *tx) eachJob(query string, args []any, f func(r *row, history string) error) error {
	rows, err := t.w.query(query, args...)
	if err != nil {
		return fmt.Errorf("reading jobs: %w", err)
	}
	return scanJobs(rows, f)
}

func scanJobs(rows *sql.Rows, f func(r *row, history string) error) error {
	defer rows.Close()
	for rows.Next() {
		r := &row{}
		var history string
		if err := rows.Scan(append(r.into(), &history)...); err != nil {
			return fmt.Errorf("reading a job: %w", err)
		}
		if err := f(r, history); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("reading jobs: %w", err)
	}
	return nil
}

// hotJobs reads the rows of a query that selects hotColumns.
func (t *tx) hotJobs(query string, args ...any) ([]*row, error) {
	rows, err := t.w.query(query, args...)
	if err != nil {
		return nil, fmt.Errorf("reading jobs: %w", err)
	}
	defer rows.Close()
	var list []*row
	for rows.Next() {
		r := &row{}
		if err := rows.Scan(r.hot()...); err != nil {
			return nil, fmt.Errorf("reading a job: %w", err)
		}
		list = append(list, r)
	}
	return list, rows.Err()
}

// number reads one number, 0 when there is no row.
func (t *tx) number(query string, args ...any) (n int64, err error) {
	st, err := t.w.stmt(query)
	if err != nil {
		return 0, err
	}
	if err := st.QueryRow(args...).Scan(&n); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, fmt.Errorf("reading a number: %w", err)
	}
	return n, nil
}
