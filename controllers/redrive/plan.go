package redrive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
	"github.com/retryqueue/retryqueue/internal/manifest"
	"github.com/retryqueue/retryqueue/internal/queue"
)

// observe asks the worker for the plan of this Redrive, and has it made when there never was one.
func (p *pass) observe(ctx context.Context) (*outcome, error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	got, err := p.admin.Redrive(call, string(p.rd.UID))
	switch {
	case errors.Is(err, queue.ErrNotFound):
		return p.makePlan(ctx)
	case err != nil:
		return p.unreachable(ctx, err), nil
	}
	return p.adopt(ctx, got)
}

// makePlan has the worker freeze the plan.
func (p *pass) makePlan(ctx context.Context) (*outcome, error) {
	if out, err := p.refresh(ctx); err != nil || out != nil { // the cache may not know of a plan yet
		return out, err
	}
	switch {
	case recordedEnd(p.rd):
		return kept(0), nil
	case p.rd.Status.Plan != nil:
		return planLost(p.rd), nil
	case p.rd.Spec.Cancel:
		return cancelled(), nil
	}
	spec, err := manifest.RedriveSpec(p.rd, p.rq)
	if err != nil {
		return stalled(v1alpha1.ReasonPlanRefused, err.Error()), nil
	}
	call, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	got, err := p.admin.PlanRedrive(call, spec)
	if err != nil {
		return p.planFailed(ctx, err), nil
	}
	return p.adopt(ctx, got)
}

func (p *pass) planFailed(ctx context.Context, err error) *outcome {
	var refused *queue.RedriveError
	var invalid *queue.InvalidError
	switch {
	case errors.As(err, &refused) && refused.Reason == queue.RedriveAlreadyExecuted:
		return alreadyExecuted()
	case errors.As(err, &refused):
		return stalled(v1alpha1.ReasonPlanRefused, refused.Error())
	case errors.As(err, &invalid):
		return stalled(v1alpha1.ReasonPlanRefused, invalid.Error())
	}
	return p.unreachable(ctx, err)
}

func alreadyExecuted() *outcome {
	return waiting(v1alpha1.ReasonAlreadyExecuted,
		"a Redrive of this name and spec has released jobs before, and runs only once; to replay more, make one of another name", 0)
}

// adopt takes what the worker says, if it speaks of this Redrive and this queue.
func (p *pass) adopt(ctx context.Context, got queue.Redrive) (*outcome, error) {
	if uid := string(p.rd.UID); got.UID != uid || got.Spec.UID != uid || got.Summary.Hash == "" {
		return p.unreachable(ctx, fmt.Errorf("asked for redrive %s, the worker spoke of %q", uid, got.UID)), nil
	}
	p.plan = &got
	if !p.started() {
		if out, err := p.refresh(ctx); err != nil || out != nil {
			return out, err
		}
	}
	if got.Spec.QueueUID != string(p.rq.UID) {
		if recordedEnd(p.rd) {
			return kept(0), nil
		}
		return planLost(p.rd), nil
	}
	p.rd.Status.Plan = describe(got, p.rq)
	return nil, nil
}

func planLost(rd *v1alpha1.Redrive) *outcome {
	return lost(v1alpha1.ReasonPlanLost, fmt.Sprintf(
		"the plan was made for another RetryQueue %s, or its data are gone; nothing is released. Make a new Redrive", rd.Spec.QueueRef.Name))
}

// lapse ends the wait of a plan that nobody approved in time.
func (p *pass) lapse(context.Context) (*outcome, error) {
	if p.started() || p.plan.Now < p.expiry() {
		return nil, nil
	}
	return lost(v1alpha1.ReasonPlanExpired, fmt.Sprintf(
		"the plan was not approved and started within %s (redrivePolicy.approvalTTL); make a new Redrive",
		approvalTTL(p.rq))), nil
}

// expiry is when the plan lapses without its approvals, on the store's clock.
func (p *pass) expiry() queue.Time { return expiry(*p.plan, p.rq) }

func expiry(plan queue.Redrive, rq *v1alpha1.RetryQueue) queue.Time {
	return plan.Summary.PlannedAt.Add(queue.MillisOf(approvalTTL(rq)))
}

// approvalTTL is how long a plan waits for its approvals, and how long an approval counts.
func approvalTTL(rq *v1alpha1.RetryQueue) time.Duration {
	return cmp.Or(rq.Spec.RedrivePolicy.ApprovalTTL.Duration, 24*time.Hour)
}

// compare holds a plan that the queue, as it is now, would not allow or would send elsewhere.
func (p *pass) compare(context.Context) (*outcome, error) {
	now, err := manifest.RedriveSpec(p.rd, p.rq)
	if err != nil {
		return stalled(v1alpha1.ReasonPlanRefused, err.Error()), nil
	}
	if what := outdated(p.plan.Spec, now); what != "" {
		return stalled(v1alpha1.ReasonPlanOutdated, fmt.Sprintf(
			"RetryQueue %s has changed since the plan was made: %s. Put it back, or make a new Redrive", p.rq.Name, what)), nil
	}
	return nil, nil
}

// outdated says in what a frozen plan goes beyond what would be planned now; empty when in nothing.
func outdated(frozen, now queue.RedriveSpec) string {
	switch {
	case frozen.TargetDigest != now.TargetDigest:
		return "delivery goes to another URL or with other headers than what was approved"
	case frozen.Budget.MaxAttempts > now.Budget.MaxAttempts:
		return "retryPolicy.maxAttempts is less than the plan's budget"
	case frozen.Budget.Deadline > now.Budget.Deadline:
		return "retryPolicy.deadline is less than the plan's budget"
	case frozen.MaxRedrives > now.MaxRedrives:
		return "deadLetter.maxRedrives is less than when the jobs were picked"
	}
	return ""
}

// finalizer holds a Redrive that has a plan until the worker has been told to forget it.
const finalizer = "retryqueue.dev/redrive"

func (p *pass) addFinalizer(ctx context.Context) error {
	return p.patchFinalizer(ctx, controllerutil.AddFinalizer)
}

func (p *pass) removeFinalizer(ctx context.Context) error {
	return p.patchFinalizer(ctx, controllerutil.RemoveFinalizer)
}

// patchFinalizer changes the finalizers alone, and keeps the status of the pass.
func (p *pass) patchFinalizer(ctx context.Context, change func(client.Object, string) bool) error {
	obj := p.stored.DeepCopy()
	if !change(obj, finalizer) {
		return nil
	}
	patch := client.MergeFromWithOptions(p.stored.DeepCopy(), client.MergeFromWithOptimisticLock{})
	if err := p.client.Patch(ctx, obj, patch); err != nil {
		return fmt.Errorf("changing the finalizer: %w", err)
	}
	p.stored = obj
	p.rd.ObjectMeta = *obj.ObjectMeta.DeepCopy()
	return nil
}
