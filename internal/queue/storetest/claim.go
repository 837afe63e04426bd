package storetest

import (
	"strings"
	"testing"

	"github.com/retryqueue/retryqueue/internal/queue"
)

var claimRules = rules{
	"a claim hands out the job whole, leased, with one attempt used": func(t *testing.T, e *env) {
		nj := newJob("a")
		nj.Headers = []queue.Header{{Name: "X-One", Value: "1"}}
		e.accept(nj)
		e.clock.Advance(5)
		c := e.claim(10)
		if len(c.Leases) != 1 || c.Now != Start+5 || c.Leases[0].Token == 0 {
			t.Fatalf("claimed %+v", c)
		}
		j := c.Leases[0].Job
		if j.State != queue.Leased || j.Attempts != 1 || j.MaxAttempts != 3 || j.Deadline != Start+3_600_000 || j.Queue != e.o.Queue {
			t.Errorf("leased job %+v", j)
		}
		e.same("payload", j.Payload, nj.Payload)
		e.same("headers", j.Headers, nj.Headers)
		e.same("content type", j.ContentType, nj.ContentType)
		if s := e.job("a"); s.State != queue.Leased || s.Attempts != 1 {
			t.Errorf("stored job %+v", s)
		}
	},
	"the job due longest goes first": func(t *testing.T, e *env) {
		for i, id := range []string{"third", "first", "second"} {
			nj := newJob(id)
			nj.Delay = []queue.Millis{300, 100, 200}[i]
			e.accept(nj)
		}
		e.clock.Advance(300)
		e.lease("first")
		e.lease("second")
		e.lease("third")
	},
	"a retry takes its turn by the time it falls due": func(t *testing.T, e *env) {
		e.acceptIDs("retry")
		e.settle(e.lease("retry"), retryable(503, "busy")) // due at +50
		late := newJob("late")
		late.Delay = 60
		e.accept(late)
		e.clock.Advance(100)
		e.lease("retry")
		e.lease("late")
	},
	"a job is not claimed a millisecond early": func(t *testing.T, e *env) {
		nj := newJob("a")
		nj.Delay = 1000
		e.accept(nj)
		e.clock.Advance(999)
		if c := e.claim(1); len(c.Leases) != 0 || c.NextAt != Start+1000 {
			t.Errorf("claimed %v, next at +%d", leaseIDs(c), c.NextAt-Start)
		}
		e.clock.Advance(1)
		e.lease("a")
	},
	"a queue with nothing due answers with nothing, at once, and says when to come again": func(t *testing.T, e *env) {
		if c := e.claim(10); len(c.Leases) != 0 || c.NextAt != 0 || c.Now != Start {
			t.Errorf("empty queue: %+v", c)
		}
		a, b := newJob("a"), newJob("b")
		a.Delay, b.Delay = 2000, 1000
		e.accept(a, b)
		if c := e.claim(10); len(c.Leases) != 0 || c.NextAt != Start+1000 {
			t.Errorf("claimed %v, next at +%d, want +1000", leaseIDs(c), c.NextAt-Start)
		}
	},
	"a claim takes no more than asked for, and says that more is due": func(t *testing.T, e *env) {
		e.acceptIDs(names("a", 5)...)
		c := e.claim(3)
		if len(c.Leases) != 3 || c.NextAt == 0 || c.NextAt > Start {
			t.Errorf("claimed %v, next at %v", leaseIDs(c), c.NextAt)
		}
		if c := e.claim(3); len(c.Leases) != 2 || c.NextAt != 0 {
			t.Errorf("then claimed %v, next at %v", leaseIDs(c), c.NextAt)
		}
	},
	"a leased job is not claimed again, not even when its lease has run out": func(t *testing.T, e *env) {
		e.acceptIDs("a")
		e.lease("a")
		e.clock.Advance(e.policy.Lease() + 1)
		if c := e.claim(1); len(c.Leases) != 0 {
			t.Errorf("claimed %v beside its holder", leaseIDs(c))
		}
		e.wantState(queue.Leased, "a")
	},
	"attempts rise with every claim, are never given back, and survive a restart": func(t *testing.T, e *env) {
		e.acceptIDs("a")
		for n := 1; n <= 3; n++ {
			e.lease("a")
			e.restart()
			if got := e.job("a").Attempts; got != n {
				t.Fatalf("attempts %d after claim %d", got, n)
			}
			e.clock.Advance(e.policy.Lease() + 1)
			e.reap(10)
			e.clock.Advance(e.policy.Backoff.Cap)
		}
		e.wantState(queue.Dead, "a")
	},
	"tokens never repeat: over claims, retries, restarts and a redrive": func(t *testing.T, e *env) {
		seen := map[int64]bool{}
		take := func(r queue.Result) {
			l := e.lease("a")
			if seen[l.Token] {
				t.Fatalf("token %d was handed out twice", l.Token)
			}
			seen[l.Token] = true
			e.settle(l, r)
			e.clock.Advance(e.policy.Backoff.Cap)
			e.restart()
		}
		e.acceptIDs("a")
		take(retryable(503, "busy"))
		take(permanent(422, "invalid"))
		e.release("r1", ids("a"))
		take(retryable(503, "busy"))
		take(permanent(422, "invalid"))
		e.release("r2", ids("a"))
		take(succeeded())
	},
	"a due job past its deadline dies of it; equality is past": func(t *testing.T, e *env) {
		e.acceptIDs("a")
		e.clock.Advance(e.policy.Deadline - 1)
		e.settle(e.lease("a"), succeeded())
		e.acceptIDs("b")
		e.clock.Advance(e.policy.Deadline)
		c := e.claim(1)
		if len(c.Leases) != 0 || c.Deaths[queue.ReasonDeadlineExceeded] != 1 || len(c.Deaths) != 1 {
			t.Errorf("claimed %v, deaths %v", leaseIDs(c), c.Deaths)
		}
		if j := e.job("b"); j.State != queue.Dead || j.Reason != queue.ReasonDeadlineExceeded || j.DiedAt != e.clock.Now() {
			t.Errorf("job %+v", j)
		}
	},
	"a claim of none only buries, as a suspended queue does": func(t *testing.T, e *env) {
		short := newJob("short")
		short.Deadline = 20_000
		e.accept(short, newJob("long"))
		e.clock.Advance(20_000)
		c := e.claimBehind(0, "queue is suspended since noon")
		if len(c.Leases) != 0 || c.Deaths[queue.ReasonDeadlineExceeded] != 1 {
			t.Errorf("claimed %v, deaths %v", leaseIDs(c), c.Deaths)
		}
		e.wantState(queue.Dead, "short")
		if j := e.job("long"); j.State != queue.Pending || j.Attempts != 0 {
			t.Errorf("long is %+v", j)
		}
	},
	"a job that dies unstarted says NeverStarted and what stood in its way": func(t *testing.T, e *env) {
		e.acceptIDs("a")
		e.clock.Advance(e.policy.Deadline)
		e.claimBehind(0, "queue is suspended since noon")
		j := e.job("a")
		if j.Attempts != 0 || j.LastError == nil || j.LastError.Kind != queue.KindNeverStarted ||
			!strings.Contains(j.LastError.Message, "queue is suspended since noon") || j.Fingerprint == "" {
			t.Fatalf("job %+v, last error %+v", j, j.LastError)
		}
		if len(j.History) != 1 || j.History[0].Attempt != 0 || j.History[0].EndedAt != e.clock.Now() ||
			j.History[0].Error == nil || j.History[0].Error.Kind != queue.KindNeverStarted {
			t.Errorf("history %+v", j.History)
		}
	},
	"a job that died unstarted without an obstacle says so as well": func(t *testing.T, e *env) {
		e.acceptIDs("a")
		e.clock.Advance(e.policy.Deadline)
		e.claim(5)
		if j := e.job("a"); j.LastError == nil || j.LastError.Kind != queue.KindNeverStarted || j.LastError.Message == "" {
			t.Errorf("last error %+v", j.LastError)
		}
	},
	"a job that was tried and then waited past its deadline keeps the error of its last attempt": func(t *testing.T, e *env) {
		e.acceptIDs("a")
		e.settle(e.lease("a"), retryable(503, "busy"))
		e.clock.Advance(e.policy.Deadline)
		e.claimBehind(0, "queue is suspended")
		j := e.job("a")
		if j.Reason != queue.ReasonDeadlineExceeded || j.Attempts != 1 {
			t.Errorf("job %+v", j)
		}
		e.same("last error", j.LastError, failure(503, "busy"))
	},
	"jobs behind many overdue ones are reached": func(t *testing.T, e *env) {
		short := newJobs(names("short", 300)...)
		for i := range short {
			short[i].Deadline = 20_000
		}
		e.accept(short...)
		e.clock.Advance(19_000)
		e.acceptIDs("fresh")
		e.clock.Advance(1_000)
		for range 300 {
			if c := e.claim(1); len(c.Leases) == 1 {
				if c.Leases[0].Job.ID != "fresh" {
					t.Fatalf("claimed %v", leaseIDs(c))
				}
				break
			}
		}
		for len(e.claim(0).Deaths) > 0 {
		}
		e.wantCounts(0, 1, 0, 300)
	},
}
