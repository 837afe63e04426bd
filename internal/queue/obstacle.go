package queue

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// obstacles remembers what stands in the way of starting jobs, for the record of those that die unstarted.
type obstacles struct {
	suspended atomic.Pointer[time.Time] // since when, as far as this worker knows; nil when the queue is not
	failure   atomic.Pointer[Failure]   // of the attempt that ended last; nil when it succeeded
}

func (o *obstacles) suspend(is bool, now time.Time) {
	if is {
		o.suspended.CompareAndSwap(nil, &now)
	} else {
		o.suspended.Store(nil)
	}
}

// ended notes how an attempt ended. An unknown outcome says nothing of the target.
func (o *obstacles) ended(r Result) {
	if r.Outcome != OutcomeUnknown {
		o.failure.Store(r.Failure)
	}
}

// String is what a job is told that dies unstarted now; empty when nothing is known to have stood in its way.
func (o *obstacles) String() string {
	var parts []string
	failure := o.failure.Load()
	if since := o.suspended.Load(); since != nil {
		parts = append(parts, "the queue is suspended, since "+TimeOf(*since).String()+" or before")
	} else if failure != nil {
		parts = append(parts, "the deadline passed before a worker was free to start it")
	}
	if failure != nil {
		kind := failure.Kind
		if failure.HTTPStatus != 0 {
			kind = fmt.Sprintf("HTTP %d", failure.HTTPStatus)
		}
		parts = append(parts, "last target error: "+kind+": "+failure.Message)
	}
	return strings.Join(parts, "; ")
}
