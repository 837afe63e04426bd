package redrive

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
	"github.com/retryqueue/retryqueue/controllers/workers"
	"github.com/retryqueue/retryqueue/internal/queue"
	"github.com/retryqueue/retryqueue/internal/workerapi"
)

// Reconciler brings Redrives to their end. Make it with SetupWithManager.
type Reconciler struct {
	client  client.Client // cached reads
	live    client.Reader // reads that are not cached
	workers workers.Finder
	prover  *prover
	floor   floor
	clock   clock.PassiveClock
	events  events.EventRecorder
	log     *slog.Logger
	turns   *turns
	pace    *pace
}

// Reconcile makes one pass over a Redrive.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	rd := &v1alpha1.Redrive{}
	if err := r.client.Get(ctx, req.NamespacedName, rd); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !rd.DeletionTimestamp.IsZero() {
		return r.finalize(ctx, rd)
	}
	p := newPass(r, rd)
	out, err := p.run(ctx)
	if err == nil && !out.again {
		err = p.report(ctx, out)
	}
	if apierrors.IsConflict(err) { // somebody was faster: look again at what it is now
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: out.after}, nil
}

// pass is what one pass over a Redrive knows.
type pass struct {
	*Reconciler
	rd        *v1alpha1.Redrive // status is filled on the way
	stored    *v1alpha1.Redrive // as the API server has it, as far as we know
	rq        *v1alpha1.RetryQueue
	admin     workerapi.Admin
	plan      *queue.Redrive             // as the worker has it; nil until observed
	tally     *tally                     // nil until counted
	approvals []v1alpha1.RedriveApproval // of the namespace, as read in this pass
	unlock    func()                     // gives the queue's turn back; nil while not held
}

func newPass(r *Reconciler, rd *v1alpha1.Redrive) *pass {
	return &pass{Reconciler: r, rd: rd.DeepCopy(), stored: rd}
}

// step ends a pass with an outcome, or answers nil to let it go on.
type step func(context.Context) (*outcome, error)

// run takes the steps in order. A pass that ends without a permission withdraws the one that is left.
func (p *pass) run(ctx context.Context) (outcome, error) {
	defer func() {
		if p.unlock != nil {
			p.unlock()
		}
	}()
	for _, next := range []step{
		p.findQueue,
		p.connect,
		p.observe,
		p.finish,
		p.lapse,
		p.compare,
		p.approve,
		p.enforce,
		p.suspended,
		p.takeTurn,
		p.permit,
	} {
		out, err := next(ctx)
		if err == nil && out == nil {
			continue
		}
		if err != nil {
			out = &outcome{again: true}
		}
		if !out.permitted {
			p.stop(ctx, out)
		}
		return *out, err
	}
	return outcome{}, fmt.Errorf("redrive %s/%s: no step came to an end", p.rd.Namespace, p.rd.Name)
}

// stop withdraws the permission that is left. When jobs were released in the meantime, the outcome is of the past.
func (p *pass) stop(ctx context.Context, out *outcome) {
	started := p.started()
	if err := p.withdraw(ctx); err != nil {
		p.log.WarnContext(ctx, "redrive.withdraw", "namespace", p.rd.Namespace, "name", p.rd.Name, "error", err)
		out.after = soonest(out.after, retryAfter)
	}
	if p.started() != started {
		*out = outcome{again: true, after: time.Second}
	}
}

// started says that jobs have been released: from then on approvals need not be there any more.
func (p *pass) started() bool {
	return p.plan != nil && (p.plan.StartedAt != 0 || p.plan.Progress.Released > 0)
}

// Intervals of the passes.
const (
	// callTimeout bounds a call to a worker.
	callTimeout = 5 * time.Second
	// planTimeout bounds the making of a plan, of up to a million jobs.
	planTimeout = time.Minute
	// watchAfter is how soon a releasing Redrive is looked at again.
	watchAfter = 2 * time.Second
	// retryAfter is how soon something that should come by itself is tried again.
	retryAfter = 5 * time.Second
	// idleAfter is how soon a Redrive that waits for a person is looked at again without being told.
	idleAfter = 5 * time.Minute
)

// soonest is the shorter of two intervals, of which 0 means never.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
