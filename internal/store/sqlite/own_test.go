package sqlite

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/retryqueue/retryqueue/internal/queue"
	"github.com/retryqueue/retryqueue/internal/queue/storetest"
)

func TestAFileRemembersItsQueueAndItself(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	s := mustOpen(t, o)
	id, epoch := s.storeID, s.epoch
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	other := o
	other.Queue = "shop/invoices"
	if _, err := Open(t.Context(), other); err == nil || !strings.Contains(err.Error(), "shop/orders") || !strings.Contains(err.Error(), "shop/invoices") {
		t.Errorf("opening the file of another queue: %v", err)
	}
	s = mustOpen(t, o)
	if s.storeID != id || len(id) != 32 || s.epoch != epoch+1 {
		t.Errorf("store %s, epoch %d; before %s, %d", s.storeID, s.epoch, id, epoch)
	}
	if other := mustOpen(t, testOptions(t)); other.storeID == id {
		t.Error("two files have one id")
	}
}

func TestAFileOfANewerProgramIsRefused(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	s := mustOpen(t, o)
	if _, err := s.write.conn.ExecContext(t.Context(), `insert into goose_db_version (version_id, is_applied) values (9999, 1)`); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "newer") {
		t.Errorf("opening: %v", err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	for field, o := range map[string]Options{"path": {Queue: "q"}, "queue": {Path: "/tmp/x"}} {
		if _, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("without %s: %v", field, err)
		}
	}
}

func TestDurabilityPragmas(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, testOptions(t))
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "wal_autocheckpoint": "0"} {
		var got string
		if err := s.write.conn.QueryRowContext(t.Context(), "pragma "+pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s = %q, %v; want %q", pragma, got, err, want)
		}
	}
}

// Where locks do not hold, the one that came later wins, and the earlier one finds out at its next write.
func TestAnOlderOwnerIsFenced(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	o.hooks.unlocked = true
	old := mustOpen(t, o)
	mustAccept(t, old, newJobs("a", 2, 10)...)
	lease := mustClaim(t, old, 1).Leases[0]
	young := mustOpen(t, o)
	if err := accept(old, newJobs("b", 1, 10)...); !errors.Is(err, queue.ErrFenced) {
		t.Errorf("accepting: %v", err)
	}
	if _, err := claim(old, 1); !errors.Is(err, queue.ErrFenced) {
		t.Errorf("claiming: %v", err)
	}
	if _, err := settle(old, succeeded, lease); !errors.Is(err, queue.ErrFenced) {
		t.Errorf("settling: %v", err)
	}
	if _, err := young.Job(t.Context(), "b-00000"); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("the fenced owner's job: %v", err)
	}
	mustSettle(t, young, succeeded, lease)
	mustClaim(t, young, 1)
}

func TestASecondOpenWaitsAndTakesOver(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	first := mustOpen(t, o)
	waiting := make(chan struct{})
	log := &signalLog{first: waiting}
	o.Log = slog.New(slog.NewTextHandler(log, nil))
	opened := make(chan *Store)
	go func() {
		s, err := Open(context.Background(), o)
		if err != nil {
			t.Error(err)
		}
		opened <- s
	}()
	<-waiting
	mustAccept(t, first, newJobs("a", 1, 10)...)
	select {
	case <-opened:
		t.Fatal("two own the file")
	default:
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := <-opened
	defer second.Close()
	mustClaim(t, second, 1)
	if n := strings.Count(log.text(), "\n"); n != 1 {
		t.Errorf("logged %d times that it waits:\n%s", n, log.text())
	}
}

func TestWaitingForTheOwnerEndsWithTheContext(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	mustOpen(t, o)
	ctx, cancel := context.WithCancel(t.Context())
	log := &signalLog{first: make(chan struct{})}
	o.Log = slog.New(slog.NewTextHandler(log, nil))
	go func() { <-log.first; cancel() }()
	if _, err := Open(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("opening: %v", err)
	}
}

// signalLog closes first at the first line.
type signalLog struct {
	first chan struct{}
	once  sync.Once
	mu    sync.Mutex
	buf   bytes.Buffer
}

func (l *signalLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.once.Do(func() { close(l.first) })
	return l.buf.Write(p)
}

func (l *signalLog) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func TestCloseIsCleanAndIdempotent(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	s, err := Open(t.Context(), testOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	mustAccept(t, s, newJobs("a", 3, 10)...)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := accept(s, newJobs("b", 1, 10)...); !errors.Is(err, errClosed) {
		t.Errorf("accepting after Close: %v", err)
	}
	if _, err := s.Job(t.Context(), "a-00000"); err == nil {
		t.Error("reading after Close: no error")
	}
}

func TestAfterALeapOfTheClockNothingStartsAndNothingDies(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	clock := storetest.NewClock()
	o.Clock = clock
	s := mustOpen(t, o)
	mustAccept(t, s, newJobs("a", 2, 10)...)
	lease := mustClaim(t, s, 1).Leases[0]
	clock.StepWall(2 * testPolicy.Deadline)
	if c, err := claim(s, 1); !errors.Is(err, queue.ErrClockJump) || len(c.Deaths) != 0 {
		t.Errorf("claiming: %+v, %v", c, err)
	}
	mustSettle(t, s, succeeded, lease)
	mustAccept(t, s, newJobs("b", 1, 10)...)
	stats, err := s.Stats(t.Context())
	if err != nil || stats.Dead != 0 || stats.Pending != 2 || stats.Now != storetest.Start {
		t.Errorf("stats %+v, %v", stats, err)
	}
	clock.Advance(jumpConfirm)
	c, err := claim(s, 1)
	if err != nil || c.Deaths[queue.ReasonDeadlineExceeded] != 2 || c.Now != storetest.Start.Add(2*testPolicy.Deadline+jumpConfirm) {
		t.Errorf("claiming once the leap has stood: %+v, %v", c, err)
	}
}

func TestARestartWithAnEarlierWallClockGoesOnFromTheLatestTimeWritten(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	clock := storetest.NewClock()
	o.Clock = clock
	s := mustOpen(t, o)
	clock.Advance(500_000)
	mustAccept(t, s, newJobs("a", 1, 10)...)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	clock.StepWall(-3_600_000)
	s = mustOpen(t, o)
	clock.Advance(1)
	if now, err := s.Now(t.Context()); err != nil || now != storetest.Start+500_001 {
		t.Errorf("now is start%+d, %v", now-storetest.Start, err)
	}
}
