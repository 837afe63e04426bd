package redrive

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
)

// findQueue finds the RetryQueue.
func (p *pass) findQueue(ctx context.Context) (*outcome, error) {
	rq, err := getQueue(ctx, p.client, p.rd)
	if err != nil {
		return nil, err
	}
	p.rq = rq
	out := p.missingQueue()
	if out != nil {
		p.lookForPermission(ctx)
	}
	return out, nil
}

// lookForPermission finds the permission that a worker may still hold whose queue is going or gone, so that the end
// of the pass withdraws it. A worker that does not answer is left alone: permissions lapse.
func (p *pass) lookForPermission(ctx context.Context) {
	planned := p.rd.Status.Plan
	if planned == nil || recordedEnd(p.rd) {
		return
	}
	rq := p.rq
	if rq == nil {
		rq = &v1alpha1.RetryQueue{ObjectMeta: metav1.ObjectMeta{
			Namespace: p.rd.Namespace, Name: p.rd.Spec.QueueRef.Name, UID: types.UID(planned.QueueUID),
		}}
		if f, ok := p.workers.(interface{ Forget(queue types.UID) }); ok {
			defer f.Forget(rq.UID)
		}
	}
	admin, err := p.workers.Admin(ctx, rq)
	if err != nil {
		return
	}
	p.admin = admin
	if got, err := p.ask(ctx, string(p.rd.UID)); err == nil && got.UID == string(p.rd.UID) {
		p.plan = &got
	}
}

// missingQueue is the outcome of a Redrive whose queue is not there, or not for long.
func (p *pass) missingQueue() *outcome {
	name := p.rd.Spec.QueueRef.Name
	switch {
	case p.rq != nil && p.rq.DeletionTimestamp.IsZero():
		return nil
	case recordedEnd(p.rd):
		return kept(0)
	case p.rd.Spec.Cancel:
		return cancelled()
	case p.rq != nil:
		return stalled(v1alpha1.ReasonQueueNotFound, fmt.Sprintf(
			"RetryQueue %s is being deleted; nothing is released", name))
	}
	return stalled(v1alpha1.ReasonQueueNotFound, fmt.Sprintf(
		"RetryQueue %s is not in this namespace; make it, or delete this Redrive and name the right one in spec.queueRef.name", name))
}

// connect finds the worker.
func (p *pass) connect(ctx context.Context) (*outcome, error) {
	admin, err := p.workers.Admin(ctx, p.rq)
	if err != nil {
		return p.unreachable(ctx, err), nil
	}
	p.admin = admin
	return nil, nil
}

// unreachable is the outcome when the worker does not answer. A permission given before lapses by itself.
func (p *pass) unreachable(ctx context.Context, err error) *outcome {
	p.log.InfoContext(ctx, "redrive.worker_unreachable",
		"namespace", p.rd.Namespace, "name", p.rd.Name, "queue", p.rd.Spec.QueueRef.Name, "error", err)
	message := fmt.Sprintf("the worker of RetryQueue %s does not answer; see that its pod runs. Trying again", p.rd.Spec.QueueRef.Name)
	if p.rq != nil && p.rq.Spec.Workers.Replicas != nil && *p.rq.Spec.Workers.Replicas == 0 {
		message = fmt.Sprintf("RetryQueue %s is scaled to zero; set its spec.workers.replicas to 1", p.rd.Spec.QueueRef.Name)
	}
	switch {
	case recordedEnd(p.rd):
		return kept(idleAfter)
	case p.plan == nil && p.rd.Status.Plan == nil:
		return planning(message)
	}
	return waiting(v1alpha1.ReasonWaitingForWorker, message, retryAfter)
}

// refresh reads the Redrive and its queue again, past the cache: what nobody has released yet must not start
// on yesterday's news. It answers an outcome when the pass must not go on with them.
func (p *pass) refresh(ctx context.Context) (*outcome, error) {
	rd := &v1alpha1.Redrive{}
	err := p.live.Get(ctx, client.ObjectKeyFromObject(p.rd), rd)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the redrive: %w", err)
	}
	if err != nil || rd.UID != p.rd.UID || !rd.DeletionTimestamp.IsZero() {
		return &outcome{again: true, after: retryAfter}, nil
	}
	rq, err := getQueue(ctx, p.live, rd)
	if err != nil {
		return nil, err
	}
	if rq != nil && rq.UID != p.rq.UID { // made anew meanwhile: p.admin speaks to the old one
		return &outcome{again: true, after: retryAfter}, nil
	}
	p.rd, p.stored, p.rq = rd.DeepCopy(), rd, rq
	return p.missingQueue(), nil
}

// getQueue is the RetryQueue of a Redrive, or nil when there is none.
func getQueue(ctx context.Context, c client.Reader, rd *v1alpha1.Redrive) (*v1alpha1.RetryQueue, error) {
	rq := &v1alpha1.RetryQueue{}
	err := c.Get(ctx, types.NamespacedName{Namespace: rd.Namespace, Name: rd.Spec.QueueRef.Name}, rq)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading RetryQueue %s: %w", rd.Spec.QueueRef.Name, err)
	}
	return rq, nil
}
