package redrive

import (
	"context"
	"errors"
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
	"github.com/retryqueue/retryqueue/internal/queue"
)

// letGoAfter is how long a deletion waits for a worker that does not answer: longer than any permission lasts, with
// room for clocks that differ. By then nothing is released any more, told or not.
const letGoAfter = 90 * time.Second

// finalize cancels the plan of a Redrive that is being deleted, and lets it go.
func (r *Reconciler) finalize(ctx context.Context, rd *v1alpha1.Redrive) (ctrl.Result, error) {
	r.pace.forget(rd.UID)
	if !controllerutil.ContainsFinalizer(rd, finalizer) {
		return ctrl.Result{}, nil
	}
	if err := r.cancelPlan(ctx, rd); err != nil {
		left := rd.DeletionTimestamp.Add(letGoAfter).Sub(r.clock.Now())
		r.log.InfoContext(ctx, "redrive.delete_waits", "namespace", rd.Namespace, "name", rd.Name, "error", err, "left", left)
		if left > 0 {
			return ctrl.Result{RequeueAfter: min(retryAfter, left)}, nil
		}
	}
	obj := rd.DeepCopy()
	controllerutil.RemoveFinalizer(obj, finalizer)
	patch := client.MergeFromWithOptions(rd, client.MergeFromWithOptimisticLock{})
	if err := r.client.Patch(ctx, obj, patch); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("removing the finalizer: %w", err)
	}
	return ctrl.Result{}, nil
}

// cancelPlan tells the worker; nil when there is nothing left that could run.
func (r *Reconciler) cancelPlan(ctx context.Context, rd *v1alpha1.Redrive) error {
	rq, err := getQueue(ctx, r.client, rd)
	if err != nil || rq == nil {
		return err
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	admin, err := r.workers.Admin(call, rq)
	if err != nil {
		return fmt.Errorf("reaching the worker: %w", err)
	}
	if _, err := admin.CancelRedrive(call, string(rd.UID)); err != nil && !errors.Is(err, queue.ErrNotFound) {
		return fmt.Errorf("cancelling the plan: %w", err)
	}
	return nil
}
