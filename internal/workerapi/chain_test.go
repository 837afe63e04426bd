package workerapi

import (
	"net/http"
	"testing"
)

func TestAQueueCanDeliverToAQueue(t *testing.T) {
	t.Parallel()
	a := newAPI(t, nil)
	got := a.send(request{path: "/v1/jobs", body: "x", headers: map[string]string{
		"Idempotency-Key": "a", "RetryQueue-Queue": "shop/first", "RetryQueue-Attempt": "7", "RetryQueue-Max-Attempts": "50",
		"RetryQueue-Deadline": "2026-09-06T12:00:00.000Z", "RetryQueue-First-Received": "2026-09-06T11:00:00.000Z", "RetryQueue-Redrive": "uid",
	}})
	if got.status != http.StatusAccepted {
		t.Fatalf("status %d: %s", got.status, got.body)
	}
	j, p := a.stored("a"), testPolicy()
	if j.MaxAttempts != p.MaxAttempts || j.Deadline != j.FirstReceivedAt.Add(p.Deadline) {
		t.Errorf("the budget is %d attempts until %s, want this queue's own", j.MaxAttempts, j.Deadline)
	}
	if got := a.send(request{path: "/v1/jobs", body: "x", headers: map[string]string{"RetryQueue-Deadline": "2026-09-06T12:00:00.000Z"}}); got.status != http.StatusBadRequest {
		t.Errorf("an instant from a producer: status %d", got.status)
	}
}
