package workerapi

import (
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// Headers of the public API.
const (
	headerKey         = "Idempotency-Key"
	headerDeadline    = "Retryqueue-Deadline" // canonical form; people write RetryQueue-Deadline
	headerMaxAttempts = "Retryqueue-Max-Attempts"
	headerDelay       = "Retryqueue-Delay"
)

// dropped are the request headers that end at the worker. They speak of the connection, of the producer's
// client or of its right to ask, not of the job, or are set anew on delivery.
var dropped = map[string]bool{
	// this hop (RFC 9110 section 7.6.1, and what older proxies send)
	"Connection": true, "Keep-Alive": true, "Proxy-Connection": true, "Te": true, "Trailer": true,
	"Transfer-Encoding": true, "Upgrade": true, "Expect": true, "Via": true, "Max-Forwards": true,
	"Http2-Settings": true, "Alt-Used": true, "Early-Data": true, "Priority": true,
	// who asks, and from where
	"Authorization": true, "Cookie": true, "Cookie2": true, "Set-Cookie": true, "Host": true, "User-Agent": true,
	"Forwarded": true, "From": true, "Origin": true, "Referer": true, "Dnt": true, "X-Real-Ip": true, "X-Api-Key": true,
	// what the producer wants as an answer
	"Cache-Control": true, "Pragma": true, "Range": true, "Prefer": true, "Upgrade-Insecure-Requests": true,
	// the body's frame; Content-Type is kept apart, Content-Encoding and others of the content travel
	"Content-Length": true, "Content-Type": true,
	// set on delivery
	headerKey: true,
}

var droppedPrefixes = []string{"Proxy-", "Accept", "If-", "Sec-", "X-Forwarded-", "Access-Control-", "Retryqueue-", "Webhook-"}

// Kept says whether a request header travels with the job. Every header does, CloudEvents' ce-* and tracing
// included, but: those of the connection and of proxies, those that identify or authorise the producer, those
// about the answer, the body's length, and those that a delivery sets itself.
func Kept(name string) bool {
	name = http.CanonicalHeaderKey(name)
	return !dropped[name] && !slices.ContainsFunc(droppedPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// keptHeaders picks what travels with the job, sorted by name since a request's order is lost on the way in.
func keptHeaders(h http.Header) ([]queue.Header, error) {
	named := map[string]bool{} // named by Connection: of this hop only
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			named[http.CanonicalHeaderKey(strings.TrimSpace(name))] = true
		}
	}
	var kept []queue.Header
	for name, values := range h {
		if !Kept(name) || named[name] {
			continue
		}
		for _, value := range values {
			if !httpguts.ValidHeaderFieldValue(value) {
				return nil, invalid(name, "the header's value must not hold control characters")
			}
			kept = append(kept, queue.Header{Name: name, Value: value})
		}
	}
	slices.SortStableFunc(kept, func(a, b queue.Header) int { return strings.Compare(a.Name, b.Name) })
	return kept, nil
}

// single is the one value of a header; set is false without it. Two are refused: no telling which is meant.
func single(h http.Header, name string) (value string, set bool, err error) {
	values := h[name]
	switch len(values) {
	case 0:
		return "", false, nil
	case 1:
		return values[0], true, nil
	}
	return "", true, invalid(shownName(name), "the header must be sent once, not %d times", len(values))
}

// shownName is a header's name as the documentation writes it.
func shownName(canonical string) string {
	return strings.Replace(canonical, "Retryqueue-", "RetryQueue-", 1)
}
