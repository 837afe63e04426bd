package redrive

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/google/go-cmp/cmp"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
	"github.com/retryqueue/retryqueue/internal/queue"
)

// verdict is the conditions of an outcome as type=status.
func verdict(out outcome, planned bool) map[string]string {
	got := map[string]string{}
	for _, c := range conditions(out, planned) {
		got[c.Type] = string(c.Status) + " " + c.Reason
	}
	return got
}

func TestConditions(t *testing.T) {
	tests := map[string]struct {
		out     *outcome
		planned bool
		want    map[string]string
	}{
		"planning is in progress": {
			planning("m"), false,
			map[string]string{"Ready": "Unknown Planning", "Reconciling": "True Planning", "Planned": "False Planning", "Complete": "False Planning", "Failed": "False Planning"},
		},
		"waiting for a person does not block a sync": {
			waiting(v1alpha1.ReasonAwaitingApproval, "m", 0), true,
			map[string]string{"Ready": "True AwaitingApproval", "Planned": "True Planned", "Complete": "False AwaitingApproval", "Failed": "False AwaitingApproval"},
		},
		"a refused plan is stalled": {
			stalled(v1alpha1.ReasonPlanRefused, "m"), false,
			map[string]string{"Ready": "False PlanRefused", "Stalled": "True PlanRefused", "Planned": "False PlanRefused", "Complete": "False PlanRefused", "Failed": "False PlanRefused"},
		},
		"an aborted one is stalled and failed": {
			lost(v1alpha1.ReasonAborted, "m"), true,
			map[string]string{"Ready": "False Aborted", "Stalled": "True Aborted", "Planned": "True Planned", "Complete": "False Aborted", "Failed": "True Aborted"},
		},
		"a cancelled one is ready and failed": {
			cancelled(), true,
			map[string]string{"Ready": "True Cancelled", "Planned": "True Planned", "Complete": "False Cancelled", "Failed": "True Cancelled"},
		},
		"a complete one is ready and complete": {
			done(v1alpha1.ReasonComplete, "m"), true,
			map[string]string{"Ready": "True Complete", "Planned": "True Planned", "Complete": "True Complete", "Failed": "False Complete"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, verdict(*tt.out, tt.planned)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEnded(t *testing.T) {
	some := queue.RedriveSummary{Selected: 3}
	tests := map[string]struct {
		plan   queue.Redrive
		reason string // empty: not ended
		failed bool
	}{
		"planned":              {queue.Redrive{State: queue.RedrivePlanned, Summary: some}, "", false},
		"running":              {queue.Redrive{State: queue.RedriveRunning, Summary: some}, "", false},
		"complete":             {queue.Redrive{State: queue.RedriveComplete, Summary: some}, v1alpha1.ReasonComplete, false},
		"cancelled":            {queue.Redrive{State: queue.RedriveCancelled, Summary: some}, v1alpha1.ReasonCancelled, true},
		"aborted":              {queue.Redrive{State: queue.RedriveAborted, Summary: some}, v1alpha1.ReasonAborted, true},
		"planned with no job":  {queue.Redrive{State: queue.RedrivePlanned}, v1alpha1.ReasonNothingSelected, false},
		"complete with no job": {queue.Redrive{State: queue.RedriveComplete}, v1alpha1.ReasonNothingSelected, false},
		"no job and cancelled": {queue.Redrive{State: queue.RedriveCancelled}, v1alpha1.ReasonCancelled, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ended(tt.plan)
			if got == nil {
				got = &outcome{}
			}
			if got.reason != tt.reason || got.failed != tt.failed {
				t.Errorf("got %q failed=%t, want %q failed=%t", got.reason, got.failed, tt.reason, tt.failed)
			}
		})
	}
}

func TestRunningSaysWhatHoldsIt(t *testing.T) {
	tests := map[queue.HeldReason]string{
		"":                           v1alpha1.ReasonReleasing,
		queue.HeldNoPermission:       v1alpha1.ReasonReleasing,
		queue.HeldCanary:             v1alpha1.ReasonReleasing,
		queue.HeldOutstanding:        v1alpha1.ReasonReleasing,
		queue.HeldUnstarted:          v1alpha1.ReasonReleasing,
		queue.HeldQueueSuspended:     v1alpha1.ReasonQueueSuspended,
		queue.HeldBreakerOpen:        v1alpha1.ReasonBreakerOpen,
		queue.HeldFailing:            v1alpha1.ReasonFailing,
		queue.HeldCanaryInconclusive: v1alpha1.ReasonCanaryInconclusive,
	}
	for held, want := range tests {
		t.Run("held by "+string(held), func(t *testing.T) {
			t.Parallel()
			out := running(queue.Redrive{Held: held, Progress: queue.RedriveProgress{Remaining: 1}})
			if out.reason != want || !out.permitted || out.ready != metav1.ConditionTrue {
				t.Errorf("got %+v, want %s, permitted and ready", out, want)
			}
			if out.after <= 0 || out.after > renewAfter.Std() {
				t.Errorf("looks again after %s, which is too late to renew every %s", out.after, renewAfter)
			}
		})
	}
}

func TestRecordedEndIsNeverAWait(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]bool{
		v1alpha1.ReasonComplete: true, v1alpha1.ReasonNothingSelected: true, v1alpha1.ReasonCancelled: true,
		v1alpha1.ReasonAborted: true, v1alpha1.ReasonAlreadyExecuted: true,
		v1alpha1.ReasonReleasing: false, v1alpha1.ReasonPlanLost: false, v1alpha1.ReasonQueueNotFound: false,
	} {
		rd := &v1alpha1.Redrive{}
		rd.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Reason: reason}}
		if got := recordedEnd(rd); got != want {
			t.Errorf("%s: got %t, want %t", reason, got, want)
		}
	}
}

func TestSoonest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ a, b, want time.Duration }{{0, 0, 0}, {0, 2, 2}, {2, 0, 2}, {3, 2, 2}} {
		if got := soonest(tt.a, tt.b); got != tt.want {
			t.Errorf("soonest(%d, %d) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
