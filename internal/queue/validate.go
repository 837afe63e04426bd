package queue

import (
	"fmt"
	"unicode/utf8"
)

// ValidateNewJob says the first thing that is wrong with a job that is to be accepted under p: an
// [*InvalidError] with field and mend, or a [*LimitError] for maxPayload. The caller sets Index.
func ValidateNewJob(p Policy, j NewJob) error {
	for _, check := range []func(Policy, NewJob) *InvalidError{validateID, validateContentType, validateHeaders, validateBudget} {
		if err := check(p, j); err != nil {
			return err
		}
	}
	if int64(len(j.Payload)) > p.Limits.MaxPayload {
		return &LimitError{Limit: "maxPayload", Max: p.Limits.MaxPayload}
	}
	return nil
}

// EffectiveBudget is the budget stamped on j when it is accepted under p: the policy's, or less if j asks.
func EffectiveBudget(p Policy, j NewJob) (maxAttempts int, deadline Millis) {
	maxAttempts, deadline = p.MaxAttempts, p.Deadline
	if j.MaxAttempts > 0 {
		maxAttempts = j.MaxAttempts
	}
	if j.Deadline > 0 {
		deadline = j.Deadline
	}
	return maxAttempts, deadline
}

func invalid(field, format string, args ...any) *InvalidError {
	return &InvalidError{Field: field, Detail: fmt.Sprintf(format, args...)}
}

func validateID(_ Policy, j NewJob) *InvalidError {
	if len(j.ID) < 1 || len(j.ID) > MaxIDLength {
		return invalid("id", "must be 1 to %d characters long, is %d; hash a longer key", MaxIDLength, len(j.ID))
	}
	for i := range len(j.ID) {
		if c := j.ID[i]; c < 0x21 || c > 0x7e {
			return invalid("id", "must be printable ASCII without spaces, but byte %d is 0x%02x; encode it", i+1, c)
		}
	}
	return nil
}

func validateContentType(_ Policy, j NewJob) *InvalidError {
	if what := unfit(j.ContentType); what != "" {
		return invalid("contentType", "%s", what)
	}
	return nil
}

func validateHeaders(_ Policy, j NewJob) *InvalidError {
	if len(j.Headers) > MaxHeaders {
		return invalid("headers", "must be at most %d, are %d; send fewer", MaxHeaders, len(j.Headers))
	}
	size := 0
	for _, h := range j.Headers {
		size += len(h.Name) + len(h.Value)
		if !isToken(h.Name) {
			return invalid("headers", "the name %q must be letters, digits and - only", h.Name)
		}
		if what := unfit(h.Value); what != "" {
			return invalid("headers", "the value of %s %s", h.Name, what)
		}
	}
	if size > MaxHeaderBytes {
		return invalid("headers", "names and values must be at most %d bytes together, are %d; send less", MaxHeaderBytes, size)
	}
	return nil
}

// unfit says what is wrong with a header's value. HTTP would carry any bytes above 0x7f, but stores keep text: other
// bytes would not come back as they were.
func unfit(value string) string {
	for i := range len(value) {
		if c := value[i]; c < 0x20 && c != '\t' || c == 0x7f {
			return "must not hold control characters; remove them"
		}
	}
	if !utf8.ValidString(value) {
		return "must be ASCII or UTF-8; encode other bytes"
	}
	return ""
}

// isToken says whether s is a token of RFC 9110, section 5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
		default:
			if !isTokenMark(c) {
				return false
			}
		}
	}
	return s != ""
}

func isTokenMark(c byte) bool {
	switch c {
	case '!', '#', '$', '%', '&', '\'', '*', '+', '-', '.', '^', '_', '`', '|', '~':
		return true
	}
	return false
}

func validateBudget(p Policy, j NewJob) *InvalidError {
	switch _, deadline := EffectiveBudget(p, j); {
	case j.MaxAttempts < 0 || j.MaxAttempts > p.MaxAttempts:
		return invalid("maxAttempts", "must be from 1 to the queue's %d, is %d; a job may only shorten its budget", p.MaxAttempts, j.MaxAttempts)
	case j.Deadline < 0 || j.Deadline > p.Deadline:
		return invalid("deadline", "must be greater than 0 and at most the queue's %s, is %s; a job may only shorten it", p.Deadline, j.Deadline)
	case j.Delay < 0:
		return invalid("delay", "must not be negative, is %s", j.Delay)
	case j.Delay >= deadline:
		return invalid("delay", "must be shorter than the deadline of %s, is %s; shorten it, or the job could never start", deadline, j.Delay)
	}
	return nil
}
