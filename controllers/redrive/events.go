package redrive

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
)

// tell records an event for each change that a person should know of.
func (p *pass) tell(before *v1alpha1.Redrive, out outcome) {
	if out.keep {
		return
	}
	old := before.Status.Conditions
	if p.plan != nil && !meta.IsStatusConditionTrue(old, v1alpha1.ConditionPlanned) {
		p.events.Eventf(p.rd, nil, corev1.EventTypeNormal, v1alpha1.ReasonPlanned, "Plan",
			"%d jobs selected of %d that match", p.plan.Summary.Selected, p.plan.Summary.Matched)
	}
	if meta.IsStatusConditionTrue(p.rd.Status.Conditions, v1alpha1.ConditionApproved) &&
		!meta.IsStatusConditionTrue(old, v1alpha1.ConditionApproved) {
		p.events.Eventf(p.rd, nil, corev1.EventTypeNormal, v1alpha1.ReasonApproved, "Approve",
			"the plan is approved, by %d", len(p.rd.Status.Approvals))
	}
	was := meta.FindStatusCondition(old, v1alpha1.ConditionReady)
	if out.reason == v1alpha1.ReasonPlanning || was != nil && was.Reason == out.reason {
		return
	}
	kind := corev1.EventTypeNormal
	if out.stalled || out.reason == v1alpha1.ReasonCanaryInconclusive || out.reason == v1alpha1.ReasonFailing {
		kind = corev1.EventTypeWarning
	}
	p.events.Eventf(p.rd, nil, kind, out.reason, "Reconcile", "%s", clipNote(out.message))
}

// maxNote is what an event's note may hold, in bytes.
const maxNote = 1024

func clipNote(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxNote)], "") }
