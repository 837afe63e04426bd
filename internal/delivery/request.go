package delivery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// userAgent is sent unless the job or the queue says otherwise.
const userAgent = "RetryQueue"

// ownHeaders are set by RetryQueue or by the connection; neither a job nor a queue's headers can replace them.
var ownHeaders = []string{
	"Connection", "Content-Length", "Content-Type", "Expect", "Host", "Idempotency-Key", "Keep-Alive",
	"Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// strayHeaders of a job speak of the producer's connection to us, not of the payload.
var strayHeaders = []string{"Accept-Encoding", "Proxy-Authenticate"}

// reserved says that a header is not the user's to set.
func reserved(name string) bool {
	name = textproto.CanonicalMIMEHeaderKey(name)
	return slices.Contains(ownHeaders, name) || strings.HasPrefix(name, "Retryqueue-") || strings.HasPrefix(name, "Webhook-")
}

// unsignedError says that a request must not be sent, since it cannot be signed.
type unsignedError struct{ err error }

func (e *unsignedError) Error() string { return "signing the request: " + e.err.Error() }
func (e *unsignedError) Unwrap() error { return e.err }

// newRequest is one attempt's request. It cannot be replayed by the transport; see [bodyOf].
func (c *Config) newRequest(ctx context.Context, job *queue.Job, now time.Time) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, nil)
	if err != nil {
		return nil, fmt.Errorf("the request cannot be made: %w", withoutURL(err))
	}
	req.Body = bodyOf(req.URL, job.Payload) // set here: NewRequest would add a way to have it again
	req.ContentLength = int64(len(job.Payload))
	if req.Header, err = c.header(job); err != nil {
		return nil, err
	}
	if c.Signed || len(c.SigningKeys) > 0 {
		id := webhookID(job.ID)
		sig, err := signature(c.SigningKeys, id, now, job.Payload)
		if err != nil {
			return nil, &unsignedError{err}
		}
		req.Header.Set("Webhook-Id", id)
		req.Header.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
		req.Header.Set("Webhook-Signature", sig)
	}
	return req, nil
}

// header joins the job's own headers, the queue's, which replace them, and RetryQueue's, which nothing replaces.
func (c *Config) header(job *queue.Job) (http.Header, error) {
	h := http.Header{"User-Agent": {userAgent}}
	if err := forward(h, job.Headers); err != nil {
		return nil, err
	}
	for _, extra := range c.Headers {
		h.Set(extra.Name, extra.Value)
	}
	own := [][2]string{
		{"RetryQueue-Queue", c.Queue},
		{"RetryQueue-Attempt", strconv.Itoa(job.Attempts)},
		{"RetryQueue-Max-Attempts", strconv.Itoa(job.MaxAttempts)},
		{"RetryQueue-Deadline", job.Deadline.String()},
		{"RetryQueue-First-Received", job.FirstReceivedAt.String()},
	}
	if job.RedriveUID != "" {
		own = append(own, [2]string{"RetryQueue-Redrive", job.RedriveUID})
	}
	if job.ContentType != "" {
		own = append(own, [2]string{"Content-Type", job.ContentType})
	}
	for _, header := range own {
		if !httpguts.ValidHeaderFieldValue(header[1]) {
			return nil, fmt.Errorf("%s: the value %q cannot be sent as a header", header[0], header[1])
		}
		h.Set(header[0], header[1])
	}
	if !httpguts.ValidHeaderFieldValue(job.ID) {
		return nil, errors.New("id: it cannot be sent as the header Idempotency-Key")
	}
	// Under this spelling the transport does not take the header for a licence to send the request twice.
	h["idempotency-key"] = []string{job.ID}
	return h, nil
}

// forward copies a job's headers, but for those that are not the job's: of the connection, and RetryQueue's own.
func forward(h http.Header, headers []queue.Header) error {
	var ofConnection []string
	for _, header := range headers {
		if strings.EqualFold(header.Name, "Connection") {
			for name := range strings.SplitSeq(header.Value, ",") {
				ofConnection = append(ofConnection, textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name)))
			}
		}
	}
	for _, header := range headers {
		name := textproto.CanonicalMIMEHeaderKey(header.Name)
		if reserved(name) || slices.Contains(strayHeaders, name) || slices.Contains(ofConnection, name) {
			continue
		}
		if !httpguts.ValidHeaderFieldName(header.Name) || !httpguts.ValidHeaderFieldValue(header.Value) {
			return fmt.Errorf("headers: %q cannot be sent as a header", header.Name)
		}
		if name == "User-Agent" {
			h.Set(name, header.Value)
			continue
		}
		h.Add(name, header.Value)
	}
	return nil
}

// bodyOf is the payload as a body that the transport of net/http cannot send twice. It does so when a
// kept-alive connection ends before the answer and it believes that no harm is done: the request has an
// Idempotency-Key, and a body that can be had again (or none). HTTP/2 also does when the server resets the
// stream of a request without body.
//
// Hence the type once, which offers no way to have the body again, and is not http.NoBody when it is empty.
// Over plain HTTP there is no HTTP/2, so an empty body may be http.NoBody, and goes out as Content-Length: 0;
// over TLS with HTTP/1.1 it goes out chunked.
func bodyOf(target *url.URL, payload []byte) io.ReadCloser {
	if len(payload) == 0 && target.Scheme == "http" {
		return http.NoBody
	}
	return &once{bytes.NewReader(payload)}
}

type once struct{ r *bytes.Reader }

func (b *once) Read(p []byte) (int, error) { return b.r.Read(p) }
func (b *once) Close() error               { return nil }
