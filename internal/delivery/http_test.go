package delivery

import (
	"context"
	"crypto/x509"
	"io"
	"log"
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

// An attempt ends in time whatever phase it hangs in.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	hang := func(t *testing.T, first string) string { // takes connections, says something at most, and waits
		t.Helper()
		l := listen(t)
		(&target{}).serve(t, l, func(c net.Conn) {
			_, _ = c.Read(make([]byte, 1024))
			_, _ = io.WriteString(c, first)
			_, _ = io.Copy(io.Discard, c)
		})
		return l.Addr().String()
	}
	for name, tt := range map[string]struct {
		url  func(*testing.T) string
		says string
	}{
		"in the TLS handshake":         {func(t *testing.T) string { return "https://" + hang(t, "") }, "while connecting"},
		"waiting for the answer":       {func(t *testing.T) string { return "http://" + hang(t, "") }, "while waiting for the answer"},
		"in the middle of the headers": {func(t *testing.T) string { return "http://" + hang(t, "HTTP/1.1 200 OK\r\nA: b\r\n") }, "while waiting for the answer"},
		"after any number of 1xx answers": {func(t *testing.T) string {
			return "http://" + hang(t, strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 3))
		}, "while waiting for the answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := deliver(t, deliverer(t, Config{URL: tt.url(t), AttemptTimeout: 100}), leaseOf("x"))
			f := wantFailure(t, got, queue.OutcomeRetryable, KindTimeout)
			if want := "no answer within 100ms (attemptTimeout) " + tt.says; f.Message != want {
				t.Errorf("message = %q, want %q", f.Message, want)
			}
		})
	}
}

func TestTheStatusDecidesWhenTheBodyHangs(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusOK
		if r.URL.Path == "/bad" {
			status = http.StatusInternalServerError
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "some")
		_ = http.NewResponseController(w).Flush()
		<-release
	})
	defer close(release)
	if r := deliver(t, deliverer(t, Config{URL: s.URL, AttemptTimeout: 200}), leaseOf("x")); r.Outcome != queue.OutcomeSucceeded {
		t.Errorf("result = %+v, want success: the target had said so", r)
	}
	got := deliver(t, deliverer(t, Config{URL: s.URL + "/bad", AttemptTimeout: 200}), leaseOf("x"))
	if f := wantFailure(t, got, queue.OutcomeRetryable, KindHTTPStatus); f.Message != "some" || f.HTTPStatus != 500 {
		t.Errorf("failure = %+v", f)
	}
}

// A body that never ends must not hold a place of the worker for the whole of a long timeout.
func TestABodyIsNotWaitedForLong(t *testing.T) {
	t.Parallel()
	released := make(chan struct{})
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done() // the deliverer has given the body up
		close(released)
	})
	d := deliverer(t, Config{URL: s.URL, AttemptTimeout: 60_000})
	began := time.Now()
	if r := deliver(t, d, leaseOf("x")); r.Outcome != queue.OutcomeSucceeded {
		t.Fatalf("result = %+v", r)
	}
	if took := time.Since(began); took > 20*bodyWait {
		t.Errorf("the attempt took %s, want about %s", took, bodyWait)
	}
	<-released
}

func TestAnAttemptThatTheWorkerEndsIsInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s := server(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so that the server notices the end of the connection
		cancel()
		<-r.Context().Done()
	})
	d := deliverer(t, Config{URL: s.URL, Rules: []Rule{{Name: "all", Errors: []string{KindTimeout, KindConnection, KindTLS}, Action: ActionFail}}})
	wantFailure(t, d.Deliver(ctx, leaseOf("x")), queue.OutcomeRetryable, KindInterrupted)
}

func TestBrokenConnections(t *testing.T) {
	t.Parallel()
	says := func(text string) func(*testing.T) string {
		return func(t *testing.T) string {
			t.Helper()
			l := listen(t)
			(&target{}).serve(t, l, func(c net.Conn) {
				_, _ = c.Read(make([]byte, 1024))
				_, _ = io.WriteString(c, text)
			})
			return l.Addr().String()
		}
	}
	for name, addr := range map[string]func(*testing.T) string{
		"nobody listens": func(t *testing.T) string {
			l := listen(t)
			l.Close()
			return l.Addr().String()
		},
		"no such name":                  func(*testing.T) string { return "orders.invalid" },
		"closed at once":                says(""),
		"an answer that is no HTTP":     says("SSH-2.0-OpenSSH_9.9\r\n"),
		"a header that is none":         says("HTTP/1.1 200 OK\r\n\x00\x01\x02\r\n\r\n"),
		"a status that is none":         says("HTTP/1.1 abc OK\r\n\r\n"),
		"headers without end":           says("HTTP/1.1 200 OK\r\n" + strings.Repeat("A: "+strings.Repeat("b", 1000)+"\r\n", 200)),
		"more headers than make sense":  says("HTTP/1.1 200 OK\r\n" + strings.Repeat("A: "+strings.Repeat("b", 1000)+"\r\n", 200) + "Content-Length: 0\r\n\r\n"),
		"headers that break off":        says("HTTP/1.1 200 OK\r\nContent-Le"),
		"two lengths that do not agree": says("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"),
		"1xx answers without end":       says(strings.Repeat("HTTP/1.1 103 Early Hints\r\nA: "+strings.Repeat("b", 1000)+"\r\n\r\n", 200)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := deliver(t, deliverer(t, Config{URL: "http://" + addr(t)}), leaseOf("x"))
			f := wantFailure(t, got, queue.OutcomeRetryable, KindConnection)
			if f.Message == "" || len(f.Message) > queue.MaxErrorMessage {
				t.Errorf("message = %q", f.Message)
			}
		})
	}
}

func TestUpgradesAreRefused(t *testing.T) {
	t.Parallel()
	l := listen(t)
	(&target{}).serve(t, l, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 1024))
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
		_, _ = io.Copy(io.Discard, c)
	})
	got := deliver(t, deliverer(t, Config{URL: "http://" + l.Addr().String()}), leaseOf("x"))
	if f := wantFailure(t, got, queue.OutcomePermanent, KindHTTPStatus); f.HTTPStatus != 101 {
		t.Errorf("failure = %+v", f)
	}
}

func TestTLSIsVerified(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	plain := server(t, nil)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	port := s.URL[strings.LastIndex(s.URL, ":"):]
	for name, tt := range map[string]struct {
		url     string
		trusted bool
		kind    string
	}{
		"a certificate that is trusted":    {s.URL, true, ""},
		"an unknown authority":             {s.URL, false, KindTLS},
		"another host's certificate":       {"https://localhost" + port, true, KindTLS},
		"a target that does not speak TLS": {"https" + strings.TrimPrefix(plain.URL, "http"), true, KindTLS},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deliverer(t, Config{URL: tt.url})
			if tt.trusted {
				d.transport.TLSClientConfig = (&target{roots: roots}).clientTLS()
			}
			got := deliver(t, d, leaseOf("x"))
			if tt.kind == "" {
				if got.Outcome != queue.OutcomeSucceeded {
					t.Fatalf("result = %+v %+v", got, got.Failure)
				}
				return
			}
			wantFailure(t, got, queue.OutcomeRetryable, tt.kind)
		})
	}
}

func TestWhatHTTPCannotCarryIsPermanent(t *testing.T) {
	t.Parallel()
	s := server(t, func(http.ResponseWriter, *http.Request) { t.Error("it was sent") })
	d := deliverer(t, Config{URL: s.URL})
	for name, change := range map[string]func(*queue.Job){
		"a header with a line end":       func(j *queue.Job) { j.Headers = []queue.Header{{Name: "A", Value: "b\r\nC: d"}} },
		"a header name that is none":     func(j *queue.Job) { j.Headers = []queue.Header{{Name: "A B", Value: "c"}} },
		"a media type with a line end":   func(j *queue.Job) { j.ContentType = "text/plain\nA: b" },
		"an id with a control character": func(j *queue.Job) { j.ID = "a\x00b" },
	} {
		t.Run(name, func(t *testing.T) {
			lease := leaseOf("x")
			change(&lease.Job)
			wantFailure(t, deliver(t, d, lease), queue.OutcomePermanent, KindInvalidRequest)
		})
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
