package queue

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

func TestWorkerStops(t *testing.T) {
	bubble(t, map[string]func(*testing.T){
		"the drain lets what is in flight finish and claims nothing more": func(t *testing.T) {
			b := newBench(t, takes(5*time.Second))
			b.store.add(0, names(20)...)
			stop := b.run()
			let(time.Second)
			began := time.Now()
			b.drained(stop)
			if took := time.Since(began); took < 4*time.Second || took > 4100*time.Millisecond {
				t.Errorf("drained for %s", took)
			}
			b.wantIn(Succeeded, 10)
			b.wantIn(Pending, 10)
		},
		"a claim under way when the drain begins is made good": func(t *testing.T) {
			b := newBench(t, succeed)
			b.store.hook["claim"] = func() error { time.Sleep(100 * time.Millisecond); return nil }
			b.store.add(0, "a")
			stop := b.run()
			let(50 * time.Millisecond)
			b.drained(stop)
			b.wantIn(Succeeded, 1)
		},
		"the drain settles what the store takes only later": func(t *testing.T) {
			b := newBench(t, succeed)
			b.store.hook["settle"] = func() error { return errDown }
			b.store.add(0, "a")
			stop := b.run()
			let(time.Second)
			time.AfterFunc(3*time.Second, func() { b.store.on("settle", nil) })
			b.drained(stop)
			b.wantIn(Succeeded, 1)
		},
		"the drain is over when the leases are, whatever a deliverer does": testStuckDrain,
		"a hard stop cancels what is in flight, which ends as unknown":     testHardStop,
	})
}

func testStuckDrain(t *testing.T) {
	release := make(chan struct{})
	b := newBench(t, func(context.Context, Lease) Result {
		<-release
		return Result{Outcome: OutcomeSucceeded}
	})
	b.store.add(0, "a")
	stop := b.run()
	let(time.Second)
	began := time.Now()
	if err := stop(); !errors.Is(err, ErrDrainIncomplete) {
		t.Errorf("Run: %v, want ErrDrainIncomplete", err)
	}
	if took := time.Since(began); took < 24*time.Second || took > 30*time.Second {
		t.Errorf("waited %s for a lease of 25 s", took)
	}
	close(release)
	let(time.Second)
	b.wantIn(Leased, 1)
}

func testHardStop(t *testing.T) {
	b := newBench(t, takes(9*time.Second))
	b.store.add(0, names(3)...)
	soft, drain := context.WithCancel(t.Context())
	hard, cut := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.w.RunUntil(soft, hard) }()
	let(time.Second)
	drain()
	let(time.Second)
	began := time.Now()
	cut()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	if took := time.Since(began); took > 100*time.Millisecond {
		t.Errorf("took %s to stop", took)
	}
	b.want("Unknown", 3)
	b.wantIn(Leased, 3)
}

func TestWorkerMeetsAFailingStore(t *testing.T) {
	tests := map[string]func(*testing.T){
		"claims are tried again, ever more rarely": func(t *testing.T) {
			b := newBench(t, succeed)
			b.store.hook["claim"] = func() error { return errDown }
			stop := b.run()
			let(20 * time.Second)
			if n := b.seen.get("failed claim"); n < 8 || n > 16 {
				t.Errorf("%d claims in 20 s", n)
			}
			b.store.on("claim", nil)
			b.store.add(0, "a")
			let(6 * time.Second)
			b.wantIn(Succeeded, 1)
			b.drained(stop)
		},
		"after a jump of the clock it asks every second": func(t *testing.T) {
			b := newBench(t, succeed)
			b.store.hook["claim"] = func() error { return ErrClockJump }
			stop := b.run()
			let(20 * time.Second)
			if n := b.seen.get("failed claim"); n < 20 || n > 21 {
				t.Errorf("%d claims in 20 s", n)
			}
			b.store.on("claim", nil)
			b.store.add(0, "a")
			let(1100 * time.Millisecond)
			b.wantIn(Succeeded, 1)
			b.drained(stop)
		},
		"maintenance goes on after errors": func(t *testing.T) {
			b := newBench(t, succeed)
			b.store.hook["advance"] = func() error { return errDown }
			stop := b.run()
			let(10 * time.Second)
			if n := b.seen.get("failed advance"); n < 5 || n > 15 {
				t.Errorf("%d advances failed in 10 s", n)
			}
			b.store.on("advance", nil)
			let(6 * time.Second)
			if len(b.store.advances) == 0 {
				t.Error("never advanced")
			}
			b.drained(stop)
		},
	}
	for _, op := range []string{"claim", "settle", "reap", "sweep", "advance"} {
		tests["fenced at "+op+", everything stops"] = func(t *testing.T) { testFenced(t, op) }
	}
	bubble(t, tests)
}

func testFenced(t *testing.T, op string) {
	var cancelled atomic.Int64
	b := newBench(t, func(ctx context.Context, l Lease) Result {
		if l.Job.ID == "quick" {
			return Result{Outcome: OutcomeSucceeded}
		}
		<-ctx.Done()
		cancelled.Add(1)
		return Result{Outcome: OutcomeRetryable, Failure: &Failure{Kind: "K"}}
	})
	b.store.add(0, "slow")
	b.store.add(3000, "quick")
	ended := make(chan error, 1)
	go func() { ended <- b.w.Run(t.Context()) }()
	let(2 * time.Second)
	b.store.on(op, func() error { return ErrFenced })
	let(time.Minute) // a sweep comes once a minute
	select {
	case err := <-ended:
		if !errors.Is(err, ErrFenced) {
			t.Errorf("Run: %v, want ErrFenced", err)
		}
	default:
		t.Fatal("still running")
	}
	if op != "sweep" && cancelled.Load() != 1 {
		t.Errorf("%d attempts were cancelled", cancelled.Load())
	}
	if b.w.slots.inFlight() != 0 {
		t.Errorf("%d slots are taken", b.w.slots.inFlight())
	}
}
