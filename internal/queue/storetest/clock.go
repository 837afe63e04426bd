package storetest

import (
	"testing"

	"github.com/retryqueue/retryqueue/internal/queue"
)

var clockRules = rules{
	"the store tells the time of its own clock": func(t *testing.T, e *env) {
		e.clock.Advance(1234)
		if got := e.now(); got != Start+1234 {
			t.Errorf("now is +%d", got-Start)
		}
	},
	"a settle before its claim is ErrClockBackwards and changes nothing": func(t *testing.T, e *env) {
		e.acceptIDs("a")
		e.clock.Advance(10_000)
		c := e.claim(1)
		before := e.job("a")
		e.clock.Advance(-5_000)
		if e.now() >= c.Now {
			// A store whose clock never goes back settles at a time that is not before the claim.
			e.settleAll(c, succeeded())
			if at := e.job("a").FinishedAt; at < c.Now {
				t.Errorf("finished %d ms before the claim", c.Now-at)
			}
			return
		}
		for _, r := range []queue.Result{succeeded(), permanent(422, "x"), retryable(503, "x")} {
			got := e.trySettle(settlement(c.Leases[0], r))
			e.wantErrs(got, queue.ErrClockBackwards)
			if len(got.Deaths) != 0 {
				t.Errorf("deaths %v", got.Deaths)
			}
		}
		e.same("job", e.job("a"), before)
		e.clock.Advance(5_000)
		e.settleAll(c, succeeded())
	},
	"a clock that went back leaves only the jobs claimed after that time": func(t *testing.T, e *env) {
		e.acceptIDs("early")
		early := e.lease("early")
		e.clock.Advance(10_000)
		e.acceptIDs("late")
		late := e.lease("late")
		lateNow := e.now()
		e.clock.Advance(-5_000)
		var wantLate error
		if e.now() < lateNow {
			wantLate = queue.ErrClockBackwards
		}
		got := e.trySettle(settlement(early, succeeded()), settlement(late, succeeded()))
		e.wantErrs(got, nil, wantLate)
		e.wantState(queue.Succeeded, "early")
	},
	"a wall clock set back while running: no deadline is extended, no job lost, none starts early": func(t *testing.T, e *env) {
		nj := newJob("delayed")
		nj.Delay = 1000
		e.accept(nj)
		before := e.job("delayed")
		e.clock.StepWall(-240_000)
		e.same("job", e.job("delayed"), before)
		if c := e.claim(1); len(c.Leases) != 0 {
			t.Error("started before its time")
		}
		e.clock.StepWall(240_000)
		e.clock.Advance(1000)
		e.lease("delayed")
	},
	"a restart with an earlier wall clock: nothing is lost and no deadline is extended": func(t *testing.T, e *env) {
		nj := newJob("short")
		nj.Deadline = 30_000
		e.accept(nj, newJob("long"))
		e.clock.Advance(29_000)
		e.acceptIDs("mark") // a write that the store remembers the time of
		short, long := e.job("short"), e.job("long")
		e.clock.StepWall(-240_000)
		e.restart()
		e.same("short", e.job("short"), short)
		e.same("long", e.job("long"), long)
		e.clock.StepWall(240_000)
		e.clock.Advance(1_000)
		e.claim(0)
		if j := e.job("short"); j.State != queue.Dead || j.DiedAt != Start+30_000 {
			t.Errorf("short is %s, died at +%d", j.State, j.DiedAt-Start)
		}
		e.wantState(queue.Pending, "long")
	},
}

var restartRules = rules{
	"a restart keeps every job in every state": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), "dead", "purged")
		e.purge(ids("purged"))
		e.acceptIDs("done")
		e.settle(e.lease("done"), succeeded())
		e.acceptIDs("retried")
		e.settle(e.lease("retried"), retryable(503, "busy"))
		e.acceptIDs("leased")
		l := e.lease("leased")
		e.acceptIDs("pending")
		all := []string{"dead", "done", "retried", "leased", "pending"}
		before := map[string]queue.Job{}
		for _, id := range all {
			before[id] = e.job(id)
		}
		stats := e.stats()
		e.restart()
		for _, id := range all {
			e.same(id, e.job(id), before[id])
		}
		e.same("stats", e.stats(), stats)
		if !e.acceptIDs("purged")[0].Known {
			t.Error("the purged id is forgotten")
		}
		e.settle(l, succeeded())
	},
	"a lease of before the restart runs out as it would have": func(t *testing.T, e *env) {
		e.acceptIDs("a")
		l := e.lease("a")
		e.clock.Advance(e.policy.Lease() - 1)
		e.restart()
		if r := e.reap(10); r.Lost != 0 {
			t.Error("a restart cut the lease short")
		}
		e.clock.Advance(2)
		if r := e.reap(10); r.Lost != 1 {
			t.Error("a restart made the lease longer")
		}
		e.wantErrs(e.trySettle(settlement(l, succeeded())), queue.ErrLeaseLost)
	},
	"a redrive goes on where it was": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), names("d", 20)...)
		r := e.plan(spec("r1", everything()))
		e.permit(r, 60_000)
		e.advanceRedrives("")
		before := e.redrive("r1")
		if before.Progress.Released == 0 || before.Progress.Remaining == 0 {
			t.Fatalf("progress %+v", before.Progress)
		}
		e.restart()
		e.same("redrive", e.redrive("r1"), before)
		e.finish("r1")
		if p := e.redrive("r1").Progress; p.Delivered != 20 {
			t.Errorf("progress %+v", p)
		}
	},
}
