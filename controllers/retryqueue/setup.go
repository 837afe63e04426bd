package retryqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	"github.com/retryqueue/retryqueue/controllers/workers"
)

// Options are the needs of the controller.
type Options struct {
	// CA signs the workers' certificates. Required.
	CA workers.CASource
	// Workers finds the worker of a queue. Required.
	Workers workers.Finder
	// Image of the workers. Required.
	Image string
	// Namespace is the manager's own, from where it reaches the workers. Required.
	Namespace string
	// Clock tells the time. Default the real one.
	Clock clock.PassiveClock
	// Log takes what happens. Default slog's.
	Log *slog.Logger

	poll time.Duration // stands in for pollAfter in tests
	name string        // of the controller; tests run several in one process
}

// concurrency is how many queues are looked at at once: one slow worker must not hold the others.
const concurrency = 8

// +kubebuilder:rbac:groups=retryqueue.dev,resources=retryqueues,verbs=get;list;watch
// +kubebuilder:rbac:groups=retryqueue.dev,resources=retryqueues/status,verbs=patch
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=configmaps;services;persistentvolumeclaims,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=create;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager adds the controller to a manager.
func SetupWithManager(mgr ctrl.Manager, o Options) error {
	if o.CA == nil || o.Workers == nil || o.Image == "" || o.Namespace == "" {
		return errors.New("setting up the retryqueue controller: CA, Workers, Image and Namespace must be set")
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	r := &Reconciler{
		client:           mgr.GetClient(),
		live:             mgr.GetAPIReader(),
		ca:               o.CA,
		workers:          o.Workers,
		image:            o.Image,
		managerNamespace: o.Namespace,
		clock:            o.Clock,
		events:           mgr.GetEventRecorder("retryqueue"),
		log:              cmp.Or(o.Log, slog.Default()),
		memory:           newMemory(),
		poll:             cmp.Or(o.poll, pollAfter),
	}
	byLabel := handler.EnqueueRequestsFromMapFunc(queueOf)
	b := ctrl.NewControllerManagedBy(mgr).
		Named(cmp.Or(o.name, "retryqueue")).
		For(&v1alpha1.RetryQueue{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.RetryQueue{}, handler.Funcs{DeleteFunc: r.gone}).
		Watches(&appsv1.Deployment{}, byLabel).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency})
	for _, kind := range metadataOnly {
		meta := &metav1.PartialObjectMetadata{}
		meta.SetGroupVersionKind(kind)
		b = b.WatchesMetadata(meta, byLabel)
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("setting up the retryqueue controller: %w", err)
	}
	return nil
}

// queueOf is the RetryQueue that an object is for. It goes by the label, since a claim that is kept has no owner.
func queueOf(_ context.Context, o client.Object) []reconcile.Request {
	name := o.GetLabels()[QueueLabel]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
}
