package manager

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
	"github.com/retryqueue/retryqueue/internal/testenv"
	"github.com/retryqueue/retryqueue/internal/workerapi"
)

const wait = 60 * time.Second

var cluster *testenv.Cluster

// TestMain installs all that is shipped. The managers run as their service account.
func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(testenv.Run(m, &cluster, testenv.WithManifests("config/manager"), testenv.WithRBAC(), testenv.WithAdmission()))
}

// nobody stands in for workers that do not answer.
type nobody struct{}

func (nobody) Admin(context.Context, *v1alpha1.RetryQueue) (workerapi.Admin, error) {
	return nil, errors.New("no workers here")
}

// process is one manager.
type process struct {
	log  *buffer
	stop func()
}

// buffer is a log that can be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func start(t *testing.T) *process {
	t.Helper()
	p := &process{log: &buffer{}}
	mgr, err := New(managerConfig(), Options{
		Namespace: testenv.ManagerNamespace, WorkerImage: "image:1", MetricsListen: "0", HealthListen: "0", LeaderElection: true,
		Log: slog.New(slog.NewTextHandler(p.log, nil)), workers: nobody{}, unnamed: true, lease: 3 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	p.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the manager ended with %v", err)
		}
	})
	t.Cleanup(p.stop)
	return p
}

func managerConfig() *rest.Config { return cluster.ConfigAs(testenv.ManagerUser) }

func newQueue(t *testing.T) *v1alpha1.RetryQueue {
	t.Helper()
	rq := &v1alpha1.RetryQueue{}
	rq.Name, rq.Namespace = "orders", cluster.Namespace(t)
	rq.Spec.Delivery.HTTP = &v1alpha1.HTTPDelivery{URL: "http://orders.shop.svc/handle"}
	rq.Spec.Accept.Insecure = true
	if err := cluster.Client.Create(t.Context(), rq); err != nil {
		t.Fatal(err)
	}
	return rq
}

// versions are the resource versions of a queue and all that was made for it.
func versions(t *testing.T, rq *v1alpha1.RetryQueue) map[string]string {
	t.Helper()
	all := map[string]client.Object{
		"retryqueue-orders/Deployment": &appsv1.Deployment{}, "retryqueue-orders/Service": &corev1.Service{},
		"retryqueue-orders/ConfigMap": &corev1.ConfigMap{}, "retryqueue-orders/NetworkPolicy": &networkingv1.NetworkPolicy{},
		"retryqueue-orders-tls/Secret": &corev1.Secret{}, "retryqueue-orders-data/PersistentVolumeClaim": &corev1.PersistentVolumeClaim{},
		"orders/RetryQueue": rq,
	}
	v := map[string]string{}
	for name, o := range all {
		key := client.ObjectKey{Namespace: rq.Namespace, Name: strings.Split(name, "/")[0]}
		if err := cluster.Client.Get(t.Context(), key, o); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		v[name] = o.GetResourceVersion()
	}
	return maps.Clone(v)
}

func made(t *testing.T, rq *v1alpha1.RetryQueue) {
	t.Helper()
	NewWithT(t).Eventually(func() bool {
		err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(rq), rq)
		return err == nil && rq.Status.ObservedGeneration == rq.Generation &&
			meta.FindStatusCondition(rq.Status.Conditions, v1alpha1.ConditionReady) != nil && rq.Status.Address != ""
	}).WithTimeout(wait).Should(BeTrue())
}

// bind touches the claim as the binder of a whole cluster does. The API server stores a claim that was made by an
// apply in another form at its next write, whoever makes it, though it reads the same.
func bind(t *testing.T, rq *v1alpha1.RetryQueue) {
	t.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	NewWithT(t).Eventually(func() error {
		if err := cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: rq.Namespace, Name: "retryqueue-orders-data"}, claim); err != nil {
			return err
		}
		claim.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
		return cluster.Client.Update(t.Context(), claim)
	}).WithTimeout(wait).Should(Succeed())
}

func leader(t *testing.T) string {
	t.Helper()
	l := &coordinationv1.Lease{}
	err := cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: testenv.ManagerNamespace, Name: "retryqueue-manager"}, l)
	if err != nil || l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// TestOneOfTwoManagersActsAndARestartChangesNothing runs the shipped permissions and policies at every step.
func TestOneOfTwoManagersActsAndARestartChangesNothing(t *testing.T) {
	first := start(t)
	rq := newQueue(t)
	made(t, rq)
	g := NewWithT(t)
	bind(t, rq)
	before, led := versions(t, rq), leader(t)
	if led == "" {
		t.Fatal("nobody leads")
	}
	second := start(t)
	g.Consistently(func() string { return leader(t) }, 2*time.Second).Should(Equal(led), "two managers fight for the lead")

	first.stop()
	g.Eventually(func() string { return leader(t) }).WithTimeout(wait).ShouldNot(Or(Equal(led), BeEmpty()), "nobody took over")
	// That the second acts shows in a queue made meanwhile; and it has then looked at the first queue too.
	other := newQueue(t)
	made(t, other)
	if diff := cmp.Diff(before, versions(t, rq)); diff != "" {
		t.Errorf("a new leader wrote (-before +after):\n%s", diff)
	}
	second.stop()
	for i, p := range []*process{first, second} {
		if log := p.log.String(); strings.Contains(log, "forbidden") {
			t.Errorf("manager %d lacks a permission:\n%s", i, log)
		}
	}
}

func TestTheManagerMayTouchNoOtherSecret(t *testing.T) {
	ns := cluster.Namespace(t)
	secret := &corev1.Secret{StringData: map[string]string{"password": "x"}}
	secret.Name, secret.Namespace = "database", ns
	if err := cluster.Client.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	m := cluster.As(t, testenv.ManagerUser)
	own := &corev1.Secret{Type: "retryqueue.dev/worker-tls"}
	own.Name, own.Namespace = "retryqueue-x-tls", ns
	for sentence, tc := range map[string]struct {
		do      func() error
		allowed bool
	}{
		"get":  {func() error { return m.Get(t.Context(), client.ObjectKeyFromObject(secret), &corev1.Secret{}) }, false},
		"list": {func() error { return m.List(t.Context(), &corev1.SecretList{}, client.InNamespace(ns)) }, false},
		"an empty patch": {func() error {
			return m.Patch(t.Context(), secret.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte("{}")))
		}, false},
		"delete":          {func() error { return m.Delete(t.Context(), secret.DeepCopy()) }, false},
		"make a worker's": {func() error { return m.Create(t.Context(), own) }, true},
		"make another": {func() error {
			o := &corev1.Secret{}
			o.Name, o.Namespace = "retryqueue-y-tls", ns
			return m.Create(t.Context(), o)
		}, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			if err := tc.do(); (err == nil) != tc.allowed {
				t.Errorf("got %v, allowed is %t", err, tc.allowed)
			}
		})
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for want, o := range map[string]Options{
		"POD_NAMESPACE":    {WorkerImage: "x"},
		"RETRYQUEUE_IMAGE": {Namespace: "x"},
		"from 0 to 16":     {Namespace: "x", WorkerImage: "x", MinApprovals: 17, unnamed: true},
	} {
		if _, err := New(managerConfig(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
