package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"modernc.org/sqlite"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// gate holds the writer in front of its next COMMIT.
type commitGate struct {
	mu      sync.Mutex
	arrived chan struct{}
	leave   chan error
	commits atomic.Int64
}

func (g *commitGate) hook() error {
	g.commits.Add(1)
	g.mu.Lock()
	arrived, leave := g.arrived, g.leave
	g.arrived, g.leave = nil, nil
	g.mu.Unlock()
	if arrived == nil {
		return nil
	}
	close(arrived)
	return <-leave
}

// shut makes the next commit wait, and returns what tells of its arrival and what lets it go.
func (g *commitGate) shut() (arrived chan struct{}, leave chan error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.arrived, g.leave = make(chan struct{}), make(chan error, 1)
	return g.arrived, g.leave
}

// queued runs calls at once while the writer is held, and returns their errors once it was let go.
func queued(t *testing.T, s *Store, g *commitGate, calls ...func() error) []error {
	t.Helper()
	arrived, leave := g.shut()
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := accept(s, newJobs("first", 1, 10)...); err != nil {
			t.Error(err)
		}
	})
	<-arrived
	errs := make([]error, len(calls))
	for i, call := range calls {
		wg.Go(func() { errs[i] = call() })
	}
	for len(s.ops) < len(calls) {
		// The callers are on their way into the queue; the writer takes nothing out of it.
	}
	_, failing := g.shut()
	failing <- errCommit
	leave <- nil
	wg.Wait()
	return errs
}

var errCommit = errors.New("the disk is on fire")

func TestAFailedCommitFailsEveryWaiter(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	g := &commitGate{}
	o.hooks.beforeCommit = g.hook
	s := mustOpen(t, o)
	var calls []func() error
	for i := range 20 {
		calls = append(calls, func() error { return accept(s, newJobs(fmt.Sprint("j", i), 1, 10)...) })
	}
	calls = append(calls, func() error { _, err := claim(s, 1); return err })
	for i, err := range queued(t, s, g, calls...) {
		if !errors.Is(err, errCommit) {
			t.Errorf("call %d: %v", i, err)
		}
	}
	if n := g.commits.Load(); n != 2 {
		t.Errorf("%d commits, want one for the first call and one for all others", n)
	}
	stats, err := s.Stats(t.Context())
	if err != nil || stats.Pending != 1 || stats.Leased != 0 {
		t.Errorf("stats %+v, %v", stats, err)
	}
	mustAccept(t, s, newJobs("j0", 1, 10)...)
	mustClaim(t, s, 2)
}

func TestACallThatFailsDoesNotDisturbThoseCommittedWithIt(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	g := &commitGate{}
	o.hooks.beforeCommit = g.hook
	s := mustOpen(t, o)
	mustAccept(t, s, newJobs("known", 1, 10)...)
	other := newJobs("known", 1, 11)
	arrived, leave := g.shut()
	var wg sync.WaitGroup
	wg.Go(func() { _ = accept(s, newJobs("first", 1, 10)...) })
	<-arrived
	var good, bad [8]error
	for i := range good {
		wg.Go(func() { good[i] = accept(s, newJobs(fmt.Sprint("good", i), 3, 10)...) })
		wg.Go(func() { bad[i] = accept(s, append(newJobs(fmt.Sprint("bad", i), 3, 10), other...)...) })
	}
	wg.Go(func() {
		err := s.do(context.Background(), kindOther, 1, func(tx *tx) error {
			tx.pending, tx.bytes, tx.nextToken = 1000, 1000, 1
			_, err := tx.exec(`delete from jobs`)
			return errors.Join(errCommit, err)
		})
		if !errors.Is(err, errCommit) {
			t.Error(err)
		}
	})
	for len(s.ops) < 17 {
		// The callers are on their way into the queue; the writer takes nothing out of it.
	}
	before := g.commits.Load()
	leave <- nil
	wg.Wait()
	for i := range good {
		if _, conflict := errors.AsType[*queue.ConflictError](bad[i]); good[i] != nil || !conflict {
			t.Errorf("good %v, bad %v", good[i], bad[i])
		}
	}
	if n := g.commits.Load() - before; n != 1 {
		t.Errorf("%d commits", n)
	}
	stats, err := s.Stats(t.Context())
	if want := int64(2 + 8*3); err != nil || stats.Pending != want || stats.Bytes != want*10 {
		t.Errorf("stats %+v, %v", stats, err)
	}
	if c := mustClaim(t, s, 2+8*3); len(c.Leases) != 2+8*3 {
		t.Errorf("claimed %d", len(c.Leases))
	}
}

func TestACallerThatHasGoneIsNotServed(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, testOptions(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Accept(ctx, testPolicy, newJobs("a", 1, 10)); !errors.Is(err, context.Canceled) {
		t.Errorf("accepting: %v", err)
	}
	if stats, err := s.Stats(t.Context()); err != nil || stats.Pending != 0 {
		t.Errorf("stats %+v, %v", stats, err)
	}
}

// A retry changes a row of jobs and its history, not the payload: with a payload of 1 MiB (256 pages) it must not
// write more than the few pages of the rows and their indexes.
func TestARetryDoesNotRewriteThePayload(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, testOptions(t))
	mustAccept(t, s, newJobs("a", 1, 1<<20)...)
	before := pages(t, s)
	mustSettle(t, s, queue.Result{Outcome: queue.OutcomeRetryable, Failure: &queue.Failure{Kind: "Timeout"}}, mustClaim(t, s, 1).Leases...)
	if n := pages(t, s) - before; n == 0 || n > 30 {
		t.Errorf("wrote %d pages", n)
	}
}

// pages is how many were written so far.
func pages(t *testing.T, s *Store) (n int) {
	t.Helper()
	inWriter(t, s, func(*tx) error {
		n = int(s.space.written / pageSize)
		return s.write.conn.Raw(func(c any) error {
			current, _, err := c.(sqlite.DBStatus).Status(sqlite.DBStatusCacheWrite, false)
			n += current
			return err
		})
	})
	return n
}
