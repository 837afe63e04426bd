package retryqueue

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
	"github.com/retryqueue/retryqueue/controllers/workers"
	"github.com/retryqueue/retryqueue/internal/testenv"
)

var (
	cluster *testenv.Cluster
	nodes   = &kubelet{workers: map[string]*fakeWorker{}}
	caClock = &shiftedClock{}
	once    sync.Once
)

// testPoll stands in for 30 s.
const testPoll = time.Second

// TestMain leaves the policies out that reserve the names of children, so that hands can meddle with them. The
// one that fences the manager is in force, and so are the manager's permissions.
func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.FromSlogHandler(quiet().Handler()))
	os.Exit(testenv.Run(m, &cluster,
		testenv.WithManifests("config/manager"), testenv.WithManifests("config/admission/manager-secrets.yaml")))
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// shiftedClock is the real clock, moved ahead.
type shiftedClock struct {
	mu    sync.Mutex
	shift time.Duration
}

func (c *shiftedClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.shift)
}

func (c *shiftedClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func (c *shiftedClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shift += d
}

// runController runs one controller for all tests of the package, as the manager's service account.
func runController(t *testing.T) {
	t.Helper()
	once.Do(func() {
		mgr, err := newManager()
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			if err := mgr.Start(context.Background()); err != nil {
				panic(err)
			}
		}()
	})
}

// aloneLabel is on queues that the controller of all tests leaves alone.
const aloneLabel = "example.com/alone"

func newManager() (ctrl.Manager, error) {
	shared, err := labels.NewRequirement(aloneLabel, selection.DoesNotExist, nil)
	if err != nil {
		return nil, err
	}
	ours := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{ManagedByLabel: ManagedBy})}
	mgr, err := ctrl.NewManager(cluster.ConfigAs(testenv.ManagerUser), ctrl.Options{
		Scheme:  cluster.Scheme,
		Logger:  logr.FromSlogHandler(quiet().Handler()),
		Metrics: metricsserver.Options{BindAddress: "0"},
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
			&v1alpha1.RetryQueue{}: {Label: labels.NewSelector().Add(*shared)},
			&appsv1.Deployment{}:   ours, &corev1.ConfigMap{}: ours, &corev1.Service{}: ours,
			&corev1.PersistentVolumeClaim{}: ours, &networkingv1.NetworkPolicy{}: ours,
		}},
	})
	if err != nil {
		return nil, err
	}
	authority := workers.NewAuthority(workers.AuthorityOptions{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Namespace: testenv.ManagerNamespace, Clock: caClock, Log: quiet(),
	})
	return mgr, SetupWithManager(mgr, Options{
		CA: authority, Workers: &workers.Dialer{CA: authority, Clock: clock.RealClock{}, URL: nodes.url},
		Image: "image:1", Namespace: testenv.ManagerNamespace, Log: quiet(), poll: testPoll,
	})
}
