package delivery

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// One attempt is one request on the wire: each target answers the first request, so that the connection is
// kept, and breaks the connection at every later one in its own way. A plain client sends that one again,
// which shows that the target provokes what the test is about.
func TestOneAttemptIsOneRequestOnTheWire(t *testing.T) {
	t.Parallel()
	targets := map[string]func(*testing.T) *target{
		"HTTP/1.1, closed before the answer":  func(t *testing.T) *target { return http1Target(t, false) },
		"HTTP/1.1, reset before the answer":   func(t *testing.T) *target { return http1Target(t, true) },
		"HTTP/2, connection closed":           func(t *testing.T) *target { return http2Target(t, cutConnection) },
		"HTTP/2, stream refused":              func(t *testing.T) *target { return http2Target(t, reset(http2.ErrCodeRefusedStream)) },
		"HTTP/2, stream reset as malformed":   func(t *testing.T) *target { return http2Target(t, reset(http2.ErrCodeProtocol)) },
		"HTTP/2, stream cancelled":            func(t *testing.T) *target { return http2Target(t, reset(http2.ErrCodeCancel)) },
		"HTTP/2, shut down before the stream": func(t *testing.T) *target { return http2Target(t, goAway) },
	}
	for name, start := range targets {
		for body, payload := range map[string]string{"with a body": `{"order": 1}`, "with an empty body": ""} {
			t.Run(name+", "+body, func(t *testing.T) {
				t.Parallel()
				target := start(t)
				d := deliverer(t, Config{URL: target.url, AttemptTimeout: 20_000})
				d.transport.TLSClientConfig = target.clientTLS()
				if r := deliver(t, d, leaseOf(payload)); r.Outcome != queue.OutcomeSucceeded {
					t.Fatalf("the first delivery, which keeps the connection: %+v %+v", r, r.Failure)
				}
				got := deliver(t, d, leaseOf(payload))
				if n := target.requests.Load() - 1; n != 1 {
					t.Errorf("the target saw %d requests for one attempt", n)
				}
				wantFailure(t, got, queue.OutcomeRetryable, KindConnection)
			})
		}
	}
}

// The control of the test above: the same targets see more than one request from a plain client.
func TestAPlainClientSendsMoreThanOneRequest(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) *target{
		"HTTP/1.1": func(t *testing.T) *target { return http1Target(t, false) },
		"HTTP/2":   func(t *testing.T) *target { return http2Target(t, reset(http2.ErrCodeProtocol)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := start(t)
			transport := &http.Transport{TLSClientConfig: target.clientTLS(), ForceAttemptHTTP2: true}
			t.Cleanup(transport.CloseIdleConnections)
			client := &http.Client{Transport: transport}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			target.onRequest = func(n int64) {
				if n >= 4 { // seen enough: it goes on for seconds
					cancel()
				}
			}
			for range 2 {
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, target.url, bytes.NewReader(nil))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Idempotency-Key", "order-1")
				if resp, err := client.Do(req); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			}
			if n := target.requests.Load() - 1; n < 2 {
				t.Errorf("a plain client sent %d requests: the target does not provoke a second one", n)
			}
		})
	}
}

// target counts requests.
type target struct {
	url       string
	roots     *x509.CertPool
	requests  atomic.Int64
	onRequest func(int64)
}

func (s *target) clientTLS() *tls.Config { return &tls.Config{RootCAs: s.roots} }

func (s *target) count() int64 {
	n := s.requests.Add(1)
	if s.onRequest != nil {
		s.onRequest(n)
	}
	return n
}

// serve accepts connections until the test ends, and waits for their handlers.
func (s *target) serve(t *testing.T, l net.Listener, handle func(net.Conn)) {
	t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			wg.Go(func() {
				defer c.Close()
				handle(c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// http1Target answers the first request of all, and reads every later one whole before it ends the connection.
func http1Target(t *testing.T, rst bool) *target {
	t.Helper()
	l := listen(t)
	s := &target{url: "http://" + l.Addr().String()}
	s.serve(t, l, func(c net.Conn) {
		r := bufio.NewReader(c)
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			if s.count() > 1 {
				if tcp, ok := c.(*net.TCPConn); ok && rst {
					_ = tcp.SetLinger(0)
				}
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
		}
	})
	return s
}

// breakdown is what an HTTP/2 target does to a stream instead of answering. It says whether the connection goes on.
type breakdown func(f *http2.Framer, stream uint32) bool

func cutConnection(*http2.Framer, uint32) bool { return false }

func reset(code http2.ErrCode) breakdown {
	return func(f *http2.Framer, stream uint32) bool { return f.WriteRSTStream(stream, code) == nil }
}

func goAway(f *http2.Framer, stream uint32) bool {
	return f.WriteGoAway(stream-2, http2.ErrCodeNo, nil) == nil
}

// http2Target answers the first stream of all, and breaks every later one once it has all of it.
func http2Target(t *testing.T, broken breakdown) *target {
	t.Helper()
	certs := httptest.NewTLSServer(nil) // only for its certificate
	certs.Close()
	roots := x509.NewCertPool()
	roots.AddCert(certs.Certificate())
	l := listen(t)
	s := &target{url: "https://" + l.Addr().String(), roots: roots}
	s.serve(t, tls.NewListener(l, &tls.Config{Certificates: certs.TLS.Certificates, NextProtos: []string{"h2"}}), func(c net.Conn) {
		if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
			return
		}
		f := http2.NewFramer(c, c)
		if f.WriteSettings() != nil {
			return
		}
		for s.frame(f, broken) {
		}
	})
	return s
}

// frame reads one frame, and answers or breaks the stream that it ends.
func (s *target) frame(f *http2.Framer, broken breakdown) bool {
	frame, err := f.ReadFrame()
	if err != nil {
		return false
	}
	ended := false
	switch frame := frame.(type) {
	case *http2.SettingsFrame:
		return frame.IsAck() || f.WriteSettingsAck() == nil
	case *http2.PingFrame:
		return frame.IsAck() || f.WritePing(true, frame.Data) == nil
	case *http2.HeadersFrame:
		ended = frame.StreamEnded()
	case *http2.DataFrame:
		ended = frame.StreamEnded()
	}
	if !ended {
		return true
	}
	stream := frame.Header().StreamID
	if s.count() > 1 {
		return broken(f, stream)
	}
	var block bytes.Buffer
	if err := hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: ":status", Value: "204"}); err != nil {
		return false
	}
	return f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true}) == nil
}
