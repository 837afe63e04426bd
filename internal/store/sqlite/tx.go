package sqlite

import (
	"errors"
	"fmt"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// counters is the changing part of meta. A transaction reads it first and writes it last.
type counters struct {
	nextSeq, nextToken, nextDead            int64
	pending, leased, succeeded, dead, bytes int64
}

// tx is the shared transaction, as an operation sees it.
type tx struct {
	s *Store
	w *writer
	counters
	clockHW queue.Time
	dirty   bool // something was written
	paced   bool // the operation has changed what is remembered of paces
}

const (
	sqlMeta = `select epoch, clock_hw, next_seq, next_token, next_dead, pending, leased, succeeded, dead, bytes from meta where one = 1`

	sqlSetMeta = `update meta set clock_hw = ?, next_seq = ?, next_token = ?, next_dead = ?, pending = ?, leased = ?, succeeded = ?,
		dead = ?, bytes = ? where one = 1`
)

// begin takes the write lock and proves that the file is still ours.
func (s *Store) begin() (*tx, error) {
	t := &tx{s: s, w: s.write}
	if _, err := t.w.exec("begin immediate"); err != nil {
		return nil, fmt.Errorf("beginning a transaction: %w", err)
	}
	st, err := t.w.stmt(sqlMeta)
	if err != nil {
		return nil, errors.Join(err, t.rollback())
	}
	var epoch int64
	err = st.QueryRow().Scan(&epoch, &t.clockHW, &t.nextSeq, &t.nextToken, &t.nextDead,
		&t.pending, &t.leased, &t.succeeded, &t.dead, &t.bytes)
	if err == nil && epoch != s.epoch {
		s.fenced.Store(true)
		s.log.Error("another process has taken the store over", "event", "store_fenced", "epoch", epoch, "own", s.epoch)
		err = queue.ErrFenced
	}
	if err != nil {
		return nil, errors.Join(err, t.rollback())
	}
	return t, nil
}

// savepoint runs o; when that fails, everything o did is undone and the error is o's. It returns an error when
// the whole transaction is lost.
func (t *tx) savepoint(o *op) error {
	if _, err := t.w.exec("savepoint op"); err != nil {
		return fmt.Errorf("setting a savepoint: %w", err)
	}
	before, dirty := t.counters, t.dirty
	t.paced = false
	o.err = o.run(t)
	if o.err != nil {
		if isFull(o.err) {
			return o.err // SQLite may have rolled back all of it
		}
		t.counters, t.dirty = before, dirty
		if t.paced {
			t.s.paces = nil
		}
		if _, err := t.w.exec("rollback to op"); err != nil {
			return errors.Join(o.err, fmt.Errorf("rolling back to a savepoint: %w", err))
		}
	}
	if _, err := t.w.exec("release op"); err != nil {
		return fmt.Errorf("releasing a savepoint: %w", err)
	}
	return nil
}

func (t *tx) commit() error {
	if t.dirty {
		now, _ := t.s.clock.read()
		_, err := t.w.exec(sqlSetMeta, int64(max(now, t.clockHW)), t.nextSeq, t.nextToken, t.nextDead,
			t.pending, t.leased, t.succeeded, t.dead, t.bytes)
		if err != nil {
			return errors.Join(fmt.Errorf("writing counts: %w", err), t.rollback())
		}
	}
	err := error(nil)
	if hook := t.s.hooks.beforeCommit; hook != nil {
		err = hook()
	}
	if err == nil {
		_, err = t.w.exec("commit")
	}
	if err != nil {
		return errors.Join(fmt.Errorf("committing: %w", err), t.rollback())
	}
	return nil
}

// rollback ends the transaction. SQLite may have done so already, which is no error.
func (t *tx) rollback() error {
	if _, err := t.w.exec("rollback"); err != nil && !isNoTransaction(err) {
		return fmt.Errorf("rolling back: %w", err)
	}
	return nil
}

// exec writes; whatever it changed must be committed with the counts.
func (t *tx) exec(query string, args ...any) (int64, error) {
	res, err := t.w.exec(query, args...)
	if err != nil {
		return 0, err
	}
	t.dirty = true
	return res.RowsAffected()
}
