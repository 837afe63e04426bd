package redrive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
	"github.com/retryqueue/retryqueue/internal/queue"
	"github.com/retryqueue/retryqueue/internal/testenv"
)

var cluster *testenv.Cluster

// Users of the tests. Bob makes Redrives; alice, carol and bob may approve.
const (
	alice = "alice@example.com"
	bob   = "bob@example.com"
	carol = "carol@example.com"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(testenv.Run(m, &cluster, testenv.WithRBAC(), testenv.WithManifests("config/manager"), testenv.WithAdmission()))
}

// bench is one queue in a namespace of its own, with its worker under the test's thumb and a manager beside it.
type bench struct {
	t    *testing.T
	ns   string
	rq   *v1alpha1.RetryQueue
	w    *worker
	find *finder
}

// newBench makes a queue with n dead jobs.
func newBench(t *testing.T, n int, change ...func(*v1alpha1.RetryQueue)) *bench {
	t.Helper()
	b := &bench{t: t, ns: cluster.Namespace(t), w: newWorker(t), find: &finder{workers: map[string]*worker{}}}
	grant(t, b.ns)
	b.makeQueue(change...)
	b.w.bury(n)
	return b
}

// makeQueue makes the RetryQueue and puts the worker behind it.
func (b *bench) makeQueue(change ...func(*v1alpha1.RetryQueue)) {
	b.t.Helper()
	rq := &v1alpha1.RetryQueue{ObjectMeta: metav1.ObjectMeta{Namespace: b.ns, Name: "orders"}}
	rq.Spec.Delivery.HTTP = &v1alpha1.HTTPDelivery{URL: "http://orders.shop.svc/handle"}
	rq.Spec.Accept.Insecure = true
	for _, c := range change {
		c(rq)
	}
	if err := cluster.Client.Create(b.t.Context(), rq); err != nil {
		b.t.Fatalf("making the queue: %v", err)
	}
	b.rq = rq
	b.find.put(rq, b.w)
}

// start runs a manager until the test ends, or until the answer is called.
func (b *bench) start(change ...func(*Options)) (stop func()) {
	b.t.Helper()
	o := Options{
		Workers: b.find, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		policyMargin: -time.Second, name: fmt.Sprintf("redrive-%d", controllers.Add(1)),
	}
	for _, c := range change {
		c(&o)
	}
	mgr, err := ctrl.NewManager(cluster.ConfigAs(testenv.ManagerUser), ctrl.Options{
		Scheme: cluster.Scheme, Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{b.ns: {}}},
	})
	if err != nil {
		b.t.Fatalf("making the manager: %v", err)
	}
	if err := SetupWithManager(mgr, o); err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			b.t.Errorf("running the manager: %v", err)
		}
	})
	b.t.Cleanup(stop)
	return stop
}

var controllers atomic.Int64

// redrive makes a Redrive as bob.
func (b *bench) redrive(name string, change ...func(*v1alpha1.Redrive)) *v1alpha1.Redrive {
	b.t.Helper()
	ten, zero, burst := int64(10), int64(0), int64(5)
	rd := &v1alpha1.Redrive{ObjectMeta: metav1.ObjectMeta{Namespace: b.ns, Name: name}}
	rd.Spec = v1alpha1.RedriveSpec{
		QueueRef: v1alpha1.QueueRef{Name: "orders"}, RequestedBy: bob, Reason: "INC-42: fixed in 1.8.2", Limit: 1000,
		Rate:   &v1alpha1.RedriveRate{Jobs: ten, Per: metav1.Duration{Duration: time.Second}, Burst: &burst},
		Canary: &v1alpha1.Canary{Jobs: &zero},
	}
	for _, c := range change {
		c(rd)
	}
	if err := cluster.As(b.t, bob).Create(b.t.Context(), rd); err != nil {
		b.t.Fatalf("making redrive %s: %v", name, err)
	}
	return rd
}

// approve approves the plan that the status shows.
func (b *bench) approve(user string, rd *v1alpha1.Redrive) *v1alpha1.RedriveApproval {
	b.t.Helper()
	a := b.approvalOf(user, rd)
	if err := cluster.As(b.t, user).Create(b.t.Context(), a); err != nil {
		b.t.Fatalf("approving as %s: %v", user, err)
	}
	return a
}

func (b *bench) approvalOf(user string, rd *v1alpha1.Redrive) *v1alpha1.RedriveApproval {
	b.t.Helper()
	plan := b.get(rd).Status.Plan
	if plan == nil {
		b.t.Fatal("there is no plan to approve")
	}
	return &v1alpha1.RedriveApproval{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.ns, GenerateName: rd.Name + "-"},
		Spec: v1alpha1.RedriveApprovalSpec{
			RedriveRef: v1alpha1.RedriveRef{Name: rd.Name, UID: string(rd.UID)}, PlanHash: plan.Hash,
			Decision: v1alpha1.DecisionApproved, Approver: user,
		},
	}
}

func (b *bench) get(rd *v1alpha1.Redrive) *v1alpha1.Redrive {
	b.t.Helper()
	got := &v1alpha1.Redrive{}
	if err := cluster.Client.Get(b.t.Context(), client.ObjectKeyFromObject(rd), got); err != nil {
		b.t.Fatalf("reading redrive %s: %v", rd.Name, err)
	}
	return got
}

// patience is how long something may take on a busy machine.
const patience = 30 * time.Second

// await waits until Ready has a reason, and answers with the Redrive.
func (b *bench) await(rd *v1alpha1.Redrive, reason string) *v1alpha1.Redrive {
	b.t.Helper()
	return b.awaitWhile(rd, reason, func() {})
}

// awaitWhile does something again and again meanwhile.
func (b *bench) awaitWhile(rd *v1alpha1.Redrive, reason string, do func()) *v1alpha1.Redrive {
	b.t.Helper()
	var got *v1alpha1.Redrive
	NewWithT(b.t).Eventually(func() string {
		do()
		got = b.get(rd)
		if c := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionReady); c != nil && got.Status.ObservedGeneration == got.Generation {
			return c.Reason + ": " + c.Message
		}
		return "no Ready of this generation"
	}, patience, 20*time.Millisecond).Should(HavePrefix(reason + ": "))
	return got
}

// ready is the message of Ready.
func ready(rd *v1alpha1.Redrive) string {
	return meta.FindStatusCondition(rd.Status.Conditions, v1alpha1.ConditionReady).Message
}

// readyReason is the reason of Ready; empty before the first pass.
func readyReason(rd *v1alpha1.Redrive) string {
	if c := meta.FindStatusCondition(rd.Status.Conditions, v1alpha1.ConditionReady); c != nil {
		return c.Reason
	}
	return ""
}

// touch makes the controller look again.
func (b *bench) touch(rd *v1alpha1.Redrive) {
	b.t.Helper()
	b.patch(rd, func(rd *v1alpha1.Redrive) {
		meta := &rd.ObjectMeta
		metav1.SetMetaDataAnnotation(meta, "touched", fmt.Sprint(controllers.Add(1)))
	})
}

func (b *bench) patch(rd *v1alpha1.Redrive, change func(*v1alpha1.Redrive)) {
	b.t.Helper()
	obj := b.get(rd)
	before := obj.DeepCopy()
	change(obj)
	if err := cluster.Client.Patch(b.t.Context(), obj, client.MergeFrom(before)); err != nil {
		b.t.Fatalf("changing redrive %s: %v", rd.Name, err)
	}
}

func (b *bench) patchQueue(change func(*v1alpha1.RetryQueue)) {
	b.t.Helper()
	before := b.rq.DeepCopy()
	change(b.rq)
	if err := cluster.Client.Patch(b.t.Context(), b.rq, client.MergeFrom(before)); err != nil {
		b.t.Fatalf("changing the queue: %v", err)
	}
}

func (b *bench) delete(obj client.Object) {
	b.t.Helper()
	if err := cluster.Client.Delete(b.t.Context(), obj); err != nil {
		b.t.Fatalf("deleting %s: %v", obj.GetName(), err)
	}
}

// awaitGone waits until an object is no more.
func (b *bench) awaitGone(obj client.Object) {
	b.t.Helper()
	NewWithT(b.t).Eventually(func() bool {
		return apierrors.IsNotFound(cluster.Client.Get(b.t.Context(), client.ObjectKeyFromObject(obj), obj))
	}, patience, 20*time.Millisecond).Should(BeTrue(), "%s is still there", obj.GetName())
}

// conditionsOf is the conditions as type=status reason.
func conditionsOf(rd *v1alpha1.Redrive) map[string]string {
	got := map[string]string{}
	for _, c := range rd.Status.Conditions {
		got[c.Type] = string(c.Status) + " " + c.Reason
	}
	return got
}

// grant gives the users their shipped roles in one namespace. The manager has the shipped one everywhere.
func grant(t *testing.T, ns string) {
	t.Helper()
	for _, user := range []string{alice, bob, carol} {
		cluster.Grant(t, ns, "retryqueue-approver", user)
	}
	cluster.Grant(t, ns, "retryqueue-requester", bob)
}

// eventsOf are the reasons of the events of a Redrive.
func (b *bench) eventsOf(rd *v1alpha1.Redrive) map[string]string {
	b.t.Helper()
	var list corev1.EventList
	if err := cluster.Client.List(b.t.Context(), &list, client.InNamespace(b.ns)); err != nil {
		b.t.Fatal(err)
	}
	got := map[string]string{}
	for _, e := range list.Items {
		if e.InvolvedObject.UID == rd.UID {
			got[e.Reason] = e.Type
		}
	}
	return got
}

var errDown = errors.New("connection refused")

// released is how many jobs of a Redrive the store has released.
func (b *bench) released(rd *v1alpha1.Redrive) int64 {
	b.t.Helper()
	got, err := b.w.store.Redrive(b.t.Context(), string(rd.UID))
	if err != nil {
		b.t.Fatalf("reading the plan: %v", err)
	}
	return got.Progress.Released
}

// permitted says whether the worker holds a permission for a Redrive.
func (b *bench) permitted(rd *v1alpha1.Redrive) bool {
	b.t.Helper()
	got, err := b.w.store.Redrive(b.t.Context(), string(rd.UID))
	if err != nil && !errors.Is(err, queue.ErrNotFound) {
		b.t.Fatalf("reading the plan: %v", err)
	}
	return live(got)
}
