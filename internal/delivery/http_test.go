package delivery

import (
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/retryqueue/retryqueue/internal/queue"
)

func TestTheTargetSeesTheJob(t *testing.T) {
	t.Parallel()
	type seen struct {
		Method, URI, Body string
		Length            int64
		Header            http.Header
	}
	got := make(chan seen, 1)
	s := server(t, func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got <- seen{r.Method, r.RequestURI, string(b), r.ContentLength, r.Header}
	})
	d := deliverer(t, Config{URL: s.URL + "/handle?shop=eu", Headers: []queue.Header{
		{Name: "X-Config", Value: "queue"}, {Name: "x-both", Value: "queue"},
	}})
	lease := leaseOf("hello",
		queue.Header{Name: "ce-id", Value: "1"}, queue.Header{Name: "ce-source", Value: "/shop"},
		queue.Header{Name: "Authorization", Value: "Bearer target"},
		queue.Header{Name: "X-Many", Value: "1"}, queue.Header{Name: "X-Many", Value: "2"},
		queue.Header{Name: "X-Both", Value: "job"},
		// None of these is the job's to set.
		queue.Header{Name: "retryqueue-attempt", Value: "99"}, queue.Header{Name: "RetryQueue-Other", Value: "x"},
		queue.Header{Name: "Idempotency-Key", Value: "forged"}, queue.Header{Name: "Webhook-Signature", Value: "v1,forged"},
		queue.Header{Name: "Content-Type", Value: "text/forged"}, queue.Header{Name: "Content-Length", Value: "1"},
		queue.Header{Name: "Host", Value: "forged"}, queue.Header{Name: "Transfer-Encoding", Value: "chunked"},
		queue.Header{Name: "Connection", Value: "close, X-Hop"}, queue.Header{Name: "X-Hop", Value: "x"},
		queue.Header{Name: "Accept-Encoding", Value: "gzip"}, queue.Header{Name: "Expect", Value: "100-continue"},
		queue.Header{Name: "Upgrade", Value: "websocket"}, queue.Header{Name: "TE", Value: "trailers"},
	)
	lease.Job.RedriveUID = "redrive-uid"
	if r := deliver(t, d, lease); r.Outcome != queue.OutcomeSucceeded || r.Failure != nil {
		t.Fatalf("result = %+v", r)
	}
	want := seen{"POST", "/handle?shop=eu", "hello", 5, http.Header{
		"Idempotency-Key": {"order-1"}, "Content-Type": {"application/json"}, "Content-Length": {"5"}, "User-Agent": {"RetryQueue"},
		"Retryqueue-Queue": {"shop/orders"}, "Retryqueue-Attempt": {"2"}, "Retryqueue-Max-Attempts": {"5"},
		"Retryqueue-Deadline": {"2026-09-06T13:00:00.000Z"}, "Retryqueue-First-Received": {"2026-09-06T12:00:00.000Z"},
		"Retryqueue-Redrive": {"redrive-uid"},
		"Ce-Id":              {"1"}, "Ce-Source": {"/shop"}, "Authorization": {"Bearer target"}, "X-Many": {"1", "2"},
		"X-Config": {"queue"}, "X-Both": {"queue"},
	}}
	if diff := cmp.Diff(want, <-got); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

func TestAnEmptyPayloadIsAnEmptyBody(t *testing.T) {
	t.Parallel()
	type seen struct{ Body, Length, Encoding, Protocol string }
	got := make(chan seen, 1)
	h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got <- seen{string(b), r.Header.Get("Content-Length"), strings.Join(r.TransferEncoding, ","), r.Proto}
	})
	for name, tt := range map[string]struct {
		start func(*httptest.Server)
		want  seen
	}{
		"over plain HTTP":         {func(s *httptest.Server) { s.Start() }, seen{Length: "0", Protocol: "HTTP/1.1"}},
		"over HTTP/2":             {func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() }, seen{Protocol: "HTTP/2.0"}},
		"over TLS without HTTP/2": {func(s *httptest.Server) { s.StartTLS() }, seen{Encoding: "chunked", Protocol: "HTTP/1.1"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewUnstartedServer(h)
			tt.start(s)
			t.Cleanup(s.Close)
			d := deliverer(t, Config{URL: s.URL})
			if cert := s.Certificate(); cert != nil {
				roots := x509.NewCertPool()
				roots.AddCert(cert)
				d.transport.TLSClientConfig = (&target{roots: roots}).clientTLS()
			}
			if r := deliver(t, d, leaseOf("")); r.Outcome != queue.OutcomeSucceeded {
				t.Fatalf("result = %+v %+v", r, r.Failure)
			}
			if diff := cmp.Diff(tt.want, <-got); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnswersOverTheWire(t *testing.T) {
	t.Parallel()
	date := epoch.Add(time.Hour)
	tests := map[string]struct {
		answer  http.HandlerFunc
		outcome queue.Outcome
		failure queue.Failure
		after   queue.Millis
	}{
		"an answer's body becomes one line of the message": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(422)
				_, _ = io.WriteString(w, "{\n  \"error\": \"no such\tSKU\"\n}\n")
			}, queue.OutcomePermanent, queue.Failure{Kind: KindHTTPStatus, HTTPStatus: 422, Message: `{ "error": "no such SKU" }`}, 0,
		},
		"without a body the status is named": {
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) },
			queue.OutcomeRetryable, queue.Failure{Kind: KindHTTPStatus, HTTPStatus: 503, Message: "Service Unavailable"}, 0,
		},
		"a huge body is cut": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(500)
				for range 10_000 {
					if _, err := io.WriteString(w, strings.Repeat("x", 1000)); err != nil {
						return
					}
				}
			}, queue.OutcomeRetryable, queue.Failure{Kind: KindHTTPStatus, HTTPStatus: 500, Message: strings.Repeat("x", queue.MaxErrorMessage)}, 0,
		},
		"Retry-After in seconds": {
			func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Retry-After", "7"); w.WriteHeader(429) },
			queue.OutcomeRetryable, queue.Failure{Kind: KindHTTPStatus, HTTPStatus: 429, Message: "Too Many Requests"}, 7000,
		},
		"Retry-After as a date, by the target's own clock": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Date", date.Format(http.TimeFormat))
				w.Header().Set("Retry-After", date.Add(time.Minute).Format(http.TimeFormat))
				w.WriteHeader(502)
			}, queue.OutcomeRetryable, queue.Failure{Kind: KindHTTPStatus, HTTPStatus: 502, Message: "Bad Gateway"}, 60_000,
		},
		"Retry-After does not count for a permanent failure": {
			func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Retry-After", "7"); w.WriteHeader(400) },
			queue.OutcomePermanent, queue.Failure{Kind: KindHTTPStatus, HTTPStatus: 400, Message: "Bad Request"}, 0,
		},
		"the body of a body that breaks off still counts": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "100")
				w.WriteHeader(500)
				_, _ = io.WriteString(w, "half")
			}, queue.OutcomeRetryable, queue.Failure{Kind: KindHTTPStatus, HTTPStatus: 500, Message: "half"}, 0,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server(t, tt.answer)
			got := deliver(t, deliverer(t, Config{URL: s.URL}), leaseOf("x"))
			want := queue.Result{Outcome: tt.outcome, Failure: &tt.failure, RetryAfter: tt.after}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	var followed atomic.Int32
	elsewhere := server(t, func(http.ResponseWriter, *http.Request) { followed.Add(1) })
	for _, status := range []int{301, 302, 303, 307, 308} {
		s := server(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, status) })
		got := deliver(t, deliverer(t, Config{URL: s.URL}), leaseOf("x"))
		if f := wantFailure(t, got, queue.OutcomePermanent, KindHTTPStatus); f.HTTPStatus != status {
			t.Errorf("status = %d, want %d", f.HTTPStatus, status)
		}
	}
	if n := followed.Load(); n != 0 {
		t.Errorf("%d redirects were followed", n)
	}
}

func TestTheProxyOfTheEnvironmentIsNotUsed(t *testing.T) {
	var proxied atomic.Int32
	proxy := server(t, func(http.ResponseWriter, *http.Request) { proxied.Add(1) })
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("http_proxy", proxy.URL)
	got := deliver(t, deliverer(t, Config{URL: "http://target.invalid/"}), leaseOf("x"))
	f := wantFailure(t, got, queue.OutcomeRetryable, KindConnection)
	if proxied.Load() != 0 || !strings.Contains(f.Message, "target.invalid") {
		t.Errorf("proxied %d times, message %q", proxied.Load(), f.Message)
	}
}

func TestConfigureTakesEffectAtTheNextAttempt(t *testing.T) {
	t.Parallel()
	s := server(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(409) })
	d := deliverer(t, Config{URL: s.URL})
	wantFailure(t, deliver(t, d, leaseOf("x")), queue.OutcomePermanent, KindHTTPStatus)
	next := *d.config.Load()
	next.Rules = []Rule{{Name: "done", Statuses: []string{"409"}, Action: ActionSucceed}}
	if err := d.Configure(next); err != nil {
		t.Fatal(err)
	}
	broken := next
	broken.URL = ""
	if err := d.Configure(broken); err == nil {
		t.Fatal("an invalid config is taken")
	}
	if r := deliver(t, d, leaseOf("x")); r.Outcome != queue.OutcomeSucceeded {
		t.Errorf("result = %+v, want success by the new rule, which an invalid config does not undo", r)
	}
}

// The connection is used again after answers with a body of moderate size.
func TestConnectionsAreKept(t *testing.T) {
	t.Parallel()
	var opened atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(500)
		_, _ = io.WriteString(w, strings.Repeat("x", 40<<10))
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	d := deliverer(t, Config{URL: s.URL})
	for range 5 {
		wantFailure(t, deliver(t, d, leaseOf("x")), queue.OutcomeRetryable, KindHTTPStatus)
	}
	if n := opened.Load(); n != 1 {
		t.Errorf("%d connections for 5 attempts, want 1", n)
	}
}
