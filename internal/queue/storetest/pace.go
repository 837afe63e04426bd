package storetest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/retryqueue/retryqueue/internal/queue"
)

var paceRules = rules{
	"no second holds more than rate and burst, and the rate is reached": func(t *testing.T, e *env) {
		for i, rate := range []queue.Rate{
			{Jobs: 10, Per: 1000, Burst: 5},
			{Jobs: 20, Per: 1000, Burst: 3},
			{Jobs: 100, Per: 1000, Burst: 11},
			{Jobs: 7, Per: 3000, Burst: 2},
			{Jobs: 1, Per: 700, Burst: 2},
			{Jobs: 3, Per: 1000, Burst: 2},
		} {
			uid := fmt.Sprint("r", i)
			e.die(permanent(422, "x"), names(uid, 40)...)
			s := spec(uid, everything())
			s.Rate = rate
			e.plan(s)
			w, begun := e.watch(), e.clock.Now()
			for len(w.dead) > 0 {
				e.permit(e.redrive(uid), 60_000)
				e.advanceRedrives("")
				w.look()
				e.settleAll(e.claim(100), succeeded())
				if e.clock.Advance(tick); e.clock.Now()-begun > 3_600_000 {
					t.Fatalf("%+v: %d still dead after an hour", rate, len(w.dead))
				}
			}
			wantPace(t, "jobs fall due", rate, w.times())
			ideal := queue.Millis((40 - rate.Burst) * int64(rate.Per) / rate.Jobs)
			if took := e.clock.Now().Sub(begun); took > ideal+ideal/10+3*tick {
				t.Errorf("%+v took %s, %s would do", rate, took, ideal)
			}
			e.finish(uid)
		}
	},
	"the first release is no more than the burst": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), names("d", 40)...)
		e.permit(e.plan(spec("r1", everything())), 60_000)
		e.clock.Advance(30_000)
		if n := e.advanceRedrives(""); n > 5 {
			t.Errorf("released %d, burst 5", n)
		}
	},
	"the pace holds over restarts": func(t *testing.T, e *env) {
		e.watchPace(t, func(i int) queue.HeldReason {
			if i%4 == 3 {
				e.restart()
			}
			return ""
		}, nil)
	},
	"no credit accrues while the queue is suspended": func(t *testing.T, e *env) {
		e.watchPace(t, func(i int) queue.HeldReason {
			if i >= 10 && i < 110 || i >= 120 && i < 125 {
				return queue.HeldQueueSuspended
			}
			return ""
		}, func(i, n int) {
			if (i == 110 || i == 125) && n > 3 {
				t.Errorf("released %d at once after the hold: credit has accrued", n)
			}
		})
	},
	"no credit accrues while the permission is withdrawn": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), names("d", 60)...)
		r := e.plan(spec("r1", everything()))
		w := e.watch()
		for i := range 200 {
			if i >= 10 && i < 110 {
				e.permit(r, 0)
			} else {
				e.permit(r, 60_000)
			}
			if n := e.advanceRedrives(""); i == 110 && n > 3 {
				t.Errorf("released %d at once after the hold: credit has accrued", n)
			}
			w.look()
			e.settleAll(e.claim(100), succeeded())
			e.clock.Advance(tick)
		}
		wantPace(t, "jobs fall due", r.Spec.Rate, w.times())
	},
	"a caller that was away for ten seconds gets the burst and no more": func(t *testing.T, e *env) {
		e.watchPace(t, func(i int) queue.HeldReason {
			if i == 20 || i == 40 {
				e.clock.Advance(10_000)
			}
			return ""
		}, func(i, n int) {
			if n > 5 {
				t.Errorf("released %d at once, burst 5", n)
			}
		})
	},
	"callers at once do not double the pace": func(t *testing.T, e *env) {
		e.watchPace(t, func(int) queue.HeldReason {
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					if _, err := e.s.AdvanceRedrives(t.Context(), e.policy, ""); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			return ""
		}, nil)
	},
	"what is sent keeps the pace too, with workers and callers that stall and restart": func(t *testing.T, e *env) {
		for seed := range uint64(8) {
			e.sendRandomly(t, seed)
		}
	},
	"after a long stall of the workers the jobs that waited are no more than the burst": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), names("d", 60)...)
		r := e.plan(spec("r1", everything()))
		var sent []queue.Time
		for i := range 250 {
			e.permit(r, 60_000)
			e.advanceRedrives("")
			e.clock.Advance(tick)
			if i < 20 || i > 120 {
				c := e.claim(100)
				for range c.Leases {
					sent = append(sent, c.Now)
				}
				e.settleAll(c, succeeded())
			}
		}
		wantPace(t, "jobs are sent", r.Spec.Rate, sent)
	},
}

// watchPace runs a redrive of 60 jobs at 10/s for 200 ticks. before runs ahead of every advance and may hold
// it; after hears how many were released.
func (e *env) watchPace(t *testing.T, before func(i int) queue.HeldReason, after func(i, n int)) {
	t.Helper()
	e.die(permanent(422, "x"), names("d", 60)...)
	r := e.plan(spec("r1", everything()))
	w := e.watch()
	for i := range 200 {
		e.permit(r, 60_000)
		n := e.advanceRedrives(before(i))
		w.look()
		if after != nil {
			after(i, n)
		}
		e.settleAll(e.claim(100), succeeded())
		e.clock.Advance(tick)
	}
	if len(w.at) != 60 {
		t.Errorf("released %d of 60", len(w.at))
	}
	wantPace(t, "jobs fall due", r.Spec.Rate, w.times())
}

// sendRandomly runs a redrive with a caller, a worker and a process that each stall at random.
func (e *env) sendRandomly(t *testing.T, seed uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	uid := fmt.Sprint("seed-", seed)
	e.die(permanent(422, "x"), names(uid, 60)...)
	s := spec(uid, everything())
	s.Rate = queue.Rate{Jobs: 5 + rng.Int64N(20), Per: 1000, Burst: 4 + rng.Int64N(10)}
	r := e.plan(s)
	var sent []queue.Time
	callerAway, workerAway := 0, 0
	for step := 0; step < 5000 && len(sent) < 60; step++ {
		switch rng.IntN(40) {
		case 0:
			callerAway = rng.IntN(60)
		case 1:
			workerAway = rng.IntN(60)
		case 2:
			e.clock.Advance(queue.Millis(rng.IntN(10_000)))
		case 3:
			e.restart()
		}
		callerAway, workerAway = callerAway-1, workerAway-1
		turns := []func(){
			func() {
				if callerAway < 0 {
					e.permit(r, 60_000)
					e.advanceRedrives(map[bool]queue.HeldReason{true: queue.HeldQueueSuspended}[rng.IntN(30) == 0])
				}
			},
			func() {
				if workerAway < 0 {
					c := e.claim(1 + rng.IntN(100))
					for range c.Leases {
						sent = append(sent, c.Now)
					}
					e.settleAll(c, succeeded())
				}
			},
		}
		first := rng.IntN(2)
		turns[first]()
		turns[1-first]()
		e.clock.Advance(queue.Millis(10 + rng.IntN(140)))
	}
	if len(sent) != 60 {
		t.Fatalf("seed %d: sent %d of 60: %+v", seed, len(sent), e.redrive(uid))
	}
	wantPace(t, fmt.Sprintf("jobs (seed %d, %+v) are sent", seed, s.Rate), s.Rate, sent)
	e.finish(uid)
}
