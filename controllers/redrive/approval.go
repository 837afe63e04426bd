package redrive

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
)

const (
	// policyMargin is how much younger than the admission policy an approval must be: a policy takes about a
	// second to reach every API server, and one made before it was checked by nobody.
	policyMargin = 10 * time.Second
	// clockSkew is how far the store's clock may run ahead of the API server's. That an approval was made after
	// the plan is proved by the plan's hash, which nobody can know before.
	clockSkew = 30 * time.Second
	// maxRecords is how many approvals status.approvals takes.
	maxRecords = 16
)

// floor is what the manager demands of every queue, whatever its redrivePolicy says.
type floor struct {
	minApprovals       int
	forbidSelfApproval bool
}

// requirement is what approvals of one plan must meet.
type requirement struct {
	redrive     v1alpha1.RedriveRef
	hash        string
	requester   string // one whose approval does not count; empty for nobody
	min         int
	plannedAt   time.Time
	now         time.Time
	ttl         time.Duration
	guardedFrom time.Time // approvals made before were not checked in admission
}

// tally is the count of approvals.
type tally struct {
	counted []v1alpha1.RedriveApprovalRecord // one an approver, the oldest first
	refused []string                         // why others do not count, for people
	min     int
}

func (t tally) enough() bool { return len(t.counted) >= t.min }

// require says what the approvals of this pass must meet.
func (p *pass) require(guardedFrom time.Time) requirement {
	policy := p.rq.Spec.RedrivePolicy
	r := requirement{
		redrive:     v1alpha1.RedriveRef{Name: p.rd.Name, UID: string(p.rd.UID)},
		hash:        p.plan.Summary.Hash,
		min:         max(int(policy.MinApprovals), p.floor.minApprovals, 1),
		plannedAt:   p.plan.Summary.PlannedAt.Std(),
		now:         p.plan.Now.Std(),
		ttl:         approvalTTL(p.rq),
		guardedFrom: guardedFrom,
	}
	if p.forbidsSelfApproval() {
		r.requester = p.rd.Spec.RequestedBy
	}
	return r
}

func (p *pass) forbidsSelfApproval() bool {
	forbid := p.rq.Spec.RedrivePolicy.ForbidSelfApproval
	return forbid == nil || *forbid || p.floor.forbidSelfApproval
}

// count applies the rules to the approvals of a namespace.
func count(r requirement, approvals []v1alpha1.RedriveApproval) tally {
	t := tally{min: r.min}
	sorted := slices.Clone(approvals)
	slices.SortFunc(sorted, func(a, b v1alpha1.RedriveApproval) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	seen := map[string]bool{}
	for _, a := range sorted {
		if a.Spec.RedriveRef.Name != r.redrive.Name {
			continue
		}
		if why := refuse(r, a); why != "" {
			t.refused = append(t.refused, fmt.Sprintf("%s %s", a.Name, why))
			continue
		}
		if seen[a.Spec.Approver] {
			continue
		}
		seen[a.Spec.Approver] = true
		if len(t.counted) < maxRecords {
			created := a.CreationTimestamp
			t.counted = append(t.counted, v1alpha1.RedriveApprovalRecord{
				Approver: a.Spec.Approver, PlanHash: a.Spec.PlanHash, Time: &created,
			})
		}
	}
	return t
}

// refuse says why an approval does not count; empty when it does.
func refuse(r requirement, a v1alpha1.RedriveApproval) string {
	created := a.CreationTimestamp.Time
	switch {
	case a.Spec.RedriveRef.UID != r.redrive.UID:
		return "names another Redrive of this name (spec.redriveRef.uid)"
	case a.Spec.PlanHash != r.hash:
		return "names another plan (spec.planHash)"
	case a.Spec.Decision != v1alpha1.DecisionApproved:
		return "does not say Approved (spec.decision)"
	case a.Spec.Approver == "":
		return "names no approver (spec.approver)"
	case r.requester != "" && a.Spec.Approver == r.requester:
		return "is by the one who made the Redrive"
	case !a.DeletionTimestamp.IsZero():
		return "is being deleted"
	case created.Before(r.plannedAt.Add(-clockSkew).Truncate(time.Second)):
		return "is older than the plan"
	case r.now.Sub(created) >= r.ttl:
		return "is older than redrivePolicy.approvalTTL"
	case !r.guardedFrom.IsZero() && created.Before(r.guardedFrom):
		return "was made before the admission policy was in force; delete it and approve again"
	}
	return ""
}

// approve counts the approvals of a plan that has released nothing yet.
func (p *pass) approve(ctx context.Context) (*outcome, error) {
	if p.started() {
		return nil, nil
	}
	if p.forbidsSelfApproval() && p.rd.Spec.RequestedBy == "" {
		return stalled(v1alpha1.ReasonRequesterUnknown,
			"spec.requestedBy is not set, so nobody can tell whether approver and requester differ; make a new Redrive with your own user name there"), nil
	}
	// Read past the cache: an approval that was deleted must not start anything.
	var list v1alpha1.RedriveApprovalList
	if err := p.live.List(ctx, &list, client.InNamespace(p.rd.Namespace)); err != nil {
		return nil, fmt.Errorf("listing approvals: %w", err)
	}
	p.approvals = list.Items
	return p.recount(time.Time{}), nil
}

// recount counts again, with the time from which admission guarded approvals.
func (p *pass) recount(guardedFrom time.Time) *outcome {
	t := count(p.require(guardedFrom), p.approvals)
	p.tally = &t
	p.rd.Status.Approvals = t.counted
	if t.enough() {
		return nil
	}
	left := p.expiry().Sub(p.plan.Now).Std()
	return waiting(v1alpha1.ReasonAwaitingApproval, awaiting(t), soonest(idleAfter, max(left, time.Second)))
}

// awaiting says what is missing.
func awaiting(t tally) string {
	message := fmt.Sprintf("%d of %d approvals; look at status.plan, then approve it with a RedriveApproval that names its hash", len(t.counted), t.min)
	const most = 3
	if n := len(t.refused); n > most {
		return fmt.Sprintf("%s. Not counted: %s, and %d more", message, strings.Join(t.refused[:most], "; "), n-most)
	}
	if len(t.refused) > 0 {
		return message + ". Not counted: " + strings.Join(t.refused, "; ")
	}
	return message
}

// approvedCondition is the condition Approved; nil keeps the one before.
func (p *pass) approvedCondition(out outcome) *metav1.Condition {
	c := &metav1.Condition{Type: v1alpha1.ConditionApproved, Status: metav1.ConditionFalse}
	switch {
	case p.plan == nil:
		return nil
	case p.started():
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonApproved, "the plan was approved and has started"
	case out.stalled:
		c.Reason, c.Message = out.reason, "see Ready"
	case p.tally == nil:
		return nil
	case p.tally.enough():
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonApproved, "the plan is approved"
	default:
		c.Reason = v1alpha1.ReasonAwaitingApproval
		c.Message = fmt.Sprintf("%d of %d approvals", len(p.tally.counted), p.tally.min)
	}
	return c
}
