package redrive

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
	"github.com/retryqueue/retryqueue/internal/queue"
)

// report writes what the pass came to, and tells of changes once they are written.
func (p *pass) report(ctx context.Context, out outcome) error {
	before := p.stored.DeepCopy()
	p.rd.Status.ObservedGeneration = p.rd.Generation
	if !out.keep {
		p.setConditions(out)
		p.setProgress(out)
	}
	if err := p.save(ctx); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing status: %w", err)
	}
	p.tell(before, out)
	return nil
}

// save writes the status, if it changed. It fails on a Redrive that changed since it was read.
func (p *pass) save(ctx context.Context) error {
	if equality.Semantic.DeepEqual(p.stored.Status, p.rd.Status) {
		return nil
	}
	obj := p.stored.DeepCopy()
	obj.Status = *p.rd.Status.DeepCopy()
	patch := client.MergeFromWithOptions(p.stored, client.MergeFromWithOptimisticLock{})
	if err := p.client.Status().Patch(ctx, obj, patch); err != nil {
		return err
	}
	p.stored = obj
	p.rd.ObjectMeta = *obj.ObjectMeta.DeepCopy()
	return nil
}

func (p *pass) setConditions(out outcome) {
	wanted := conditions(out, p.planned(out))
	if c := p.approvedCondition(out); c != nil {
		wanted = append(wanted, *c)
	} else if meta.FindStatusCondition(p.rd.Status.Conditions, v1alpha1.ConditionApproved) == nil {
		wanted = append(wanted, metav1.Condition{
			Type: v1alpha1.ConditionApproved, Status: metav1.ConditionFalse, Reason: out.reason, Message: "see Ready",
		})
	}
	for _, c := range wanted {
		c.ObservedGeneration = p.rd.Generation
		meta.SetStatusCondition(&p.rd.Status.Conditions, c)
	}
	for _, kind := range []string{v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled} {
		if !meta.IsStatusConditionTrue(wanted, kind) {
			meta.RemoveStatusCondition(&p.rd.Status.Conditions, kind)
		}
	}
}

// planned says that there is a plan of this Redrive for this queue.
func (p *pass) planned(out outcome) bool {
	return out.reason != v1alpha1.ReasonPlanLost && (p.plan != nil || p.rd.Status.Plan != nil)
}

// conditions maps an outcome, Approved apart. Reconciling and Stalled are only there while true.
func conditions(out outcome, planned bool) []metav1.Condition {
	is := func(kind string, yes bool) metav1.Condition {
		c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: out.reason, Message: out.message}
		if yes {
			c.Status = metav1.ConditionTrue
		}
		return c
	}
	all := []metav1.Condition{
		{Type: v1alpha1.ConditionReady, Status: out.ready, Reason: out.reason, Message: out.message},
		is(v1alpha1.ConditionComplete, out.complete),
		is(v1alpha1.ConditionFailed, out.failed),
	}
	if out.reconciling {
		all = append(all, is(v1alpha1.ConditionReconciling, true))
	}
	if out.stalled {
		all = append(all, is(v1alpha1.ConditionStalled, true))
	}
	c := is(v1alpha1.ConditionPlanned, planned)
	if planned {
		c.Reason, c.Message = v1alpha1.ReasonPlanned, "the plan is frozen"
	}
	return append(all, c)
}

// setProgress copies the counts: exact when it ends, else not more often than progressEvery.
func (p *pass) setProgress(out outcome) {
	if p.plan == nil {
		return
	}
	now := progress(p.plan.Progress)
	if equality.Semantic.DeepEqual(p.rd.Status.Progress, now) {
		return
	}
	sure := p.rd.Status.Progress == nil || out.complete || out.failed || !out.permitted
	if p.pace.allow(p.rd.UID, p.clock.Now()) || sure {
		p.rd.Status.Progress = now
	}
	if out.complete || out.failed {
		p.pace.forget(p.rd.UID)
	}
}

func progress(q queue.RedriveProgress) *v1alpha1.RedriveProgress {
	return &v1alpha1.RedriveProgress{
		Released: q.Released, Delivered: q.Delivered, DiedAgain: q.DiedAgain,
		Outstanding: q.Outstanding, Gone: q.Gone, Remaining: q.Remaining,
	}
}

// describe is the plan for people, within the bounds of the schema.
func describe(rd queue.Redrive, rq *v1alpha1.RetryQueue) *v1alpha1.RedrivePlan {
	s := rd.Summary
	planned := metav1.NewMicroTime(s.PlannedAt.Std())
	expires := metav1.NewTime(expiry(rd, rq).Std().Truncate(time.Second))
	plan := &v1alpha1.RedrivePlan{
		Hash: s.Hash, QueueUID: rd.Spec.QueueUID, Matched: s.Matched, Selected: s.Selected,
		PlannedAt: &planned, ExpiresAt: &expires, EstimatedDuration: &metav1.Duration{Duration: s.Estimated.Std()},
	}
	for why, n := range s.Skipped {
		if n > 0 {
			set(&plan.Skipped, why, n)
		}
	}
	for reason, n := range s.ByReason {
		set(&plan.ByReason, string(reason), n)
	}
	for _, g := range s.ByFingerprint[:min(len(s.ByFingerprint), 20)] {
		c := v1alpha1.CauseCount{Fingerprint: cut(g.Fingerprint, 64), Reason: string(g.Reason), Count: g.Count}
		if g.SampleError != nil {
			c.Sample = cut(g.SampleError.Message, 256)
		}
		plan.ByFingerprint = append(plan.ByFingerprint, c)
	}
	for _, id := range s.SampleIDs[:min(len(s.SampleIDs), 20)] {
		plan.SampleIDs = append(plan.SampleIDs, cut(id, 256))
	}
	return plan
}

func set(m *map[string]int64, k string, v int64) {
	if *m == nil {
		*m = map[string]int64{}
	}
	(*m)[k] = v
}

// cut keeps at most n characters.
func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n])
	}
	return s
}

// progressEvery is the least time between two writes of progress alone.
const progressEvery = 2 * time.Second

// pace remembers when progress was last written.
type pace struct {
	mu   sync.Mutex
	last map[types.UID]time.Time
}

func (p *pace) allow(uid types.UID, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last, ok := p.last[uid]; ok && now.Sub(last) < progressEvery && !now.Before(last) {
		return false
	}
	p.last[uid] = now
	return true
}

func (p *pace) forget(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.last, uid)
}
