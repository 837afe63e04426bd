package storetest

import (
	"testing"

	"github.com/retryqueue/retryqueue/internal/queue"
)

var statsRules = rules{
	"an empty queue counts nothing": func(t *testing.T, e *env) {
		e.same("stats", e.stats(), queue.Stats{Now: Start})
	},
	"stats follow a job through its whole life": func(t *testing.T, e *env) {
		nj := newJob("a")
		nj.Delay = 1000
		size := int64(len(nj.Payload))
		step := func(what string, want queue.Stats) {
			t.Helper()
			want.Now = e.clock.Now()
			got := e.stats()
			got.Bytes, want.Bytes = min(got.Bytes, size), min(want.Bytes, size)
			e.same(what, got, want)
		}
		e.accept(nj)
		step("delayed", queue.Stats{Pending: 1, Bytes: size, OldestPendingAt: Start + 1000, NextDueAt: Start + 1000})
		e.clock.Advance(1000)
		got := e.stats()
		if got.Pending != 1 || got.Due != 1 || got.OldestPendingAt != Start+1000 {
			t.Errorf("due: %+v", got)
		}
		l := e.lease("a")
		step("leased", queue.Stats{Leased: 1, Bytes: size})
		e.settle(l, retryable(503, "busy"))
		step("retried", queue.Stats{Pending: 1, Bytes: size, OldestPendingAt: Start + 1050, NextDueAt: Start + 1050})
		e.clock.Advance(50)
		e.settle(e.lease("a"), permanent(422, "x"))
		step("dead", queue.Stats{Dead: 1, Bytes: size, OldestDeadAt: Start + 1050})
		e.release("r1", ids("a"))
		if got := e.stats(); got.Pending != 1 || got.Dead != 0 || got.OldestDeadAt != 0 {
			t.Errorf("released: %+v", got)
		}
		e.settle(e.lease("a"), succeeded())
		step("succeeded", queue.Stats{Succeeded: 1})
		e.clock.Advance(e.policy.DedupeWindow + 1)
		e.sweepAll()
		step("forgotten", queue.Stats{})
	},
	"due counts what could start now": func(t *testing.T, e *env) {
		jobs := newJobs(names("j", 10)...)
		for i := range jobs {
			jobs[i].Delay = queue.Millis(i) * 100
		}
		e.accept(jobs...)
		e.clock.Advance(450)
		got := e.stats()
		if got.Due != 5 || got.Pending != 10 || got.OldestPendingAt != Start {
			t.Errorf("stats %+v", got)
		}
	},
	"the oldest death is that of the oldest job still dead": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), "a")
		e.clock.Advance(10)
		e.die(permanent(422, "x"), "b")
		if got := e.stats().OldestDeadAt; got != Start {
			t.Errorf("oldest death at +%d", got-Start)
		}
		e.purge(ids("a"))
		if got := e.stats().OldestDeadAt; got != Start+10 {
			t.Errorf("oldest death at +%d after a purge, want +10", got-Start)
		}
	},
	"counts survive a restart": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), "dead")
		e.acceptIDs("done")
		e.settle(e.lease("done"), succeeded())
		e.acceptIDs("a", "b", "c")
		e.claim(1)
		before := e.stats()
		e.restart()
		e.same("stats", e.stats(), before)
	},
}
