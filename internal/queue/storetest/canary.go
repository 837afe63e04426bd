package storetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// withCanary plans a redrive of everything with a canary of four jobs, of which one may die.
func (e *env) withCanary(uid string) queue.Redrive {
	e.t.Helper()
	s := spec(uid, everything())
	s.Canary = queue.Canary{Jobs: 4, MaxFailurePercent: 25, Timeout: 30_000}
	return e.plan(s)
}

var canaryRules = rules{
	"nothing beyond the canary is released while it is on its way": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), names("d", 20)...)
		e.withCanary("r1")
		e.run("r1", 50, func(queue.Claimed) {})
		e.wantRedriveState("r1", queue.RedriveRunning, queue.HeldCanary)
		e.wantProgress("r1", queue.RedriveProgress{Released: 4, Outstanding: 4, Remaining: 16})
	},
	"the canary passes as soon as enough are delivered, the rest follows": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), names("d", 20)...)
		e.withCanary("r1")
		got := e.canaryLeases("r1")
		e.settle(got[0], succeeded())
		e.settle(got[1], succeeded())
		e.advanceRedrives("")
		e.wantRedriveState("r1", queue.RedriveRunning, queue.HeldCanary)
		e.settle(got[2], succeeded())
		e.clock.Advance(1000)
		if n := e.advanceRedrives(""); n == 0 {
			t.Errorf("released nothing after the canary passed: %+v", e.redrive("r1"))
		}
		e.settle(got[3], permanent(422, "again"))
		if r := e.finish("r1"); r.State != queue.RedriveComplete || r.Progress.Delivered != 19 {
			t.Errorf("redrive is %s, %+v", r.State, r.Progress)
		}
	},
	"the canary fails as soon as too many died: aborted, the rest stays dead": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), names("d", 20)...)
		e.withCanary("r1")
		got := e.canaryLeases("r1")
		e.settle(got[0], permanent(422, "again"))
		e.advanceRedrives("")
		e.wantRedriveState("r1", queue.RedriveRunning, queue.HeldCanary)
		e.settle(got[1], permanent(422, "again"))
		e.clock.Advance(tick)
		e.advanceRedrives("")
		r := e.wantRedriveState("r1", queue.RedriveAborted, "")
		if r.FinishedAt == 0 || r.Message == "" || r.Progress.Remaining != 16 {
			t.Errorf("redrive %+v", r)
		}
		e.settle(got[2], succeeded())
		e.settle(got[3], succeeded())
		e.permit(r, 60_000)
		e.clock.Advance(5000)
		if n := e.advanceRedrives(""); n != 0 {
			t.Errorf("released %d after the abort", n)
		}
		e.wantCounts(0, 0, 2, 18)
	},
	"a failed attempt of a canary job decides nothing": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), names("d", 20)...)
		e.withCanary("r1")
		for _, l := range e.canaryLeases("r1") {
			e.settle(l, retryable(503, "busy"))
		}
		e.advanceRedrives("")
		if r := e.redrive("r1"); r.State != queue.RedriveRunning || r.Progress.Released != 4 || r.Progress.Failing != 4 {
			t.Errorf("redrive is %s, %+v", r.State, r.Progress)
		}
		e.finish("r1")
	},
	"an undecided canary waits for a person, who resumes by suspending first": func(t *testing.T, e *env) {
		e.policy.AttemptTimeout = 600_000
		e.die(permanent(422, "x"), names("d", 20)...)
		r := e.withCanary("r1")
		got := e.canaryLeases("r1")
		e.letPass("r1", 29_000, "")
		e.wantRedriveState("r1", queue.RedriveRunning, queue.HeldCanary)
		e.letPass("r1", 3_000, "")
		e.wantRedriveState("r1", queue.RedriveRunning, queue.HeldCanaryInconclusive)
		e.letPass("r1", 60_000, "")
		e.wantRedriveState("r1", queue.RedriveRunning, queue.HeldCanaryInconclusive)
		e.permit(r, 0)
		e.clock.Advance(tick)
		e.advanceRedrives("")
		e.letPass("r1", 28_000, "")
		e.wantRedriveState("r1", queue.RedriveRunning, queue.HeldCanary)
		for _, l := range got[:3] {
			e.settle(l, succeeded())
		}
		e.letPass("r1", 1_000, "")
		if p := e.redrive("r1").Progress; p.Released <= 4 {
			t.Errorf("progress %+v after the canary passed", p)
		}
	},
	"an undecided canary that is resumed has its timeout again": func(t *testing.T, e *env) {
		e.policy.AttemptTimeout = 600_000
		e.die(permanent(422, "x"), names("d", 20)...)
		r := e.withCanary("r1")
		e.canaryLeases("r1")
		e.letPass("r1", 32_000, "")
		e.wantRedriveState("r1", queue.RedriveRunning, queue.HeldCanaryInconclusive)
		e.permit(r, 0)
		e.letPass("r1", 32_000, "")
		e.wantRedriveState("r1", queue.RedriveRunning, queue.HeldCanaryInconclusive)
	},
	"time with the breaker open does not count for the canary's timeout": func(t *testing.T, e *env) {
		e.policy.AttemptTimeout = 600_000
		e.die(permanent(422, "x"), names("d", 20)...)
		e.withCanary("r1")
		e.canaryLeases("r1")
		e.letPass("r1", 120_000, queue.HeldBreakerOpen)
		e.letPass("r1", 20_000, "")
		e.wantRedriveState("r1", queue.RedriveRunning, queue.HeldCanary)
	},
	"the canary is spread over the causes, the longest dead of each first": func(t *testing.T, e *env) {
		for i, cause := range []string{"alpha is broken", "beta is broken", "gamma is broken"} {
			e.die(permanent(422, cause), names(fmt.Sprint("cause-", i), 10)...)
		}
		s := spec("r1", everything())
		s.Canary = queue.Canary{Jobs: 6, MaxFailurePercent: 0, Timeout: 120_000}
		e.plan(s)
		w := e.watch()
		e.run("r1", 20, func(queue.Claimed) { w.look() })
		byCause := map[string]int{}
		for id := range w.at {
			byCause[e.job(id).LastError.Message]++
			if !slices.Contains([]string{"cause-0-000", "cause-0-001", "cause-1-000", "cause-1-001", "cause-2-000", "cause-2-001"}, id) {
				t.Errorf("%s is in the canary", id)
			}
		}
		e.same("canary by cause", byCause, map[string]int{"alpha is broken": 2, "beta is broken": 2, "gamma is broken": 2})
	},
	"a canary of more jobs than the plan has is the plan": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), "a", "b")
		e.withCanary("r1")
		if r := e.finish("r1"); r.State != queue.RedriveComplete || r.Progress.Delivered != 2 {
			t.Errorf("redrive is %s, %+v", r.State, r.Progress)
		}
	},
	"a canary job that is gone shrinks the canary": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), names("d", 20)...)
		e.withCanary("r1")
		e.purge(ids("d-000", "d-001", "d-002"))
		if r := e.finish("r1"); r.State != queue.RedriveComplete || r.Progress.Delivered != 17 || r.Progress.Gone != 3 {
			t.Errorf("redrive is %s, %+v", r.State, r.Progress)
		}
	},
	"too many dead again abort the redrive": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), names("d", 40)...)
		s := spec("r1", everything())
		s.Abort = queue.Abort{MaxFailurePercent: 20, MinJobs: 5}
		e.plan(s)
		e.run("r1", 30, func(c queue.Claimed) { e.settleAll(c, permanent(422, "again")) })
		r := e.wantRedriveState("r1", queue.RedriveAborted, "")
		if r.Progress.DiedAgain < 5 || r.Progress.DiedAgain > 10 || r.FinishedAt == 0 || r.Message == "" {
			t.Errorf("redrive %+v", r)
		}
		e.wantCounts(0, 0, 0, 40)
	},
	"fewer than the minimum do not abort": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), names("d", 4)...)
		s := spec("r1", everything())
		s.Abort = queue.Abort{MaxFailurePercent: 20, MinJobs: 5}
		e.plan(s)
		e.run("r1", 30, func(c queue.Claimed) { e.settleAll(c, permanent(422, "again")) })
		e.wantRedriveState("r1", queue.RedriveComplete, "")
	},
	"failures at the allowed share go on": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), names("d", 40)...)
		s := spec("r1", everything())
		s.Abort = queue.Abort{MaxFailurePercent: 20, MinJobs: 5}
		e.plan(s)
		n := 0
		e.run("r1", 80, func(c queue.Claimed) {
			for _, l := range c.Leases {
				if n++; n%5 == 0 {
					e.settle(l, permanent(422, "again"))
				} else {
					e.settle(l, succeeded())
				}
			}
		})
		e.wantRedriveState("r1", queue.RedriveComplete, "")
		e.wantProgress("r1", queue.RedriveProgress{Released: 40, Delivered: 32, DiedAgain: 8})
	},
	"too many failing hold the redrive until they are delivered": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), names("d", 40)...)
		s := spec("r1", everything())
		s.Rate.Burst = 10
		e.policy.MaxAttempts, s.Budget.MaxAttempts = 20, 20
		s.Abort = queue.Abort{MaxFailurePercent: 20, MinJobs: 5}
		e.plan(s)
		e.run("r1", 5, func(c queue.Claimed) { e.settleAll(c, retryable(503, "busy")) })
		before := e.redrive("r1").Progress.Released
		e.letPass("r1", 5_000, "")
		r := e.wantRedriveState("r1", queue.RedriveRunning, queue.HeldFailing)
		if r.Progress.Released != before || r.Message == "" {
			t.Errorf("released %d, then %d; message %q", before, r.Progress.Released, r.Message)
		}
		e.settleAll(e.claim(100), succeeded())
		e.letPass("r1", 1_000, "")
		if p := e.redrive("r1").Progress; p.Released <= before {
			t.Errorf("progress %+v after the failing ones were delivered", p)
		}
		e.finish("r1")
	},
}

// canaryLeases runs uid until its four canary jobs are leased.
func (e *env) canaryLeases(uid string) []queue.Lease {
	e.t.Helper()
	var got []queue.Lease
	e.run(uid, 3, func(c queue.Claimed) { got = append(got, c.Leases...) })
	if len(got) != 4 {
		e.t.Fatalf("leased %d canary jobs, want 4: %+v", len(got), e.redrive(uid))
	}
	return got
}

// letPass lets d pass in ticks, renewing the permission and advancing, without any worker.
func (e *env) letPass(uid string, d queue.Millis, obstacle queue.HeldReason) {
	e.t.Helper()
	for ; d > 0; d -= tick {
		e.permit(e.redrive(uid), 60_000)
		e.advanceRedrives(obstacle)
		e.clock.Advance(tick)
	}
}
