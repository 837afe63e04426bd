package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// errClosed answers calls after Close.
var errClosed = errors.New("the store is closed")

// Bounds of one shared transaction: calls, and the rows that they are expected to touch.
const (
	maxOps    = 256
	maxWeight = 4096
)

// kind is what an operation is refused for when space runs out.
type kind int

const (
	kindOther  kind = iota // goes on as long as SQLite can write
	kindAccept             // the first to stop
	kindClaim              // the next
)

// op is one call that waits for the writer. Its run may be called twice, when the disk was full the first time.
type op struct {
	ctx    context.Context
	kind   kind
	weight int // rows
	run    func(*tx) error
	err    error
	done   chan struct{}
}

// do runs an operation in the next shared transaction and returns when that is durable. ctx can end the wait
// only until the writer has taken the operation up: from then on its outcome is worth knowing.
func (s *Store) do(ctx context.Context, k kind, weight int, run func(*tx) error) error {
	o := &op{ctx: ctx, kind: k, weight: weight, run: run, done: make(chan struct{})}
	select {
	case <-s.quit:
		return errClosed
	default:
	}
	select {
	case s.ops <- o:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.quit:
		return errClosed
	}
	select {
	case <-o.done:
	case <-s.done: // the writer ended, and may or may not have seen o
		select {
		case <-o.done:
		default:
			return errClosed
		}
	}
	return o.err
}

// loop is the writer.
func (s *Store) loop() {
	defer close(s.done)
	for {
		select {
		case first := <-s.ops:
			s.commitAll(s.collect(first))
		case <-s.quit:
			for {
				select {
				case o := <-s.ops:
					s.commitAll([]*op{o})
				default:
					return
				}
			}
		}
	}
}

// collect takes what else is waiting, up to the bounds, without waiting for more.
func (s *Store) collect(first *op) []*op {
	batch := []*op{first}
	for weight := first.weight; len(batch) < maxOps && weight < maxWeight; {
		select {
		case o := <-s.ops:
			batch = append(batch, o)
			weight += o.weight
		default:
			return batch
		}
	}
	return batch
}

// commitAll runs a batch in one transaction and answers every operation of it.
func (s *Store) commitAll(batch []*op) {
	err := s.attempt(batch)
	if isFull(err) && s.space.free(s) {
		for _, o := range batch {
			o.err = nil
		}
		s.paces = nil // are of what was undone
		err = s.attempt(batch)
	}
	for _, o := range batch {
		if err != nil && o.err == nil {
			o.err = err
		}
		o.err = classify(o.err)
		close(o.done)
	}
	if err != nil {
		s.paces = nil // may be of something that did not happen
		return
	}
	s.checkpoint()
}

// attempt runs a batch in one transaction. Errors of single operations are theirs; its own is that of all.
func (s *Store) attempt(batch []*op) error {
	if s.fenced.Load() {
		return queue.ErrFenced
	}
	t, err := s.begin()
	if err != nil {
		return err
	}
	for _, o := range batch {
		if o.err = s.admit(t, o); o.err != nil {
			continue
		}
		if err := t.savepoint(o); err != nil {
			return errors.Join(err, t.rollback())
		}
	}
	return t.commit()
}

// admit refuses operations whose caller has gone, and those that there is no space for.
func (s *Store) admit(t *tx, o *op) error {
	if err := o.ctx.Err(); err != nil {
		return err
	}
	return s.space.admit(t, o.kind)
}

// writer is the one connection that writes, with its prepared statements.
type writer struct {
	db    *sql.DB
	conn  *sql.Conn
	stmts map[string]*sql.Stmt
}

func (w *writer) connect(ctx context.Context, maxPages int64) (err error) {
	if w.conn, err = w.db.Conn(ctx); err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	if maxPages > 0 {
		_, err = w.conn.ExecContext(ctx, fmt.Sprintf("pragma max_page_count = %d", maxPages))
	}
	return err
}

// stmt prepares query once.
func (w *writer) stmt(query string) (*sql.Stmt, error) {
	if st, ok := w.stmts[query]; ok {
		return st, nil
	}
	st, err := w.conn.PrepareContext(context.Background(), query)
	if err != nil {
		return nil, fmt.Errorf("preparing %q: %w", query, err)
	}
	w.stmts[query] = st
	return st, nil
}

func (w *writer) exec(query string, args ...any) (sql.Result, error) {
	st, err := w.stmt(query)
	if err != nil {
		return nil, err
	}
	return st.Exec(args...)
}

func (w *writer) query(query string, args ...any) (*sql.Rows, error) {
	st, err := w.stmt(query)
	if err != nil {
		return nil, err
	}
	return st.Query(args...)
}

func (w *writer) close() error {
	var errs []error
	for _, st := range w.stmts {
		errs = append(errs, st.Close())
	}
	if w.conn != nil {
		errs = append(errs, w.conn.Close())
	}
	return errors.Join(append(errs, w.db.Close())...)
}
