package storetest

import (
	"fmt"
	"testing"

	"github.com/retryqueue/retryqueue/internal/queue"
)

var deadRules = rules{
	"a death carries everything that an investigation needs": func(t *testing.T, e *env) {
		nj := newJob("a")
		nj.Headers = []queue.Header{{Name: "X-Trace", Value: "t-1"}}
		e.accept(nj)
		e.clock.Advance(10)
		l := e.lease("a")
		e.clock.Advance(20)
		e.settle(l, retryable(503, "busy")) // at 30, due at 80
		e.clock.Advance(50)
		e.lease("a")
		e.clock.Advance(e.policy.Lease() + 1) // lost, ended at 25_080
		e.reap(1)                             // at 25_081, due at 25_181
		e.clock.Advance(100)
		l = e.lease("a")
		e.clock.Advance(9)
		e.settle(l, permanent(422, "quantity must be positive"))
		got := e.job("a")
		if got.Fingerprint == "" || got.DeadSeq == 0 {
			t.Errorf("fingerprint %q, dead_seq %d", got.Fingerprint, got.DeadSeq)
		}
		lost := got.History[1].Error
		want := queue.Job{
			ID: "a", Queue: e.o.Queue, State: queue.Dead, Attempts: 3, MaxAttempts: 3,
			Deadline: Start + 3_600_000, FirstReceivedAt: Start, FirstFailedAt: Start + 30, DiedAt: Start + 25_190,
			Reason: queue.ReasonPermanent, LastError: failure(422, "quantity must be positive"),
			History: []queue.Attempt{
				{Attempt: 1, StartedAt: Start + 10, EndedAt: Start + 30, Outcome: queue.OutcomeRetryable, Error: failure(503, "busy")},
				{Attempt: 2, StartedAt: Start + 80, EndedAt: Start + 25_080, Outcome: queue.OutcomeRetryable, Error: lost},
				{Attempt: 3, StartedAt: Start + 25_181, EndedAt: Start + 25_190, Outcome: queue.OutcomePermanent, Error: failure(422, "quantity must be positive")},
			},
			ContentType: "text/plain", Headers: nj.Headers, Payload: nj.Payload,
			Fingerprint: got.Fingerprint, DeadSeq: got.DeadSeq, AvailableAt: got.AvailableAt,
		}
		e.same("dead job", got, want)
		if lost == nil || lost.Kind != queue.KindWorkerLost {
			t.Errorf("the lost attempt's error is %+v", lost)
		}
	},
	"dead jobs are listed in order of death, with cause and without payload": func(t *testing.T, e *env) {
		e.die(permanent(422, "first"), "z")
		e.clock.Advance(1)
		e.die(permanent(422, "second"), "a")
		page, err := e.s.DeadJobs(t.Context(), queue.DeadQuery{Limit: 10})
		e.must(err)
		if len(page.Jobs) != 2 || page.Jobs[0].ID != "z" || page.Jobs[1].ID != "a" || page.Next != 0 {
			t.Fatalf("page %+v", page)
		}
		for _, j := range page.Jobs {
			full := e.job(j.ID)
			if j.Payload != nil || j.State != queue.Dead || j.LastError == nil || j.Reason == "" || j.DiedAt == 0 || j.Fingerprint == "" {
				t.Errorf("listed %+v", j)
			}
			e.same("listed job "+j.ID, withoutContent(j), withoutContent(full))
		}
		if page.Jobs[0].DeadSeq >= page.Jobs[1].DeadSeq {
			t.Errorf("dead_seq %d, then %d", page.Jobs[0].DeadSeq, page.Jobs[1].DeadSeq)
		}
	},
	"pages neither repeat nor leave out, also while jobs die and are purged in between": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), names("d", 25)...)
		seen := map[string]int{}
		q := queue.DeadQuery{Selector: everything(), Limit: 10}
		for page := 0; ; page++ {
			p, err := e.s.DeadJobs(t.Context(), q)
			e.must(err)
			if len(p.Jobs) > 10 {
				t.Fatalf("a page of %d", len(p.Jobs))
			}
			for _, j := range p.Jobs {
				seen[j.ID]++
			}
			if page == 0 {
				e.purge(ids(p.Jobs[0].ID, p.Jobs[9].ID))
				e.die(permanent(422, "x"), "late")
			}
			if p.Next == 0 {
				break
			}
			q.After = p.Next
		}
		for _, id := range append(names("d", 25), "late") {
			if seen[id] != 1 {
				t.Errorf("%s was listed %d times", id, seen[id])
			}
		}
	},
	"the last full page has no next": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), names("d", 10)...)
		p, err := e.s.DeadJobs(t.Context(), queue.DeadQuery{Limit: 10})
		e.must(err)
		if len(p.Jobs) != 10 || p.Next != 0 {
			t.Errorf("%d jobs, next %d", len(p.Jobs), p.Next)
		}
	},
	"paging works within a selection": func(t *testing.T, e *env) {
		for i := range 12 {
			e.die(permanent(400+i%2, "x"), fmt.Sprintf("d-%02d", i))
		}
		q := queue.DeadQuery{Selector: queue.Selector{HTTPStatuses: []string{"401"}}, Limit: 4}
		first, err := e.s.DeadJobs(t.Context(), q)
		e.must(err)
		q.After = first.Next
		second, err := e.s.DeadJobs(t.Context(), q)
		e.must(err)
		var got []string
		for _, j := range append(first.Jobs, second.Jobs...) {
			got = append(got, j.ID)
		}
		e.same("selected", got, []string{"d-01", "d-03", "d-05", "d-07", "d-09", "d-11"})
	},
	"times of a selector are half-open": func(t *testing.T, e *env) {
		for i := range 4 {
			e.die(permanent(422, "x"), fmt.Sprintf("at-%d", i))
			e.clock.Advance(1)
		}
		e.same("[1, 3)", e.deadIDs(queue.Selector{DiedAfter: Start + 1, DiedBefore: Start + 3}), []string{"at-1", "at-2"})
		e.same("[2, …)", e.deadIDs(queue.Selector{DiedAfter: Start + 2}), []string{"at-2", "at-3"})
		e.same("[…, 1)", e.deadIDs(queue.Selector{DiedBefore: Start + 1}), []string{"at-0"})
		e.same("[2, 2)", e.deadIDs(queue.Selector{DiedAfter: Start + 2, DiedBefore: Start + 2}), []string{})
	},
	"statuses select by number and by class, and deaths without an answer by neither": func(t *testing.T, e *env) {
		e.die(permanent(404, "x"), "404")
		e.die(permanent(422, "x"), "422")
		e.die(permanent(503, "x"), "503")
		e.die(queue.Result{Outcome: queue.OutcomePermanent, Failure: &queue.Failure{Kind: "Connection", Message: "refused"}}, "none")
		for _, c := range []struct {
			statuses []string
			want     []string
		}{
			{[]string{"4xx"}, []string{"404", "422"}},
			{[]string{"422"}, []string{"422"}},
			{[]string{"5xx", "404"}, []string{"404", "503"}},
			{[]string{"500"}, nil},
			{[]string{"1xx", "2xx", "3xx", "4xx", "5xx"}, []string{"404", "422", "503"}},
		} {
			e.same(fmt.Sprint(c.statuses), e.deadIDs(queue.Selector{HTTPStatuses: c.statuses}), c.want)
		}
		var every []string
		for len(every) < queue.MaxSelectorValues {
			every = append(every, fmt.Sprint(100+len(every)%500))
		}
		e.same("every status, twice", e.deadIDs(queue.Selector{HTTPStatuses: every}), []string{"404", "422", "503"})
	},
	"reasons, ids and fingerprints select, and all parts must hold": func(t *testing.T, e *env) {
		one := newJob("exhausted")
		one.MaxAttempts = 1
		e.accept(one)
		e.killPending(retryable(503, "busy"), 1)
		e.die(permanent(422, "invalid"), "p1", "p2")
		fp := e.job("p1").Fingerprint
		all := []string{"exhausted", "p1", "p2"}
		e.same("exhausted", e.deadIDs(queue.Selector{Reasons: []queue.Reason{queue.ReasonExhausted}}), []string{"exhausted"})
		e.same("two reasons", e.deadIDs(queue.Selector{Reasons: []queue.Reason{queue.ReasonExhausted, queue.ReasonPermanent}}), all)
		e.same("ids", e.deadIDs(ids("p2", "exhausted", "nobody")), []string{"exhausted", "p2"})
		e.same("fingerprint", e.deadIDs(queue.Selector{Fingerprints: []string{fp}}), []string{"p1", "p2"})
		e.same("fingerprint and id", e.deadIDs(queue.Selector{Fingerprints: []string{fp}, IDs: []string{"p1", "exhausted"}}), []string{"p1"})
		e.same("reason and status", e.deadIDs(queue.Selector{Reasons: []queue.Reason{queue.ReasonPermanent}, HTTPStatuses: []string{"5xx"}}), []string{})
		e.same("everything", e.deadIDs(queue.Selector{}), all)
	},
	"selected values are values: quotes and wild cards mean themselves": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), "a'b", "a%", "ab")
		e.same("quote", e.deadIDs(ids("a'b")), []string{"a'b"})
		e.same("wild card", e.deadIDs(ids("a%")), []string{"a%"})
		e.same("injection", e.deadIDs(queue.Selector{Fingerprints: []string{"' or 1=1 --"}}), []string{})
	},
	"a malformed status is refused, it does not select nothing or everything": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), "a")
		for _, bad := range []string{"", "5x", "xxx", "4", "4xx'"} {
			sel := queue.Selector{HTTPStatuses: []string{bad}}
			if _, err := e.s.DeadJobs(t.Context(), queue.DeadQuery{Selector: sel, Limit: 10}); err == nil {
				t.Errorf("DeadJobs takes %q", bad)
			}
			if _, err := e.s.Purge(t.Context(), e.policy, sel); err == nil {
				t.Errorf("Purge takes %q", bad)
			}
		}
		e.wantState(queue.Dead, "a")
	},
	"deaths of one cause are one group, whatever ids and numbers their messages hold": func(t *testing.T, e *env) {
		for i := range 6 {
			e.die(permanent(503, fmt.Sprintf("order %d not found in shard 0x%x", 1000+i, 77*i+4096)), fmt.Sprintf("o-%d", i))
			e.clock.Advance(1)
		}
		e.die(permanent(422, "quantity must be positive"), "q-1", "q-2")
		groups, err := e.s.DeadGroups(t.Context(), queue.Selector{}, 10)
		e.must(err)
		if len(groups) != 2 {
			t.Fatalf("groups %+v", groups)
		}
		g := groups[0]
		if g.Count != 6 || g.Reason != queue.ReasonPermanent || g.FirstDiedAt != Start || g.LastDiedAt != Start+5 ||
			g.SampleError == nil || g.SampleError.HTTPStatus != 503 || e.job(g.SampleID).Fingerprint != g.Fingerprint {
			t.Errorf("largest group %+v", g)
		}
		if groups[1].Count != 2 || groups[1].Fingerprint == g.Fingerprint {
			t.Errorf("second group %+v", groups[1])
		}
	},
	"groups keep to the selector and the limit, largest first": func(t *testing.T, e *env) {
		e.die(permanent(404, "gone away"), "a")
		e.die(permanent(422, "invalid"), "b", "c", "d")
		e.die(permanent(409, "duplicate"), "e", "f")
		groups, err := e.s.DeadGroups(t.Context(), everything(), 2)
		e.must(err)
		if len(groups) != 2 || groups[0].Count != 3 || groups[1].Count != 2 {
			t.Errorf("groups %+v", groups)
		}
		groups, err = e.s.DeadGroups(t.Context(), queue.Selector{HTTPStatuses: []string{"404"}}, 10)
		e.must(err)
		if len(groups) != 1 || groups[0].Count != 1 || groups[0].SampleID != "a" {
			t.Errorf("groups of 404 %+v", groups)
		}
	},
	"one cause with two reasons is two groups": func(t *testing.T, e *env) {
		e.die(permanent(503, "busy"), "a")
		one := newJob("b")
		one.MaxAttempts = 1
		e.accept(one)
		e.killPending(retryable(503, "busy"), 1)
		groups, err := e.s.DeadGroups(t.Context(), queue.Selector{}, 10)
		e.must(err)
		if len(groups) != 2 {
			t.Errorf("groups %+v", groups)
		}
	},
}
