package storetest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// env is one store under test with its clock, its jitter and its policy.
type env struct {
	t      failer
	tb     testing.TB // for what lives as long as the test
	h      Harness
	o      Options
	s      queue.Store
	clock  *ManualClock
	jitter *jitter
	policy queue.Policy // handed to every call; a rule may change it
}

// failer is what a *testing.T and a *rapid.T have in common.
type failer interface {
	Helper()
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Context() context.Context
}

// jitter is the injected draw: a constant, or a function.
type jitter struct {
	mu   sync.Mutex
	draw func() float64
}

func (j *jitter) next() float64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.draw()
}

func (j *jitter) set(draw func() float64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.draw = draw
}

func (j *jitter) fix(ratio float64) { j.set(func() float64 { return ratio }) }

// newEnv opens a new store that is closed at the end of the test.
func newEnv(t testing.TB, h Harness) *env {
	t.Helper()
	e := newEnvIn(t, h)
	t.Cleanup(func() {
		if err := e.s.Close(); err != nil {
			t.Errorf("closing the store: %v", err)
		}
	})
	return e
}

// newEnvIn opens a new store that the caller closes.
func newEnvIn(t testing.TB, h Harness) *env {
	t.Helper()
	e := &env{t: t, tb: t, h: h, clock: NewClock(), jitter: &jitter{}, policy: testPolicy()}
	e.jitter.fix(0.5)
	e.o = Options{Dir: dir(t), Queue: "shop/orders", Clock: e.clock, Ratio: e.jitter.next}
	e.s = h.open(t, e.o)
	return e
}

func testPolicy() queue.Policy {
	return queue.Policy{
		Backoff:        queue.Backoff{Base: 100, Cap: 1000, Jitter: queue.JitterFull},
		MaxAttempts:    3,
		Deadline:       3_600_000,
		AttemptTimeout: 10_000,
		RetryAfterMax:  60_000,
		DedupeWindow:   1_800_000,
		MaxRedrives:    3,
		Limits:         queue.Limits{MaxPayload: 1 << 10, MaxPending: 100_000, MaxBytes: 1 << 30},
	}
}

// restart closes the store and opens its data again.
func (e *env) restart() {
	e.t.Helper()
	if err := e.s.Close(); err != nil {
		e.t.Fatalf("closing the store: %v", err)
	}
	e.s = e.h.open(e.tb, e.o)
}

// must fails the test on err.
func (e *env) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

func (e *env) now() queue.Time {
	e.t.Helper()
	now, err := e.s.Now(e.t.Context())
	e.must(err)
	return now
}

// newJob is a job whose content is its id.
func newJob(id string) queue.NewJob { return withPayload(id, "payload of "+id) }

func withPayload(id, payload string) queue.NewJob {
	return queue.NewJob{
		ID:          id,
		ContentType: "text/plain",
		Payload:     []byte(payload),
		ContentSHA:  sha256.Sum256([]byte(payload)),
	}
}

func newJobs(ids ...string) []queue.NewJob {
	jobs := make([]queue.NewJob, len(ids))
	for i, id := range ids {
		jobs[i] = newJob(id)
	}
	return jobs
}

// names returns prefix-000, prefix-001, …
func names(prefix string, n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s-%03d", prefix, i)
	}
	return ids
}

func (e *env) accept(jobs ...queue.NewJob) []queue.Accepted {
	e.t.Helper()
	got, err := e.s.Accept(e.t.Context(), e.policy, jobs)
	e.must(err)
	if len(got) != len(jobs) {
		e.t.Fatalf("Accept answered %d of %d jobs", len(got), len(jobs))
	}
	return got
}

func (e *env) acceptIDs(ids ...string) []queue.Accepted {
	e.t.Helper()
	return e.accept(newJobs(ids...)...)
}

func (e *env) job(id string) queue.Job {
	e.t.Helper()
	j, err := e.s.Job(e.t.Context(), id)
	if err != nil {
		e.t.Fatalf("reading job %s: %v", id, err)
	}
	return j
}

func (e *env) wantState(want queue.State, ids ...string) {
	e.t.Helper()
	for _, id := range ids {
		if got := e.job(id).State; got != want {
			e.t.Errorf("job %s is %s, want %s", id, got, want)
		}
	}
}

func (e *env) claim(n int) queue.Claimed {
	e.t.Helper()
	return e.claimBehind(n, "")
}

func (e *env) claimBehind(n int, obstacle string) queue.Claimed {
	e.t.Helper()
	c, err := e.s.Claim(e.t.Context(), e.policy, queue.ClaimRequest{Max: n, Obstacle: obstacle})
	e.must(err)
	if len(c.Leases) > n {
		e.t.Fatalf("Claim leased %d jobs, asked for %d", len(c.Leases), n)
	}
	return c
}

// lease claims exactly one job, which must be id.
func (e *env) lease(id string) queue.Lease {
	e.t.Helper()
	c := e.claim(1)
	if len(c.Leases) != 1 || c.Leases[0].Job.ID != id {
		e.t.Fatalf("claimed %v, want just %s", leaseIDs(c), id)
	}
	return c.Leases[0]
}

func leaseIDs(c queue.Claimed) []string {
	var ids []string
	for _, l := range c.Leases {
		ids = append(ids, l.Job.ID)
	}
	return ids
}

func settlement(l queue.Lease, r queue.Result) queue.Settlement {
	return queue.Settlement{ID: l.Job.ID, Token: l.Token, Result: r}
}

// trySettle settles and returns the answer; only an error of the call fails the test.
func (e *env) trySettle(ss ...queue.Settlement) queue.Settled {
	e.t.Helper()
	got, err := e.s.Settle(e.t.Context(), e.policy, ss)
	e.must(err)
	if len(got.Errs) != len(ss) {
		e.t.Fatalf("Settle answered %d of %d settlements", len(got.Errs), len(ss))
	}
	return got
}

// settle ends l with r and fails the test when that is refused.
func (e *env) settle(l queue.Lease, r queue.Result) queue.Settled {
	e.t.Helper()
	got := e.trySettle(settlement(l, r))
	e.must(got.Errs[0])
	return got
}

// settleAll ends every lease of c with r.
func (e *env) settleAll(c queue.Claimed, r queue.Result) {
	e.t.Helper()
	if len(c.Leases) == 0 {
		return
	}
	ss := make([]queue.Settlement, len(c.Leases))
	for i, l := range c.Leases {
		ss[i] = settlement(l, r)
	}
	for i, err := range e.trySettle(ss...).Errs {
		if err != nil {
			e.t.Fatalf("settling %s: %v", ss[i].ID, err)
		}
	}
}

func succeeded() queue.Result { return queue.Result{Outcome: queue.OutcomeSucceeded} }

func permanent(status int, message string) queue.Result {
	return queue.Result{Outcome: queue.OutcomePermanent, Failure: failure(status, message)}
}

func retryable(status int, message string) queue.Result {
	return queue.Result{Outcome: queue.OutcomeRetryable, Failure: failure(status, message)}
}

func failure(status int, message string) *queue.Failure {
	return &queue.Failure{Kind: "HTTPStatus", HTTPStatus: status, Message: message}
}

// die accepts ids and lets each die of r at its first attempt. r must be permanent.
func (e *env) die(r queue.Result, ids ...string) {
	e.t.Helper()
	e.acceptIDs(ids...)
	e.killPending(r, len(ids))
	e.wantState(queue.Dead, ids...)
}

// killPending claims n due jobs and settles them with r.
func (e *env) killPending(r queue.Result, n int) {
	e.t.Helper()
	c := e.claim(n)
	if len(c.Leases) != n {
		e.t.Fatalf("claimed %v, want %d jobs", leaseIDs(c), n)
	}
	e.settleAll(c, r)
}

func (e *env) stats() queue.Stats {
	e.t.Helper()
	s, err := e.s.Stats(e.t.Context())
	e.must(err)
	return s
}

// wantCounts compares the counts of Stats: pending, leased, succeeded, dead.
func (e *env) wantCounts(pending, leased, done, dead int64) {
	e.t.Helper()
	s := e.stats()
	got := [4]int64{s.Pending, s.Leased, s.Succeeded, s.Dead}
	if want := [4]int64{pending, leased, done, dead}; got != want {
		e.t.Errorf("pending, leased, succeeded, dead = %v, want %v", got, want)
	}
}

func (e *env) reap(limit int) queue.Reaped {
	e.t.Helper()
	r, err := e.s.Reap(e.t.Context(), e.policy, limit)
	e.must(err)
	return r
}

func (e *env) sweep(limit int) queue.Swept {
	e.t.Helper()
	s, err := e.s.Sweep(e.t.Context(), e.policy, limit)
	e.must(err)
	return s
}

func (e *env) purge(s queue.Selector) int {
	e.t.Helper()
	n, err := e.s.Purge(e.t.Context(), e.policy, s)
	e.must(err)
	return n
}

// everything selects all dead jobs without being empty.
func everything() queue.Selector { return queue.Selector{Reasons: queue.Reasons()} }

func ids(ids ...string) queue.Selector { return queue.Selector{IDs: ids} }

// deadIDs lists the selected dead jobs in order of death.
func (e *env) deadIDs(s queue.Selector) []string {
	e.t.Helper()
	page, err := e.s.DeadJobs(e.t.Context(), queue.DeadQuery{Selector: s, Limit: 1000})
	e.must(err)
	var ids []string
	for _, j := range page.Jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

// same compares with go-cmp; nil and empty slices are equal.
func (e *env) same(what string, got, want any) {
	e.t.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		e.t.Errorf("%s (-want +got):\n%s", what, d)
	}
}
