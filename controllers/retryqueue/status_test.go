package retryqueue

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
	"github.com/retryqueue/retryqueue/internal/queue"
	"github.com/retryqueue/retryqueue/internal/workerapi"
)

var t0 = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func newPass(t *testing.T, now time.Time) *pass {
	t.Helper()
	rq := parse(t, minimal)
	return &pass{
		Reconciler: &Reconciler{clock: clocktesting.NewFakePassiveClock(now), poll: pollAfter},
		rq:         rq.DeepCopy(), stored: rq,
	}
}

func TestEveryVerdictKeepsToKstatus(t *testing.T) {
	t.Parallel()
	for sentence, tc := range map[string]struct {
		v    verdict
		want string
	}{
		"ready":   {ready(v1alpha1.ReasonAvailable, "m"), "Current"},
		"waiting": {waiting(v1alpha1.ReasonProgressing, "m"), "InProgress"},
		"stalled": {stalled(v1alpha1.ReasonNameTaken, "m"), "Failed"},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			p := newPass(t, t0)
			for _, before := range []verdict{ready("A", "m"), waiting("B", "m"), stalled("C", "m")} {
				p.summarise(before)
				p.summarise(tc.v)
				if got, err := kstatus(p.rq); got != tc.want || err != nil {
					t.Errorf("after %s: %s, %v; want %s", before.reason, got, err, tc.want)
				}
			}
		})
	}
}

func TestCountsChangeSeldom(t *testing.T) {
	t.Parallel()
	stats := func(pending, dead int64) workerapi.Stats {
		return workerapi.Stats{Stats: queue.Stats{Pending: pending, Dead: dead}}
	}
	for sentence, tc := range map[string]struct {
		after time.Duration
		stats workerapi.Stats
		want  int64 // pending
		moved bool  // observedTime
	}{
		"within half a minute nothing is written":       {29 * time.Second, stats(7, 0), 5, false},
		"after it a change is":                          {30 * time.Second, stats(7, 0), 7, true},
		"what has not changed keeps its time":           {time.Hour, stats(5, 0), 5, false},
		"the first death is told at once":               {time.Second, stats(7, 1), 7, true},
		"a clock that went back does not stop the next": {-time.Hour, stats(7, 1), 7, true},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			p := newPass(t, t0)
			p.reportJobs(stats(5, 0))
			first := p.rq.Status.Jobs.ObservedTime
			p.clock = clocktesting.NewFakePassiveClock(t0.Add(tc.after))
			p.reportJobs(tc.stats)
			j := p.rq.Status.Jobs
			if *j.Pending != tc.want || j.ObservedTime.Equal(first) == tc.moved {
				t.Errorf("pending %d at %s", *j.Pending, j.ObservedTime)
			}
		})
	}
}

func TestTheBudgetIsWorkedOut(t *testing.T) {
	t.Parallel()
	ms := queue.MillisOf
	policy := func(attempts int, deadline, timeout time.Duration) queue.Policy {
		return queue.Policy{MaxAttempts: attempts, Deadline: ms(deadline), AttemptTimeout: ms(timeout),
			Backoff: queue.Backoff{Base: 1000, Cap: 20_000, Jitter: queue.JitterFull}}
	}
	for sentence, tc := range map[string]struct {
		policy queue.Policy
		want   metav1.ConditionStatus
		says   string
	}{
		"all attempts fit":                  {policy(7, time.Hour, 10*time.Second), metav1.ConditionTrue, "all 7 attempts"},
		"slow attempts do not all fit":      {policy(7, time.Minute, 10*time.Second), metav1.ConditionFalse, "5 of 7 attempts"},
		"the mend is told":                  {policy(7, time.Minute, 10*time.Second), metav1.ConditionFalse, "raise retryPolicy.deadline"},
		"one attempt always fits":           {policy(1, time.Second, time.Second), metav1.ConditionTrue, "all 1"},
		"the deadline is met to the second": {policy(2, 11*time.Second, 10*time.Second), metav1.ConditionFalse, "1 of 2"},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			status, _, message := judgeBudget(tc.policy, queue.CostOf(tc.policy))
			if status != tc.want || !strings.Contains(message, tc.says) {
				t.Errorf("%s: %s", status, message)
			}
		})
	}
}

func TestADeploymentIsJudgedByItsLatestGeneration(t *testing.T) {
	t.Parallel()
	status := func(observed int64, replicas, updated, readyN int32) appsv1.DeploymentStatus {
		return appsv1.DeploymentStatus{ObservedGeneration: observed, Replicas: replicas, UpdatedReplicas: updated, ReadyReplicas: readyN}
	}
	refusing := status(2, 0, 0, 0)
	refusing.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue}}
	for sentence, tc := range map[string]struct {
		generation int64
		status     appsv1.DeploymentStatus
		want       int32
		reason     string
	}{
		"all is well":                            {2, status(2, 1, 1, 1), 1, ""},
		"the cache lags behind what we applied":  {1, status(1, 1, 1, 1), 1, v1alpha1.ReasonProgressing},
		"nobody has looked at it yet":            {2, status(1, 1, 1, 1), 1, v1alpha1.ReasonProgressing},
		"only the old pod is there":              {2, status(2, 1, 0, 1), 1, v1alpha1.ReasonProgressing},
		"the old pod is still there":             {2, status(2, 2, 1, 1), 1, v1alpha1.ReasonProgressing},
		"the new pod is not ready":               {2, status(2, 1, 1, 0), 1, v1alpha1.ReasonWorkersNotReady},
		"none is wanted and one is still ending": {2, status(2, 1, 1, 1), 0, v1alpha1.ReasonProgressing},
		"none is wanted":                         {2, status(2, 0, 0, 0), 0, v1alpha1.ReasonScaledToZero},
		"no pod can be made":                     {2, refusing, 1, v1alpha1.ReasonWorkersNotReady},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			d := &appsv1.Deployment{Status: tc.status}
			d.Generation = tc.generation
			got := ""
			if v := judgeWorkers(d, tc.want, 2); v != nil {
				got = v.reason
			}
			if got != tc.reason {
				t.Errorf("got %q, want %q", got, tc.reason)
			}
		})
	}
}
