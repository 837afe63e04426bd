package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"sync"
	"sync/atomic"

	_ "modernc.org/sqlite" // the driver

	"github.com/retryqueue/retryqueue/internal/queue"
)

// Store is a [queue.Store] on one SQLite file.
type Store struct {
	path    string
	queue   string
	storeID string
	epoch   int64
	ratio   func() float64
	log     *slog.Logger
	clock   *logicalClock
	hooks   hooks

	lock  *fileLock
	write *writer
	reads *sql.DB
	stmts statements // of reads

	space  *space
	fenced atomic.Bool
	plans  sync.Map         // rid → plan; what never changes of redrives
	paces  map[int64]pacing // rid → what the writer remembers between advances

	ops      chan *op
	quit     chan struct{} // closed by Close
	done     chan struct{} // closed when the writer has ended
	closing  sync.Once
	closeErr error
}

var _ queue.Store = (*Store)(nil)

// readConns bounds concurrent reads; each has a page cache of readCacheKiB.
const (
	readConns     = 4
	readCacheKiB  = 4 << 10
	writeCacheKiB = 32 << 10
)

// Open opens the file, makes it when it is not there, and brings its schema up to date. It waits until no other
// process owns the file, or ctx ends.
func Open(ctx context.Context, o Options) (*Store, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	s := &Store{
		path: o.Path, queue: o.Queue, ratio: o.Ratio, log: o.Log, hooks: o.hooks,
		ops: make(chan *op, maxOps), quit: make(chan struct{}), done: make(chan struct{}),
	}
	if err := s.open(ctx, o); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the store %s: %w", o.Path, err), s.release())
	}
	go s.loop()
	return s, nil
}

func (s *Store) open(ctx context.Context, o Options) (err error) {
	if !o.hooks.unlocked {
		if s.lock, err = acquireLock(ctx, o.Path+".lock", o.Log); err != nil {
			return err
		}
	}
	db, err := sql.Open("sqlite", dsn(o.Path, writeCacheKiB, false))
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	s.write = &writer{db: db, stmts: map[string]*sql.Stmt{}}
	err = s.own(ctx, o)
	if isFull(err) && os.Remove(reserveFile(o.Path)) == nil {
		o.Log.Error("the disk is full: freed the reserve, so that the store can be opened", "event", "storage_full", "error", err)
		err = s.own(ctx, o)
	}
	if err != nil {
		return classify(err)
	}
	if err := s.write.connect(ctx, o.hooks.maxPages); err != nil {
		return err
	}
	if err := s.loadPlans(ctx); err != nil {
		return err
	}
	s.space = newSpace(o, s.write)
	if s.reads, err = sql.Open("sqlite", dsn(o.Path, readCacheKiB, true)); err != nil {
		return err
	}
	s.reads.SetMaxOpenConns(readConns)
	s.reads.SetMaxIdleConns(readConns)
	s.stmts.db = s.reads
	return nil
}

// own checks whose file it is, migrates it and raises its epoch.
func (s *Store) own(ctx context.Context, o Options) error {
	db := s.write.db
	id, err := readIdentity(ctx, db)
	fresh := errors.Is(err, sql.ErrNoRows)
	if err != nil && !fresh {
		return err
	}
	if !fresh && id.queue != o.Queue {
		return fmt.Errorf("the file belongs to the queue %q, not to %q: run it as the queue that it belongs to, or give another file", id.queue, o.Queue)
	}
	if err := migrate(ctx, db); err != nil {
		return err
	}
	if fresh {
		random := make([]byte, 16)
		_, _ = rand.Read(random) // never fails
		_, err := db.ExecContext(ctx, `insert into meta values (1, ?, ?, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0) on conflict do nothing`,
			hex.EncodeToString(random), o.Queue)
		if err != nil {
			return fmt.Errorf("naming the file's queue: %w", err)
		}
	}
	err = db.QueryRowContext(ctx, `update meta set epoch = epoch + 1 where one = 1 returning store_id, epoch, clock_hw`).
		Scan(&id.storeID, &id.epoch, &id.clock)
	if err != nil {
		return fmt.Errorf("taking the file over: %w", err)
	}
	s.storeID, s.epoch = id.storeID, id.epoch
	s.clock = newLogicalClock(o.Clock, queue.Time(id.clock))
	return nil
}

func dsn(path string, cacheKiB int, readOnly bool) string {
	pragmas := []string{
		"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)", "temp_store(memory)",
		"wal_autocheckpoint(0)", fmt.Sprintf("cache_size(-%d)", cacheKiB),
	}
	if readOnly {
		pragmas = append(pragmas, "query_only(1)")
	}
	u := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{"_pragma": pragmas, "_txlock": {"deferred"}}.Encode()}
	return u.String()
}

// Close ends the store. Calls in progress are answered; later ones fail. It may be called again.
func (s *Store) Close() error {
	s.closing.Do(func() {
		close(s.quit)
		<-s.done
		s.closeErr = s.release()
	})
	return s.closeErr
}

// release closes whatever is open. The lock goes last.
func (s *Store) release() error {
	var errs []error
	if s.reads != nil {
		errs = append(errs, s.stmts.close(), s.reads.Close())
	}
	if s.write != nil {
		errs = append(errs, s.write.close())
	}
	if err := s.lock.close(); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("closing the store: %w", err)
	}
	return nil
}

// Now implements [queue.Store].
func (s *Store) Now(context.Context) (queue.Time, error) {
	now, _ := s.clock.read()
	return now, nil
}
