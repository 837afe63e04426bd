package retryqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
	"github.com/retryqueue/retryqueue/internal/queue"
	"github.com/retryqueue/retryqueue/internal/workerapi"
)

// lookAtWorkers waits for the pods of this very Deployment: a pod of the one before may lack what the new
// manifest speaks of, such as a mounted Secret.
func (p *pass) lookAtWorkers(ctx context.Context) (*verdict, error) {
	d := &appsv1.Deployment{}
	err := p.client.Get(ctx, client.ObjectKey{Namespace: p.rq.Namespace, Name: childName(p.rq)}, d)
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	p.rq.Status.Workers = &v1alpha1.WorkersStatus{
		Replicas: d.Status.Replicas, ReadyReplicas: d.Status.ReadyReplicas, Selector: selector(p.rq),
	}
	v := judgeWorkers(d, replicas(p.rq), p.deploymentGeneration)
	if v != nil && v.reason == v1alpha1.ReasonWorkersNotReady && !podsRefused(d) {
		if missing, err := p.claimMissing(ctx); missing || err != nil {
			return waiting(v1alpha1.ReasonWorkersNotReady, fmt.Sprintf("PersistentVolumeClaim %s of spec.storage.sqlite.existingClaim "+
				"does not exist: make or restore it", adoptedClaim(p.rq))).in(pollAfter), err
		}
		v.message += fmt.Sprintf("; kubectl describe pods -l %s=%s tells more", QueueLabel, p.rq.Name)
	}
	return v, nil
}

// judgeWorkers reads a Deployment that should have come to a generation.
func judgeWorkers(d *appsv1.Deployment, want int32, generation int64) *verdict {
	s := d.Status
	switch {
	case d.Generation < generation || s.ObservedGeneration < d.Generation:
		return new(waiting(v1alpha1.ReasonProgressing, "the workers' Deployment is being rolled out"))
	case want > 0 && s.UpdatedReplicas < want && podsRefused(d):
		return new(waiting(v1alpha1.ReasonWorkersNotReady, fmt.Sprintf("the API server refuses to make the workers' pods, for a quota or a policy; "+
			"kubectl describe deployment %s tells why", d.Name)))
	case want == 0 && s.Replicas > 0:
		return new(waiting(v1alpha1.ReasonProgressing, "the workers are ending"))
	case want == 0:
		return new(ready(v1alpha1.ReasonScaledToZero, "spec.workers.replicas is 0: no jobs are accepted or delivered"))
	case s.UpdatedReplicas < want || s.Replicas > s.UpdatedReplicas:
		return new(waiting(v1alpha1.ReasonProgressing, "the workers are being replaced"))
	case s.ReadyReplicas < want:
		return new(waiting(v1alpha1.ReasonWorkersNotReady, "no worker is ready"))
	}
	return nil
}

// podsRefused says that pods cannot be made. Why is in a message that names them, other ones at each try.
func podsRefused(d *appsv1.Deployment) bool {
	return slices.ContainsFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
		return c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue
	})
}

// claimMissing says that the claim to adopt is not there.
func (p *pass) claimMissing(ctx context.Context) (bool, error) {
	name := adoptedClaim(p.rq)
	if name == "" {
		return false, nil
	}
	meta := &metav1.PartialObjectMetadata{}
	meta.SetGroupVersionKind(claimKind)
	err := p.live.Get(ctx, client.ObjectKey{Namespace: p.rq.Namespace, Name: name}, meta)
	return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
}

// talkToWorkers asks the worker what it runs and how its queue is, and hands it this generation if it runs
// an older one.
func (p *pass) talkToWorkers(ctx context.Context) (*verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	admin, err := p.workers.Admin(ctx, p.rq)
	if err != nil {
		return nil, err
	}
	stats, err := admin.Stats(ctx)
	if err != nil {
		return p.unreachable(err), nil
	}
	p.reportJobs(stats)
	if stats.Config.Generation == p.rq.Generation {
		return nil, nil
	}
	return p.push(ctx, admin)
}

func (p *pass) push(ctx context.Context, admin workerapi.Admin) (*verdict, error) {
	m, err := buildManifest(p.rq)
	if err != nil {
		return nil, err
	}
	got, err := admin.PutConfig(ctx, m)
	refused, isRefusal := errors.AsType[*workerapi.ConfigError](err)
	switch {
	case isRefusal && refused.Reason == workerapi.ConfigInvalid:
		return invalid(fmt.Sprintf("the worker refuses this generation: %s: %s", refused.Field, refused.Detail)), nil
	case err != nil:
		return p.unreachable(err), nil
	case got.Generation != p.rq.Generation:
		return waiting(v1alpha1.ReasonConfigPending, "the worker does not run this generation yet").in(waitAfter), nil
	}
	p.note(normal, eventConfigured, "Configure", "the worker took the changed spec without a restart")
	return nil, nil
}

// unreachable is the verdict on a worker that does not answer. What it said goes to the log: a message in the
// status must stay the same while nothing changes.
func (p *pass) unreachable(err error) *verdict {
	p.log.Warn("worker.unreachable", "namespace", p.rq.Namespace, "name", p.rq.Name, "error", err)
	return waiting(v1alpha1.ReasonConfigPending, "the worker is ready and does not answer on its admin port; "+
		"if that lasts, see whether the network lets the manager reach it").in(waitAfter)
}

// reportJobs takes counts over, but seldom: those of a busy queue change at every look.
func (p *pass) reportJobs(s workerapi.Stats) {
	now := p.clock.Now()
	old := p.rq.Status.Jobs
	// The first death and the end of the last are told at once.
	alike := old != nil && isZero(old.Dead) == (s.Dead == 0)
	if alike && old.ObservedTime != nil && now.Sub(old.ObservedTime.Time) < p.poll {
		return
	}
	jobs := toJobs(s)
	if old != nil {
		jobs.ObservedTime = old.ObservedTime
		if sameJobs(jobs, old) {
			return
		}
	}
	jobs.ObservedTime = &metav1.Time{Time: now.Truncate(time.Second)}
	p.rq.Status.Jobs = jobs
}

func toJobs(s workerapi.Stats) *v1alpha1.JobCounts {
	return &v1alpha1.JobCounts{
		Pending: &s.Pending, Leased: &s.Leased, Dead: &s.Dead,
		OldestPendingTime: toTime(s.OldestPendingAt), OldestDeadTime: toTime(s.OldestDeadAt),
	}
}

// toTime is in whole seconds, as the API server keeps them.
func toTime(t queue.Time) *metav1.Time {
	if t == 0 {
		return nil
	}
	return &metav1.Time{Time: t.Std().Truncate(time.Second)}
}

func sameJobs(a, b *v1alpha1.JobCounts) bool {
	same := func(a, b *int64) bool { return a != nil && b != nil && *a == *b }
	return same(a.Pending, b.Pending) && same(a.Leased, b.Leased) && same(a.Dead, b.Dead) &&
		a.OldestPendingTime.Equal(b.OldestPendingTime) && a.OldestDeadTime.Equal(b.OldestDeadTime)
}

func isZero(n *int64) bool { return n == nil || *n == 0 }
