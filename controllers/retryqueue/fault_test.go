package retryqueue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
	"github.com/retryqueue/retryqueue/controllers/workers"
	"github.com/retryqueue/retryqueue/internal/testenv"
)

// hit says whether a call to the API server fails, and whether it is made all the same.
type hit func(write bool) (err error, made bool)

func (h hit) call(write bool, do func() error) error {
	err, made := h(write)
	if err == nil {
		return do()
	}
	if made {
		_ = do()
	}
	return err
}

// process is a controller without a manager and a cache: it makes passes when it is told to.
func process(t *testing.T, h hit) *Reconciler {
	t.Helper()
	direct, err := client.NewWithWatch(cluster.ConfigAs(testenv.ManagerUser), client.Options{Scheme: cluster.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	c := interceptor.NewClient(direct, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			return h.call(false, func() error { return c.Get(ctx, key, o, opts...) })
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return h.call(true, func() error { return c.Create(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return h.call(true, func() error { return c.Patch(ctx, o, patch, opts...) })
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			return h.call(true, func() error { return c.Apply(ctx, o, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return h.call(true, func() error { return c.SubResource(sub).Patch(ctx, o, patch, opts...) })
		},
	})
	ca := workers.NewAuthority(workers.AuthorityOptions{Client: c, Live: c, Namespace: testenv.ManagerNamespace, Clock: caClock, Log: quiet()})
	return &Reconciler{
		client: c, live: c, ca: ca, workers: &workers.Dialer{CA: ca, Clock: clock.RealClock{}, URL: nodes.url},
		image: "image:1", managerNamespace: testenv.ManagerNamespace, clock: clock.RealClock{},
		events: events.NewFakeRecorder(10_000), log: quiet(), memory: newMemory(), poll: testPoll,
	}
}

// comesToBe makes passes until the queue is ready, and its worker when it can run; then one of an undisturbed
// controller, which must find nothing to do.
func comesToBe(t *testing.T, pass func(*v1alpha1.RetryQueue)) {
	t.Helper()
	rq := newQueue(t, func(rq *v1alpha1.RetryQueue) { rq.Labels = map[string]string{aloneLabel: ""} })
	for running := false; ; {
		passUntil(t, rq, pass, func() bool {
			return running && condition(rq, v1alpha1.ConditionReady).Reason == v1alpha1.ReasonAvailable ||
				!running && condition(rq, v1alpha1.ConditionReady).Message == "the workers' Deployment is being rolled out"
		})
		if running {
			break
		}
		nodes.run(t, rq)
		running = true
	}
	essences := func() map[string]map[string]any {
		all := map[string]map[string]any{}
		for kind, o := range childrenOf(t, rq) {
			all[kind] = essence(t, o)
		}
		return all
	}
	before := essences()
	if _, err := process(t, func(bool) (error, bool) { return nil, false }).Reconcile(t.Context(), request(rq)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, essences()); diff != "" {
		t.Errorf("an undisturbed pass had something to mend (-before +after):\n%s", diff)
	}
	for _, list := range []client.ObjectList{
		&appsv1.DeploymentList{}, &corev1.ServiceList{}, &corev1.SecretList{}, &corev1.PersistentVolumeClaimList{}, &networkingv1.NetworkPolicyList{},
	} {
		if err := cluster.Client.List(t.Context(), list, client.InNamespace(rq.Namespace)); err != nil {
			t.Fatal(err)
		}
		if n := lengthOf(t, list); n != 1 {
			t.Errorf("%d objects in %T", n, list)
		}
	}
}

func lengthOf(t *testing.T, list client.ObjectList) int {
	t.Helper()
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(list)
	if err != nil {
		t.Fatal(err)
	}
	items, _ := m["items"].([]any)
	return len(items)
}

func passUntil(t *testing.T, rq *v1alpha1.RetryQueue, pass func(*v1alpha1.RetryQueue), done func() bool) {
	t.Helper()
	for range 1000 {
		pass(rq)
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(rq), rq); err != nil {
			t.Fatal(err)
		}
		if _, err := kstatus(rq); err != nil {
			t.Fatalf("kstatus: %v", err)
		}
		if condition(rq, v1alpha1.ConditionStalled).Status != "" {
			t.Fatalf("stalled, and nobody made a mistake: %+v", rq.Status.Conditions)
		}
		if done() {
			return
		}
	}
	t.Fatalf("it comes to no end: %+v", rq.Status.Conditions)
}

func request(rq *v1alpha1.RetryQueue) ctrl.Request {
	return ctrl.Request{NamespacedName: client.ObjectKeyFromObject(rq)}
}

// TestEveryThirdCallFails: the API server answers errors to three calls in ten, half of them after it has done what
// was asked.
func TestEveryThirdCallFails(t *testing.T) {
	t.Parallel()
	kind := v1alpha1.GroupVersion.WithResource("retryqueues").GroupResource()
	all := []error{
		apierrors.NewTooManyRequests("busy", 0), apierrors.NewInternalError(errors.New("etcd is away")),
		apierrors.NewServerTimeout(kind, "patch", 0), apierrors.NewConflict(kind, "x", errors.New("changed")),
		context.DeadlineExceeded, errors.New("connection reset by peer"),
	}
	r := process(t, func(bool) (error, bool) {
		if rand.IntN(10) >= 3 {
			return nil, false
		}
		return all[rand.IntN(len(all))], rand.IntN(2) == 0
	})
	comesToBe(t, func(rq *v1alpha1.RetryQueue) { _, _ = r.Reconcile(t.Context(), request(rq)) })
}

// TestACrashAtAnyWrite ends the process just before and just after each of its writes, and goes on with a new one.
func TestACrashAtAnyWrite(t *testing.T) {
	t.Parallel()
	for _, made := range []bool{false, true} {
		for at := 1; ; at++ {
			reached := false
			t.Run(fmt.Sprintf("write %d, made %t", at, made), func(t *testing.T) { reached = crashAt(t, at, made) })
			if t.Failed() || !reached {
				break
			}
		}
	}
}

var errCrashed = errors.New("the process is no more")

// crashAt tells whether there was such a write before the queue was ready.
func crashAt(t *testing.T, at int, made bool) bool {
	t.Helper()
	writes, crashed := 0, false
	first := process(t, func(write bool) (error, bool) {
		if crashed {
			return errCrashed, false
		}
		if write {
			writes++
		}
		if write && writes == at {
			crashed = true
			return errCrashed, made
		}
		return nil, false
	})
	second := process(t, func(bool) (error, bool) { return nil, false })
	comesToBe(t, func(rq *v1alpha1.RetryQueue) {
		r := first
		if crashed {
			r = second
		}
		_, _ = r.Reconcile(t.Context(), request(rq))
	})
	return crashed
}
