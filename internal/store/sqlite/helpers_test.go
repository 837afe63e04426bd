package sqlite

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/retryqueue/retryqueue/internal/queue"
	"github.com/retryqueue/retryqueue/internal/queue/storetest"
)

var testPolicy = queue.Policy{
	Backoff:        queue.Backoff{Base: 100, Cap: 1000, Jitter: queue.JitterFull},
	MaxAttempts:    3,
	Deadline:       3_600_000,
	AttemptTimeout: 10_000,
	RetryAfterMax:  60_000,
	DedupeWindow:   1_800_000,
	MaxRedrives:    3,
	Limits:         queue.Limits{MaxPayload: 1 << 20, MaxPending: 100_000, MaxBytes: 1 << 30},
}

// testOptions are those of a store in a new directory, with a clock that stands still and no reserve.
func testOptions(t testing.TB) Options {
	t.Helper()
	return Options{
		Path: filepath.Join(t.TempDir(), "queue.db"), Queue: "shop/orders", Clock: storetest.NewClock(),
		Ratio: func() float64 { return 0.5 }, Log: slog.New(slog.DiscardHandler), Reserve: -1,
	}
}

func mustOpen(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func newJobs(prefix string, n, size int) []queue.NewJob {
	jobs := make([]queue.NewJob, n)
	for i := range jobs {
		id := fmt.Sprintf("%s-%05d", prefix, i)
		payload := make([]byte, size)
		copy(payload, id)
		jobs[i] = queue.NewJob{ID: id, Payload: payload, ContentSHA: sha256.Sum256(payload)}
	}
	return jobs
}

func accept(s *Store, jobs ...queue.NewJob) error {
	_, err := s.Accept(context.Background(), testPolicy, jobs)
	return err
}

func mustAccept(t testing.TB, s *Store, jobs ...queue.NewJob) {
	t.Helper()
	if err := accept(s, jobs...); err != nil {
		t.Fatal(err)
	}
}

func claim(s *Store, n int) (queue.Claimed, error) {
	return s.Claim(context.Background(), testPolicy, queue.ClaimRequest{Max: n})
}

func mustClaim(t testing.TB, s *Store, n int) queue.Claimed {
	t.Helper()
	c, err := claim(s, n)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Leases) != n {
		t.Fatalf("claimed %d jobs, want %d", len(c.Leases), n)
	}
	return c
}

func settle(s *Store, r queue.Result, leases ...queue.Lease) ([]error, error) {
	ss := make([]queue.Settlement, len(leases))
	for i, l := range leases {
		ss[i] = queue.Settlement{ID: l.Job.ID, Token: l.Token, Result: r}
	}
	got, err := s.Settle(context.Background(), testPolicy, ss)
	return got.Errs, err
}

func mustSettle(t testing.TB, s *Store, r queue.Result, leases ...queue.Lease) {
	t.Helper()
	errs, err := settle(s, r, leases...)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

var (
	succeeded = queue.Result{Outcome: queue.OutcomeSucceeded}
	permanent = queue.Result{Outcome: queue.OutcomePermanent, Failure: &queue.Failure{Kind: "HTTPStatus", HTTPStatus: 422, Message: "invalid"}}
)

// inWriter runs f where the store's writer runs, which alone may touch its state.
func inWriter(t *testing.T, s *Store, f func(*tx) error) {
	t.Helper()
	if err := s.do(context.Background(), kindOther, 1, f); err != nil {
		t.Fatal(err)
	}
}
