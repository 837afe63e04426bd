package workerapi

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/retryqueue/retryqueue/internal/queue"
)

func TestKeptHeaders(t *testing.T) {
	t.Parallel()
	for name, kept := range map[string]bool{
		"X-Tenant": true, "ce-id": true, "traceparent": true, "Content-Encoding": true, "Content-Language": true, "Link": true, "X-Request-Id": true,

		"Connection": false, "Keep-Alive": false, "TE": false, "Trailer": false, "Transfer-Encoding": false, "Upgrade": false,
		"Proxy-Authorization": false, "Proxy-Connection": false, "Via": false, "Expect": false,
		"authorization": false, "Cookie": false, "Host": false, "User-Agent": false, "Origin": false, "Referer": false, "Forwarded": false,
		"X-Forwarded-For": false, "X-Real-IP": false, "Sec-Fetch-Site": false,
		"Accept": false, "Accept-Encoding": false, "If-Match": false, "Range": false, "Cache-Control": false,
		"Content-Length": false, "Content-Type": false,
		"Idempotency-Key": false, "RetryQueue-Delay": false, "retryqueue-attempt": false, "webhook-signature": false,
	} {
		if Kept(name) != kept {
			t.Errorf("%s: kept is %v, want %v", name, !kept, kept)
		}
	}
}

func TestHeadersNamedByConnectionEndHere(t *testing.T) {
	t.Parallel()
	got, err := keptHeaders(http.Header{"Connection": {"close, x-hop"}, "X-Hop": {"1"}, "X-B": {"2", "1"}, "X-A": {"1"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []queue.Header{{Name: "X-A", Value: "1"}, {Name: "X-B", Value: "2"}, {Name: "X-B", Value: "1"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
