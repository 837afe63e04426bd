package delivery

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// Bounds of what is read of an answer.
const (
	maxMessageBody    = 4 << 10          // bytes of a body that an error message is made of
	maxDrain          = 64 << 10         // further bytes read so that the connection can be used again
	bodyWait          = time.Second      // how long all that may take
	maxResponseHeader = 64 << 10         // bytes
	maxIdle           = 1024             // connections kept; as many as a worker may have jobs in flight
	idleTimeout       = 30 * time.Second // after which an unused connection is closed
	connectTimeout    = 30 * time.Second // for TCP, and again for TLS; also ends what an attempt left behind
)

// HTTP delivers jobs by HTTP POST. It is safe for concurrent use.
type HTTP struct {
	config    atomic.Pointer[Config]
	transport *http.Transport
	now       func() time.Time
}

// New returns a deliverer. now is the wall clock of signatures and of Retry-After dates.
func New(c Config, now func() time.Time) (*HTTP, error) {
	d := &HTTP{now: now}
	dialer := &net.Dialer{Timeout: connectTimeout, KeepAlive: 15 * time.Second, ControlContext: d.control}
	d.transport = &http.Transport{
		Proxy:                  nil, // never from the environment: it would dial for us, unchecked
		DialContext:            dialer.DialContext,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxResponseHeader,
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    maxIdle,
		IdleConnTimeout:        idleTimeout,
		TLSHandshakeTimeout:    connectTimeout,
		// A dead connection that carries many requests must not cost each of them its whole timeout.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second},
	}
	if err := d.Configure(c); err != nil {
		return nil, err
	}
	return d, nil
}

// Configure swaps the configuration for attempts that start from now on. An invalid one changes nothing.
func (d *HTTP) Configure(c Config) error {
	if err := c.Validate(); err != nil {
		return fmt.Errorf("configuring delivery: %w", err)
	}
	old := d.config.Swap(&c)
	if old != nil && (old.URL != c.URL || old.AllowLoopback != c.AllowLoopback) {
		d.transport.CloseIdleConnections()
	}
	return nil
}

// Close closes idle connections; attempts under way go on.
func (d *HTTP) Close() { d.transport.CloseIdleConnections() }

// Deliver makes one attempt: at most one request on the wire, no redirect followed, ended at the latest after
// AttemptTimeout. The status decides; of the body at most 4 KiB are read for the message.
//
// When ctx is cancelled the attempt ends as a retryable KindInterrupted. A request that cannot be signed is
// not sent, and the outcome is unknown.
func (d *HTTP) Deliver(ctx context.Context, lease queue.Lease) queue.Result {
	c := d.config.Load()
	attempt, cancel := context.WithTimeout(ctx, c.AttemptTimeout.Std())
	defer cancel()
	progress := &progress{}
	traced := httptrace.WithClientTrace(attempt, progress.trace())
	req, err := c.newRequest(traced, &lease.Job, d.now())
	if err != nil {
		return cannotSend(err)
	}
	// Not http.Client: it follows redirects and keeps cookies.
	resp, err := d.transport.RoundTrip(req)
	if err != nil {
		return classifyError(c.Rules, failureOf(ctx, attempt, err, progress.String(), c.AttemptTimeout))
	}
	result := classifyStatus(c.Rules, resp.StatusCode, message(resp, cancel))
	if result.Outcome == queue.OutcomeRetryable {
		result.RetryAfter = retryAfter(resp.Header, d.now())
	}
	return result
}

// message reads the body of an answer within bounds, in bytes and in time, and makes one line of its beginning.
func message(resp *http.Response, cancel context.CancelFunc) string {
	defer resp.Body.Close()
	if resp.StatusCode < 200 { // 101: what follows is no answer, and may never end
		return ""
	}
	defer time.AfterFunc(bodyWait, cancel).Stop()
	start, err := io.ReadAll(io.LimitReader(resp.Body, maxMessageBody))
	if err == nil {
		_, _ = io.CopyN(io.Discard, resp.Body, maxDrain) // only for the connection's sake
	}
	return line(start)
}

// progress is how far an attempt came.
type progress struct{ step atomic.Int32 }

func (p *progress) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn:      func(httptrace.GotConnInfo) { p.step.Store(1) },
		WroteRequest: func(httptrace.WroteRequestInfo) { p.step.Store(2) },
	}
}

func (p *progress) String() string {
	return [...]string{"connecting", "sending the request", "waiting for the answer"}[p.step.Load()]
}
