package storetest

import (
	"errors"
	"strings"
	"testing"

	"github.com/retryqueue/retryqueue/internal/queue"
)

var acceptRules = rules{
	"a new job is pending, due at once, with the budget of the policy of that moment": func(t *testing.T, e *env) {
		nj := newJob("a")
		nj.Headers = []queue.Header{{Name: "X-One", Value: "1"}, {Name: "X-Two", Value: "2"}, {Name: "X-One", Value: "3"}}
		got := e.accept(nj)[0]
		if got.Known {
			t.Error("a new job is reported as known")
		}
		e.policy.MaxAttempts, e.policy.Deadline = 9, 9_000_000
		e.same("stored job", e.job("a"), queue.Job{
			ID: "a", Queue: e.o.Queue, State: queue.Pending, MaxAttempts: 3,
			AvailableAt: Start, Deadline: Start + 3_600_000, FirstReceivedAt: Start,
			ContentType: "text/plain", Headers: nj.Headers, Payload: nj.Payload,
		})
		e.same("answer", withoutContent(got.Job), withoutContent(e.job("a")))
	},
	"a request may shorten its budget and delay its first attempt": func(t *testing.T, e *env) {
		nj := newJob("a")
		nj.MaxAttempts, nj.Deadline, nj.Delay = 2, 60_000, 5_000
		e.accept(nj)
		j := e.job("a")
		if j.MaxAttempts != 2 || j.Deadline != Start+60_000 || j.AvailableAt != Start+5_000 {
			t.Errorf("maxAttempts %d, deadline +%d, available +%d", j.MaxAttempts, j.Deadline-Start, j.AvailableAt-Start)
		}
		if c := e.claim(1); len(c.Leases) != 0 || c.NextAt != Start+5_000 {
			t.Errorf("claimed %v with next at +%d before the delay was over", leaseIDs(c), c.NextAt-Start)
		}
		e.clock.Advance(5_000)
		e.lease("a")
	},
	"an empty payload and an absent media type are kept as such": func(t *testing.T, e *env) {
		e.accept(queue.NewJob{ID: "a", ContentSHA: [32]byte{1}})
		if j := e.job("a"); len(j.Payload) != 0 || j.ContentType != "" || len(j.Headers) != 0 {
			t.Errorf("stored %+v", j)
		}
	},
	"binary payloads come back byte for byte": func(t *testing.T, e *env) {
		raw := make([]byte, 256)
		for i := range raw {
			raw[i] = byte(i)
		}
		e.accept(withPayload("a", string(raw)))
		e.same("payload", e.lease("a").Job.Payload, raw)
	},
	"an empty call is answered with nothing": func(t *testing.T, e *env) {
		if got := e.accept(); len(got) != 0 {
			t.Errorf("got %v", got)
		}
	},
	"a known id answers with the stored job, unchanged: pending": func(t *testing.T, e *env) {
		e.acceptIDs("a")
		e.settle(e.lease("a"), retryable(503, "busy"))
		e.wantKnownUnchanged("a")
	},
	"a known id answers with the stored job, unchanged: leased": func(t *testing.T, e *env) {
		e.acceptIDs("a")
		l := e.lease("a")
		e.wantKnownUnchanged("a")
		e.settle(l, succeeded())
	},
	"a known id answers with the stored job, unchanged: succeeded": func(t *testing.T, e *env) {
		e.acceptIDs("a")
		e.settle(e.lease("a"), succeeded())
		e.wantKnownUnchanged("a")
		if c := e.claim(1); len(c.Leases) != 0 {
			t.Error("a succeeded job was run again")
		}
	},
	"a known id answers with the stored job, unchanged: dead, which does not revive it": func(t *testing.T, e *env) {
		e.die(permanent(422, "invalid"), "a")
		e.wantKnownUnchanged("a")
		if c := e.claim(1); len(c.Leases) != 0 {
			t.Error("accepting a dead id revived it")
		}
	},
	"a known id keeps its budget when another is asked for": func(t *testing.T, e *env) {
		e.acceptIDs("a")
		before := e.job("a")
		nj := newJob("a")
		nj.MaxAttempts, nj.Deadline, nj.Delay = 1, 20_000, 1_000
		nj.Headers = []queue.Header{{Name: "X-New", Value: "1"}}
		if got := e.accept(nj)[0]; !got.Known {
			t.Error("the id is not reported as known")
		}
		e.same("job", e.job("a"), before)
	},
	"a known id with other content is a conflict in every state and changes nothing": func(t *testing.T, e *env) {
		e.die(permanent(422, "invalid"), "dead", "purged")
		e.purge(ids("purged"))
		e.acceptIDs("done")
		e.settle(e.lease("done"), succeeded())
		e.acceptIDs("leased")
		e.lease("leased")
		e.acceptIDs("pending")
		for _, id := range []string{"dead", "purged", "done", "leased", "pending"} {
			before := e.stats()
			e.wantConflict([]int{1}, newJob("new-"+id), withPayload(id, "other"))
			e.wantUnknown("new-" + id)
			e.same("stats after "+id, e.stats(), before)
		}
	},
	"the content is compared by its digest alone": func(t *testing.T, e *env) {
		e.acceptIDs("a")
		same := withPayload("a", "spelled otherwise")
		same.ContentSHA = newJob("a").ContentSHA
		if !e.accept(same)[0].Known {
			t.Error("equal digests are not known")
		}
		e.same("payload", e.job("a").Payload, newJob("a").Payload)
	},
	"a batch is answered in its order, known and new mixed": func(t *testing.T, e *env) {
		e.acceptIDs("b")
		got := e.acceptIDs("c", "b", "a")
		var know []bool
		var order []string
		for _, a := range got {
			know, order = append(know, a.Known), append(order, a.Job.ID)
		}
		e.same("ids", order, []string{"c", "b", "a"})
		e.same("known", know, []bool{false, true, false})
	},
	"a second job of one batch with the same id and content is known": func(t *testing.T, e *env) {
		got := e.acceptIDs("a", "b", "a")
		if got[0].Known || got[1].Known || !got[2].Known || got[2].Job.ID != "a" {
			t.Errorf("got %+v", got)
		}
		e.wantCounts(2, 0, 0, 0)
	},
	"a second job of one batch with the same id and other content is a conflict and nothing is stored": func(t *testing.T, e *env) {
		e.wantConflict([]int{2}, newJob("a"), newJob("b"), withPayload("a", "other"))
		e.wantUnknown("a", "b")
	},
	"every conflict of a batch is named": func(t *testing.T, e *env) {
		e.acceptIDs("a", "b")
		e.wantConflict([]int{0, 2}, withPayload("a", "other"), newJob("c"), withPayload("b", "other"))
	},
	"one invalid job refuses the whole batch, and every invalid job is named with its field": func(t *testing.T, e *env) {
		long, ctl, uni, wide, late, slow := newJob(strings.Repeat("x", queue.MaxIDLength+1)), newJob("a\nb"), newJob("ä"), newJob("w"), newJob("l"), newJob("s")
		wide.MaxAttempts, late.Deadline, slow.Delay = e.policy.MaxAttempts+1, e.policy.Deadline+1, e.policy.Deadline
		heads := newJob("h")
		heads.Headers = make([]queue.Header, queue.MaxHeaders+1)
		for i := range heads.Headers {
			heads.Headers[i] = queue.Header{Name: "X", Value: "1"}
		}
		fat := newJob("f")
		fat.Headers = []queue.Header{{Name: "X", Value: strings.Repeat("x", queue.MaxHeaderBytes+1)}}
		got := e.refused(newJob("good"), newJob(""), long, ctl, uni, wide, late, slow, heads, fat)
		e.same("fields by index", got, map[int]string{
			1: "id", 2: "id", 3: "id", 4: "id", 5: "maxAttempts", 6: "deadline", 7: "delay", 8: "headers", 9: "headers",
		})
		e.wantUnknown("good", "w", "l", "s", "h", "f")
		e.wantCounts(0, 0, 0, 0)
	},
	"negative wishes are refused": func(t *testing.T, e *env) {
		a, b, c := newJob("a"), newJob("b"), newJob("c")
		a.MaxAttempts, b.Deadline, c.Delay = -1, -1, -1
		e.same("fields by index", e.refused(a, b, c), map[int]string{0: "maxAttempts", 1: "deadline", 2: "delay"})
	},
	"a delay is held against the shortened deadline, and equality is too late": func(t *testing.T, e *env) {
		nj := newJob("a")
		nj.Deadline, nj.Delay = 30_000, 30_000
		e.same("fields by index", e.refused(nj), map[int]string{0: "delay"})
		nj.Delay--
		e.accept(nj)
	},
	"the longest id and the whole of printable ASCII are taken": func(t *testing.T, e *env) {
		var all strings.Builder
		for c := byte(0x21); c <= 0x7e; c++ {
			all.WriteByte(c)
		}
		long := strings.Repeat("y", queue.MaxIDLength)
		e.acceptIDs(all.String(), long)
		e.wantState(queue.Pending, all.String(), long)
	},
	"an id is a whole string: case, prefixes and wild cards are other ids": func(t *testing.T, e *env) {
		e.acceptIDs("a%", "A%", "a", "ab", "a_")
		e.wantCounts(5, 0, 0, 0)
	},
	"an unknown id is not found": func(t *testing.T, e *env) {
		e.acceptIDs("a")
		e.wantUnknown("b", "")
	},
	"a dead job does not block a new id": func(t *testing.T, e *env) {
		e.die(permanent(422, "invalid"), "a")
		if e.acceptIDs("b")[0].Known {
			t.Error("b is known")
		}
		e.lease("b")
	},
}

// withoutContent leaves payload and headers out.
func withoutContent(j queue.Job) queue.Job {
	j.Payload, j.Headers = nil, nil
	return j
}

// wantKnownUnchanged accepts id again and checks that this changes nothing.
func (e *env) wantKnownUnchanged(id string) {
	e.t.Helper()
	e.clock.Advance(7)
	before, stats := e.job(id), e.stats()
	got := e.accept(newJob(id))[0]
	if !got.Known {
		e.t.Error("the id is not reported as known")
	}
	e.same("answer", withoutContent(got.Job), withoutContent(before))
	e.same("stored job", e.job(id), before)
	e.same("stats", e.stats(), stats)
}

func (e *env) wantUnknown(ids ...string) {
	e.t.Helper()
	for _, id := range ids {
		if _, err := e.s.Job(e.t.Context(), id); !errors.Is(err, queue.ErrNotFound) {
			e.t.Errorf("reading job %q: %v, want ErrNotFound", id, err)
		}
	}
}

func (e *env) wantConflict(indexes []int, jobs ...queue.NewJob) {
	e.t.Helper()
	_, err := e.s.Accept(e.t.Context(), e.policy, jobs)
	var conflict *queue.ConflictError
	if !errors.As(err, &conflict) {
		e.t.Fatalf("Accept: %v, want a ConflictError", err)
	}
	e.same("indexes in conflict", conflict.Indexes, indexes)
}

// refused accepts jobs, which must be invalid, and returns the named fields by index.
func (e *env) refused(jobs ...queue.NewJob) map[int]string {
	e.t.Helper()
	_, err := e.s.Accept(e.t.Context(), e.policy, jobs)
	found := invalidErrors(err)
	if len(found) == 0 {
		e.t.Fatalf("Accept: %v, want an InvalidError", err)
	}
	fields := map[int]string{}
	for _, i := range found {
		fields[i.Index] = i.Field
		if i.Detail == "" {
			e.t.Errorf("job %d: the error about %s does not say what to do", i.Index, i.Field)
		}
	}
	return fields
}

// invalidErrors finds every InvalidError in the tree of err.
func invalidErrors(err error) []*queue.InvalidError {
	switch x := err.(type) {
	case *queue.InvalidError:
		return []*queue.InvalidError{x}
	case interface{ Unwrap() []error }:
		var all []*queue.InvalidError
		for _, u := range x.Unwrap() {
			all = append(all, invalidErrors(u)...)
		}
		return all
	case interface{ Unwrap() error }:
		return invalidErrors(x.Unwrap())
	}
	return nil
}
