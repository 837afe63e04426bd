package redrive

import (
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
	"github.com/retryqueue/retryqueue/internal/queue"
)

func TestNothingRunsUntilApprovedAndThenAllOfIt(t *testing.T) {
	t.Parallel()
	b := newBench(t, 12)
	b.start()
	rd := b.redrive("inc-42")
	got := b.await(rd, v1alpha1.ReasonAwaitingApproval)
	want := map[string]string{
		"Planned": "True Planned", "Approved": "False AwaitingApproval", "Ready": "True AwaitingApproval",
		"Complete": "False AwaitingApproval", "Failed": "False AwaitingApproval",
	}
	if diff := cmp.Diff(want, conditionsOf(got)); diff != "" {
		t.Errorf("conditions while waiting (-want +got):\n%s", diff)
	}
	if p := got.Status.Plan; p.Selected != 12 || p.Hash == "" || p.QueueUID != string(b.rq.UID) || p.ExpiresAt.Sub(p.PlannedAt.Time) != 24*time.Hour {
		t.Errorf("plan: %+v", p)
	}
	for range 20 {
		b.w.tick(succeeded)
	}
	if n := b.released(rd); n != 0 {
		t.Fatalf("%d jobs were released without an approval", n)
	}
	b.approve(alice, rd)
	got = b.awaitWhile(rd, v1alpha1.ReasonComplete, b.w.delivering())
	want = map[string]string{
		"Planned": "True Planned", "Approved": "True Approved", "Ready": "True Complete", "Complete": "True Complete", "Failed": "False Complete",
	}
	if diff := cmp.Diff(want, conditionsOf(got)); diff != "" {
		t.Errorf("conditions at the end (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&v1alpha1.RedriveProgress{Released: 12, Delivered: 12}, got.Status.Progress); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	if a := got.Status.Approvals; len(a) != 1 || a[0].Approver != alice || a[0].PlanHash != got.Status.Plan.Hash {
		t.Errorf("approvals: %+v", a)
	}
	if len(got.Finalizers) != 0 {
		t.Errorf("a finished Redrive is held by %v", got.Finalizers)
	}
	NewWithT(t).Eventually(func() map[string]string { return b.eventsOf(rd) }, patience).Should(And(
		HaveKeyWithValue("Planned", "Normal"), HaveKeyWithValue("AwaitingApproval", "Normal"),
		HaveKeyWithValue("Approved", "Normal"), HaveKeyWithValue("Complete", "Normal")))
}

func TestWhoMayApprove(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1)
	b.start()
	rd := b.redrive("inc-42")
	b.await(rd, v1alpha1.ReasonAwaitingApproval)

	robot := "system:serviceaccount:" + b.ns + ":robot"
	cluster.Grant(t, b.ns, "retryqueue-approver", robot)
	err := cluster.As(t, robot).Create(t.Context(), b.approvalOf(robot, rd))
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "is not a person") {
		t.Errorf("an approval by a service account: %v", err)
	}
	b.approve(bob, rd) // the API server takes it: whether he is the requester is for the controller to see
	NewWithT(t).Eventually(func() string { return ready(b.get(rd)) }, patience).Should(ContainSubstring("is by the one who made the Redrive"))
	b.w.tick(succeeded)
	if b.permitted(rd) || b.released(rd) != 0 {
		t.Fatal("the requester's own approval let the Redrive run")
	}
	b.approve(carol, rd)
	b.awaitWhile(rd, v1alpha1.ReasonComplete, b.w.delivering())
}

func TestSelfApprovalWhereTheQueueAllowsItAndTheClusterDoesNot(t *testing.T) {
	t.Parallel()
	no := false
	b := newBench(t, 1, func(rq *v1alpha1.RetryQueue) { rq.Spec.RedrivePolicy.ForbidSelfApproval = &no })
	stop := b.start(func(o *Options) { o.ForbidSelfApproval, o.MinApprovals = true, 2 })
	rd := b.redrive("inc-42")
	b.await(rd, v1alpha1.ReasonAwaitingApproval)
	b.approve(bob, rd)
	b.approve(alice, rd)
	NewWithT(t).Eventually(func() string { return ready(b.get(rd)) }, patience).Should(And(
		HavePrefix("1 of 2 approvals"), ContainSubstring("is by the one who made the Redrive")))
	stop()
	b.start()
	b.awaitWhile(rd, v1alpha1.ReasonComplete, b.w.delivering())
}

func TestAnApprovalDeletedBeforeTheFirstReleaseRevokes(t *testing.T) {
	t.Parallel()
	b := newBench(t, 30)
	b.start()
	rd := b.redrive("inc-42")
	b.await(rd, v1alpha1.ReasonAwaitingApproval)
	a := b.approve(alice, rd)
	b.await(rd, v1alpha1.ReasonReleasing) // permitted; the test's worker has not released anything yet
	if !b.permitted(rd) {
		t.Fatal("Releasing, and no permission")
	}
	b.delete(a)
	got := b.await(rd, v1alpha1.ReasonAwaitingApproval)
	if b.permitted(rd) || len(got.Status.Approvals) != 0 {
		t.Errorf("revoked, and still permitted (%t) or on record: %v", b.permitted(rd), got.Status.Approvals)
	}
	b.w.tick(succeeded)
	if n := b.released(rd); n != 0 {
		t.Fatalf("%d jobs were released after the approval was revoked", n)
	}
	a = b.approve(carol, rd)
	b.await(rd, v1alpha1.ReasonReleasing)
	b.w.tick(succeeded)
	b.delete(a)
	got = b.awaitWhile(rd, v1alpha1.ReasonComplete, b.w.delivering())
	if r := got.Status.Approvals; len(r) != 1 || r[0].Approver != carol {
		t.Errorf("the record of the approval that counted is gone: %v", r)
	}
}

func TestSuspendAndResume(t *testing.T) {
	t.Parallel()
	b := newBench(t, 30)
	b.start()
	rd := b.redrive("inc-42")
	b.await(rd, v1alpha1.ReasonAwaitingApproval)
	b.approve(alice, rd)
	b.await(rd, v1alpha1.ReasonReleasing)
	b.w.tick(succeeded)
	b.patch(rd, func(rd *v1alpha1.Redrive) { rd.Spec.Suspend = true })
	b.await(rd, v1alpha1.ReasonSuspended)
	if b.permitted(rd) {
		t.Error("suspended, and still permitted")
	}
	n := b.released(rd)
	for range 20 {
		b.w.tick(succeeded)
	}
	if got := b.released(rd); got != n || n == 0 {
		t.Errorf("released %d before and %d after the suspension", n, got)
	}
	b.patch(rd, func(rd *v1alpha1.Redrive) { rd.Spec.Suspend = false })
	b.awaitWhile(rd, v1alpha1.ReasonComplete, b.w.delivering())
}

func TestCancel(t *testing.T) {
	t.Parallel()
	b := newBench(t, 30)
	b.start()
	rd := b.redrive("inc-42")
	b.await(rd, v1alpha1.ReasonAwaitingApproval)
	b.approve(alice, rd)
	b.await(rd, v1alpha1.ReasonReleasing)
	b.w.tick(succeeded)
	n := b.released(rd)
	b.patch(rd, func(rd *v1alpha1.Redrive) { rd.Spec.Cancel = true })
	got := b.await(rd, v1alpha1.ReasonCancelled)
	if !meta.IsStatusConditionTrue(got.Status.Conditions, v1alpha1.ConditionFailed) || meta.IsStatusConditionTrue(got.Status.Conditions, v1alpha1.ConditionComplete) {
		t.Errorf("conditions: %v", conditionsOf(got))
	}
	for range 20 {
		b.w.tick(succeeded)
	}
	if b.released(rd) != n || got.Status.Progress.Remaining != 30-n {
		t.Errorf("released %d, then %d; status %+v", n, b.released(rd), got.Status.Progress)
	}

	never := b.redrive("never", func(rd *v1alpha1.Redrive) { rd.Spec.Cancel = true })
	b.await(never, v1alpha1.ReasonCancelled)
	if _, err := b.w.store.Redrive(t.Context(), string(never.UID)); err == nil {
		t.Error("a Redrive that was cancelled from the start was planned")
	}
}

func TestARedriveRunsOnceHoweverOftenItIsApplied(t *testing.T) {
	t.Parallel()
	b := newBench(t, 6)
	b.start()
	rd := b.redrive("inc-42")
	b.await(rd, v1alpha1.ReasonAwaitingApproval)
	b.approve(alice, rd)
	b.awaitWhile(rd, v1alpha1.ReasonComplete, b.w.delivering())
	b.w.bury(3)
	b.delete(rd)
	b.awaitGone(rd)
	again := b.redrive("inc-42")
	got := b.await(again, v1alpha1.ReasonAlreadyExecuted)
	if got.Status.Plan != nil || len(got.Finalizers) != 0 || !meta.IsStatusConditionTrue(got.Status.Conditions, v1alpha1.ConditionReady) {
		t.Errorf("plan %v, finalizers %v, conditions %v", got.Status.Plan, got.Finalizers, conditionsOf(got))
	}
	for range 20 {
		b.w.tick(succeeded)
	}
	if len(b.w.spent) != 6 {
		t.Errorf("%d jobs were replayed, want the 6 of the first time", len(b.w.spent))
	}
}

func TestAQueueMadeAnewNeverRunsAnOldPlan(t *testing.T) {
	tests := map[string]func(b *bench){
		"with new data":            func(b *bench) { b.w = newWorker(b.t); b.w.bury(3) },
		"that adopts the old data": func(*bench) {},
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, 3)
			b.start()
			rd := b.redrive("inc-42")
			b.await(rd, v1alpha1.ReasonAwaitingApproval)
			b.delete(b.rq)
			got := b.await(rd, v1alpha1.ReasonQueueNotFound)
			if !meta.IsStatusConditionTrue(got.Status.Conditions, v1alpha1.ConditionStalled) {
				t.Errorf("conditions: %v", conditionsOf(got))
			}
			prepare(b)
			b.makeQueue()
			b.await(rd, v1alpha1.ReasonPlanLost)
			b.approve(alice, rd)
			b.touch(rd)
			for range 20 {
				b.w.tick(succeeded)
			}
			b.await(rd, v1alpha1.ReasonPlanLost)
			if len(b.w.spent) != 0 {
				t.Errorf("%d jobs were replayed by the plan of another queue", len(b.w.spent))
			}
		})
	}
}

func TestAQueueThatGoesTakesThePermissionAlong(t *testing.T) {
	t.Parallel()
	for sentence, held := range map[string][]string{"gone": nil, "on its way": {"example.com/hold"}} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, 30)
			b.start()
			rd := b.redrive("inc-42")
			b.await(rd, v1alpha1.ReasonAwaitingApproval)
			b.approve(alice, rd)
			b.await(rd, v1alpha1.ReasonReleasing)
			b.patchQueue(func(rq *v1alpha1.RetryQueue) { rq.Finalizers = held })
			b.delete(b.rq)
			b.await(rd, v1alpha1.ReasonQueueNotFound)
			if b.permitted(rd) {
				t.Error("its queue goes, and the worker may still release")
			}
			if held != nil {
				b.patchQueue(func(rq *v1alpha1.RetryQueue) { rq.Finalizers = nil })
			}
		})
	}
}

func TestAPlanThatNobodyApprovesExpires(t *testing.T) {
	t.Parallel()
	b := newBench(t, 3)
	b.start()
	rd := b.redrive("inc-42")
	b.await(rd, v1alpha1.ReasonAwaitingApproval)
	b.w.clock.Advance(24*3_600_000 - 1)
	b.touch(rd)
	b.await(rd, v1alpha1.ReasonAwaitingApproval)
	b.w.clock.Advance(1)
	b.touch(rd)
	got := b.await(rd, v1alpha1.ReasonPlanExpired)
	if !meta.IsStatusConditionTrue(got.Status.Conditions, v1alpha1.ConditionStalled) {
		t.Errorf("conditions: %v", conditionsOf(got))
	}
	b.approve(alice, rd)
	b.touch(rd)
	b.await(rd, v1alpha1.ReasonPlanExpired)
	if b.permitted(rd) {
		t.Error("an expired plan was permitted")
	}
}

func TestAnotherManagerGoesOnWhereTheFirstStopped(t *testing.T) {
	t.Parallel()
	b := newBench(t, 40)
	stop := b.start()
	rd := b.redrive("inc-42")
	b.await(rd, v1alpha1.ReasonAwaitingApproval)
	a := b.approve(alice, rd)
	b.await(rd, v1alpha1.ReasonReleasing)
	b.w.tick(succeeded)
	stop()
	b.delete(a) // too late to revoke: jobs have been released
	b.w.clock.Advance(61_000)
	for range 20 {
		b.w.tick(succeeded)
	}
	n := b.released(rd)
	if n == 0 || n == 40 {
		t.Fatalf("released %d of 40 while no manager runs", n)
	}
	b.start()
	got := b.awaitWhile(rd, v1alpha1.ReasonComplete, b.w.delivering())
	if got.Status.Progress.Delivered != 40 || len(b.w.spent) != 40 {
		t.Errorf("delivered %d, replayed %d jobs", got.Status.Progress.Delivered, len(b.w.spent))
	}
}

func TestTwoManagersAtOnceDoNoHarm(t *testing.T) {
	t.Parallel()
	b := newBench(t, 40)
	b.start()
	b.start()
	rd := b.redrive("inc-42")
	b.await(rd, v1alpha1.ReasonAwaitingApproval)
	b.approve(alice, rd)
	b.await(rd, v1alpha1.ReasonReleasing)
	from := b.w.clock.Now()
	got := b.awaitWhile(rd, v1alpha1.ReasonComplete, b.w.delivering())
	if got.Status.Progress.Delivered != 40 {
		t.Errorf("delivered %d", got.Status.Progress.Delivered)
	}
	for id, n := range b.w.spent {
		if n != 1 {
			t.Errorf("%s was replayed %d times", id, n)
		}
	}
	if took, least := b.w.clock.Now().Sub(from), queue.Millis((40-5)*100); took < least {
		t.Errorf("40 jobs at 10/s and a burst of 5 took %s, less than %s", took, least)
	}
}

// only picks jobs by id.
func only(ids ...string) func(*v1alpha1.Redrive) {
	return func(rd *v1alpha1.Redrive) { rd.Spec.Selector = &v1alpha1.DeadSelector{IDs: ids} }
}

func TestOneRedriveOfAQueueRunsAtATime(t *testing.T) {
	t.Parallel()
	b := newBench(t, 20)
	b.start()
	one := b.redrive("one", only("job-000", "job-001", "job-002", "job-003", "job-004", "job-005", "job-006", "job-007"))
	two := b.redrive("two", only("job-010", "job-011"))
	b.await(one, v1alpha1.ReasonAwaitingApproval)
	b.await(two, v1alpha1.ReasonAwaitingApproval)
	b.approve(alice, one)
	b.await(one, v1alpha1.ReasonReleasing)
	b.approve(alice, two)
	got := b.await(two, v1alpha1.ReasonWaitingForRedrive)
	if !strings.Contains(ready(got), "Redrive one ") || b.permitted(two) {
		t.Errorf("permitted %t: %s", b.permitted(two), ready(got))
	}
	b.patch(one, func(rd *v1alpha1.Redrive) { rd.Spec.Suspend = true })
	b.await(one, v1alpha1.ReasonSuspended)
	b.await(two, v1alpha1.ReasonReleasing)
	b.patch(one, func(rd *v1alpha1.Redrive) { rd.Spec.Suspend = false })
	b.await(one, v1alpha1.ReasonWaitingForRedrive)
	b.awaitWhile(two, v1alpha1.ReasonComplete, b.w.delivering())
	b.awaitWhile(one, v1alpha1.ReasonComplete, b.w.delivering())
}

func TestAStatusWrittenByHandReleasesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, 3)
	stop := b.start()
	rd := b.redrive("inc-42")
	b.await(rd, v1alpha1.ReasonAwaitingApproval)
	stop()
	obj := b.get(rd)
	hash := obj.Status.Plan.Hash
	obj.Status.Plan.Hash = "sha256:" + strings.Repeat("0", 64)
	obj.Status.Approvals = []v1alpha1.RedriveApprovalRecord{{Approver: alice, PlanHash: hash}}
	obj.Status.Progress = &v1alpha1.RedriveProgress{Released: 1}
	for _, kind := range []string{v1alpha1.ConditionApproved, v1alpha1.ConditionReady} {
		meta.SetStatusCondition(&obj.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReleasing})
	}
	if err := cluster.Client.Status().Update(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	b.approve(alice, rd) // of the forged hash
	b.start()
	got := b.await(rd, v1alpha1.ReasonAwaitingApproval)
	if b.permitted(rd) || got.Status.Plan.Hash != hash || len(got.Status.Approvals) != 0 {
		t.Errorf("permitted %t, plan %s, approvals %v", b.permitted(rd), got.Status.Plan.Hash, got.Status.Approvals)
	}
}

func TestAWorkerThatSpeaksOfAnotherPlanIsNotBelieved(t *testing.T) {
	t.Parallel()
	b := newBench(t, 3)
	b.start()
	rd := b.redrive("inc-42")
	b.await(rd, v1alpha1.ReasonAwaitingApproval)
	b.w.forge(func(r *queue.Redrive) { r.UID = "another"; r.StartedAt = 1 })
	b.approve(alice, rd)
	b.await(rd, v1alpha1.ReasonWaitingForWorker)
	if b.permitted(rd) {
		t.Error("permitted on the word of another plan")
	}
	b.w.forge(nil)
	b.awaitWhile(rd, v1alpha1.ReasonComplete, b.w.delivering())
}

func TestAWorkerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	b := newBench(t, 3)
	b.w.setDown(true)
	b.start()
	rd := b.redrive("inc-42")
	got := b.await(rd, v1alpha1.ReasonPlanning)
	if !meta.IsStatusConditionTrue(got.Status.Conditions, v1alpha1.ConditionReconciling) {
		t.Errorf("conditions: %v", conditionsOf(got))
	}
	b.w.setDown(false)
	b.await(rd, v1alpha1.ReasonAwaitingApproval)
	b.w.setDown(true)
	b.touch(rd)
	got = b.await(rd, v1alpha1.ReasonWaitingForWorker)
	if !meta.IsStatusConditionTrue(got.Status.Conditions, v1alpha1.ConditionPlanned) || meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionReconciling) != nil {
		t.Errorf("conditions: %v", conditionsOf(got))
	}
}

func TestAQueueScaledToZeroSaysSo(t *testing.T) {
	t.Parallel()
	b := newBench(t, 3, func(rq *v1alpha1.RetryQueue) { rq.Spec.Workers.Replicas = new(int32(0)) })
	b.w.setDown(true)
	b.start()
	got := b.await(b.redrive("inc-42"), v1alpha1.ReasonPlanning)
	ready := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionReady)
	if !strings.Contains(ready.Message, "scaled to zero") {
		t.Errorf("message: %q", ready.Message)
	}
}

func TestPlansThatTheQueueDoesNotAllow(t *testing.T) {
	t.Parallel()
	b := newBench(t, 3, func(rq *v1alpha1.RetryQueue) { rq.Spec.RedrivePolicy.MaxRate.Jobs = 5 })
	b.start()
	rd := b.redrive("inc-42")
	got := b.await(rd, v1alpha1.ReasonPlanRefused)
	if !meta.IsStatusConditionTrue(got.Status.Conditions, v1alpha1.ConditionStalled) || !strings.Contains(ready(got), "maxRate") {
		t.Errorf("%v: %s", conditionsOf(got), ready(got))
	}
	b.patchQueue(func(rq *v1alpha1.RetryQueue) { rq.Spec.RedrivePolicy.MaxRate.Jobs = 10 })
	b.await(rd, v1alpha1.ReasonAwaitingApproval)
	b.approve(alice, rd)
	b.await(rd, v1alpha1.ReasonReleasing)
	b.patchQueue(func(rq *v1alpha1.RetryQueue) { rq.Spec.Delivery.HTTP.URL = "http://elsewhere.shop.svc/handle" })
	b.await(rd, v1alpha1.ReasonPlanOutdated)
	if b.permitted(rd) {
		t.Error("permitted, with another target than was approved")
	}
	b.patchQueue(func(rq *v1alpha1.RetryQueue) { rq.Spec.Delivery.HTTP.URL = "http://orders.shop.svc/handle" })
	b.await(rd, v1alpha1.ReasonReleasing)
	b.patchQueue(func(rq *v1alpha1.RetryQueue) { rq.Spec.RedrivePolicy.MaxRate.Jobs = 9 })
	b.await(rd, v1alpha1.ReasonPlanRefused)
	if b.permitted(rd) {
		t.Error("permitted, at a rate that the queue does not allow any more")
	}
}

func TestNothingToReplayIsComplete(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0)
	b.start()
	rd := b.redrive("inc-42")
	got := b.await(rd, v1alpha1.ReasonNothingSelected)
	if !meta.IsStatusConditionTrue(got.Status.Conditions, v1alpha1.ConditionComplete) || len(got.Finalizers) != 0 {
		t.Errorf("%v, finalizers %v", conditionsOf(got), got.Finalizers)
	}
}

func TestTooManyDeathsAbort(t *testing.T) {
	t.Parallel()
	b := newBench(t, 40)
	b.start()
	few := int64(5)
	rd := b.redrive("inc-42", func(rd *v1alpha1.Redrive) { rd.Spec.Abort = &v1alpha1.Abort{MinJobs: &few} })
	b.await(rd, v1alpha1.ReasonAwaitingApproval)
	b.approve(alice, rd)
	got := b.awaitWhile(rd, v1alpha1.ReasonAborted, func() { b.w.tick(permanent) })
	if !meta.IsStatusConditionTrue(got.Status.Conditions, v1alpha1.ConditionFailed) ||
		!meta.IsStatusConditionTrue(got.Status.Conditions, v1alpha1.ConditionStalled) || got.Status.Progress.Remaining == 0 {
		t.Errorf("%v, progress %+v", conditionsOf(got), got.Status.Progress)
	}
}

func TestDeletionCancels(t *testing.T) {
	t.Parallel()
	b := newBench(t, 30)
	clock := clocktesting.NewFakePassiveClock(time.Now())
	b.start(func(o *Options) { o.Clock = clock })
	rd := b.redrive("inc-42")
	b.await(rd, v1alpha1.ReasonAwaitingApproval)
	b.approve(alice, rd)
	b.await(rd, v1alpha1.ReasonReleasing)
	b.delete(rd)
	b.awaitGone(rd)
	got, err := b.w.store.Redrive(t.Context(), string(rd.UID))
	if err != nil || got.State != queue.RedriveCancelled {
		t.Errorf("deleted, and the plan is %s, %v", got.State, err)
	}

	rd = b.redrive("inc-43")
	b.await(rd, v1alpha1.ReasonAwaitingApproval)
	b.w.setDown(true)
	b.delete(rd)
	b.touch(rd)
	if obj := b.get(rd); len(obj.Finalizers) == 0 {
		t.Error("let go while the worker could still hold a permission")
	}
	clock.SetTime(time.Now().Add(letGoAfter + time.Second))
	b.touch(rd)
	b.awaitGone(rd)
}

func TestApprovalsAndRedrivesFromBeforeThePolicy(t *testing.T) {
	t.Parallel()
	no := false
	b := newBench(t, 3, func(rq *v1alpha1.RetryQueue) { rq.Spec.RedrivePolicy.ForbidSelfApproval = &no })
	b.start(func(o *Options) { o.policyMargin = time.Hour })
	rd := b.redrive("inc-42")
	b.await(rd, v1alpha1.ReasonAwaitingApproval)
	b.approve(alice, rd)
	NewWithT(t).Eventually(func() string { return ready(b.get(rd)) }, patience).Should(ContainSubstring("before the admission policy was in force"))
	b.patchQueue(func(rq *v1alpha1.RetryQueue) { rq.Spec.RedrivePolicy.ForbidSelfApproval = nil })
	b.await(rd, v1alpha1.ReasonRequesterUnknown)
	if b.permitted(rd) {
		t.Error("permitted by an approval that admission did not check")
	}
}

func TestTwoManagersLetOneOfTwoRedrivesIn(t *testing.T) {
	t.Parallel()
	b := newBench(t, 20)
	b.start()
	b.start()
	first := b.redrive("first", only("job-000", "job-001", "job-002", "job-003", "job-004", "job-005", "job-006"))
	second := b.redrive("second", only("job-010", "job-011", "job-012", "job-013", "job-014", "job-015", "job-016"))
	b.await(first, v1alpha1.ReasonAwaitingApproval)
	b.await(second, v1alpha1.ReasonAwaitingApproval)
	b.approve(alice, first)
	b.approve(alice, second)
	reasons := func() []string {
		one, two := b.get(first), b.get(second)
		return []string{readyReason(one), readyReason(two)}
	}
	NewWithT(t).Eventually(reasons, patience, 20*time.Millisecond).Should(
		ConsistOf(v1alpha1.ReasonReleasing, v1alpha1.ReasonWaitingForRedrive))
	if b.permitted(first) == b.permitted(second) {
		t.Errorf("both permitted: %t", b.permitted(first))
	}
	b.awaitWhile(first, v1alpha1.ReasonComplete, b.w.delivering())
	b.awaitWhile(second, v1alpha1.ReasonComplete, b.w.delivering())
}

// TestAnotherControllerMayLetInAnotherRedriveMeanwhile has another controller permit and start the first Redrive in the
// very moment between this one's look at the queue and its permission for the second.
func TestAnotherControllerMayLetInAnotherRedriveMeanwhile(t *testing.T) {
	t.Parallel()
	b := newBench(t, 20)
	b.start()
	first := b.redrive("first", only("job-000", "job-001", "job-002", "job-003", "job-004", "job-005", "job-006"))
	second := b.redrive("second", only("job-010", "job-011"))
	hash := b.await(first, v1alpha1.ReasonAwaitingApproval).Status.Plan.Hash
	b.await(second, v1alpha1.ReasonAwaitingApproval)
	b.w.beforePermit(func() {
		_, err := b.w.store.PermitRedrive(t.Context(), queue.RedrivePermit{UID: string(first.UID), Hash: hash, For: permitFor})
		b.w.must(err)
		b.w.releasing()()
	})
	b.approve(alice, second)
	b.await(second, v1alpha1.ReasonWaitingForRedrive)
	if b.permitted(second) || !b.permitted(first) || b.released(second) != 0 {
		t.Errorf("first permitted %t, second %t, with %d jobs released", b.permitted(first), b.permitted(second), b.released(second))
	}
	NewWithT(t).Eventually(func() map[string]string { return b.eventsOf(second) }, patience).Should(And(
		HaveKey(v1alpha1.ReasonWaitingForRedrive), Not(HaveKey(v1alpha1.ReasonReleasing))))
}

func TestAnUndecidedCanaryGetsAnotherChance(t *testing.T) {
	t.Parallel()
	b := newBench(t, 10)
	stop := b.start()
	rd := b.redrive("inc-42", func(rd *v1alpha1.Redrive) {
		two := int64(2)
		rd.Spec.Canary = &v1alpha1.Canary{Jobs: &two, Timeout: &metav1.Duration{Duration: 10 * time.Second}}
	})
	b.await(rd, v1alpha1.ReasonAwaitingApproval)
	b.approve(alice, rd)
	b.await(rd, v1alpha1.ReasonReleasing)
	b.awaitWhile(rd, v1alpha1.ReasonCanaryInconclusive, b.w.releasing())
	b.patch(rd, func(rd *v1alpha1.Redrive) { rd.Spec.Suspend = true })
	b.awaitWhile(rd, v1alpha1.ReasonSuspended, b.w.releasing())
	b.patch(rd, func(rd *v1alpha1.Redrive) { rd.Spec.Suspend = false })
	b.await(rd, v1alpha1.ReasonReleasing)

	b.awaitWhile(rd, v1alpha1.ReasonCanaryInconclusive, b.w.releasing())
	stop() // and its permission lapses
	b.w.clock.Advance(2 * permitFor)
	b.w.releasing()()
	b.patch(rd, func(rd *v1alpha1.Redrive) { rd.Spec.Suspend = true })
	b.start()
	b.await(rd, v1alpha1.ReasonSuspended)
	b.patch(rd, func(rd *v1alpha1.Redrive) { rd.Spec.Suspend = false })
	b.await(rd, v1alpha1.ReasonReleasing)
	b.awaitWhile(rd, v1alpha1.ReasonComplete, b.w.delivering())
}

func TestASuspendedQueueHoldsIt(t *testing.T) {
	t.Parallel()
	b := newBench(t, 3)
	b.start()
	rd := b.redrive("inc-42")
	b.await(rd, v1alpha1.ReasonAwaitingApproval)
	b.approve(alice, rd)
	b.awaitWhile(rd, v1alpha1.ReasonQueueSuspended, func() { b.w.tickBehind(queue.HeldQueueSuspended, succeeded) })
	if n := b.released(rd); n != 0 {
		t.Errorf("%d jobs were released into a suspended queue", n)
	}
	b.awaitWhile(rd, v1alpha1.ReasonComplete, b.w.delivering())
}
