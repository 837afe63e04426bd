package workerapi

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/semaphore"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// Results of accepting, as they are counted.
const (
	ResultAccepted     = "accepted"
	ResultKnown        = "known"
	ResultInvalid      = "invalid"
	ResultConflict     = "conflict"
	ResultTooLarge     = "too_large"
	ResultLimited      = "limited"
	ResultUnauthorized = "unauthorized"
	ResultUnavailable  = "unavailable"
)

// Results lists every result.
func Results() []string {
	return []string{ResultAccepted, ResultKnown, ResultInvalid, ResultConflict, ResultTooLarge, ResultLimited,
		ResultUnauthorized, ResultUnavailable}
}

// PublicOptions make the public API.
type PublicOptions struct {
	Backend Backend
	// Tokens of producers; may be nil where no token is needed.
	Tokens *Tokens
	Log    *slog.Logger
	// Observe counts jobs (accepted, known) and refused requests (the rest) by result; optional.
	Observe func(result string, n int)
	// NewID makes ids of jobs that come without one; UUIDv7 by default.
	NewID func() (string, error)
	// Now is the clock of the network's deadlines.
	Now func() time.Time
}

type public struct {
	now     func() time.Time
	room    *semaphore.Weighted // for bodies, in bytes
	backend Backend
	tokens  *Tokens
	observe func(result string, n int)
	newID   func() (string, error)
}

// NewPublic is the API for producers: POST /v1/jobs, POST /v1/jobs:batch and GET /v1/jobs/{id}.
func NewPublic(o PublicOptions) http.Handler { return newPublic(o).handler(o.Log) }

func newPublic(o PublicOptions) *public {
	s := &public{
		backend: o.Backend, tokens: o.Tokens, observe: o.Observe, newID: o.NewID, now: o.Now,
		room: semaphore.NewWeighted(bodyRoom),
	}
	if s.newID == nil {
		s.newID = uuid7
	}
	if s.observe == nil {
		s.observe = func(string, int) {}
	}
	return s
}

func (s *public) handler(log *slog.Logger) http.Handler {
	return &router{log: cmp.Or(log, slog.Default()), routes: []route{
		{http.MethodPost, "/v1/jobs", s.guarded(s.counted(s.withRoom(jobRoom, s.acceptOne)))},
		{http.MethodPost, "/v1/jobs:batch", s.guarded(s.counted(s.withRoom(batchRoom, s.acceptBatch)))},
		{http.MethodGet, "/v1/jobs/{}", s.guarded(s.get)},
	}}
}

func uuid7() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("making an id: %w", err)
	}
	return id.String(), nil
}

// guarded lets only those in who show a token, where one is needed.
func (s *public) guarded(next handler) handler {
	return func(w http.ResponseWriter, r *http.Request, args []string) error {
		if s.backend.Settings().NeedsToken {
			if err := authorize(r, s.tokens); err != nil {
				if r.Method == http.MethodPost {
					s.observe(ResultUnauthorized, 1)
				}
				return err
			}
		}
		return next(w, r, args)
	}
}

// counted counts refusals; what was accepted is counted where it is known.
func (s *public) counted(next handler) handler {
	return func(w http.ResponseWriter, r *http.Request, args []string) error {
		err := next(w, r, args)
		if err != nil {
			s.observe(resultOf(err), 1)
		}
		return err
	}
}

func resultOf(err error) string {
	if _, ok := errors.AsType[*queue.ConflictError](err); ok {
		return ResultConflict
	}
	p, _ := problemOf(err)
	switch {
	case p.Status == http.StatusRequestEntityTooLarge:
		return ResultTooLarge
	case p.Status == http.StatusTooManyRequests:
		return ResultLimited
	case p.Status >= http.StatusInternalServerError:
		return ResultUnavailable
	}
	return ResultInvalid
}

// get serves GET /v1/jobs/{id}.
func (s *public) get(w http.ResponseWriter, r *http.Request, args []string) error {
	job, err := jobOf(s.backend, r, args[0])
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, view(job))
}

// jobOf answers for a request that names one job and takes no parameters.
func jobOf(b Backend, r *http.Request, id string) (queue.Job, error) {
	if _, err := params(r); err != nil {
		return queue.Job{}, err
	}
	store, err := b.Store()
	if err != nil {
		return queue.Job{}, err
	}
	return store.Job(r.Context(), id)
}
