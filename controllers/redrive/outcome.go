package redrive

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
)

// outcome is what a pass came to: the verdict of the conditions, and when to look again.
type outcome struct {
	reason  string
	message string

	ready       metav1.ConditionStatus
	reconciling bool // only while the plan is made
	stalled     bool // a person must act, or nothing will ever happen
	complete    bool
	failed      bool // ended before the plan was done

	permitted bool          // the worker holds a permission
	keep      bool          // the status speaks of an end already; leave it
	again     bool          // nothing to report: look again after
	after     time.Duration // 0: when told
}

// planning: on the way to a plan.
func planning(message string) *outcome {
	return &outcome{
		reason: v1alpha1.ReasonPlanning, message: message,
		ready: metav1.ConditionUnknown, reconciling: true, after: retryAfter,
	}
}

// waiting: nothing is wrong, and nothing is released just now.
func waiting(reason, message string, after time.Duration) *outcome {
	return &outcome{reason: reason, message: message, ready: metav1.ConditionTrue, after: after}
}

// stalled: a person must act.
func stalled(reason, message string) *outcome {
	return &outcome{reason: reason, message: message, ready: metav1.ConditionFalse, stalled: true}
}

// lost: it never will be done.
func lost(reason, message string) *outcome {
	o := stalled(reason, message)
	o.failed = true
	return o
}

// done: every job of the plan has come to an end.
func done(reason, message string) *outcome {
	return &outcome{reason: reason, message: message, ready: metav1.ConditionTrue, complete: true}
}

// cancelled: ended by a person.
func cancelled() *outcome {
	return &outcome{
		reason: v1alpha1.ReasonCancelled, message: "cancelled: what was not released stays dead",
		ready: metav1.ConditionTrue, failed: true,
	}
}

// kept: the status says how it ended; there is nothing newer to say.
func kept(after time.Duration) *outcome { return &outcome{keep: true, after: after} }

// recordedEnd says that the status speaks of an end. It only ever keeps a status from being overwritten when
// there is nothing to observe any more; it never leads to a release.
func recordedEnd(rd *v1alpha1.Redrive) bool {
	for _, c := range rd.Status.Conditions {
		if c.Type != v1alpha1.ConditionReady {
			continue
		}
		switch c.Reason {
		case v1alpha1.ReasonComplete, v1alpha1.ReasonNothingSelected, v1alpha1.ReasonCancelled,
			v1alpha1.ReasonAborted, v1alpha1.ReasonAlreadyExecuted:
			return true
		}
	}
	return false
}
