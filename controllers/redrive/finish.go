package redrive

import (
	"context"
	"fmt"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
	"github.com/retryqueue/retryqueue/internal/queue"
)

// finish ends the pass of a Redrive that has ended, or that a person ends.
func (p *pass) finish(ctx context.Context) (*outcome, error) {
	if !p.plan.State.Finished() && p.rd.Spec.Cancel {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		got, err := p.admin.CancelRedrive(call, string(p.rd.UID))
		if err != nil {
			return p.unreachable(ctx, err), nil
		}
		p.plan = &got
	}
	out := ended(*p.plan)
	if out == nil {
		return nil, p.addFinalizer(ctx)
	}
	return out, p.removeFinalizer(ctx)
}

// ended is the outcome of a finished plan; nil while there is something left to do.
func ended(plan queue.Redrive) *outcome {
	done, gone := *done(v1alpha1.ReasonComplete, "every job of the plan has come to an end"), plan.Progress.Gone
	switch plan.State {
	case queue.RedriveComplete:
		if plan.Summary.Selected == 0 {
			break
		}
		if gone > 0 {
			done.message = fmt.Sprintf("every job of the plan has come to an end; %d were purged or replayed by another Redrive", gone)
		}
		return &done
	case queue.RedriveCancelled:
		return cancelled()
	case queue.RedriveAborted:
		message := "too many of the replayed jobs died again; what was not released stays dead"
		if plan.Message != "" {
			message = plan.Message
		}
		return lost(v1alpha1.ReasonAborted, message)
	}
	if plan.Summary.Selected == 0 {
		done.reason, done.message = v1alpha1.ReasonNothingSelected, "no dead job is picked by spec.selector; nothing to replay"
		return &done
	}
	return nil
}
