package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/retryqueue/retryqueue/internal/queue"
	"github.com/retryqueue/retryqueue/internal/queue/storetest"
)

// fill accepts jobs until that is refused, and says how many were taken.
func fill(t *testing.T, s *Store, prefix string) (int, error) {
	t.Helper()
	for i := range 2000 {
		if err := accept(s, newJobs(fmt.Sprintf("%s-%d", prefix, i), 1, 8000)...); err != nil {
			return i, err
		}
	}
	t.Fatal("nothing stops the store from filling up")
	return 0, nil
}

func TestAcceptingStopsAt90PercentAndClaimingAt97(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	o.SizeLimit = 4 << 20
	s := mustOpen(t, o)
	clock := o.Clock.(*storetest.ManualClock)
	taken := 0
	for round := 0; ; round++ { // a refusal empties the log, which makes room at first
		n, err := fill(t, s, fmt.Sprint("a", round))
		if !errors.Is(err, queue.ErrStorageFull) {
			t.Fatal(err)
		}
		inWriter(t, s, func(*tx) error { return nil }) // what follows the refusal is done
		if taken += n; n == 0 {
			break
		}
		clock.Advance(retryEvery)
	}
	if taken < 200 {
		t.Errorf("took %d jobs", taken)
	}
	leases := mustClaim(t, s, 50).Leases
	var used int64
	inWriter(t, s, func(tx *tx) (err error) {
		used, err = s.space.used(tx, s.space.wal())
		s.space.limit = used * 100 / 98 // as if the volume had filled up to 98 %
		return err
	})
	if used < o.SizeLimit*85/100 || used > o.SizeLimit*97/100 {
		t.Errorf("used %d of %d", used, o.SizeLimit)
	}
	if _, err := claim(s, 1); !errors.Is(err, queue.ErrStorageFull) {
		t.Errorf("claiming at 98 %%: %v", err)
	}
	mustSettle(t, s, succeeded, leases[:25]...)
	mustSettle(t, s, permanent, leases[25:]...)
	if _, err := s.Purge(t.Context(), testPolicy, queue.Selector{Reasons: queue.Reasons()}); err != nil {
		t.Errorf("purging at 98 %%: %v", err)
	}
	clock.Advance(retryEvery)
	_ = accept(s, newJobs("b", 1, 10)...) // is what makes it look again
	if _, err := claim(s, 1); err != nil {
		t.Errorf("claiming once room was made: %v", err)
	}
}

func TestAFullDiskFreesTheReserveSoThatWorkCanBeSettled(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	o.Reserve = 64 << 10
	o.hooks.maxPages = 300
	var room atomic.Int64
	room.Store(2 * o.Reserve)
	o.hooks.available = room.Load
	s := mustOpen(t, o)
	reserve := o.Path + ".reserve"
	if info, err := os.Stat(reserve); err != nil || info.Size() != o.Reserve {
		t.Fatalf("the reserve: %v, %v", info, err)
	}
	mustAccept(t, s, newJobs("run", 10, 10)...)
	leases := mustClaim(t, s, 10).Leases
	room.Store(0)
	if n, err := fill(t, s, "a"); !errors.Is(err, queue.ErrStorageFull) || n < 50 {
		t.Fatalf("took %d jobs, then %v", n, err)
	}
	if _, err := os.Stat(reserve); !os.IsNotExist(err) {
		t.Errorf("the reserve is still there: %v", err)
	}
	if _, err := s.write.conn.ExecContext(context.Background(), "pragma max_page_count = 400"); err != nil {
		t.Fatal(err) // what the freed reserve does on a real disk
	}
	mustSettle(t, s, succeeded, leases[:5]...)
	mustSettle(t, s, permanent, leases[5:]...)
	for what, call := range map[string]func() error{
		"accepting": func() error { return accept(s, newJobs("b", 1, 10)...) },
		"claiming":  func() error { _, err := claim(s, 1); return err },
	} {
		if err := call(); !errors.Is(err, queue.ErrStorageFull) {
			t.Errorf("%s on a full disk: %v", what, err)
		}
	}
	room.Store(o.Reserve)
	if _, err := claim(s, 1); err != nil {
		t.Errorf("claiming with what the reserve gave back: %v", err)
	}
	if err := accept(s, newJobs("b", 1, 10)...); !errors.Is(err, queue.ErrStorageFull) {
		t.Errorf("accepting with what the reserve gave back: %v", err)
	}
	room.Store(2 * o.Reserve)
	o.Clock.(*storetest.ManualClock).Advance(retryEvery)
	_ = accept(s, newJobs("b", 1, 10)...) // is what makes it look again
	if err := accept(s, newJobs("b", 1, 10)...); err != nil {
		t.Errorf("accepting once there is room: %v", err)
	}
	if _, err := os.Stat(reserve); err != nil {
		t.Errorf("the reserve was not taken again: %v", err)
	}
}

func TestTheLogIsBounded(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, testOptions(t))
	for i := range 3 * truncateAbove >> 20 {
		jobs := newJobs(fmt.Sprint("a", i), 1, 1<<20)
		mustAccept(t, s, jobs...)
		mustSettle(t, s, succeeded, mustClaim(t, s, 1).Leases...)
		if wal := s.space.wal(); wal > truncateAbove+checkpointEvery+4<<20 {
			t.Fatalf("the log has %d MiB", wal>>20)
		}
	}
}

func TestALogThatAReaderPinsStopsAcceptingAndIsCutAfterwards(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	o.hooks.walLimit = 8 << 20
	s := mustOpen(t, o)
	mustAccept(t, s, newJobs("first", 10, 10)...)
	reader, err := s.reads.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := reader.QueryRow(`select count(*) from jobs`).Scan(&n); err != nil || n != 10 {
		t.Fatalf("%d jobs, %v", n, err)
	}
	leases := mustClaim(t, s, 10).Leases
	if n, err := fill(t, s, "a"); !errors.Is(err, queue.ErrStorageFull) || n < 100 {
		t.Fatalf("took %d jobs, then %v", n, err)
	}
	mustSettle(t, s, succeeded, leases...)
	if err := reader.Rollback(); err != nil {
		t.Fatal(err)
	}
	o.Clock.(*storetest.ManualClock).Advance(retryEvery)
	_ = accept(s, newJobs("b", 1, 10)...) // is what makes it look again
	if err := accept(s, newJobs("b", 1, 10)...); err != nil {
		t.Errorf("accepting after the reader has gone: %v", err)
	}
	if wal := s.space.wal(); wal > o.hooks.walLimit {
		t.Errorf("the log still has %d bytes", wal)
	}
}

func TestAPurgeThatMeetsAFullDiskLeavesNothingOut(t *testing.T) {
	t.Parallel()
	full := false
	o := testOptions(t)
	o.Reserve = 64 << 10
	o.hooks.beforeCommit = func() error {
		if !full {
			return nil
		}
		full = false
		return syscall.ENOSPC
	}
	s := mustOpen(t, o)
	const n = purgeBatch + 100
	mustAccept(t, s, newJobs("a", n, 1)...)
	mustSettle(t, s, permanent, mustClaim(t, s, n).Leases...)
	full = true
	if got, err := s.Purge(t.Context(), testPolicy, queue.Selector{Reasons: queue.Reasons()}); got != n || err != nil {
		t.Errorf("purged %d of %d, %v", got, n, err)
	}
	if stats, err := s.Stats(t.Context()); stats.Dead != 0 || err != nil {
		t.Errorf("%d are still dead, %v", stats.Dead, err)
	}
}
