package retryqueue

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
	"github.com/retryqueue/retryqueue/controllers/workers"
)

// Intervals of the passes.
const (
	// pollAfter is how often a queue is looked at without being told: its counts, and its Secret.
	pollAfter = 30 * time.Second
	// waitAfter is how soon a worker that should answer is asked again.
	waitAfter = 2 * time.Second
	// stalledAfter is how soon it is looked at whether a mistake is mended that nobody tells us of.
	stalledAfter = time.Minute
	// callTimeout bounds a call to a worker.
	callTimeout = 5 * time.Second
)

// Reconciler makes and keeps what a RetryQueue declares. Make it with SetupWithManager.
type Reconciler struct {
	client           client.Client // cached reads
	live             client.Reader // reads that are not cached
	ca               workers.CASource
	workers          workers.Finder
	image            string
	managerNamespace string
	clock            clock.PassiveClock
	events           events.EventRecorder
	log              *slog.Logger
	memory           *memory
	poll             time.Duration
}

// Reconcile makes one pass over a RetryQueue.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	rq := &v1alpha1.RetryQueue{}
	if err := r.client.Get(ctx, req.NamespacedName, rq); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !rq.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil // the garbage collector does the rest
	}
	p := &pass{Reconciler: r, rq: rq.DeepCopy(), stored: rq}
	v, err := p.run(ctx)
	if werr := p.report(ctx, v); werr != nil {
		return ctrl.Result{}, werr
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: v.after}, nil
}

// pass is what one pass over a RetryQueue knows.
type pass struct {
	*Reconciler
	rq     *v1alpha1.RetryQueue // status is filled on the way
	stored *v1alpha1.RetryQueue // as the API server has it, as far as we know
	notes  []note               // told once the status is written

	deploymentGeneration int64    // as last applied
	late                 *verdict // what is wrong and yet holds up nothing
}

// step ends a pass with a verdict, or answers nil to let it go on.
type step func(context.Context) (*verdict, error)

// run takes the steps in order. With an error there is a verdict too, since the status must say something.
func (p *pass) run(ctx context.Context) (verdict, error) {
	for _, next := range []struct {
		name string
		step step
	}{
		{"checking the spec", p.check},
		{"keeping the queue's objects", p.keepChildren},
		{"looking at the workers", p.lookAtWorkers},
		{"talking to the workers", p.talkToWorkers},
	} {
		v, err := next.step(ctx)
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return *waiting(v1alpha1.ReasonProgressing, "the namespace is being deleted, and this RetryQueue with it").in(p.poll), nil
		}
		if err != nil {
			return waiting(v1alpha1.ReasonProgressing, next.name+" met an error; the manager's log has it, and it will be tried again"),
				fmt.Errorf("%s: %w", next.name, err)
		}
		if v != nil {
			if v.after == 0 {
				v.after = p.poll
			}
			return *v, nil
		}
	}
	if p.late != nil {
		return *p.late, nil
	}
	v := ready(v1alpha1.ReasonAvailable, "the workers run this generation")
	if p.rq.Spec.Suspend {
		v = ready(v1alpha1.ReasonSuspended, "the workers run this generation; they accept jobs and start none until spec.suspend is false")
	}
	v.after = p.poll
	return v, nil
}
