package redrive

import (
	"context"
	"errors"
	"fmt"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
	"github.com/retryqueue/retryqueue/internal/queue"
)

const (
	// permitFor is how long a permission lasts: that long at most a Redrive runs on without a controller.
	permitFor = queue.Millis(60_000)
	// renewAfter is how old a permission is when it is renewed.
	renewAfter = queue.Millis(20_000)
)

// suspended holds a Redrive that a person has suspended. The end of the pass withdraws the permission, which also gives
// an undecided canary a new chance.
func (p *pass) suspended(context.Context) (*outcome, error) {
	if !p.rd.Spec.Suspend {
		return nil, nil
	}
	return waiting(v1alpha1.ReasonSuspended, "suspended by spec.suspend; nothing is released", idleAfter), nil
}

// permit gives the worker leave to run, or renews it.
func (p *pass) permit(ctx context.Context) (*outcome, error) {
	if p.plan.RunUntil.Sub(p.plan.Now) <= permitFor-renewAfter {
		if out, err := p.renew(ctx); err != nil || out != nil {
			return out, err
		}
	}
	if out := ended(*p.plan); out != nil {
		return out, p.removeFinalizer(ctx)
	}
	return running(*p.plan), nil
}

// renew gives a new permission. The first one is given after the approvals are on record, and taken back when
// another controller let another Redrive of the queue in at the same time.
func (p *pass) renew(ctx context.Context) (*outcome, error) {
	first := !live(*p.plan)
	if first && !p.started() {
		if err := p.save(ctx); err != nil {
			return nil, fmt.Errorf("recording the approvals: %w", err)
		}
	}
	got, err := p.give(ctx, permitFor)
	var refused *queue.RedriveError
	switch {
	case errors.As(err, &refused) && refused.Reason == queue.RedriveAlreadyExecuted:
		return alreadyExecuted(), nil
	case errors.As(err, &refused):
		return &outcome{again: true, after: watchAfter}, nil // the plan is not what it was a moment ago: observe again
	case err != nil:
		out := p.unreachable(ctx, err)
		out.permitted = true // perhaps: the answer was lost. It was meant to be.
		return out, nil
	}
	p.plan = &got
	if !first {
		return nil, nil
	}
	return p.waitTurn(ctx)
}

// give permits the plan as observed for a while; 0 withdraws.
func (p *pass) give(ctx context.Context, d queue.Millis) (queue.Redrive, error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return p.admin.PermitRedrive(call, queue.RedrivePermit{UID: string(p.rd.UID), Hash: p.plan.Summary.Hash, For: d})
}

// withdraw takes back the permission that the worker may hold.
func (p *pass) withdraw(ctx context.Context) error {
	if p.plan == nil || !live(*p.plan) {
		return nil
	}
	got, err := p.give(ctx, 0)
	if err != nil {
		return fmt.Errorf("withdrawing the permission: %w", err)
	}
	p.plan = &got
	return nil
}

// running is the outcome while the worker holds a permission.
func running(plan queue.Redrive) *outcome {
	rate := plan.Spec.Rate
	reason, message := v1alpha1.ReasonReleasing, fmt.Sprintf("releasing %d jobs per %s", rate.Jobs, rate.Per)
	after := watchAfter
	switch plan.Held {
	case queue.HeldQueueSuspended:
		reason, message = v1alpha1.ReasonQueueSuspended, "the RetryQueue is suspended; release goes on when it does"
	case queue.HeldBreakerOpen:
		reason, message = v1alpha1.ReasonBreakerOpen, "the target fails and the circuit breaker is open; release goes on when it closes"
	case queue.HeldFailing:
		reason, message = v1alpha1.ReasonFailing, "too many of the jobs released last are failing; release goes on when they recover"
	case queue.HeldCanaryInconclusive:
		reason = v1alpha1.ReasonCanaryInconclusive
		message = "the canary is undecided at its timeout; set spec.suspend to true and then false to give it another, or spec.cancel"
	case queue.HeldCanary:
		message = "the canary is on its way; the rest follows when it is delivered"
	default:
		if plan.Progress.Remaining == 0 {
			message = "every job is released; waiting for the last to come to an end"
		}
	}
	if reason != v1alpha1.ReasonReleasing {
		after = retryAfter
	}
	out := waiting(reason, message, after)
	out.permitted = true
	return out
}
