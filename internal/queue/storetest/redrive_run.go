package storetest

import (
	"testing"

	"github.com/retryqueue/retryqueue/internal/queue"
)

var runRules = rules{
	"nothing is released without a permission": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), "a")
		e.plan(spec("r1", everything()))
		for range 20 {
			if n := e.advanceRedrives(""); n != 0 {
				t.Fatalf("released %d", n)
			}
			e.clock.Advance(tick)
		}
		e.wantState(queue.Dead, "a")
		e.wantRedriveState("r1", queue.RedrivePlanned, e.redrive("r1").Held)
	},
	"a policy that has become stricter since the plan bounds the budget of what is released": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), "a")
		r := e.plan(spec("r1", everything()))
		e.policy.MaxAttempts, e.policy.Deadline = 1, 60_000
		e.permit(r, 60_000)
		e.advanceRedrives("")
		if j := e.job("a"); j.State != queue.Pending || j.MaxAttempts != 1 || j.Deadline.Sub(j.AvailableAt) != 60_000 {
			t.Errorf("released with %d attempts and %s", j.MaxAttempts, j.Deadline.Sub(j.AvailableAt))
		}
	},
	"a permission for another plan is refused and releases nothing": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), "a")
		e.plan(spec("r1", everything()))
		for _, hash := range []string{"", "sha256:0", e.plan(spec("r2", everything())).Summary.Hash} {
			_, err := e.s.PermitRedrive(t.Context(), queue.RedrivePermit{UID: "r1", Hash: hash, For: 60_000})
			wantRedriveError(t, err, queue.RedriveHashMismatch)
		}
		e.advanceRedrives("")
		e.wantState(queue.Dead, "a")
		if r := e.redrive("r1"); r.State != queue.RedrivePlanned || r.RunUntil != 0 {
			t.Errorf("redrive %+v", r)
		}
	},
	"a permitted redrive runs until its permission ends": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), names("d", 100)...)
		r := e.permit(e.plan(spec("r1", everything())), 1000)
		if r.State != queue.RedriveRunning || r.RunUntil != Start+1000 {
			t.Errorf("redrive is %s until +%d", r.State, r.RunUntil-Start)
		}
		for range 30 {
			now := e.clock.Now()
			n := e.advanceRedrives("")
			if now >= Start+1000 && n != 0 {
				t.Fatalf("released %d at +%d", n, now-Start)
			}
			if now < Start+1000 && n == 0 && now == Start {
				t.Fatal("released nothing at once")
			}
			e.settleAll(e.claim(100), succeeded())
			e.clock.Advance(tick)
		}
		got := e.wantRedriveState("r1", queue.RedriveRunning, queue.HeldNoPermission)
		if got.Progress.Released < 10 || got.Progress.Released > 16 || got.StartedAt != Start {
			t.Errorf("redrive %+v", got)
		}
		e.finish("r1")
	},
	"a permission of nothing withdraws at once, and another resumes": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), names("d", 20)...)
		r := e.permit(e.plan(spec("r1", everything())), 60_000)
		e.advanceRedrives("")
		before := e.redrive("r1").Progress.Released
		e.permit(r, 0)
		for range 10 {
			e.settleAll(e.claim(100), succeeded())
			e.clock.Advance(tick)
			e.advanceRedrives("")
		}
		got := e.wantRedriveState("r1", queue.RedriveRunning, queue.HeldNoPermission)
		if got.Progress.Released != before {
			t.Errorf("released %d, then %d without permission", before, got.Progress.Released)
		}
		if got := e.finish("r1"); got.State != queue.RedriveComplete {
			t.Errorf("redrive is %s", got.State)
		}
	},
	"a permission lasts a minute at most": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), "a")
		r := e.plan(spec("r1", everything()))
		for _, d := range []queue.Millis{60_001, 1 << 60, -1} {
			got, err := e.s.PermitRedrive(t.Context(), queue.RedrivePermit{UID: "r1", Hash: r.Summary.Hash, For: d})
			if err == nil && got.RunUntil > Start+60_000 {
				t.Errorf("permitted for %d ms until %v", d, got.RunUntil)
			}
		}
	},
	"a released job is pending on its slot with the redrive's fresh budget and its old identity": func(t *testing.T, e *env) {
		nj := newJob("a")
		nj.Headers = []queue.Header{{Name: "X-Trace", Value: "t"}}
		e.accept(nj)
		e.killPending(permanent(422, "x"), 1)
		dead := e.job("a")
		e.clock.Advance(5000)
		r := e.plan(spec("r1", everything()))
		e.permit(r, 60_000)
		if n := e.advanceRedrives(""); n != 1 {
			t.Fatalf("released %d", n)
		}
		now := e.clock.Now()
		e.same("released job", e.job("a"), queue.Job{
			ID: "a", Queue: dead.Queue, State: queue.Pending, Attempts: 0, MaxAttempts: 2,
			AvailableAt: now, Deadline: now + 600_000, FirstReceivedAt: Start, FirstFailedAt: Start,
			LastError: dead.LastError, History: dead.History, Redrives: 1, RedriveUID: "r1",
			ContentType: nj.ContentType, Headers: nj.Headers, Payload: nj.Payload,
		})
		l := e.lease("a")
		if l.Job.Attempts != 1 || l.Job.RedriveUID != "r1" || l.Job.Redrives != 1 {
			t.Errorf("leased job %+v", l.Job)
		}
	},
	"the deadline of a released job counts from its own slot": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), names("d", 10)...)
		r := e.plan(spec("r1", everything()))
		w := e.watch()
		for range 20 {
			e.permit(r, 60_000)
			e.advanceRedrives("")
			for _, id := range w.look() {
				if j := e.job(id); j.Deadline != j.AvailableAt+600_000 || j.AvailableAt < e.clock.Now() || j.AvailableAt > e.clock.Now().Add(tick) {
					t.Errorf("%s: available +%d, deadline %d after it", id, j.AvailableAt-e.clock.Now(), j.Deadline-j.AvailableAt)
				}
			}
			e.settleAll(e.claim(100), succeeded())
			e.clock.Advance(tick)
		}
		if len(w.at) != 10 {
			t.Errorf("released %d", len(w.at))
		}
	},
	"jobs are released in order of death": func(t *testing.T, e *env) {
		for _, id := range []string{"z", "m", "a", "q", "b", "y", "c"} {
			e.die(permanent(422, "x"), id)
		}
		s := spec("r1", everything())
		s.Rate = queue.Rate{Jobs: 1, Per: 1000, Burst: 2}
		e.plan(s)
		w := e.watch()
		var order []string
		e.run("r1", 100, func(c queue.Claimed) { order = append(order, leaseIDs(c)...); w.look(); e.settleAll(c, succeeded()) })
		if len(order) != 7 {
			t.Fatalf("released %v", order)
		}
		e.same("order but for the first burst", order[2:], []string{"a", "q", "b", "y", "c"})
	},
	"a finished redrive is returned unchanged, whatever is asked of it": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), "a")
		e.plan(spec("r1", everything()))
		done := e.finish("r1")
		if done.State != queue.RedriveComplete || done.FinishedAt == 0 || done.Held != "" {
			t.Fatalf("redrive %+v", done)
		}
		e.clock.Advance(1000)
		again := e.permit(done, 60_000)
		cancelled := e.cancel("r1")
		for what, got := range map[string]queue.Redrive{"permitted": again, "cancelled": cancelled} {
			got.Now = done.Now
			e.same(what, got, done)
		}
		if n := e.advanceRedrives(""); n != 0 {
			t.Errorf("released %d", n)
		}
	},
	"a plan of nothing completes": func(t *testing.T, e *env) {
		r := e.plan(spec("r1", everything()))
		if r.Summary.Selected != 0 {
			t.Fatalf("selected %d", r.Summary.Selected)
		}
		if got := e.finish("r1"); got.State != queue.RedriveComplete {
			t.Errorf("redrive is %s", got.State)
		}
	},
	"cancel is for good: what was not released stays dead, what was released goes on": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), names("d", 20)...)
		r := e.permit(e.plan(spec("r1", everything())), 60_000)
		n := e.advanceRedrives("")
		got := e.cancel("r1")
		if got.State != queue.RedriveCancelled || got.FinishedAt == 0 {
			t.Errorf("redrive %+v", got)
		}
		e.permit(r, 60_000)
		for range 20 {
			if n := e.advanceRedrives(""); n != 0 {
				t.Fatalf("released %d after cancel", n)
			}
			e.clock.Advance(tick)
		}
		e.wantCounts(int64(n), 0, 0, int64(20-n))
		e.settleAll(e.claim(100), succeeded())
		if got := e.cancel("r1"); got.State != queue.RedriveCancelled {
			t.Errorf("then %s", got.State)
		}
	},
	"a plan that was cancelled before it ran never runs": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), "a")
		r := e.plan(spec("r1", everything()))
		e.cancel("r1")
		e.restart()
		if got := e.permit(r, 60_000); got.State != queue.RedriveCancelled {
			t.Errorf("redrive is %s", got.State)
		}
		e.advanceRedrives("")
		e.wantState(queue.Dead, "a")
	},
	"the same name and spec under another uid has run already": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), "a")
		s := spec("r1", everything())
		e.plan(s)
		e.finish("r1")
		e.die(permanent(422, "x"), "b")
		again := s
		again.UID = "r2"
		_, err := e.s.PlanRedrive(t.Context(), again)
		wantRedriveError(t, err, queue.RedriveAlreadyExecuted)
		e.restart()
		_, err = e.s.PlanRedrive(t.Context(), again)
		wantRedriveError(t, err, queue.RedriveAlreadyExecuted)
		e.plan(s) // its own uid is answered
		otherName, otherSpec := again, again
		otherName.UID, otherName.Name = "r3", "other"
		otherSpec.UID, otherSpec.SpecDigest = "r4", "other"
		e.plan(otherName)
		e.plan(otherSpec)
	},
	"a plan that never released anything does not stand in the way of its like": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), "a")
		s := spec("r1", everything())
		e.plan(s)
		e.cancel("r1")
		s.UID = "r2"
		e.plan(s)
		e.finish("r2")
		e.wantState(queue.Succeeded, "a")
	},
	"a suspended queue holds a redrive": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), "a")
		e.permit(e.plan(spec("r1", everything())), 60_000)
		for _, why := range []queue.HeldReason{queue.HeldQueueSuspended, queue.HeldBreakerOpen} {
			if n := e.advanceRedrives(why); n != 0 {
				t.Errorf("released %d", n)
			}
			e.wantRedriveState("r1", queue.RedriveRunning, why)
		}
		e.clock.Advance(tick)
		if n := e.advanceRedrives(""); n != 1 {
			t.Errorf("then released %d", n)
		}
	},
	"released jobs that no worker takes hold the redrive at its burst": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), names("d", 50)...)
		r := e.plan(spec("r1", everything()))
		for range 50 {
			e.permit(r, 60_000)
			e.advanceRedrives("")
			e.clock.Advance(tick)
		}
		got := e.wantRedriveState("r1", queue.RedriveRunning, queue.HeldUnstarted)
		if got.Progress.Released != 5 {
			t.Errorf("released %d, burst 5", got.Progress.Released)
		}
	},
	"jobs released and unfinished never exceed maxOutstanding": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), names("d", 50)...)
		s := spec("r1", everything())
		s.MaxOutstanding = 7
		e.plan(s)
		e.run("r1", 50, func(queue.Claimed) {
			if p := e.redrive("r1").Progress; p.Outstanding > 7 {
				t.Fatalf("outstanding %d", p.Outstanding)
			}
		})
		e.wantRedriveState("r1", queue.RedriveRunning, queue.HeldOutstanding)
		e.wantProgress("r1", queue.RedriveProgress{Released: 7, Outstanding: 7, Remaining: 43})
		e.clock.Advance(e.policy.Lease())
		e.reap(100)
		e.finish("r1")
	},
	"two redrives run side by side, each over its own jobs": func(t *testing.T, e *env) {
		e.die(permanent(404, "x"), names("a", 10)...)
		e.die(permanent(422, "x"), names("b", 10)...)
		e.plan(spec("r1", queue.Selector{HTTPStatuses: []string{"404"}}))
		e.plan(spec("r2", queue.Selector{HTTPStatuses: []string{"422"}}))
		for range 600 {
			e.permit(e.redrive("r1"), 60_000)
			e.permit(e.redrive("r2"), 60_000)
			e.advanceRedrives("")
			e.settleAll(e.claim(100), succeeded())
			e.clock.Advance(tick)
		}
		for _, uid := range []string{"r1", "r2"} {
			if r := e.redrive(uid); r.State != queue.RedriveComplete || r.Progress.Delivered != 10 {
				t.Errorf("%s is %s, %+v", uid, r.State, r.Progress)
			}
		}
	},
}
