package storetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/retryqueue/retryqueue/internal/queue"
)

var settleRules = rules{
	"success leaves a tombstone": func(t *testing.T, e *env) {
		e.acceptIDs("a")
		l := e.lease("a")
		e.clock.Advance(42)
		if s := e.settle(l, succeeded()); len(s.Deaths) != 0 {
			t.Errorf("deaths %v", s.Deaths)
		}
		if j := e.job("a"); j.ID != "a" || j.State != queue.Succeeded || j.FinishedAt != Start+42 {
			t.Errorf("job %+v", j)
		}
		e.wantCounts(0, 0, 1, 0)
	},
	"a late success is a success: a deadline bounds starts": func(t *testing.T, e *env) {
		e.acceptIDs("a")
		e.clock.Advance(e.policy.Deadline - 1)
		l := e.lease("a")
		e.clock.Advance(5000)
		e.settle(l, succeeded())
		e.wantState(queue.Succeeded, "a")
	},
	"a permanent failure is dead at once": func(t *testing.T, e *env) {
		e.acceptIDs("a")
		s := e.settle(e.lease("a"), permanent(422, "invalid"))
		e.same("deaths", s.Deaths, queue.Deaths{queue.ReasonPermanent: 1})
		if j := e.job("a"); j.State != queue.Dead || j.Reason != queue.ReasonPermanent || j.Attempts != 1 {
			t.Errorf("job %+v", j)
		}
	},
	"a retryable failure goes back to pending with its history and its delay": func(t *testing.T, e *env) {
		e.acceptIDs("a")
		e.clock.Advance(10)
		l := e.lease("a")
		e.clock.Advance(20)
		if s := e.settle(l, retryable(503, "busy")); len(s.Deaths) != 0 {
			t.Errorf("deaths %v", s.Deaths)
		}
		j := e.job("a")
		if j.State != queue.Pending || j.Attempts != 1 || j.AvailableAt != Start+30+50 || j.FirstFailedAt != Start+30 || j.Reason != "" {
			t.Errorf("job %+v", j)
		}
		e.same("last error", j.LastError, failure(503, "busy"))
		e.same("history", j.History, []queue.Attempt{
			{Attempt: 1, StartedAt: Start + 10, EndedAt: Start + 30, Outcome: queue.OutcomeRetryable, Error: failure(503, "busy")},
		})
	},
	"the last attempt's failure is Exhausted": func(t *testing.T, e *env) {
		e.acceptIDs("a")
		for range 2 {
			e.settle(e.lease("a"), retryable(503, "busy"))
			e.clock.Advance(1000)
		}
		s := e.settle(e.lease("a"), retryable(503, "busy"))
		e.same("deaths", s.Deaths, queue.Deaths{queue.ReasonExhausted: 1})
		if j := e.job("a"); j.State != queue.Dead || j.Reason != queue.ReasonExhausted || j.Attempts != 3 || len(j.History) != 3 {
			t.Errorf("job %+v", j)
		}
	},
	"Exhausted is tested before DeadlineExceeded": func(t *testing.T, e *env) {
		nj := newJob("a")
		nj.MaxAttempts = 1
		e.accept(nj)
		e.clock.Advance(e.policy.Deadline - 1)
		l := e.lease("a")
		e.clock.Advance(1000)
		e.settle(l, retryable(503, "busy"))
		if j := e.job("a"); j.Reason != queue.ReasonExhausted {
			t.Errorf("died %s", j.Reason)
		}
	},
	"Permanent is tested before Exhausted": func(t *testing.T, e *env) {
		nj := newJob("a")
		nj.MaxAttempts = 1
		e.accept(nj)
		e.settle(e.lease("a"), permanent(422, "invalid"))
		if j := e.job("a"); j.Reason != queue.ReasonPermanent {
			t.Errorf("died %s", j.Reason)
		}
	},
	"a retry that would fall on the deadline is DeadlineExceeded, a millisecond before is not": func(t *testing.T, e *env) {
		for _, deadline := range []queue.Millis{20_050, 20_051} {
			nj := newJob(fmt.Sprint(int64(deadline)))
			nj.Deadline = deadline
			e.accept(nj)
		}
		c := e.claim(2)
		e.clock.Advance(20_000)
		e.settleAll(c, retryable(503, "busy")) // 50 ms of delay
		if j := e.job("20050"); j.State != queue.Dead || j.Reason != queue.ReasonDeadlineExceeded || j.DiedAt != Start+20_000 {
			t.Errorf("on the deadline: %+v", j)
		}
		if j := e.job("20051"); j.State != queue.Pending || j.AvailableAt != Start+20_050 {
			t.Errorf("before the deadline: %+v", j)
		}
	},
	"a wrong token changes nothing": func(t *testing.T, e *env) {
		e.acceptIDs("a")
		l := e.lease("a")
		before := e.job("a")
		for _, token := range []int64{0, l.Token + 1, l.Token - 1, -1} {
			got := e.trySettle(queue.Settlement{ID: "a", Token: token, Result: succeeded()})
			e.wantErrs(got, queue.ErrLeaseLost)
		}
		e.same("job", e.job("a"), before)
		e.settle(l, succeeded())
	},
	"a settle of an unknown, pending, finished or dead job is a lost lease": func(t *testing.T, e *env) {
		e.acceptIDs("done")
		done := e.lease("done")
		e.settle(done, succeeded())
		e.acceptIDs("dead")
		dead := e.lease("dead")
		e.settle(dead, permanent(422, "invalid"))
		e.acceptIDs("retried")
		retried := e.lease("retried")
		e.settle(retried, retryable(503, "busy"))
		before := []queue.Job{e.job("done"), e.job("dead"), e.job("retried")}
		got := e.trySettle(settlement(done, succeeded()), settlement(dead, succeeded()), settlement(retried, succeeded()),
			queue.Settlement{ID: "nobody", Token: retried.Token, Result: succeeded()})
		e.wantErrs(got, queue.ErrLeaseLost, queue.ErrLeaseLost, queue.ErrLeaseLost, queue.ErrLeaseLost)
		e.same("jobs", []queue.Job{e.job("done"), e.job("dead"), e.job("retried")}, before)
	},
	"a pending job that was never leased cannot be settled, not even with token 0": func(t *testing.T, e *env) {
		e.acceptIDs("a")
		e.wantErrs(e.trySettle(queue.Settlement{ID: "a", Result: succeeded()}), queue.ErrLeaseLost)
		e.wantState(queue.Pending, "a")
	},
	"stale and live settlements of one call: the live ones end, the stale ones change nothing": func(t *testing.T, e *env) {
		e.acceptIDs("a", "b", "c")
		old := map[string]queue.Lease{}
		for _, l := range e.claim(3).Leases {
			old[l.Job.ID] = l
		}
		e.clock.Advance(e.policy.Lease() + 1)
		e.reap(10)
		e.clock.Advance(1000)
		live := map[string]queue.Lease{}
		for range 3 {
			l := e.lease1()
			live[l.Job.ID] = l
		}
		got := e.trySettle(settlement(old["a"], succeeded()), settlement(live["b"], succeeded()), settlement(old["c"], permanent(422, "stale")))
		e.wantErrs(got, queue.ErrLeaseLost, nil, queue.ErrLeaseLost)
		if len(got.Deaths) != 0 {
			t.Errorf("a stale settlement is counted as a death: %v", got.Deaths)
		}
		e.wantState(queue.Leased, "a", "c")
		e.wantState(queue.Succeeded, "b")
		e.settle(live["a"], succeeded())
		e.settle(live["c"], succeeded())
	},
	"a token fences its own job only: the live token of another job of the call does not help": func(t *testing.T, e *env) {
		e.acceptIDs("a")
		oldA := e.lease("a")
		e.clock.Advance(e.policy.Lease() + 1)
		e.reap(10)
		e.clock.Advance(1000)
		newA := e.lease("a")
		e.acceptIDs("b")
		b := e.lease("b")
		got := e.trySettle(settlement(oldA, succeeded()), queue.Settlement{ID: "b", Token: newA.Token, Result: succeeded()})
		e.wantErrs(got, queue.ErrLeaseLost, queue.ErrLeaseLost)
		e.wantState(queue.Leased, "a", "b")
		e.settle(newA, succeeded())
		e.settle(b, succeeded())
	},
	"A and B hold a job one after the other: A is refused before and after B's end, whatever it brings": func(t *testing.T, e *env) {
		for i, r := range []queue.Result{succeeded(), permanent(422, "stale"), retryable(503, "stale")} {
			id := fmt.Sprint("job-", i)
			e.acceptIDs(id)
			a := e.lease(id)
			e.clock.Advance(e.policy.Lease() + 1)
			e.reap(1)
			e.wantErrs(e.trySettle(settlement(a, r)), queue.ErrLeaseLost)
			e.clock.Advance(1000)
			b := e.lease(id)
			e.wantErrs(e.trySettle(settlement(a, r)), queue.ErrLeaseLost)
			e.settle(b, succeeded())
			e.wantErrs(e.trySettle(settlement(a, r)), queue.ErrLeaseLost)
			e.wantState(queue.Succeeded, id)
		}
	},
	"a settle after the lease ran out counts as long as nobody reaped it": func(t *testing.T, e *env) {
		e.acceptIDs("a")
		l := e.lease("a")
		e.clock.Advance(e.policy.Lease() + 1000)
		e.settle(l, succeeded())
		e.wantState(queue.Succeeded, "a")
		if r := e.reap(10); r.Lost != 0 {
			t.Errorf("reaped %d", r.Lost)
		}
	},
	"one id settled twice in a call is an error of the call and nothing is settled": func(t *testing.T, e *env) {
		e.acceptIDs("a", "b")
		c := e.claim(2)
		s := []queue.Settlement{settlement(c.Leases[0], succeeded()), settlement(c.Leases[1], succeeded()), settlement(c.Leases[0], permanent(422, "again"))}
		if _, err := e.s.Settle(t.Context(), e.policy, s); err == nil {
			t.Error("no error")
		}
		e.wantState(queue.Leased, "a", "b")
	},
	"an unknown outcome is never settled": func(t *testing.T, e *env) {
		e.acceptIDs("a")
		l := e.lease("a")
		for _, o := range []queue.Outcome{queue.OutcomeUnknown, "", "Perhaps"} {
			got, err := e.s.Settle(t.Context(), e.policy, []queue.Settlement{settlement(l, queue.Result{Outcome: o})})
			if err == nil && (len(got.Errs) != 1 || got.Errs[0] == nil) {
				t.Errorf("outcome %q was settled", o)
			}
			e.wantState(queue.Leased, "a")
		}
	},
	"an empty call is answered with nothing": func(t *testing.T, e *env) {
		if got := e.trySettle(); len(got.Errs) != 0 || len(got.Deaths) != 0 {
			t.Errorf("got %+v", got)
		}
	},
	"a large call settles each its own way": func(t *testing.T, e *env) {
		e.acceptIDs(names("j", 300)...)
		c := e.claim(300)
		want := map[string]queue.State{}
		var ss []queue.Settlement
		for i, l := range c.Leases {
			r, st := succeeded(), queue.Succeeded
			switch i % 3 {
			case 1:
				r, st = permanent(422, "invalid"), queue.Dead
			case 2:
				r, st = retryable(503, "busy"), queue.Pending
			}
			want[l.Job.ID] = st
			ss = append(ss, settlement(l, r))
		}
		got := e.trySettle(ss...)
		for i, err := range got.Errs {
			if err != nil {
				t.Fatalf("settling %s: %v", ss[i].ID, err)
			}
		}
		for id, st := range want {
			e.wantState(st, id)
		}
		e.same("deaths", got.Deaths, queue.Deaths{queue.ReasonPermanent: 100})
		e.wantCounts(100, 0, 100, 100)
	},
	"an error message is kept up to its bound, cut at a character": func(t *testing.T, e *env) {
		e.acceptIDs("a")
		e.settle(e.lease("a"), permanent(422, "x"+strings.Repeat("ä", queue.MaxErrorMessage)))
		j := e.job("a")
		for what, m := range map[string]string{"last error": j.LastError.Message, "history": j.History[0].Error.Message} {
			if len(m) > queue.MaxErrorMessage || len(m) < queue.MaxErrorMessage-4 || !utf8.ValidString(m) {
				t.Errorf("%s: %d bytes, valid %v", what, len(m), utf8.ValidString(m))
			}
		}
	},
	"history keeps the first attempt and the latest ones": func(t *testing.T, e *env) {
		e.policy.MaxAttempts = queue.MaxHistory + 10
		e.acceptIDs("a")
		for range queue.MaxHistory + 10 {
			e.settle(e.lease("a"), retryable(503, "busy"))
			e.clock.Advance(1000)
		}
		j := e.job("a")
		var got []int
		for _, a := range j.History {
			got = append(got, a.Attempt)
		}
		want := []int{1}
		for n := 12; n <= queue.MaxHistory+10; n++ {
			want = append(want, n)
		}
		e.same("attempts kept", got, want)
		if j.Attempts != queue.MaxHistory+10 || j.State != queue.Dead {
			t.Errorf("attempts %d, %s", j.Attempts, j.State)
		}
	},
}

func (e *env) wantErrs(got queue.Settled, want ...error) {
	e.t.Helper()
	for i, w := range want {
		if !errors.Is(got.Errs[i], w) {
			e.t.Errorf("settlement %d: %v, want %v", i, got.Errs[i], w)
		}
	}
}
