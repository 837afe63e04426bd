package retryqueue

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
)

// kstatus says what tools would read from a RetryQueue, and what breaks the rules they read by.
func kstatus(rq *v1alpha1.RetryQueue) (string, error) {
	s := rq.Status
	if s.ObservedGeneration != rq.Generation {
		return "InProgress", nil
	}
	readyC := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady)
	if readyC == nil {
		return "", fmt.Errorf("Ready is missing")
	}
	isReady := readyC.Status == metav1.ConditionTrue
	reconciling := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReconciling)
	stalled := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionStalled)
	for _, c := range s.Conditions {
		if c.ObservedGeneration != rq.Generation && c.Type != v1alpha1.ConditionBudget {
			return "", fmt.Errorf("%s speaks of generation %d, not %d", c.Type, c.ObservedGeneration, rq.Generation)
		}
		if c.Message == "" || c.Reason == "" {
			return "", fmt.Errorf("%s has no reason or message", c.Type)
		}
		abnormal := c.Type == v1alpha1.ConditionReconciling || c.Type == v1alpha1.ConditionStalled
		if abnormal && c.Status != metav1.ConditionTrue {
			return "", fmt.Errorf("%s is there and %s", c.Type, c.Status)
		}
	}
	switch {
	case isReady && (reconciling != nil || stalled != nil), reconciling != nil && stalled != nil:
		return "", fmt.Errorf("conditions contradict each other: %+v", s.Conditions)
	case stalled != nil:
		return "Failed", nil
	case reconciling != nil:
		return "InProgress", nil
	case !isReady:
		return "", fmt.Errorf("not Ready, and neither Reconciling nor Stalled")
	}
	return "Current", nil
}
