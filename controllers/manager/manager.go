// Package manager puts the controllers together into the process that runs in a cluster.
package manager

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
	"github.com/retryqueue/retryqueue/controllers/redrive"
	"github.com/retryqueue/retryqueue/controllers/retryqueue"
	"github.com/retryqueue/retryqueue/controllers/workers"
)

// Options are everything a manager is started with.
type Options struct {
	// Namespace is the manager's own: its lease and its CA are there. Required.
	Namespace string
	// WorkerImage is what the workers of all queues run. Required.
	WorkerImage string
	// MetricsListen and HealthListen are host:port; "0" for none.
	MetricsListen, HealthListen string
	// LeaderElection lets one of several managers act. Without it there must be only one.
	LeaderElection bool
	// MinApprovals and ForbidSelfApproval hold for every queue, whatever its redrivePolicy says.
	MinApprovals       int
	ForbidSelfApproval bool
	Log                *slog.Logger

	// workers stand in for the real ones in tests.
	workers workers.Finder
	// unnamed lets tests run several managers in one process.
	unnamed bool
	// lease, when not zero, is short in tests.
	lease time.Duration
}

// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=retryqueue-system,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=retryqueue-system,resources=leases,resourceNames=retryqueue-manager,verbs=get;update
// +kubebuilder:rbac:groups="",namespace=retryqueue-system,resources=events,verbs=create;patch

// New makes a manager with all controllers. Start it.
func New(cfg *rest.Config, o Options) (ctrl.Manager, error) {
	if o.Namespace == "" {
		return nil, errors.New("the manager's namespace must be set: --namespace or POD_NAMESPACE")
	}
	if o.WorkerImage == "" {
		return nil, errors.New("the workers' image must be set: --worker-image or RETRYQUEUE_IMAGE")
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("building the scheme: %w", err)
	}
	mgr, err := ctrl.NewManager(cfg, options(scheme, o))
	if err != nil {
		return nil, fmt.Errorf("making the manager: %w", err)
	}
	if err := errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("ping", healthz.Ping)); err != nil {
		return nil, fmt.Errorf("adding health checks: %w", err)
	}
	return mgr, setUp(mgr, o)
}

func options(scheme *runtime.Scheme, o Options) ctrl.Options {
	// Of the kinds that are everybody's the cache holds only what is ours. Secrets are never listed.
	ours := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{retryqueue.ManagedByLabel: retryqueue.ManagedBy})}
	opts := ctrl.Options{
		Scheme: scheme,
		Logger: logr.FromSlogHandler(o.Log.Handler()),
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
			&appsv1.Deployment{}:            ours,
			&corev1.ConfigMap{}:             ours,
			&corev1.Service{}:               ours,
			&corev1.PersistentVolumeClaim{}: ours,
			&networkingv1.NetworkPolicy{}:   ours,
		}},
		Client:                        client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
		LeaderElection:                o.LeaderElection,
		LeaderElectionID:              "retryqueue-manager",
		LeaderElectionNamespace:       o.Namespace,
		LeaderElectionReleaseOnCancel: true, // the process ends with the manager
		Metrics:                       metricsserver.Options{BindAddress: o.MetricsListen},
		HealthProbeBindAddress:        o.HealthListen,
		Controller:                    config.Controller{SkipNameValidation: &o.unnamed},
	}
	if o.lease > 0 {
		renew, retry := o.lease*2/3, o.lease/5
		opts.LeaseDuration, opts.RenewDeadline, opts.RetryPeriod = &o.lease, &renew, &retry
	}
	return opts
}

func setUp(mgr ctrl.Manager, o Options) error {
	authority := workers.NewAuthority(workers.AuthorityOptions{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Namespace: o.Namespace, Clock: clock.RealClock{}, Log: o.Log,
	})
	finder := o.workers
	if finder == nil {
		finder = &workers.Dialer{CA: authority, Clock: clock.RealClock{}}
	}
	err := retryqueue.SetupWithManager(mgr, retryqueue.Options{
		CA: authority, Workers: finder, Image: o.WorkerImage, Namespace: o.Namespace, Log: o.Log,
	})
	if err != nil {
		return err
	}
	return redrive.SetupWithManager(mgr, redrive.Options{
		Workers: finder, Namespace: o.Namespace, MinApprovals: o.MinApprovals, ForbidSelfApproval: o.ForbidSelfApproval, Log: o.Log,
	})
}
