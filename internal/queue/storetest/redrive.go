package storetest

import (
	"errors"
	"slices"
	"testing"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// tick is how often the maintenance owner advances redrives.
const tick = queue.Millis(100)

// spec is a redrive of sel at ten jobs a second, without canary and without a reachable abort.
func spec(uid string, sel queue.Selector) queue.RedriveSpec {
	return queue.RedriveSpec{
		UID: uid, Name: "name-" + uid, SpecDigest: "digest-" + uid, QueueUID: "queue-uid",
		Selector: sel, Limit: 1000,
		Rate:           queue.Rate{Jobs: 10, Per: 1000, Burst: 5},
		Budget:         queue.RedriveBudget{MaxAttempts: 2, Deadline: 600_000},
		Abort:          queue.Abort{MaxFailurePercent: 100, MinJobs: 1000},
		MaxOutstanding: 1000, MaxRedrives: 3, TargetDigest: "target",
	}
}

func (e *env) plan(r queue.RedriveSpec) queue.Redrive {
	e.t.Helper()
	got, err := e.s.PlanRedrive(e.t.Context(), r)
	e.must(err)
	e.checkProgress(got)
	return got
}

func (e *env) permit(r queue.Redrive, d queue.Millis) queue.Redrive {
	e.t.Helper()
	got, err := e.s.PermitRedrive(e.t.Context(), queue.RedrivePermit{UID: r.UID, Hash: r.Summary.Hash, For: d})
	e.must(err)
	e.checkProgress(got)
	return got
}

func (e *env) cancel(uid string) queue.Redrive {
	e.t.Helper()
	got, err := e.s.CancelRedrive(e.t.Context(), uid)
	e.must(err)
	e.checkProgress(got)
	return got
}

func (e *env) redrive(uid string) queue.Redrive {
	e.t.Helper()
	got, err := e.s.Redrive(e.t.Context(), uid)
	e.must(err)
	e.checkProgress(got)
	return got
}

func (e *env) advanceRedrives(obstacle queue.HeldReason) int {
	e.t.Helper()
	n, err := e.s.AdvanceRedrives(e.t.Context(), e.policy, obstacle)
	e.must(err)
	return n
}

// checkProgress checks the two identities of RedriveProgress.
func (e *env) checkProgress(r queue.Redrive) {
	e.t.Helper()
	p := r.Progress
	if p.Released != p.Delivered+p.DiedAgain+p.Outstanding || r.Summary.Selected != p.Released+p.Gone+p.Remaining || p.Failing > p.Outstanding {
		e.t.Errorf("redrive %s: the counts do not add up: selected %d, %+v", r.UID, r.Summary.Selected, p)
	}
}

func (e *env) wantProgress(uid string, want queue.RedriveProgress) {
	e.t.Helper()
	e.same("progress of "+uid, e.redrive(uid).Progress, want)
}

func (e *env) wantRedriveState(uid string, state queue.RedriveState, held queue.HeldReason) queue.Redrive {
	e.t.Helper()
	r := e.redrive(uid)
	if r.State != state || r.Held != held {
		e.t.Fatalf("redrive %s is %s, held %q, want %s, held %q (%+v)", uid, r.State, r.Held, state, held, r.Progress)
	}
	return r
}

func wantRedriveError(t *testing.T, err error, reason string) {
	t.Helper()
	var re *queue.RedriveError
	if !errors.As(err, &re) || re.Reason != reason {
		t.Errorf("error %v, want a RedriveError with reason %s", err, reason)
	}
}

// release plans a redrive of the few jobs of sel and releases them at once; they are due now.
func (e *env) release(uid string, sel queue.Selector) queue.Redrive {
	e.t.Helper()
	r := e.permit(e.plan(spec(uid, sel)), 60_000)
	if n := e.advanceRedrives(""); int64(n) != r.Summary.Selected || n == 0 {
		e.t.Fatalf("released %d of %d", n, r.Summary.Selected)
	}
	return e.redrive(uid)
}

// finish renews the permission, advances, delivers everything and lets time pass until uid is finished.
func (e *env) finish(uid string) queue.Redrive {
	e.t.Helper()
	for range 3000 {
		r := e.permit(e.redrive(uid), 60_000)
		if r.State.Finished() {
			return r
		}
		e.advanceRedrives("")
		e.settleAll(e.claim(100), succeeded())
		e.clock.Advance(tick)
	}
	e.t.Fatalf("redrive %s does not finish: %+v", uid, e.redrive(uid))
	return queue.Redrive{}
}

// run ticks n times: it renews the permission, advances, claims what is due and hands it to settle.
func (e *env) run(uid string, n int, settle func(queue.Claimed)) {
	e.t.Helper()
	for range n {
		e.permit(e.redrive(uid), 60_000)
		e.advanceRedrives("")
		settle(e.claim(100))
		e.clock.Advance(tick)
	}
}

// watcher sees which of the jobs that were dead have been released, and for when.
type watcher struct {
	e    *env
	dead []string
	at   map[string]queue.Time
}

func (e *env) watch() *watcher {
	e.t.Helper()
	return &watcher{e: e, dead: e.deadIDs(queue.Selector{}), at: map[string]queue.Time{}}
}

// look notes what was released since the last look, which must be before the next claim, and returns it.
func (w *watcher) look() []string {
	w.e.t.Helper()
	var fresh []string
	still := w.e.deadIDs(queue.Selector{})
	for _, id := range w.dead {
		if !slices.Contains(still, id) {
			w.at[id] = w.e.job(id).AvailableAt
			fresh = append(fresh, id)
		}
	}
	w.dead = still
	return fresh
}

func (w *watcher) times() []queue.Time {
	var ts []queue.Time
	for _, t := range w.at {
		ts = append(ts, t)
	}
	return ts
}

// wantPace checks that no window of one second holds more than rate + burst of the instants.
func wantPace(t failer, what string, rate queue.Rate, at []queue.Time) {
	t.Helper()
	at = slices.Sorted(slices.Values(at))
	most := int(rate.Jobs*1000/int64(rate.Per)) + int(rate.Burst)
	for i, first := 0, 0; i < len(at); i++ {
		for at[i]-at[first] >= 1000 {
			first++
		}
		if n := i - first + 1; n > most {
			t.Fatalf("%d %s within the second from +%d ms, at most %d are allowed", n, what, at[first]-Start, most)
		}
	}
}
