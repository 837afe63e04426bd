package storetest

import (
	"math"
	"testing"

	"github.com/retryqueue/retryqueue/internal/queue"
)

var delayRules = rules{
	"full jitter with base 100, cap 1000 and ratio one half waits 50, 100, 200": func(t *testing.T, e *env) {
		e.policy.MaxAttempts = 8
		e.acceptIDs("a")
		e.wantDelays("a", retryable(503, "busy"), 50, 100, 200, 400, 500, 500)
	},
	"the extreme ratios are the ends of the window": func(t *testing.T, e *env) {
		e.acceptIDs("a", "b")
		c := e.claim(2)
		e.jitter.fix(0)
		e.settle(c.Leases[0], retryable(503, "busy"))
		e.jitter.fix(1)
		e.settle(c.Leases[1], retryable(503, "busy"))
		if a, b := e.job(c.Leases[0].Job.ID), e.job(c.Leases[1].Job.ID); a.AvailableAt != Start || b.AvailableAt != Start+100 {
			t.Errorf("available +%d and +%d, want +0 and +100", a.AvailableAt-Start, b.AvailableAt-Start)
		}
	},
	"backoff is read from the policy in force when the failure is settled": func(t *testing.T, e *env) {
		e.acceptIDs("a")
		l := e.lease("a")
		e.policy.Backoff = queue.Backoff{Base: 7000, Cap: 7000, Jitter: queue.JitterFull}
		e.settle(l, retryable(503, "busy"))
		if got := e.job("a").AvailableAt; got != Start+3500 {
			t.Errorf("available +%d, want +3500", got-Start)
		}
	},
	"the attempts allowed are those stamped at accept, whatever the policy says later": func(t *testing.T, e *env) {
		e.acceptIDs("a")
		e.policy.MaxAttempts = 1
		e.settle(e.lease("a"), retryable(503, "busy"))
		e.wantState(queue.Pending, "a")
		e.policy.MaxAttempts = 100
		for range 2 {
			e.clock.Advance(1000)
			e.settle(e.lease("a"), retryable(503, "busy"))
		}
		e.wantState(queue.Dead, "a")
	},
	"Retry-After is bounded, and the jittered delay comes on top": func(t *testing.T, e *env) {
		for after, want := range map[queue.Millis]queue.Millis{0: 50, 1: 51, 5_000: 5_050, 60_000: 60_050, 60_001: 60_050, 1 << 62: 60_050, -5: 50} {
			nj := newJob("after-" + after.String())
			e.accept(nj)
			now := e.clock.Now()
			r := retryable(429, "slow down")
			r.RetryAfter = after
			e.settle(e.lease(nj.ID), r)
			if got := e.job(nj.ID).AvailableAt.Sub(now); got != want {
				t.Errorf("Retry-After %d: waits %d, want %d", after, got, want)
			}
			e.settleLater(nj.ID)
		}
	},
	"a Retry-After that reaches the deadline is DeadlineExceeded": func(t *testing.T, e *env) {
		nj := newJob("a")
		nj.Deadline = 30_000
		e.accept(nj)
		r := retryable(429, "slow down")
		r.RetryAfter = 29_950
		e.settle(e.lease("a"), r)
		if j := e.job("a"); j.Reason != queue.ReasonDeadlineExceeded {
			t.Errorf("job %+v", j)
		}
	},
	"decorrelated jitter goes on from the delay before, which is stored without Retry-After": func(t *testing.T, e *env) {
		e.policy.MaxAttempts = 8
		e.policy.Backoff = queue.Backoff{Base: 100, Cap: 1000, Jitter: queue.JitterDecorrelated}
		e.acceptIDs("a")
		e.wantDelays("a", retryable(503, "busy"), 200, 350)
		e.restart()
		r := retryable(429, "slow down")
		r.RetryAfter = 10_000
		e.wantDelays("a", r, 10_575)
		e.wantDelays("a", retryable(503, "busy"), 912, 1000)
	},
	"every delay of a call has a draw of its own": func(t *testing.T, e *env) {
		e.jitter.set(sequence())
		e.acceptIDs(names("j", 64)...)
		e.settleAll(e.claim(64), retryable(503, "busy"))
		e.wantSpread(names("j", 64), 100)
	},
}

// wantDelays lets id fail with r once for every want, and compares how long it then waits.
func (e *env) wantDelays(id string, r queue.Result, want ...queue.Millis) {
	e.t.Helper()
	for i, w := range want {
		now := e.clock.Now()
		e.settle(e.lease(id), r)
		j := e.job(id)
		if got := j.AvailableAt.Sub(now); j.State != queue.Pending || got != w {
			e.t.Fatalf("failure %d: %s after %d ms, want Pending after %d", i+1, j.State, got, w)
		}
		e.clock.Advance(w)
	}
}

// settleLater takes id out of the way: it waits until it is due and lets it succeed.
func (e *env) settleLater(id string) {
	e.t.Helper()
	e.clock.Advance(e.job(id).AvailableAt.Sub(e.clock.Now()))
	e.settle(e.lease(id), succeeded())
}

// sequence draws evenly spread ratios that do not repeat.
func sequence() func() float64 {
	x := 0.0
	return func() float64 {
		_, x = math.Modf(x + (math.Sqrt(5)-1)/2)
		return x
	}
}

// wantSpread checks that the pending jobs are due at different instants within [now, now + window].
func (e *env) wantSpread(ids []string, window queue.Millis) {
	e.t.Helper()
	now, at := e.clock.Now(), map[queue.Time]int{}
	for _, id := range ids {
		j := e.job(id)
		if j.State != queue.Pending || j.AvailableAt < now || j.AvailableAt > now.Add(window) {
			e.t.Errorf("%s is %s, due %d ms from now", id, j.State, j.AvailableAt.Sub(now))
		}
		at[j.AvailableAt]++
	}
	if len(at) < len(ids)/2 {
		e.t.Errorf("%d jobs come back at only %d instants: %v", len(ids), len(at), at)
	}
}
