package redrive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
	"github.com/retryqueue/retryqueue/config/admission"
	"github.com/retryqueue/retryqueue/internal/queue"
	"github.com/retryqueue/retryqueue/internal/testenv"
	"github.com/retryqueue/retryqueue/internal/workerapi"
)

// faults stand between a controller and what it calls. Before or after a call they answer an error instead.
type faults struct {
	// hit says whether a call fails, and whether it is made all the same. write tells writes from reads.
	hit func(write bool) (err error, made bool)
	old map[client.ObjectKey]*v1alpha1.Redrive // what a stale cache answers; nil for none
}

func (f *faults) call(write bool, do func() error) error {
	err, made := f.hit(write)
	if err == nil {
		return do()
	}
	if made {
		_ = do()
	}
	return err
}

// wrap puts the faults before a client. Reads are not cached; with stale ones every other read of a Redrive is of
// what was read before.
func (f *faults) wrap(c client.WithWatch) client.Client {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			return f.call(false, func() error { return f.get(ctx, c, key, o, opts...) })
		},
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			return f.call(false, func() error { return listByQueue(ctx, c, l, opts...) })
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return f.call(true, func() error { return c.Create(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return f.call(true, func() error { return c.Patch(ctx, o, patch, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return f.call(true, func() error { return c.SubResource(sub).Patch(ctx, o, patch, opts...) })
		},
	})
}

func (f *faults) get(ctx context.Context, c client.Client, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := c.Get(ctx, key, o, opts...)
	rd, ok := o.(*v1alpha1.Redrive)
	if err != nil || !ok || f.old == nil {
		return err
	}
	now := rd.DeepCopy()
	if old := f.old[key]; old != nil && rand.IntN(2) == 0 {
		old.DeepCopyInto(rd)
	}
	f.old[key] = now
	return nil
}

// listByQueue does what the index of a cache would.
func listByQueue(ctx context.Context, c client.Client, l client.ObjectList, opts ...client.ListOption) error {
	o := (&client.ListOptions{}).ApplyOptions(opts)
	name, byQueue := "", false
	if o.FieldSelector != nil {
		name, byQueue = o.FieldSelector.RequiresExactMatch(queueIndex)
		o.FieldSelector = fields.Everything()
	}
	if err := c.List(ctx, l, o); err != nil || !byQueue {
		return err
	}
	list := l.(*v1alpha1.RedriveList)
	all := list.Items
	list.Items = nil
	for _, rd := range all {
		if rd.Spec.QueueRef.Name == name {
			list.Items = append(list.Items, rd)
		}
	}
	return nil
}

// faultyWorker is a worker behind faults.
type faultyWorker struct {
	workerapi.Admin
	f *faults
}

func (w faultyWorker) do(write bool, call func() (queue.Redrive, error)) (queue.Redrive, error) {
	var got queue.Redrive
	err := w.f.call(write, func() (err error) { got, err = call(); return err })
	if err != nil {
		return queue.Redrive{}, err
	}
	return got, nil
}

func (w faultyWorker) PlanRedrive(ctx context.Context, s queue.RedriveSpec) (queue.Redrive, error) {
	return w.do(true, func() (queue.Redrive, error) { return w.Admin.PlanRedrive(ctx, s) })
}

func (w faultyWorker) PermitRedrive(ctx context.Context, p queue.RedrivePermit) (queue.Redrive, error) {
	return w.do(true, func() (queue.Redrive, error) { return w.Admin.PermitRedrive(ctx, p) })
}

func (w faultyWorker) CancelRedrive(ctx context.Context, uid string) (queue.Redrive, error) {
	return w.do(true, func() (queue.Redrive, error) { return w.Admin.CancelRedrive(ctx, uid) })
}

func (w faultyWorker) Redrive(ctx context.Context, uid string) (queue.Redrive, error) {
	return w.do(false, func() (queue.Redrive, error) { return w.Admin.Redrive(ctx, uid) })
}

type faultyFinder struct {
	find *finder
	f    *faults
}

func (f faultyFinder) Admin(ctx context.Context, rq *v1alpha1.RetryQueue) (workerapi.Admin, error) {
	a, err := f.find.Admin(ctx, rq)
	return faultyWorker{a, f.f}, err
}

// process is a controller without a manager: it makes passes when it is told to.
func (b *bench) process(f *faults) *Reconciler {
	b.t.Helper()
	c, err := client.NewWithWatch(cluster.ConfigAs(testenv.ManagerUser), client.Options{Scheme: cluster.Scheme})
	if err != nil {
		b.t.Fatal(err)
	}
	policies, err := readShipped(admission.Files, shippedNamespace)
	if err != nil {
		b.t.Fatal(err)
	}
	api := f.wrap(c)
	live := (&faults{hit: f.hit}).wrap(c) // never stale
	return &Reconciler{
		client: api, live: live, workers: faultyFinder{b.find, f}, clock: clock.RealClock{}, events: events.NewFakeRecorder(1000),
		prover: &prover{client: live, live: live, shipped: policies, clock: clock.RealClock{}, margin: -time.Second, known: map[string]proof{}},
		log:    slog.New(slog.DiscardHandler), turns: &turns{}, pace: &pace{last: map[types.UID]time.Time{}},
	}
}

// story is a Redrive from its making to its end, approved as soon as its plan shows; pass makes a pass.
func (b *bench) story(rd *v1alpha1.Redrive, pass func()) {
	b.t.Helper()
	approved := false
	for range 500 {
		pass()
		got := b.get(rd)
		switch {
		case !approved && (len(b.w.spent) > 0 || b.livePermit(rd)):
			b.t.Fatal("permitted or released without an approval")
		case !approved && readyReason(got) == v1alpha1.ReasonAwaitingApproval:
			b.approve(alice, rd)
			approved = true
		case readyReason(got) == v1alpha1.ReasonComplete && len(got.Finalizers) == 0:
			b.ended(got)
			return
		}
		b.w.tick(succeeded)
	}
	b.t.Fatalf("it does not come to an end: %v", conditionsOf(b.get(rd)))
}

func (b *bench) livePermit(rd *v1alpha1.Redrive) bool {
	got, err := b.w.store.Redrive(b.t.Context(), string(rd.UID))
	return err == nil && live(got)
}

// ended: every job once, and the same record as without a fault.
func (b *bench) ended(rd *v1alpha1.Redrive) {
	b.t.Helper()
	for id, n := range b.w.spent {
		if n != 1 {
			b.t.Errorf("%s was replayed %d times", id, n)
		}
	}
	s := rd.Status
	if len(b.w.spent) != b.w.buried || s.Progress == nil || s.Progress.Delivered != int64(b.w.buried) || s.Progress.Remaining != 0 {
		b.t.Errorf("%d of %d replayed, progress %+v", len(b.w.spent), b.w.buried, s.Progress)
	}
	if len(s.Approvals) != 1 || s.Approvals[0].Approver != alice || s.Approvals[0].PlanHash != s.Plan.Hash {
		b.t.Errorf("approvals: %+v", s.Approvals)
	}
	if c := conditionsOf(rd); c["Approved"] != "True Approved" || c["Complete"] != "True Complete" || c["Stalled"] != "" {
		b.t.Errorf("conditions: %v", c)
	}
}

// faultOfServer is one of the errors of an API server in trouble.
func faultOfServer() error {
	kind := v1alpha1.GroupVersion.WithResource("redrives").GroupResource()
	all := []error{
		apierrors.NewTooManyRequests("busy", 0), apierrors.NewInternalError(errors.New("etcd is away")),
		apierrors.NewServerTimeout(kind, "patch", 0), apierrors.NewConflict(kind, "x", errors.New("changed")),
		context.DeadlineExceeded, errors.New("connection reset by peer"),
	}
	return all[rand.IntN(len(all))]
}

// TestEveryThirdCallFails: the API server and the worker answer errors to three calls in ten, half of them after
// they have done what was asked, and the cache lags.
func TestEveryThirdCallFails(t *testing.T) {
	t.Parallel()
	for i := range 3 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, 12)
			rd := b.redrive("inc-42")
			r := b.process(&faults{old: map[client.ObjectKey]*v1alpha1.Redrive{}, hit: func(bool) (error, bool) {
				if rand.IntN(10) >= 3 {
					return nil, false
				}
				return faultOfServer(), rand.IntN(2) == 0
			}})
			b.story(rd, func() { _, _ = r.Reconcile(t.Context(), request(rd)) })
		})
	}
}

func request(rd *v1alpha1.Redrive) ctrl.Request {
	return ctrl.Request{NamespacedName: client.ObjectKeyFromObject(rd)}
}

var errCrashed = errors.New("the process is no more")

// TestACrashAtAnyWrite ends the process just before and just after each of its writes, to the API server and to the
// worker, and goes on with a new one.
func TestACrashAtAnyWrite(t *testing.T) {
	t.Parallel()
	for _, made := range []bool{false, true} {
		for at := 1; ; at++ {
			reached := false
			t.Run(fmt.Sprintf("write %d, made %t", at, made), func(t *testing.T) {
				reached = crashAt(t, at, made)
			})
			if t.Failed() || !reached {
				break
			}
		}
	}
}

// crashAt tells whether there was such a write.
func crashAt(t *testing.T, at int, made bool) bool {
	t.Helper()
	b := newBench(t, 6)
	rd := b.redrive("inc-42")
	writes, crashed := 0, false
	first := b.process(&faults{hit: func(write bool) (error, bool) {
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
	}})
	second := b.process(&faults{hit: func(bool) (error, bool) { return nil, false }})
	b.story(rd, func() {
		r := first
		if crashed {
			r = second
		}
		_, _ = r.Reconcile(t.Context(), request(rd))
	})
	return crashed
}
