package storetest

import (
	"errors"
	"testing"

	"github.com/retryqueue/retryqueue/internal/queue"
)

var purgeRules = rules{
	"an empty selector is refused and deletes nothing": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), "a")
		var invalid *queue.InvalidError
		if _, err := e.s.Purge(t.Context(), e.policy, queue.Selector{}); !errors.As(err, &invalid) {
			t.Errorf("Purge: %v, want an InvalidError", err)
		}
		e.wantState(queue.Dead, "a")
	},
	"the selected dead jobs are gone and counted, the others stay": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), "a", "b")
		e.die(permanent(404, "x"), "c")
		if n := e.purge(queue.Selector{HTTPStatuses: []string{"422"}}); n != 2 {
			t.Errorf("purged %d, want 2", n)
		}
		e.wantUnknown("a", "b")
		e.same("left", e.deadIDs(queue.Selector{}), []string{"c"})
		e.wantCounts(0, 0, 0, 1)
		if n := e.purge(queue.Selector{HTTPStatuses: []string{"422"}}); n != 0 {
			t.Errorf("purged %d again", n)
		}
	},
	"only dead jobs are purged": func(t *testing.T, e *env) {
		e.acceptIDs("done")
		e.settle(e.lease("done"), succeeded())
		e.acceptIDs("leased")
		l := e.lease("leased")
		e.acceptIDs("pending")
		if n := e.purge(ids("done", "leased", "pending", "nobody")); n != 0 {
			t.Errorf("purged %d", n)
		}
		e.wantCounts(1, 1, 1, 0)
		e.settle(l, succeeded())
	},
	"a purge is no way to a fresh budget: the id is remembered for the dedupe window": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), "a")
		e.purge(ids("a"))
		e.wantRemembered("a")
		e.restart()
		e.wantRemembered("a")
		e.clock.Advance(e.policy.DedupeWindow - 1)
		e.sweepAll()
		e.wantRemembered("a")
		e.clock.Advance(2)
		e.sweepAll()
		if e.accept(newJob("a"))[0].Known {
			t.Error("the id is still remembered after the dedupe window")
		}
		e.lease("a")
	},
	"many are purged in one call": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), names("d", 500)...)
		e.die(permanent(404, "x"), "kept")
		if n := e.purge(queue.Selector{HTTPStatuses: []string{"422"}}); n != 500 {
			t.Errorf("purged %d, want 500", n)
		}
		e.wantCounts(0, 0, 0, 1)
	},
}

var sweepRules = rules{
	"a succeeded id is remembered for the dedupe window and then forgotten": func(t *testing.T, e *env) {
		e.acceptIDs("a")
		e.settle(e.lease("a"), succeeded())
		e.clock.Advance(e.policy.DedupeWindow - 1)
		if s := e.sweepAll(); s.Forgotten != 0 {
			t.Errorf("swept %+v within the window", s)
		}
		e.wantKnownUnchanged("a")
		e.clock.Advance(2)
		if s := e.sweepAll(); s.Forgotten != 1 || s.Expired != 0 {
			t.Errorf("swept %+v", s)
		}
		e.wantUnknown("a")
		e.wantCounts(0, 0, 0, 0)
		if e.accept(withPayload("a", "other content"))[0].Known {
			t.Error("a forgotten id is known")
		}
	},
	"the dedupe window counts from the end of the job, not from its acceptance": func(t *testing.T, e *env) {
		e.acceptIDs("a")
		e.clock.Advance(e.policy.DedupeWindow)
		e.settle(e.lease("a"), succeeded())
		e.clock.Advance(e.policy.DedupeWindow - 1)
		e.sweepAll()
		e.wantState(queue.Succeeded, "a")
	},
	"living and dead jobs are never forgotten": func(t *testing.T, e *env) {
		e.policy.Deadline *= 100
		e.die(permanent(422, "x"), "dead")
		e.acceptIDs("pending")
		e.clock.Advance(e.policy.DedupeWindow * 10)
		if s := e.sweepAll(); s != (queue.Swept{}) {
			t.Errorf("swept %+v", s)
		}
		e.wantState(queue.Pending, "pending")
		e.wantState(queue.Dead, "dead")
		e.wantKnownUnchanged("dead")
	},
	"without a retention dead jobs are kept": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), "a")
		e.clock.Advance(1 << 40)
		e.sweepAll()
		e.wantState(queue.Dead, "a")
	},
	"dead jobs past the retention expire, and their ids are remembered like purged ones": func(t *testing.T, e *env) {
		e.policy.Retention = 86_400_000
		e.die(permanent(422, "x"), "old")
		e.clock.Advance(e.policy.Retention - 1)
		e.die(permanent(422, "x"), "young")
		if s := e.sweepAll(); s.Expired != 0 {
			t.Errorf("swept %+v before the retention was over", s)
		}
		e.clock.Advance(2)
		if s := e.sweepAll(); s.Expired != 1 {
			t.Errorf("swept %+v", s)
		}
		e.wantUnknown("old")
		e.wantState(queue.Dead, "young")
		e.wantRemembered("old")
		e.wantCounts(0, 0, 0, 1)
		e.clock.Advance(e.policy.DedupeWindow + 1)
		e.sweepAll()
		if e.acceptIDs("old")[0].Known {
			t.Error("still remembered after the dedupe window")
		}
	},
	"a sweep is bounded": func(t *testing.T, e *env) {
		e.acceptIDs(names("done", 25)...)
		e.settleAll(e.claim(25), succeeded())
		e.policy.Retention = e.policy.DedupeWindow
		e.die(permanent(422, "x"), names("dead", 25)...)
		e.clock.Advance(e.policy.DedupeWindow + 1)
		if s := e.sweep(10); s.Forgotten > 10 || s.Expired > 10 || s.Forgotten+s.Expired == 0 {
			t.Errorf("swept %+v, limit 10", s)
		}
		e.sweepAll()
		e.wantCounts(0, 0, 0, 0)
	},
}

// wantRemembered checks that a purged id is known, and that accepting it again stores and starts nothing.
func (e *env) wantRemembered(id string) {
	e.t.Helper()
	before := e.stats()
	got := e.accept(newJob(id))[0]
	if !got.Known || got.Job.ID != id {
		e.t.Errorf("accepting %s again: known %v, job %+v", id, got.Known, got.Job)
	}
	e.wantConflict([]int{0}, withPayload(id, "other content"))
	if c := e.claim(1); len(c.Leases) != 0 {
		e.t.Errorf("claimed %v after accepting a purged id", leaseIDs(c))
	}
	e.same("stats", e.stats(), before)
}

// sweepAll sweeps until nothing is left to sweep and returns the sum.
func (e *env) sweepAll() queue.Swept {
	e.t.Helper()
	var sum queue.Swept
	for {
		s := e.sweep(100)
		if s == (queue.Swept{}) {
			return sum
		}
		sum.Forgotten += s.Forgotten
		sum.Expired += s.Expired
	}
}
