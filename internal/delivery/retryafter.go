package delivery

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// maxRetryAfter is what a larger Retry-After is taken for; a queue's policy bounds it further.
const maxRetryAfter = queue.MaxBackoffCap

// retryAfter reads the Retry-After of an answer: whole seconds, or an HTTP date, which counts from the
// answer's own Date, so that the target's clock need not be ours; from now where there is none. What lies in
// the past, is negative or cannot be read is 0: no wish.
func retryAfter(h http.Header, now time.Time) queue.Millis {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if value == "" {
		return 0
	}
	if digits := strings.TrimLeft(value, "0123456789"); digits == "" {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > int64(maxRetryAfter/1000) { // more digits than fit
			return maxRetryAfter
		}
		return queue.Millis(seconds) * 1000
	}
	until, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	from, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		from = now
	}
	return min(max(queue.MillisOf(until.Sub(from)), 0), maxRetryAfter)
}
