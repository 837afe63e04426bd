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
	"testing"
	"time"

	"github.com/retryqueue/retryqueue/internal/queue"
)

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
