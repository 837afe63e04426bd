package queue

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"
)

// task is a claimed job and what the worker's own clock allows for it.
type task struct {
	lease   Lease
	timeout time.Duration
	startBy time.Time // no attempt starts at or after this
	expires time.Time // when the lease ends, at the earliest
}

// round is the answer to one claim.
type round struct {
	tasks  []task
	buried bool      // some were overdue
	nextAt time.Time // when the next job is due by the worker's clock; zero when none is pending
}

// claim leases up to n jobs. The clock is read before the store is asked, so that every span that starts at the
// claim ends by this clock no later than by the store's.
func (w *Worker) claim(ctx context.Context, s *Settings, n int) (round, error) {
	ctx, cancel := context.WithTimeout(ctx, ClaimTime.Std())
	defer cancel()
	asked := w.clock.Now()
	c, err := w.store.Claim(ctx, s.Policy, ClaimRequest{Max: n, Obstacle: w.obstacles.String()})
	if err != nil {
		return round{}, fmt.Errorf("claiming jobs: %w", err)
	}
	if len(c.Deaths) > 0 {
		w.observer.Died(c.Deaths)
	}
	r := round{buried: len(c.Deaths) > 0}
	if c.NextAt != 0 { // from the answer on, so as not to ask too early
		r.nextAt = w.clock.Now().Add(c.NextAt.Sub(c.Now).Std())
	}
	for _, l := range c.Leases {
		t := task{
			lease: l, timeout: s.Policy.AttemptTimeout.Std(),
			startBy: asked.Add(min(ClaimTime, l.Job.Deadline.Sub(c.Now)).Std()),
			expires: asked.Add(s.Policy.Lease().Std()),
		}
		r.tasks = append(r.tasks, t)
		w.slots.take(1, t.expires)
	}
	return r, nil
}

// attempt makes the attempt of t, whose slot is taken, and calls done with the settlement, if there is one to make.
// It gives the slot back. ctx ends when attempts are to be cancelled.
func (w *Worker) attempt(ctx context.Context, t task, done func(Settlement)) {
	started := w.clock.Now()
	if !started.Before(t.startBy) || ctx.Err() != nil {
		w.slots.returned(false)
		w.observer.ClaimsUnstarted(1)
		w.log.Warn("attempt.not_started", "id", t.lease.Job.ID, "attempt", t.lease.Job.Attempts, "late", started.Sub(t.startBy))
		return
	}
	var r Result // stays without an outcome when the deliverer ends the goroutine
	defer func() {
		r = normalize(r)
		w.obstacles.ended(r)
		took := w.clock.Now().Sub(started)
		w.observer.AttemptEnded(AttemptEnd{Lease: t.lease, Result: r, Took: took, Overran: took > t.timeout+time.Second})
		if r.Outcome == OutcomeUnknown {
			w.log.Error("attempt.unknown_outcome", "id", t.lease.Job.ID, "attempt", t.lease.Job.Attempts, "error", r.Failure.Message)
			w.slots.returned(false)
			return
		}
		w.slots.returned(true)
		done(Settlement{ID: t.lease.Job.ID, Token: t.lease.Token, Result: r})
	}()
	r = w.deliver(ctx, t)
}

// deliver asks the deliverer, within the attempt's timeout.
func (w *Worker) deliver(stopping context.Context, t task) (r Result) {
	defer func() {
		if v := recover(); v != nil {
			w.log.Error("attempt.panic", "id", t.lease.Job.ID, "stack", string(debug.Stack()))
			r = unknown(fmt.Sprintf("the deliverer panicked: %v", v))
		}
	}()
	ctx, cancel := context.WithTimeout(stopping, t.timeout)
	defer cancel()
	r = w.deliverer.Deliver(ctx, t.lease)
	if stopping.Err() != nil && r.Outcome != OutcomeSucceeded {
		return unknown("the attempt was cut off because the worker had to stop")
	}
	return r
}

// KindUnknown is the kind of a failure of which nobody can tell what it came to.
const KindUnknown = "Unknown"

func unknown(message string) Result {
	return Result{Outcome: OutcomeUnknown, Failure: &Failure{Kind: KindUnknown, Message: TruncateMessage(message)}}
}

// normalize makes of what a deliverer returned something that can be settled, or an unknown outcome.
func normalize(r Result) Result {
	switch r.Outcome {
	case OutcomeSucceeded:
		return Result{Outcome: OutcomeSucceeded}
	case OutcomePermanent, OutcomeRetryable:
		if r.Failure == nil {
			r.Failure = &Failure{Kind: KindUnknown, Message: "no cause was given"}
		}
		r.Failure = TruncateFailure(r.Failure)
		r.RetryAfter = max(r.RetryAfter, 0)
		return r
	}
	if r.Outcome == OutcomeUnknown && r.Failure != nil {
		return r
	}
	return unknown(fmt.Sprintf("the deliverer returned the outcome %q", r.Outcome))
}
