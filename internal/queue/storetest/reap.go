package storetest

import (
	"testing"

	"github.com/retryqueue/retryqueue/internal/queue"
)

var reapRules = rules{
	"a lease that holds is not reaped; one that ran out is, as a retryable WorkerLost": func(t *testing.T, e *env) {
		e.acceptIDs("a")
		e.clock.Advance(3)
		e.lease("a")
		e.clock.Advance(e.policy.Lease() - 1)
		if r := e.reap(10); r.Lost != 0 {
			t.Fatal("reaped while the lease holds")
		}
		e.clock.Advance(500)
		if r := e.reap(10); r.Lost != 1 || len(r.Deaths) != 0 {
			t.Fatalf("reaped %+v", r)
		}
		j := e.job("a")
		if j.State != queue.Pending || j.Attempts != 1 || j.AvailableAt != e.clock.Now()+50 {
			t.Errorf("job %+v", j)
		}
		if len(j.History) != 1 {
			t.Fatalf("history %+v", j.History)
		}
		h := j.History[0]
		if h.Attempt != 1 || h.StartedAt != Start+3 || h.EndedAt != (Start+3).Add(e.policy.Lease()) ||
			h.Outcome != queue.OutcomeRetryable || h.Error == nil || h.Error.Kind != queue.KindWorkerLost {
			t.Errorf("history %+v, %+v", h, h.Error)
		}
		if j.LastError == nil || j.LastError.Kind != queue.KindWorkerLost {
			t.Errorf("last error %+v", j.LastError)
		}
		if r := e.reap(10); r.Lost != 0 {
			t.Error("reaped twice")
		}
	},
	"the lease is as long as the policy said when it was taken": func(t *testing.T, e *env) {
		e.acceptIDs("a")
		e.lease("a")
		taken := e.policy.Lease()
		e.policy.AttemptTimeout = 1
		e.clock.Advance(taken - 1)
		if r := e.reap(10); r.Lost != 0 {
			t.Error("a policy change cut a lease short")
		}
	},
	"64 leases lost at once come back spread out, none before now": func(t *testing.T, e *env) {
		e.jitter.set(sequence())
		e.acceptIDs(names("j", 64)...)
		if c := e.claim(64); len(c.Leases) != 64 {
			t.Fatalf("claimed %d", len(c.Leases))
		}
		e.clock.Advance(e.policy.Lease() + 1)
		if r := e.reap(1000); r.Lost != 64 {
			t.Fatalf("reaped %d", r.Lost)
		}
		e.wantSpread(names("j", 64), 100)
	},
	"a lost last attempt dies Exhausted of WorkerLost": func(t *testing.T, e *env) {
		nj := newJob("a")
		nj.MaxAttempts = 1
		e.accept(nj)
		e.lease("a")
		e.clock.Advance(e.policy.Lease() + 1)
		r := e.reap(10)
		e.same("deaths", r.Deaths, queue.Deaths{queue.ReasonExhausted: 1})
		if j := e.job("a"); r.Lost != 1 || j.Reason != queue.ReasonExhausted || j.LastError.Kind != queue.KindWorkerLost || j.Fingerprint == "" {
			t.Errorf("reaped %+v, job %+v", r, j)
		}
	},
	"a lost attempt past the deadline dies DeadlineExceeded, but Exhausted first": func(t *testing.T, e *env) {
		last := newJob("last")
		last.MaxAttempts = 1
		e.accept(last, newJob("more"))
		e.clock.Advance(e.policy.Deadline - 1)
		e.claim(2)
		e.clock.Advance(e.policy.Lease() + 1)
		r := e.reap(10)
		e.same("deaths", r.Deaths, queue.Deaths{queue.ReasonExhausted: 1, queue.ReasonDeadlineExceeded: 1})
		if a, b := e.job("last").Reason, e.job("more").Reason; a != queue.ReasonExhausted || b != queue.ReasonDeadlineExceeded {
			t.Errorf("last died %s, more died %s", a, b)
		}
	},
	"a call reaps no more than its limit, the next ones the rest": func(t *testing.T, e *env) {
		e.acceptIDs(names("j", 25)...)
		e.claim(25)
		e.clock.Advance(e.policy.Lease() + 1)
		total := 0
		for range 3 {
			r := e.reap(10)
			if r.Lost > 10 {
				t.Errorf("reaped %d, limit 10", r.Lost)
			}
			total += r.Lost
		}
		if total != 25 {
			t.Errorf("reaped %d of 25", total)
		}
	},
	"the holder of a reaped lease is refused": func(t *testing.T, e *env) {
		e.acceptIDs("a")
		l := e.lease("a")
		e.clock.Advance(e.policy.Lease() + 1)
		e.reap(10)
		before := e.job("a")
		e.wantErrs(e.trySettle(settlement(l, succeeded())), queue.ErrLeaseLost)
		e.same("job", e.job("a"), before)
	},
	"a lost attempt stores its delay for decorrelated jitter": func(t *testing.T, e *env) {
		e.policy.MaxAttempts = 8
		e.policy.Backoff = queue.Backoff{Base: 100, Cap: 1000, Jitter: queue.JitterDecorrelated}
		e.acceptIDs("a")
		e.lease("a")
		e.clock.Advance(e.policy.Lease() + 1)
		e.reap(10)
		if got := e.job("a").AvailableAt.Sub(e.clock.Now()); got != 200 {
			t.Fatalf("waits %d, want 200", got)
		}
		e.clock.Advance(200)
		e.wantDelays("a", retryable(503, "busy"), 350)
	},
	"a poison job that kills its worker each time ends dead, and others go on": func(t *testing.T, e *env) {
		e.acceptIDs("poison", "good")
		c := e.claim(2)
		for _, l := range c.Leases {
			if l.Job.ID == "good" {
				e.settle(l, succeeded())
			}
		}
		for range 3 {
			e.restart()
			e.clock.Advance(e.policy.Lease() + 1)
			e.reap(10)
			e.clock.Advance(1000)
			e.claim(1)
		}
		if j := e.job("poison"); j.State != queue.Dead || j.Attempts != 3 || len(j.History) != 3 {
			t.Errorf("poison is %+v", j)
		}
	},
}
