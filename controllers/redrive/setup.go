package redrive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
	"github.com/retryqueue/retryqueue/config/admission"
	"github.com/retryqueue/retryqueue/controllers/workers"
)

// Options are the needs of the controller.
type Options struct {
	// Workers reaches the workers of a queue. Required.
	Workers workers.Finder
	// Namespace is the manager's own. Default retryqueue-system.
	Namespace string
	// MinApprovals is the least number of approvals for every queue of the cluster, whatever its redrivePolicy
	// says. 0 leaves it to the queues.
	MinApprovals int
	// ForbidSelfApproval refuses self approval for every queue of the cluster.
	ForbidSelfApproval bool
	// Policies are the shipped admission policies, as YAML. Default those in config/admission.
	Policies fs.FS
	// Clock is for intervals only; the times of plans are the store's. Default the real one.
	Clock clock.PassiveClock
	// Log takes what happens. Default slog's.
	Log *slog.Logger

	// policyMargin stands in for the constant of that name in tests.
	policyMargin time.Duration
	// name of the controller; tests run two in one process.
	name string
}

// concurrency is how many Redrives are looked at at once: one slow worker must not keep the permissions of other
// queues from being renewed.
const concurrency = 8

// +kubebuilder:rbac:groups=retryqueue.dev,resources=redrives,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=retryqueue.dev,resources=redrives/status,verbs=patch
// +kubebuilder:rbac:groups=retryqueue.dev,resources=redriveapprovals,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=retryqueue.dev,resources=retryqueues,verbs=get;list;watch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager adds the controller to a manager.
func SetupWithManager(mgr ctrl.Manager, o Options) error {
	r, err := newReconciler(mgr, &o)
	if err != nil {
		return fmt.Errorf("setting up the redrive controller: %w", err)
	}
	err = mgr.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.Redrive{}, queueIndex, func(obj client.Object) []string {
		return []string{obj.(*v1alpha1.Redrive).Spec.QueueRef.Name}
	})
	if err != nil {
		return fmt.Errorf("indexing redrives by queue: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named(o.name).
		For(&v1alpha1.Redrive{}, builder.WithPredicates(predicate.Or[client.Object](
			predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&v1alpha1.RedriveApproval{}, handler.EnqueueRequestsFromMapFunc(approvedRedrive)).
		Watches(&v1alpha1.RetryQueue{}, handler.EnqueueRequestsFromMapFunc(r.redrivesOf),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency}).
		Complete(r)
}

func newReconciler(mgr ctrl.Manager, o *Options) (*Reconciler, error) {
	if o.Workers == nil {
		return nil, errors.New("Options.Workers is not set")
	}
	if o.MinApprovals < 0 || o.MinApprovals > maxRecords {
		return nil, fmt.Errorf("the least number of approvals must be from 0 to %d, is %d", maxRecords, o.MinApprovals)
	}
	setDefaults(o)
	policies, err := readShipped(o.Policies, o.Namespace)
	if err != nil {
		return nil, err
	}
	return &Reconciler{
		client:  mgr.GetClient(),
		live:    mgr.GetAPIReader(),
		workers: o.Workers,
		prover: &prover{
			client: mgr.GetClient(), live: mgr.GetAPIReader(), shipped: policies,
			clock: o.Clock, margin: o.policyMargin, known: map[string]proof{},
		},
		floor:  floor{minApprovals: o.MinApprovals, forbidSelfApproval: o.ForbidSelfApproval},
		clock:  o.Clock,
		events: mgr.GetEventRecorder("retryqueue-redrive"),
		log:    o.Log,
		turns:  &turns{},
		pace:   &pace{last: map[types.UID]time.Time{}},
	}, nil
}

func setDefaults(o *Options) {
	if o.Namespace == "" {
		o.Namespace = shippedNamespace
	}
	if o.Policies == nil {
		o.Policies = admission.Files
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.policyMargin == 0 {
		o.policyMargin = policyMargin
	}
	if o.name == "" {
		o.name = "redrive"
	}
}

// approvedRedrive is the Redrive that an approval names.
func approvedRedrive(_ context.Context, obj client.Object) []reconcile.Request {
	a := obj.(*v1alpha1.RedriveApproval)
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: a.Namespace, Name: a.Spec.RedriveRef.Name}}}
}

// redrivesOf are the Redrives of a RetryQueue.
func (r *Reconciler) redrivesOf(ctx context.Context, obj client.Object) []reconcile.Request {
	var list v1alpha1.RedriveList
	err := r.client.List(ctx, &list, client.InNamespace(obj.GetNamespace()), client.MatchingFields{queueIndex: obj.GetName()})
	if err != nil {
		r.log.ErrorContext(ctx, "redrive.list", "namespace", obj.GetNamespace(), "queue", obj.GetName(), "error", err)
		return nil
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for _, rd := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&rd)})
	}
	return requests
}
