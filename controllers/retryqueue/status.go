package retryqueue

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
	"github.com/retryqueue/retryqueue/internal/manifest"
	"github.com/retryqueue/retryqueue/internal/queue"
)

// report writes the status if it changed, and then tells of what happened.
func (p *pass) report(ctx context.Context, v verdict) error {
	p.summarise(v)
	p.noteTransitions(v)
	if !equality.Semantic.DeepEqual(p.rq.Status, p.stored.Status) {
		err := p.client.Status().Patch(ctx, p.rq.DeepCopy(), client.MergeFrom(p.stored), client.FieldOwner(FieldOwner))
		if err != nil {
			return client.IgnoreNotFound(fmt.Errorf("writing the status: %w", err))
		}
	}
	p.tell()
	return nil
}

// summarise turns a verdict into conditions, by the kstatus rules: Ready always, Reconciling and Stalled only
// while true.
func (p *pass) summarise(v verdict) {
	s := &p.rq.Status
	s.ObservedGeneration = p.rq.Generation
	p.set(v1alpha1.ConditionReady, truth(v.state == stateReady), v.reason, v.message)
	p.setWhile(v1alpha1.ConditionReconciling, v.state == stateWaiting, v)
	p.setWhile(v1alpha1.ConditionStalled, v.state == stateStalled, v)
	available := v.state == stateReady && v.reason != v1alpha1.ReasonScaledToZero
	p.set(v1alpha1.ConditionWorkersAvailable, truth(available), v.reason, v.message)
	p.reportDead()
}

func (p *pass) reportDead() {
	jobs := p.rq.Status.Jobs
	switch {
	case jobs == nil || jobs.Dead == nil:
		p.set(v1alpha1.ConditionDeadLetters, metav1.ConditionUnknown, v1alpha1.ReasonUnknown, "the worker has not told yet")
	case *jobs.Dead == 0:
		p.set(v1alpha1.ConditionDeadLetters, metav1.ConditionFalse, v1alpha1.ReasonNoDeadJobs, "no job is dead")
	default:
		p.set(v1alpha1.ConditionDeadLetters, metav1.ConditionTrue, v1alpha1.ReasonDeadJobs,
			fmt.Sprintf("%d dead %s: find the cause, mend it, then make a Redrive or purge", *jobs.Dead, plural(*jobs.Dead, "job waits", "jobs wait")))
	}
}

// reportBudget is arithmetic over the spec alone.
func (p *pass) reportBudget() {
	policy := manifest.ToPolicy(p.rq)
	cost := queue.CostOf(policy)
	p.rq.Status.Budget = &v1alpha1.BudgetStatus{
		LongestWait:       &metav1.Duration{Duration: cost.LongestWait.Std()},
		MeanWait:          &metav1.Duration{Duration: cost.MeanWait.Std()},
		ReachableAttempts: int32(cost.ReachableAttempts),
		MaxRequestsPerJob: cost.MaxRequests,
	}
	status, reason, message := judgeBudget(policy, cost)
	p.set(v1alpha1.ConditionBudget, status, reason, message)
}

func judgeBudget(policy queue.Policy, cost queue.Cost) (metav1.ConditionStatus, string, string) {
	const mend = "raise retryPolicy.deadline, or lower maxAttempts, attemptTimeout or backoff.cap"
	switch {
	case cost.BestAttempts < policy.MaxAttempts:
		return metav1.ConditionFalse, v1alpha1.ReasonUnreachable, fmt.Sprintf(
			"at most %d of %d attempts can start before the deadline of %s: %s", cost.BestAttempts, policy.MaxAttempts, policy.Deadline, mend)
	case cost.ReachableAttempts < policy.MaxAttempts:
		return metav1.ConditionFalse, v1alpha1.ReasonUnreachable, fmt.Sprintf(
			"when attempts take their whole timeout and delays their whole window, %d of %d attempts start before the deadline of %s: %s",
			cost.ReachableAttempts, policy.MaxAttempts, policy.Deadline, mend)
	}
	return metav1.ConditionTrue, v1alpha1.ReasonReachable, fmt.Sprintf("all %d attempts can start before the deadline of %s", policy.MaxAttempts, policy.Deadline)
}

func (p *pass) setWhile(condition string, while bool, v verdict) {
	if !while {
		meta.RemoveStatusCondition(&p.rq.Status.Conditions, condition)
		return
	}
	p.set(condition, metav1.ConditionTrue, v.reason, v.message)
}

func (p *pass) set(condition string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&p.rq.Status.Conditions, metav1.Condition{
		Type: condition, Status: status, Reason: reason, Message: clip(message),
		ObservedGeneration: p.rq.Generation, LastTransitionTime: metav1.Time{Time: p.clock.Now()},
	})
}

func truth(b bool) metav1.ConditionStatus {
	if b {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

func plural(n int64, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// maxMessage is what the API server takes in a message.
const maxMessage = 32768

func clip(s string) string { return s[:min(len(s), maxMessage)] }
