package queue

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// bubble runs each test on its own fake clock. The worker's own clock is the bubble's.
func bubble(t *testing.T, tests map[string]func(*testing.T)) {
	for name, f := range tests {
		t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
	}
}

// let lets d pass and everything settle.
func let(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestWorkerDelivers(t *testing.T) {
	bubble(t, map[string]func(*testing.T){
		"what is due at the start is delivered at once": func(t *testing.T) {
			b := newBench(t, succeed)
			b.store.add(0, names(3)...)
			stop := b.run()
			let(10 * time.Millisecond)
			b.wantIn(Succeeded, 3)
			b.want("Succeeded", 3)
			b.drained(stop)
		},
		"what falls due later is delivered then, without a wake": func(t *testing.T) {
			b := newBench(t, succeed)
			stop := b.run()
			b.store.add(1300, "a")
			let(1290 * time.Millisecond)
			b.wantIn(Pending, 1)
			let(20 * time.Millisecond)
			b.wantIn(Succeeded, 1)
			b.drained(stop)
		},
		"a wake finds what was accepted at once": func(t *testing.T) {
			b := newBench(t, succeed)
			stop := b.run()
			let(100 * time.Millisecond)
			b.store.add(0, "a")
			b.w.Wake()
			let(5 * time.Millisecond)
			b.wantIn(Succeeded, 1)
			b.drained(stop)
		},
		"without a wake the poll finds it within a second": func(t *testing.T) {
			b := newBench(t, succeed)
			stop := b.run()
			let(100 * time.Millisecond)
			b.store.add(0, "a")
			let(time.Second)
			b.wantIn(Succeeded, 1)
			b.drained(stop)
		},
		"a retry is made when it is due": func(t *testing.T) {
			var calls atomic.Int64
			b := newBench(t, func(context.Context, Lease) Result {
				if calls.Add(1) == 1 {
					return Result{Outcome: OutcomeRetryable, Failure: &Failure{Kind: "K"}}
				}
				return Result{Outcome: OutcomeSucceeded}
			})
			b.set(func(s *Settings) { s.Policy.Backoff.Base = 50 })
			b.store.add(0, "a")
			stop := b.run()
			let(45 * time.Millisecond)
			b.wantIn(Pending, 1)
			let(20 * time.Millisecond)
			b.wantIn(Succeeded, 1)
			b.drained(stop)
		},
		"deaths are counted": func(t *testing.T) {
			b := newBench(t, func(context.Context, Lease) Result {
				return Result{Outcome: OutcomePermanent, Failure: &Failure{Kind: "K"}}
			})
			b.store.add(0, names(2)...)
			stop := b.run()
			let(10 * time.Millisecond)
			b.wantIn(Dead, 2)
			b.want("died Permanent", 2)
			b.drained(stop)
		},
		"no more run at once than there are slots, and all get their turn": func(t *testing.T) {
			var running, most atomic.Int64
			b := newBench(t, func(ctx context.Context, l Lease) Result {
				most.Store(max(most.Load(), running.Add(1)))
				defer running.Add(-1)
				return takes(100*time.Millisecond)(ctx, l)
			})
			b.store.add(0, names(35)...)
			stop := b.run()
			let(450 * time.Millisecond)
			b.wantIn(Succeeded, 35)
			if most.Load() != 10 {
				t.Errorf("%d ran at once, 10 slots", most.Load())
			}
			b.drained(stop)
		},
		"an idle worker asks its store about once a second": func(t *testing.T) {
			b := newBench(t, succeed)
			stop := b.run()
			let(10 * time.Second)
			if n := len(b.store.claims); n < 10 || n > 15 {
				t.Errorf("%d claims in ten idle seconds", n)
			}
			b.drained(stop)
		},
	})
}

func TestWorkerStartsOnlyWhatFits(t *testing.T) {
	slow := func(d time.Duration) func() error {
		return func() error { time.Sleep(d); return nil }
	}
	bubble(t, map[string]func(*testing.T){
		"a claim whose answer came too late is left": func(t *testing.T) {
			b := newBench(t, succeed)
			b.store.hook["claim"] = slow(5 * time.Second)
			b.store.add(0, "a")
			stop := b.run()
			let(5500 * time.Millisecond)
			b.want("unstarted", 1)
			b.want("Succeeded", 0)
			b.wantIn(Leased, 1)
			b.drained(stop)
		},
		"one that still fits is made": func(t *testing.T) {
			b := newBench(t, succeed)
			b.store.hook["claim"] = slow(4990 * time.Millisecond)
			b.store.add(0, "a")
			stop := b.run()
			let(5100 * time.Millisecond)
			b.want("unstarted", 0)
			b.wantIn(Succeeded, 1)
			b.drained(stop)
		},
		"nothing starts at or after its deadline": func(t *testing.T) {
			b := newBench(t, succeed)
			b.store.hook["claim"] = slow(500 * time.Millisecond)
			b.store.add(0, "late", "timely")
			b.store.set("late", func(j *fakeJob) { j.Deadline = now().Add(500) })
			b.store.set("timely", func(j *fakeJob) { j.Deadline = now().Add(501) })
			stop := b.run()
			let(600 * time.Millisecond)
			b.want("unstarted", 1)
			if b.store.job("late").State != Leased || b.store.job("timely").State != Succeeded {
				t.Errorf("late is %s, timely is %s", b.store.job("late").State, b.store.job("timely").State)
			}
			b.drained(stop)
		},
		"an attempt's context ends with its timeout": func(t *testing.T) {
			b := newBench(t, takes(time.Hour))
			b.store.add(0, "a")
			stop := b.run()
			let(9990 * time.Millisecond)
			b.want("Retryable", 0)
			let(20 * time.Millisecond)
			b.want("Retryable", 1)
			b.drained(stop)
		},
		"a lost lease is reaped and tried again": func(t *testing.T) {
			var once atomic.Bool
			b := newBench(t, succeed)
			b.store.hook["claim"] = func() error {
				if once.CompareAndSwap(false, true) {
					time.Sleep(6 * time.Second)
				}
				return nil
			}
			b.store.add(0, "a")
			stop := b.run()
			let(28 * time.Second)
			b.want("reaped", 1)
			b.wantIn(Succeeded, 1)
			b.drained(stop)
		},
	})
}

func TestWorkerSurvivesItsDeliverer(t *testing.T) {
	misbehave := func(bad func(context.Context)) deliverFunc {
		return func(ctx context.Context, l Lease) Result {
			if l.Job.ID == "bad" {
				bad(ctx)
				return Result{}
			}
			return Result{Outcome: OutcomeSucceeded}
		}
	}
	unsettled := func(bad func(context.Context)) func(*testing.T) {
		return func(t *testing.T) {
			b := newBench(t, misbehave(bad))
			b.set(func(s *Settings) { s.Concurrency = 1 })
			b.store.add(0, "bad", "good")
			stop := b.run()
			let(100 * time.Millisecond)
			b.want("Unknown", 1)
			if b.store.job("bad").State != Leased || b.store.job("good").State != Succeeded {
				t.Errorf("bad is %s, good is %s", b.store.job("bad").State, b.store.job("good").State)
			}
			b.drained(stop)
		}
	}
	bubble(t, map[string]func(*testing.T){
		"a panic is an unknown outcome, which is not settled":          unsettled(func(context.Context) { panic("oh") }),
		"so is an outcome that is none":                                unsettled(func(context.Context) {}),
		"so is the end of its goroutine":                               unsettled(func(context.Context) { runtime.Goexit() }),
		"one that ignores its timeout keeps its slot until it returns": testOverrun,
	})
}

func testOverrun(t *testing.T) {
	release := make(chan struct{})
	b := newBench(t, func(_ context.Context, l Lease) Result {
		if l.Job.ID == "bad" {
			<-release
		}
		return Result{Outcome: OutcomeSucceeded}
	})
	b.set(func(s *Settings) { s.Concurrency = 1 })
	b.store.add(0, "bad", "good")
	stop := b.run()
	let(15 * time.Second)
	b.wantIn(Succeeded, 0)
	close(release)
	let(10 * time.Millisecond)
	b.wantIn(Succeeded, 2)
	if !b.seen.ends[0].Overran || b.seen.ends[1].Overran {
		t.Errorf("ends %+v", b.seen.ends)
	}
	b.drained(stop)
}

func TestWorkerObeysItsSettings(t *testing.T) {
	bubble(t, map[string]func(*testing.T){
		"a suspended one claims nothing and buries what is overdue": func(t *testing.T) {
			b := newBench(t, succeed)
			b.set(func(s *Settings) { s.Suspended = true })
			b.store.add(0, "waits", "overdue")
			b.store.set("overdue", func(j *fakeJob) { j.Deadline = now().Add(5000) })
			stop := b.run()
			let(4 * time.Second)
			b.wantIn(Pending, 2)
			let(3 * time.Second)
			b.wantIn(Dead, 1)
			b.want("died DeadlineExceeded", 1)
			for _, c := range b.store.claims {
				if c.Max != 0 || c.Obstacle == "" {
					t.Errorf("claimed %+v", c)
				}
			}
			b.drained(stop)
		},
		"a suspended one buries many without waiting in between": func(t *testing.T) {
			b := newBench(t, succeed)
			b.set(func(s *Settings) { s.Suspended = true })
			b.store.buryMax = 1
			b.store.add(0, names(50)...)
			for _, id := range names(50) {
				b.store.set(id, func(j *fakeJob) { j.Deadline = now() })
			}
			stop := b.run()
			let(time.Second)
			b.wantIn(Dead, 50)
			b.drained(stop)
		},
		"wakes do not make a suspended one ask more often": func(t *testing.T) {
			b := newBench(t, succeed)
			b.set(func(s *Settings) { s.Suspended = true })
			stop := b.run()
			for range 100 {
				b.w.Wake()
				let(10 * time.Millisecond)
			}
			if n := len(b.store.claims); n > 4 {
				t.Errorf("%d claims in a second", n)
			}
			b.drained(stop)
		},
		"it is resumed at once, and suspended at once": func(t *testing.T) {
			b := newBench(t, takes(50*time.Millisecond))
			b.set(func(s *Settings) { s.Suspended = true })
			b.store.add(0, names(20)...)
			stop := b.run()
			let(100 * time.Millisecond)
			b.set(func(*Settings) {})
			let(10 * time.Millisecond)
			b.wantIn(Leased, 10)
			b.set(func(s *Settings) { s.Suspended = true })
			let(10 * time.Second)
			b.wantIn(Succeeded, 10) // what was in flight has ended
			b.wantIn(Pending, 10)
			b.drained(stop)
		},
		"more slots are used at once, and fewer as they fall free": func(t *testing.T) {
			b := newBench(t, takes(time.Second))
			b.store.add(0, names(100)...)
			stop := b.run()
			let(10 * time.Millisecond)
			b.wantIn(Leased, 10)
			b.set(func(s *Settings) { s.Concurrency = 15 })
			let(10 * time.Millisecond)
			b.wantIn(Leased, 15)
			b.set(func(s *Settings) { s.Concurrency = 2 })
			let(1010 * time.Millisecond)
			b.wantIn(Leased, 2)
			b.drained(stop)
		},
		"invalid settings are refused and change nothing": func(t *testing.T) {
			b := newBench(t, succeed)
			for _, change := range []func(*Settings){
				func(s *Settings) { s.Concurrency = 0 },
				func(s *Settings) { s.Policy.MaxAttempts = 0 },
			} {
				s := testSettings()
				change(&s)
				if err := b.w.SetSettings(s); err == nil {
					t.Error("taken")
				}
			}
			if *b.w.settings.Load() != testSettings() {
				t.Error("changed")
			}
		},
		"redrives are advanced every 100 ms, and held while suspended": func(t *testing.T) {
			b := newBench(t, succeed)
			b.store.release = 3
			stop := b.run()
			let(1050 * time.Millisecond)
			b.want("redrive released", 3)
			b.want("redrive delivered", 3)
			if n := len(b.store.advances); n != 11 {
				t.Errorf("advanced %d times in a second", n)
			}
			b.set(func(s *Settings) { s.Suspended = true })
			let(100 * time.Millisecond)
			if held := b.store.advances[len(b.store.advances)-1]; held != HeldQueueSuspended {
				t.Errorf("held by %q", held)
			}
			b.drained(stop)
		},
	})
}
