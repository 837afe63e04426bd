package storetest

import (
	"errors"
	"strings"
	"testing"

	"github.com/retryqueue/retryqueue/internal/queue"
)

var limitRules = rules{
	"a payload of maxPayload is taken, a byte more refuses the whole batch and names the job": func(t *testing.T, e *env) {
		e.policy.Limits.MaxPayload = 100
		e.accept(withPayload("fits", strings.Repeat("x", 100)))
		l := e.wantLimit("maxPayload", newJob("small"), withPayload("large", strings.Repeat("x", 101)))
		if l.Index != 1 || l.Max != 100 || l.RetryAfter != 0 {
			t.Errorf("got %+v, want index 1, max 100 and no retry-after: trying again cannot help", l)
		}
		e.wantUnknown("small", "large")
	},
	"maxPending counts pending and leased jobs, inclusive": func(t *testing.T, e *env) {
		e.policy.Limits.MaxPending = 3
		e.acceptIDs("a", "b", "c")
		e.lease1()
		l := e.wantLimit("maxPending", newJob("d"))
		if l.RetryAfter <= 0 || l.Max != 3 {
			t.Errorf("got %+v, want max 3 and a retry-after", l)
		}
		e.wantUnknown("d")
	},
	"a batch that goes over maxPending stores nothing": func(t *testing.T, e *env) {
		e.policy.Limits.MaxPending = 3
		e.acceptIDs("a", "b")
		e.wantLimit("maxPending", newJobs("c", "d")...)
		e.wantUnknown("c", "d")
		e.acceptIDs("c")
	},
	"finished and dead jobs make room under maxPending": func(t *testing.T, e *env) {
		e.policy.Limits.MaxPending = 2
		e.acceptIDs("a", "b")
		e.settle(e.lease1(), succeeded())
		e.settle(e.lease1(), permanent(422, "invalid"))
		e.acceptIDs("c", "d")
		e.wantLimit("maxPending", newJob("e"))
	},
	"known ids are answered even when the queue is full": func(t *testing.T, e *env) {
		e.policy.Limits.MaxPending, e.policy.Limits.MaxBytes = 2, int64(len(newJob("a").Payload)*2)
		e.acceptIDs("a", "b")
		for _, a := range e.acceptIDs("a", "b", "a") {
			if !a.Known {
				t.Errorf("%s is not known", a.Job.ID)
			}
		}
	},
	"maxBytes counts payloads, dead ones included, and is inclusive": func(t *testing.T, e *env) {
		e.policy.Limits.MaxPayload, e.policy.Limits.MaxBytes = 100, 300
		hundred := func(id string) queue.NewJob {
			j := withPayload(id, strings.Repeat("x", 100))
			j.ContentType = ""
			return j
		}
		e.accept(hundred("a"), hundred("b"), hundred("c"))
		if got := e.stats().Bytes; got != 300 {
			t.Errorf("bytes %d, want 300", got)
		}
		one := withPayload("d", "x")
		one.ContentType = ""
		if l := e.wantLimit("maxBytes", one); l.RetryAfter <= 0 || l.Max != 300 {
			t.Errorf("got %+v, want max 300 and a retry-after", l)
		}
		e.settle(e.lease1(), permanent(422, "invalid"))
		e.wantLimit("maxBytes", one)
		e.settle(e.lease1(), succeeded())
		if got := e.stats().Bytes; got != 200 {
			t.Errorf("bytes %d after one success, want 200", got)
		}
		e.accept(one)
		if got := e.purge(everything()); got != 1 {
			t.Fatalf("purged %d", got)
		}
		if got := e.stats().Bytes; got != 101 {
			t.Errorf("bytes %d after a purge, want 101", got)
		}
	},
	"headers count as bytes": func(t *testing.T, e *env) {
		e.acceptIDs("a")
		plain := e.stats().Bytes
		b := newJob("b")
		b.Headers = []queue.Header{{Name: "X-Trace", Value: strings.Repeat("v", 50)}}
		e.accept(b)
		if got := e.stats().Bytes - plain; got < plain+57 {
			t.Errorf("a job with 57 bytes of header counts %d, without %d", got, plain)
		}
		e.settleAll(e.claim(2), succeeded())
		if got := e.stats().Bytes; got != 0 {
			t.Errorf("bytes %d with nothing kept", got)
		}
	},
	"a batch that goes over maxBytes stores nothing": func(t *testing.T, e *env) {
		e.policy.Limits.MaxPayload, e.policy.Limits.MaxBytes = 100, 150
		e.wantLimit("maxBytes", withPayload("a", strings.Repeat("x", 100)), withPayload("b", strings.Repeat("x", 100)))
		e.wantUnknown("a", "b")
	},
}

// lease1 claims exactly one job.
func (e *env) lease1() queue.Lease {
	e.t.Helper()
	c := e.claim(1)
	if len(c.Leases) != 1 {
		e.t.Fatalf("claimed %v, want one job", leaseIDs(c))
	}
	return c.Leases[0]
}

func (e *env) wantLimit(name string, jobs ...queue.NewJob) *queue.LimitError {
	e.t.Helper()
	_, err := e.s.Accept(e.t.Context(), e.policy, jobs)
	var limit *queue.LimitError
	if !errors.As(err, &limit) {
		e.t.Fatalf("Accept: %v, want a LimitError", err)
	}
	if limit.Limit != name {
		e.t.Fatalf("limit %q, want %q", limit.Limit, name)
	}
	return limit
}
