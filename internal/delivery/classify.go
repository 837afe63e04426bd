package delivery

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// Kinds of failure that delivery writes. Rules can match the answers and KindTimeout, KindConnection and KindTLS.
const (
	// KindHTTPStatus: the target answered.
	KindHTTPStatus = "HTTPStatus"
	// KindTimeout: no answer within attemptTimeout.
	KindTimeout = "Timeout"
	// KindConnection: name not found, refused, reset, or an answer that is no HTTP.
	KindConnection = "Connection"
	// KindTLS: no TLS connection that can be trusted.
	KindTLS = "TLS"
	// KindAddressForbidden: the target's name leads to an address that is never dialled. Retryable, since
	// names change.
	KindAddressForbidden = "AddressForbidden"
	// KindInterrupted: the worker stopped while the attempt was under way. Retryable; no rule matches it,
	// since it says nothing about the target.
	KindInterrupted = "Interrupted"
	// KindInvalidRequest: the job holds what HTTP cannot carry. Permanent.
	KindInvalidRequest = "InvalidRequest"
	// KindUnsigned: the request could not be signed, so it was not sent. Unknown: never settled.
	KindUnsigned = "Unsigned"
)

// classifyStatus says what an answer means: the first rule that matches, else 2xx succeeded; 408, 425, 429
// and 5xx are worth another attempt; every other status is permanent.
func classifyStatus(rules []Rule, status int, message string) queue.Result {
	failure := queue.Failure{Kind: KindHTTPStatus, HTTPStatus: status, Message: message}
	if failure.Message == "" {
		failure.Message = http.StatusText(status)
	}
	code := strconv.Itoa(status)
	for _, r := range rules {
		if slices.Contains(r.Statuses, code) || len(code) == 3 && slices.Contains(r.Statuses, code[:1]+"xx") {
			return r.apply(failure)
		}
	}
	switch {
	case status >= 200 && status <= 299:
		return queue.Result{Outcome: queue.OutcomeSucceeded}
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests,
		status >= 500 && status <= 599:
		return failed(queue.OutcomeRetryable, failure)
	}
	return failed(queue.OutcomePermanent, failure)
}

// classifyError says what an attempt without an answer means: the first rule that matches, else retryable.
func classifyError(rules []Rule, failure queue.Failure) queue.Result {
	for _, r := range rules {
		if slices.Contains(r.Errors, failure.Kind) {
			return r.apply(failure)
		}
	}
	return failed(queue.OutcomeRetryable, failure)
}

// apply makes a result of a failure that r matches, and names r in it.
func (r Rule) apply(f queue.Failure) queue.Result {
	f.Message = truncate("failurePolicy rule " + r.Name + ": " + f.Message)
	switch r.Action {
	case ActionSucceed:
		return queue.Result{Outcome: queue.OutcomeSucceeded}
	case ActionRetry:
		return failed(queue.OutcomeRetryable, f)
	}
	return failed(queue.OutcomePermanent, f)
}

func failed(o queue.Outcome, f queue.Failure) queue.Result {
	return queue.Result{Outcome: o, Failure: &f}
}

// line makes one printable line of what a target sent: valid UTF-8, without control characters, at most
// queue.MaxErrorMessage bytes.
func line(b []byte) string {
	printable := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(string(b), "\uFFFD"))
	return truncate(strings.Join(strings.Fields(printable), " "))
}

// truncate cuts s to queue.MaxErrorMessage bytes between two characters.
func truncate(s string) string {
	if len(s) <= queue.MaxErrorMessage {
		return s
	}
	end := queue.MaxErrorMessage
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}
