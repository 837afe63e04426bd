package workerapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// storeRetryAfter is what clients are told to wait when the store is the trouble.
const storeRetryAfter = 5 * time.Second

// problemOf says what a producer or operator may know of err, and whether it is a surprise worth a log line.
func problemOf(err error) (p Problem, surprise bool) {
	if pe, ok := errors.AsType[*ProblemError](err); ok {
		return pe.Problem, false
	}
	if p, ok := refusalOf(err); ok {
		return p, false
	}
	p = troubleOf(err)
	p.retryAfter = storeRetryAfter
	return p, true
}

// refusalOf maps errors that the request is to blame for.
func refusalOf(err error) (Problem, bool) {
	if errors.Is(err, queue.ErrNotFound) {
		return problem(KindNotFound, "nothing of that name is stored here; it may be past the queue's dedupeWindow"), true
	}
	if _, ok := errors.AsType[*queue.ConflictError](err); ok {
		return problem(KindContentConflict, "the same id was accepted before with another payload or media type; "+
			"send the same content again, or use another id"), true
	}
	if e, ok := errors.AsType[*queue.LimitError](err); ok {
		return limitProblem(e), true
	}
	if e, ok := errors.AsType[*queue.InvalidError](err); ok {
		p := problem(KindInvalidRequest, e.Detail)
		p.Field = e.Field
		return p, true
	}
	if e, ok := errors.AsType[*queue.RedriveError](err); ok {
		p := problem(KindRedriveRefused, e.Detail)
		p.Reason = e.Reason
		if e.Reason == queue.RedriveInvalid {
			p.Status = http.StatusUnprocessableEntity
		}
		return p, true
	}
	if e, ok := errors.AsType[*ConfigError](err); ok {
		p := problem(KindConfigRefused, e.Detail)
		p.Reason, p.Field = e.Reason, e.Field
		if e.Reason == ConfigInvalid {
			p.Status = http.StatusUnprocessableEntity
		}
		return p, true
	}
	if e, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return problem(KindTooLarge, "the body must be at most %d bytes", e.Limit), true
	}
	return Problem{}, false
}

// troubleOf maps errors that the worker is to blame for. Their text is not shown: it can hold paths or data.
func troubleOf(err error) Problem {
	switch {
	case errors.Is(err, queue.ErrStorageFull):
		return problem(KindStorageFull, "nothing was stored; purge dead jobs or enlarge storage.sqlite.size, then send it again")
	case errors.Is(err, queue.ErrFenced):
		return problem(KindFenced, "another worker has taken this queue over; send the request again, and it will be the one to answer")
	case errors.Is(err, context.DeadlineExceeded):
		return problem(KindStoreUnavailable, "the store did not answer in time, so it may or may not have been done; send it again with the same id")
	default:
		return problem(KindStoreUnavailable, "the store answered with an error, so it may or may not have been done; send it again with the same id")
	}
}

func limitProblem(e *queue.LimitError) Problem {
	if e.Limit == "maxPayload" {
		p := problem(KindTooLarge, "a payload must be at most %d bytes (limits.maxPayload of the queue)", e.Max)
		p.Field = "payload"
		return p
	}
	p := problem(KindLimitExceeded, "limits.%s of the queue is %d and would be exceeded; nothing was stored. "+
		"Send it again later, or have the limit raised", e.Limit, e.Max)
	p.Field = e.Limit
	p.retryAfter = max(e.RetryAfter.Std(), time.Second)
	return p
}

// invalidErrors finds every *queue.InvalidError within joined errors.
func invalidErrors(err error) []*queue.InvalidError {
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself
	case nil:
		return nil
	case *queue.InvalidError:
		return []*queue.InvalidError{e}
	case interface{ Unwrap() []error }:
		var all []*queue.InvalidError
		for _, inner := range e.Unwrap() {
			all = append(all, invalidErrors(inner)...)
		}
		return all
	case interface{ Unwrap() error }:
		return invalidErrors(e.Unwrap())
	}
	return nil
}
