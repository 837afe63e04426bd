package storetest

import (
	"testing"

	"github.com/retryqueue/retryqueue/internal/queue"
)

var outcomeRules = rules{
	"every item's outcome is counted as it happens": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), "a", "b", "c", "d")
		e.release("r1", everything())
		e.wantProgress("r1", queue.RedriveProgress{Released: 4, Outstanding: 4})
		byID := map[string]queue.Lease{}
		for _, l := range e.claim(4).Leases {
			byID[l.Job.ID] = l
		}
		e.settle(byID["a"], succeeded())
		e.wantProgress("r1", queue.RedriveProgress{Released: 4, Delivered: 1, Outstanding: 3})
		e.settle(byID["b"], permanent(422, "again"))
		e.wantProgress("r1", queue.RedriveProgress{Released: 4, Delivered: 1, DiedAgain: 1, Outstanding: 2})
		e.settle(byID["c"], retryable(503, "busy"))
		e.wantProgress("r1", queue.RedriveProgress{Released: 4, Delivered: 1, DiedAgain: 1, Outstanding: 2, Failing: 1})
		e.clock.Advance(1000)
		e.settle(e.lease("c"), succeeded())
		e.wantProgress("r1", queue.RedriveProgress{Released: 4, Delivered: 2, DiedAgain: 1, Outstanding: 1})
		e.clock.Advance(e.policy.Lease())
		e.reap(10)
		e.wantProgress("r1", queue.RedriveProgress{Released: 4, Delivered: 2, DiedAgain: 1, Outstanding: 1, Failing: 1})
		e.restart()
		e.clock.Advance(1000)
		e.settle(e.lease("d"), retryable(503, "busy"))
		e.wantProgress("r1", queue.RedriveProgress{Released: 4, Delivered: 2, DiedAgain: 2})
		e.advanceRedrives("")
		e.wantRedriveState("r1", queue.RedriveComplete, "")
	},
	"a lost last attempt and a burial count as dead again": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), "lost", "late")
		s := spec("r1", everything())
		s.Budget = queue.RedriveBudget{MaxAttempts: 1, Deadline: 60_000}
		e.permit(e.plan(s), 60_000)
		e.advanceRedrives("")
		l := e.lease1()
		e.clock.Advance(60_000)
		r := e.reap(10)
		e.same("reaped", r, queue.Reaped{Lost: 1, Deaths: queue.Deaths{queue.ReasonExhausted: 1}})
		c := e.claim(1)
		e.same("buried", c.Deaths, queue.Deaths{queue.ReasonDeadlineExceeded: 1})
		e.wantProgress("r1", queue.RedriveProgress{Released: 2, DiedAgain: 2})
		e.wantErrs(e.trySettle(settlement(l, succeeded())), queue.ErrLeaseLost)
		e.advanceRedrives("")
		e.wantRedriveState("r1", queue.RedriveComplete, "")
	},
	"a purged item is gone": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), "a", "b", "c")
		e.plan(spec("r1", everything()))
		e.purge(ids("b"))
		r := e.finish("r1")
		e.same("progress", r.Progress, queue.RedriveProgress{Released: 2, Delivered: 2, Gone: 1})
		e.wantUnknown("b")
	},
	"an item that another redrive released is gone, also when it died again": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), "a", "b", "c")
		e.plan(spec("r1", everything()))
		e.release("r2", ids("a", "b"))
		for _, l := range e.claim(2).Leases {
			if l.Job.ID == "a" {
				e.settle(l, permanent(422, "again"))
			} else {
				e.settle(l, succeeded())
			}
		}
		r := e.finish("r1")
		e.same("progress", r.Progress, queue.RedriveProgress{Released: 1, Delivered: 1, Gone: 2})
		if j := e.job("a"); j.State != queue.Dead || j.Redrives != 1 || j.RedriveUID != "r2" {
			t.Errorf("a is %+v", j)
		}
	},
	"an item whose job expired meanwhile is gone": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), "a")
		e.plan(spec("r1", everything()))
		e.policy.Retention = 1000
		e.clock.Advance(1001)
		e.sweepAll()
		if r := e.finish("r1"); r.Progress.Gone != 1 || r.State != queue.RedriveComplete {
			t.Errorf("redrive is %s, %+v", r.State, r.Progress)
		}
	},
	"an item stays counted when its job is purged or redriven after its outcome": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), "a", "b")
		e.release("r1", everything())
		e.killPending(permanent(422, "again"), 2)
		e.purge(ids("a"))
		e.release("r2", ids("b"))
		e.settle(e.lease("b"), succeeded())
		e.wantProgress("r1", queue.RedriveProgress{Released: 2, DiedAgain: 2})
		e.wantProgress("r2", queue.RedriveProgress{Released: 1, Delivered: 1})
	},
	"a job that dies again has a new place in the order of death and keeps its whole history": func(t *testing.T, e *env) {
		e.die(permanent(422, "first"), "a", "b")
		before := e.job("a")
		e.clock.Advance(1000)
		e.release("r1", ids("a"))
		e.settle(e.lease("a"), retryable(503, "second"))
		e.clock.Advance(1000)
		e.settle(e.lease("a"), retryable(503, "third"))
		j := e.job("a")
		if j.State != queue.Dead || j.Reason != queue.ReasonExhausted || j.DeadSeq <= e.job("b").DeadSeq || j.DeadSeq == before.DeadSeq ||
			j.DiedAt != Start+2000 || j.FirstReceivedAt != Start || j.FirstFailedAt != Start || j.Redrives != 1 || j.RedriveUID != "r1" || j.Attempts != 2 {
			t.Errorf("job %+v", j)
		}
		e.same("history", j.History, []queue.Attempt{
			{Attempt: 1, StartedAt: Start, EndedAt: Start, Outcome: queue.OutcomePermanent, Error: failure(422, "first")},
			{Attempt: 1, Redrive: "r1", StartedAt: Start + 1000, EndedAt: Start + 1000, Outcome: queue.OutcomeRetryable, Error: failure(503, "second")},
			{Attempt: 2, Redrive: "r1", StartedAt: Start + 2000, EndedAt: Start + 2000, Outcome: queue.OutcomeRetryable, Error: failure(503, "third")},
		})
		e.same("order of death", e.deadIDs(queue.Selector{}), []string{"b", "a"})
	},
	"a redriven job that dies unstarted says so, and for which redrive": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), "a")
		e.release("r1", everything())
		e.clock.Advance(600_000)
		e.claimBehind(0, "queue is suspended")
		j := e.job("a")
		if j.Reason != queue.ReasonDeadlineExceeded || j.Attempts != 0 || j.LastError.Kind != queue.KindNeverStarted || len(j.History) != 2 {
			t.Fatalf("job %+v", j)
		}
		if h := j.History[1]; h.Attempt != 0 || h.Redrive != "r1" {
			t.Errorf("history %+v", h)
		}
		e.wantProgress("r1", queue.RedriveProgress{Released: 1, DiedAgain: 1})
	},
	"a fresh budget starts a fresh backoff": func(t *testing.T, e *env) {
		e.policy.MaxAttempts = 4
		e.policy.Backoff = queue.Backoff{Base: 100, Cap: 10_000, Jitter: queue.JitterDecorrelated}
		e.acceptIDs("a")
		e.wantDelays("a", retryable(503, "busy"), 200, 350, 575)
		e.settle(e.lease("a"), retryable(503, "busy"))
		e.release("r1", everything())
		e.wantDelays("a", retryable(503, "busy"), 200)
	},
	"accepting a released job again finds it living, with the budget of the redrive": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), "a")
		e.release("r1", everything())
		e.wantKnownUnchanged("a")
		e.wantConflict([]int{0}, withPayload("a", "other"))
		e.settle(e.lease("a"), succeeded())
		e.wantKnownUnchanged("a")
	},
	"a released job is not purged": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), "a")
		e.release("r1", everything())
		if n := e.purge(ids("a")); n != 0 {
			t.Errorf("purged %d", n)
		}
		e.wantState(queue.Pending, "a")
	},
	"no job is redriven more often than its cap": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), "a")
		for _, uid := range []string{"r1", "r2", "r3"} {
			e.release(uid, everything())
			e.settle(e.lease("a"), permanent(422, "again"))
		}
		r := e.plan(spec("r4", everything()))
		if r.Summary.Selected != 0 || r.Summary.Skipped["RedriveLimit"] != 1 {
			t.Errorf("summary %+v", r.Summary)
		}
	},
	"two plans made before either ran do not take a job over its cap": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), "a")
		s1, s2 := spec("r1", everything()), spec("r2", everything())
		s1.MaxRedrives, s2.MaxRedrives = 1, 1
		e.plan(s1)
		e.plan(s2)
		e.permit(e.redrive("r1"), 60_000)
		e.advanceRedrives("")
		e.settle(e.lease("a"), permanent(422, "again"))
		r := e.finish("r2")
		if j := e.job("a"); j.Redrives != 1 || r.Progress.Gone != 1 {
			t.Errorf("redrives %d, progress %+v", j.Redrives, r.Progress)
		}
	},
}
