package delivery

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/retryqueue/retryqueue/internal/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// epoch is what the tests' clock says.
var epoch = time.Date(2026, 9, 6, 12, 0, 0, 0, time.UTC)

func deliverer(t testing.TB, c Config) *HTTP {
	t.Helper()
	c.AllowLoopback = true
	if c.Queue == "" {
		c.Queue = "shop/orders"
	}
	if c.AttemptTimeout == 0 {
		c.AttemptTimeout = 30_000
	}
	d, err := New(c, func() time.Time { return epoch })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func server(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func leaseOf(payload string, headers ...queue.Header) queue.Lease {
	return queue.Lease{Token: 1, Job: queue.Job{
		ID: "order-1", Attempts: 2, MaxAttempts: 5, ContentType: "application/json",
		Deadline: queue.TimeOf(epoch.Add(time.Hour)), FirstReceivedAt: queue.TimeOf(epoch),
		Headers: headers, Payload: []byte(payload),
	}}
}

func deliver(t testing.TB, d *HTTP, l queue.Lease) queue.Result {
	t.Helper()
	return d.Deliver(t.Context(), l)
}

// wantFailure checks outcome and kind, and returns the failure.
func wantFailure(t *testing.T, got queue.Result, outcome queue.Outcome, kind string) queue.Failure {
	t.Helper()
	if got.Failure == nil {
		t.Fatalf("result = %+v, want a failure %s", got, kind)
	}
	if got.Outcome != outcome || got.Failure.Kind != kind {
		t.Fatalf("result = %s, %+v, want %s, kind %s", got.Outcome, *got.Failure, outcome, kind)
	}
	return *got.Failure
}

var _ queue.Deliverer = (*HTTP)(nil)
