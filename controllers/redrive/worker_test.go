package redrive

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
	"github.com/retryqueue/retryqueue/internal/queue"
	"github.com/retryqueue/retryqueue/internal/queue/storetest"
	"github.com/retryqueue/retryqueue/internal/store/sqlite"
	"github.com/retryqueue/retryqueue/internal/workerapi"
)

// worker is the admin API over a real store, and a worker loop that goes on only when the test says so.
type worker struct {
	workerapi.Admin // the calls that the controller never makes

	t     *testing.T
	store queue.Store
	clock *storetest.ManualClock

	mu     sync.Mutex
	down   bool                 // does not answer
	forged func(*queue.Redrive) // changes what it answers
	once   func()               // runs before the next permission
	buried int
	spent  map[string]int // released jobs seen by the loop, by id
}

func newWorker(t *testing.T) *worker {
	t.Helper()
	w := &worker{t: t, clock: storetest.NewClock(), spent: map[string]int{}}
	store, err := sqlite.Open(t.Context(), sqlite.Options{
		Path: filepath.Join(t.TempDir(), "queue.db"), Queue: "shop/orders", Clock: w.clock, Log: slog.New(slog.DiscardHandler),
	})
	w.must(err)
	t.Cleanup(func() { w.must(store.Close()) })
	w.store = store
	return w
}

var testPolicy = queue.Policy{
	Backoff:     queue.Backoff{Base: 100, Cap: 1000, Jitter: queue.JitterFull},
	MaxAttempts: 3, Deadline: 3_600_000, AttemptTimeout: 10_000, DedupeWindow: 3_600_000, MaxRedrives: 3,
	Limits: queue.Limits{MaxPayload: 1 << 10, MaxPending: 100_000, MaxBytes: 1 << 30},
}

func (w *worker) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// bury makes n dead jobs.
func (w *worker) bury(n int) {
	w.t.Helper()
	if n == 0 {
		return
	}
	jobs := make([]queue.NewJob, n)
	for i := range jobs {
		id := fmt.Sprintf("job-%03d", w.buried+i)
		jobs[i] = queue.NewJob{ID: id, Payload: []byte(id), ContentSHA: sha256.Sum256([]byte(id))}
	}
	w.buried += n
	_, err := w.store.Accept(w.t.Context(), testPolicy, jobs)
	w.must(err)
	w.work(permanent)
}

var (
	succeeded = queue.Result{Outcome: queue.OutcomeSucceeded}
	permanent = queue.Result{Outcome: queue.OutcomePermanent, Failure: &queue.Failure{Kind: "HTTPStatus", HTTPStatus: 422, Message: "invalid"}}
)

// releasing is a tick in which nobody takes what is released.
func (w *worker) releasing() func() {
	return func() {
		w.t.Helper()
		w.clock.Advance(100)
		_, err := w.store.AdvanceRedrives(w.t.Context(), testPolicy, "")
		w.must(err)
	}
}

// work claims what is due and settles it with r.
func (w *worker) work(r queue.Result) {
	w.t.Helper()
	c, err := w.store.Claim(w.t.Context(), testPolicy, queue.ClaimRequest{Max: 1000})
	w.must(err)
	if len(c.Leases) == 0 {
		return
	}
	var all []queue.Settlement
	for _, l := range c.Leases {
		all = append(all, queue.Settlement{ID: l.Job.ID, Token: l.Token, Result: r})
		if l.Job.Redrives > 0 {
			w.spent[l.Job.ID]++
		}
	}
	settled, err := w.store.Settle(w.t.Context(), testPolicy, all)
	w.must(err)
	for _, err := range settled.Errs {
		w.must(err)
	}
}

// tick lets a tenth of a second pass: it releases what may be released, and settles it with r.
func (w *worker) tick(r queue.Result) {
	w.t.Helper()
	w.tickBehind("", r)
}

func (w *worker) tickBehind(obstacle queue.HeldReason, r queue.Result) {
	w.t.Helper()
	w.clock.Advance(100)
	_, err := w.store.AdvanceRedrives(w.t.Context(), testPolicy, obstacle)
	w.must(err)
	w.work(r)
}

// delivering is a tick in which everything is delivered.
func (w *worker) delivering() func() { return func() { w.tick(succeeded) } }

func (w *worker) setDown(down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = down
}

func (w *worker) forge(f func(*queue.Redrive)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forged = f
}

func (w *worker) beforePermit(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.once = f
}

// answer makes a call as the admin API would.
func (w *worker) answer(call func() (queue.Redrive, error)) (queue.Redrive, error) {
	w.mu.Lock()
	down, forged := w.down, w.forged
	w.mu.Unlock()
	if down {
		return queue.Redrive{}, errDown
	}
	got, err := call()
	if err == nil && forged != nil {
		forged(&got)
	}
	return got, err
}

func (w *worker) PlanRedrive(ctx context.Context, r queue.RedriveSpec) (queue.Redrive, error) {
	return w.answer(func() (queue.Redrive, error) { return w.store.PlanRedrive(ctx, r) })
}

func (w *worker) PermitRedrive(ctx context.Context, p queue.RedrivePermit) (queue.Redrive, error) {
	w.mu.Lock()
	once := w.once
	if p.For > 0 {
		w.once = nil
	}
	w.mu.Unlock()
	if once != nil && p.For > 0 {
		once()
	}
	return w.answer(func() (queue.Redrive, error) { return w.store.PermitRedrive(ctx, p) })
}

func (w *worker) CancelRedrive(ctx context.Context, uid string) (queue.Redrive, error) {
	return w.answer(func() (queue.Redrive, error) { return w.store.CancelRedrive(ctx, uid) })
}

func (w *worker) Redrive(ctx context.Context, uid string) (queue.Redrive, error) {
	return w.answer(func() (queue.Redrive, error) { return w.store.Redrive(ctx, uid) })
}

// finder finds workers by the queue's uid, as mutual TLS does.
type finder struct {
	mu      sync.Mutex
	workers map[string]*worker
}

func (f *finder) put(rq *v1alpha1.RetryQueue, w *worker) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.workers[string(rq.UID)] = w
}

func (f *finder) Admin(_ context.Context, rq *v1alpha1.RetryQueue) (workerapi.Admin, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if w, ok := f.workers[string(rq.UID)]; ok {
		return w, nil
	}
	return nil, errDown
}
