package queue

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

var errDown = errors.New("the database is down")

func (b *bench) batches() (sizes []int) {
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	for _, s := range b.store.settles {
		sizes = append(sizes, len(s))
	}
	return sizes
}

func TestWorkerSettles(t *testing.T) {
	bubble(t, map[string]func(*testing.T){
		"what ends together is settled in one call": func(t *testing.T) {
			b := newBench(t, takes(10*time.Millisecond))
			b.store.add(0, names(10)...)
			stop := b.run()
			let(20 * time.Millisecond)
			if got := fmt.Sprint(b.batches()); got != "[10]" {
				t.Errorf("settled in batches of %s", got)
			}
			b.drained(stop)
		},
		"a batch is no more than a hundred": func(t *testing.T) {
			b := newBench(t, takes(10*time.Millisecond))
			b.set(func(s *Settings) { s.Concurrency = 250 })
			b.store.add(0, names(250)...)
			stop := b.run()
			let(20 * time.Millisecond)
			if got := fmt.Sprint(b.batches()); got != "[100 100 50]" {
				t.Errorf("settled in batches of %s", got)
			}
			b.drained(stop)
		},
		"one that ends alone waits no longer than 5 ms": func(t *testing.T) {
			b := newBench(t, succeed)
			b.store.add(0, "a")
			stop := b.run()
			let(5 * time.Millisecond)
			b.wantIn(Succeeded, 1)
			b.drained(stop)
		},
		"a stale one is counted and does not stop the others": func(t *testing.T) {
			b := newBench(t, takes(10*time.Millisecond))
			b.store.add(0, "a", "b")
			stop := b.run()
			let(5 * time.Millisecond)
			b.store.set("a", func(j *fakeJob) { j.token = 99 })
			let(15 * time.Millisecond)
			b.want("lost", 1)
			b.want("ambiguous", 0)
			b.wantIn(Succeeded, 1)
			b.drained(stop)
		},
		"one that finds the clock before its claim is counted and left": func(t *testing.T) {
			b := newBench(t, succeed)
			b.store.add(0, "a", "b")
			b.store.set("a", func(j *fakeJob) { j.backwards = true })
			stop := b.run()
			let(10 * time.Millisecond)
			b.want("backwards", 1)
			b.want("lost", 0)
			b.wantIn(Leased, 1)
			b.wantIn(Succeeded, 1)
			b.drained(stop)
		},
		"a call that fails is tried again": func(t *testing.T) {
			b := newBench(t, succeed)
			b.store.hook["settle"] = func() error { return errDown }
			b.store.add(0, names(3)...)
			stop := b.run()
			let(5 * time.Second)
			b.wantIn(Leased, 3)
			if n := b.seen.get("failed settle"); n < 4 || n > 12 {
				t.Errorf("%d tries in five seconds", n)
			}
			b.store.on("settle", nil)
			let(5 * time.Second)
			b.wantIn(Succeeded, 3)
			b.want("abandoned", 0)
			b.drained(stop)
		},
		"one that the store never takes does not keep the others of its batch": func(t *testing.T) {
			b := newBench(t, takes(10*time.Millisecond))
			b.set(func(s *Settings) { s.Concurrency = 100 })
			b.store.add(0, names(100)...)
			for _, id := range []string{"job-007", "job-070"} {
				b.store.set(id, func(j *fakeJob) { j.poisoned = true })
			}
			stop := b.run()
			let(10 * time.Second)
			b.wantIn(Succeeded, 98)
			b.wantIn(Leased, 2)
			if n := b.w.slots.inFlight(); n != 2 {
				t.Errorf("%d slots are taken, want 2", n)
			}
			let(20 * time.Second)
			b.want("abandoned", 2)
			for _, id := range []string{"job-007", "job-070"} {
				b.store.set(id, func(j *fakeJob) { j.poisoned = false })
			}
			let(30 * time.Second)
			b.wantIn(Succeeded, 100)
			b.drained(stop)
		},
		"a store that does not answer is not asked for each by itself": func(t *testing.T) {
			b := newBench(t, succeed)
			calls := 0
			b.store.hook["settle"] = func() error { calls++; return context.DeadlineExceeded }
			b.store.add(0, names(10)...)
			stop := b.run()
			let(10 * time.Second)
			if n := b.seen.get("failed settle"); calls != n {
				t.Errorf("%d calls in %d tries", calls, n)
			}
			b.store.on("settle", nil)
			let(10 * time.Second)
			b.wantIn(Succeeded, 10)
			b.drained(stop)
		},
		"one whose answer was lost is ambiguous the second time": func(t *testing.T) {
			b := newBench(t, succeed)
			b.store.lostReply = true
			b.store.add(0, "a")
			stop := b.run()
			let(time.Second)
			b.want("ambiguous", 1)
			b.want("lost", 0)
			b.wantIn(Succeeded, 1)
			b.drained(stop)
		},
		"what the store does not take while the lease lives is left to the reaper": func(t *testing.T) {
			b := newBench(t, succeed)
			b.store.hook["settle"] = func() error { return errDown }
			b.store.add(0, "a")
			stop := b.run()
			let(24 * time.Second)
			b.want("abandoned", 0)
			let(6 * time.Second)
			b.want("abandoned", 1)
			b.want("reaped", 1)
			b.store.on("settle", nil)
			let(30 * time.Second)
			b.wantIn(Succeeded, 1)
			b.drained(stop)
		},
		"while the store is slow to settle, no more is claimed than it can still hear of": func(t *testing.T) {
			b := newBench(t, succeed)
			b.store.hook["settle"] = func() error { return errDown }
			b.store.add(0, names(100)...)
			stop := b.run()
			let(10 * time.Second)
			b.wantIn(Leased, 20)
			b.store.on("settle", nil)
			let(10 * time.Second)
			b.wantIn(Succeeded, 100)
			b.drained(stop)
		},
		"two attempts of one job are never settled in one call": testSettleTwice,
	})
}

// testSettleTwice lets the first attempt of a job end, long after it was lost, together with the second.
func testSettleTwice(t *testing.T) {
	var calls atomic.Int64
	both := make(chan struct{})
	b := newBench(t, func(context.Context, Lease) Result {
		calls.Add(1)
		<-both
		return Result{Outcome: OutcomeSucceeded}
	})
	b.store.add(0, "a")
	stop := b.run()
	let(28 * time.Second)
	if calls.Load() != 2 {
		t.Fatalf("%d attempts", calls.Load())
	}
	close(both)
	let(50 * time.Millisecond)
	b.want("failed settle", 0)
	b.want("lost", 1)
	b.wantIn(Succeeded, 1)
	if got := fmt.Sprint(b.batches()); got != "[1 1]" {
		t.Errorf("settled in batches of %s", got)
	}
	b.drained(stop)
}

func TestRunOnce(t *testing.T) {
	bubble(t, map[string]func(*testing.T){
		"one round: claim, deliver, settle": func(t *testing.T) {
			b := newBench(t, takes(time.Second))
			b.store.add(0, names(12)...)
			for i, want := range []Once{{Claimed: 10, Settled: 10}, {Claimed: 2, Settled: 2}, {}} {
				if got, err := b.w.RunOnce(t.Context()); err != nil || got != want {
					t.Errorf("round %d: %+v, %v, want %+v", i, got, err, want)
				}
			}
			b.wantIn(Succeeded, 12)
			if n := b.w.slots.inFlight(); n != 0 {
				t.Errorf("%d slots are taken", n)
			}
		},
		"its error is the store's": func(t *testing.T) {
			b := newBench(t, succeed)
			b.store.add(0, "a")
			b.store.hook["settle"] = func() error { return errDown }
			if got, err := b.w.RunOnce(t.Context()); !errors.Is(err, errDown) || got != (Once{Claimed: 1}) {
				t.Errorf("%+v, %v", got, err)
			}
			b.store.hook["claim"] = func() error { return ErrFenced }
			if _, err := b.w.RunOnce(t.Context()); !errors.Is(err, ErrFenced) {
				t.Errorf("%v", err)
			}
			if n := b.w.slots.inFlight(); n != 0 {
				t.Errorf("%d slots are taken", n)
			}
		},
		"a suspended worker claims nothing": func(t *testing.T) {
			b := newBench(t, succeed)
			b.set(func(s *Settings) { s.Suspended = true })
			b.store.add(0, "a")
			if got, err := b.w.RunOnce(t.Context()); err != nil || got != (Once{}) {
				t.Errorf("%+v, %v", got, err)
			}
		},
	})
}
