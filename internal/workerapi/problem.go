package workerapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// Kind names a sort of problem; Problem.Type is ProblemBase and the Kind. Clients may rely on it.
type Kind string

// Every kind of problem.
const (
	KindInvalidRequest   Kind = "invalid-request"
	KindInvalidBatch     Kind = "invalid-batch"
	KindUnauthorized     Kind = "unauthorized"
	KindForbidden        Kind = "forbidden"
	KindNotFound         Kind = "not-found"
	KindUnknownRoute     Kind = "unknown-route"
	KindMethodNotAllowed Kind = "method-not-allowed"
	KindContentConflict  Kind = "content-conflict"
	KindRedriveRefused   Kind = "redrive-refused"
	KindConfigRefused    Kind = "config-refused"
	KindTooLarge         Kind = "too-large"
	KindUnsupportedMedia Kind = "unsupported-media-type"
	KindLimitExceeded    Kind = "limit-exceeded"
	KindInternal         Kind = "internal"
	KindStorageFull      Kind = "storage-full"
	KindFenced           Kind = "fenced"
	KindStoreUnavailable Kind = "store-unavailable"
	KindNotReady         Kind = "not-ready"
)

// ProblemBase is the prefix of every Problem.Type.
const ProblemBase = "https://retryqueue.dev/problems/"

// ProblemMediaType is the content type of a problem document.
const ProblemMediaType = "application/problem+json"

// Problem is an RFC 9457 problem document.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	// Detail says what is wrong and how to mend it.
	Detail string `json:"detail,omitempty"`
	// Field is the header, parameter or body field at fault.
	Field string `json:"field,omitempty"`
	// Reason is the reason of a refused redrive or config.
	Reason string `json:"reason,omitempty"`
	// Errors lists the faulty lines of a batch.
	Errors []LineProblem `json:"errors,omitempty"`

	retryAfter time.Duration
	allow      string
}

// LineProblem is what is wrong with one line of a batch.
type LineProblem struct {
	Line   int    `json:"line"` // from 1
	Field  string `json:"field,omitempty"`
	Detail string `json:"detail"`
}

// Kind is the kind of p, or "" for a document that is not ours.
func (p Problem) Kind() Kind {
	if len(p.Type) > len(ProblemBase) && p.Type[:len(ProblemBase)] == ProblemBase {
		return Kind(p.Type[len(ProblemBase):])
	}
	return ""
}

// ProblemError is a Problem as an error. It unwraps to the error of package queue, or to the *ConfigError,
// that the problem stands for, where there is one.
type ProblemError struct{ Problem Problem }

func (e *ProblemError) Error() string {
	msg := e.Problem.Title
	if e.Problem.Field != "" {
		msg += ": " + e.Problem.Field
	}
	if e.Problem.Detail != "" {
		msg += ": " + e.Problem.Detail
	}
	return msg
}

func (e *ProblemError) Unwrap() error {
	p := e.Problem
	switch p.Kind() {
	case KindNotFound:
		return queue.ErrNotFound
	case KindRedriveRefused:
		return &queue.RedriveError{Reason: p.Reason, Detail: p.Detail}
	case KindConfigRefused:
		return &ConfigError{Reason: p.Reason, Field: p.Field, Detail: p.Detail}
	case KindInvalidRequest:
		return &queue.InvalidError{Field: p.Field, Detail: p.Detail}
	case KindStorageFull:
		return queue.ErrStorageFull
	case KindFenced:
		return queue.ErrFenced
	default:
		return nil
	}
}

// ConfigError refuses a pushed configuration.
type ConfigError struct{ Reason, Field, Detail string }

func (e *ConfigError) Error() string {
	if e.Field == "" {
		return e.Detail
	}
	return e.Field + ": " + e.Detail
}

// Reasons of a ConfigError.
const (
	ConfigOtherQueue     = "OtherQueue"     // the manifest is of another queue
	ConfigOlder          = "Older"          // a newer generation is in force
	ConfigInvalid        = "Invalid"        // the manifest breaks a rule
	ConfigStorageChanged = "StorageChanged" // the store cannot change while the worker runs
)

var titles = map[Kind]string{
	KindInvalidRequest:   "The request is invalid",
	KindInvalidBatch:     "The batch is invalid; nothing was stored",
	KindUnauthorized:     "A valid bearer token is required",
	KindForbidden:        "The request is not allowed here",
	KindNotFound:         "Not found",
	KindUnknownRoute:     "No such route",
	KindMethodNotAllowed: "The method is not allowed here",
	KindContentConflict:  "The id is already known with other content",
	KindRedriveRefused:   "The redrive was refused",
	KindConfigRefused:    "The configuration was refused",
	KindTooLarge:         "The request is too large",
	KindUnsupportedMedia: "The media type is not supported here",
	KindLimitExceeded:    "A limit of the queue is reached",
	KindInternal:         "Internal error",
	KindStorageFull:      "The storage is nearly full",
	KindFenced:           "Another process owns the store",
	KindStoreUnavailable: "The store could not do it",
	KindNotReady:         "The worker is not ready",
}

var statuses = map[Kind]int{
	KindInvalidRequest:   http.StatusBadRequest,
	KindInvalidBatch:     http.StatusUnprocessableEntity,
	KindUnauthorized:     http.StatusUnauthorized,
	KindForbidden:        http.StatusForbidden,
	KindNotFound:         http.StatusNotFound,
	KindUnknownRoute:     http.StatusNotFound,
	KindMethodNotAllowed: http.StatusMethodNotAllowed,
	KindContentConflict:  http.StatusConflict,
	KindRedriveRefused:   http.StatusConflict,
	KindConfigRefused:    http.StatusConflict,
	KindTooLarge:         http.StatusRequestEntityTooLarge,
	KindUnsupportedMedia: http.StatusUnsupportedMediaType,
	KindLimitExceeded:    http.StatusTooManyRequests,
	KindInternal:         http.StatusInternalServerError,
	KindStorageFull:      http.StatusServiceUnavailable,
	KindFenced:           http.StatusServiceUnavailable,
	KindStoreUnavailable: http.StatusServiceUnavailable,
	KindNotReady:         http.StatusServiceUnavailable,
}

func problem(k Kind, detail string, args ...any) Problem {
	if len(args) > 0 {
		detail = fmt.Sprintf(detail, args...)
	}
	return Problem{Type: ProblemBase + string(k), Title: titles[k], Status: statuses[k], Detail: detail}
}

// refuse is a problem as an error, about a field if one is named.
func refuse(k Kind, field, detail string, args ...any) *ProblemError {
	p := problem(k, detail, args...)
	p.Field = field
	return &ProblemError{Problem: p}
}

// invalid refuses a request because of one of its fields.
func invalid(field, detail string, args ...any) *ProblemError {
	return refuse(KindInvalidRequest, field, detail, args...)
}

func writeProblem(w http.ResponseWriter, p Problem) {
	h := w.Header()
	h.Set("Content-Type", ProblemMediaType)
	h.Set("Cache-Control", "no-store")
	if p.retryAfter > 0 {
		seconds := (p.retryAfter + time.Second - 1) / time.Second
		h.Set("Retry-After", strconv.FormatInt(int64(seconds), 10))
	}
	if p.allow != "" {
		h.Set("Allow", p.allow)
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="retryqueue"`)
	}
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the client has gone: nobody to tell
}
