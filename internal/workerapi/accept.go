package workerapi

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// acceptOne serves POST /v1/jobs.
func (s *public) acceptOne(w http.ResponseWriter, r *http.Request, _ []string) error {
	job, err := s.readJob(w, r)
	if err != nil {
		return err
	}
	accepted, err := s.accept(r, []queue.NewJob{job})
	if err != nil {
		return headerNames(err)
	}
	w.Header().Set("Location", "/v1/jobs/"+url.PathEscape(accepted[0].Job.ID))
	return writeJSON(w, acceptStatus(accepted[0]), view(accepted[0].Job))
}

func acceptStatus(a queue.Accepted) int {
	if a.Known {
		return http.StatusOK
	}
	return http.StatusAccepted
}

// accept stores jobs durably and wakes the worker.
func (s *public) accept(r *http.Request, jobs []queue.NewJob) ([]queue.Accepted, error) {
	store, err := s.backend.Store()
	if err != nil {
		return nil, err
	}
	accepted, err := store.Accept(r.Context(), s.backend.Settings().Policy, jobs)
	if err != nil {
		return nil, err
	}
	known := 0
	for _, a := range accepted {
		if a.Known {
			known++
		}
	}
	s.observe(ResultKnown, known)
	s.observe(ResultAccepted, len(accepted)-known)
	if known < len(accepted) {
		s.backend.Wake()
	}
	return accepted, nil
}

// readJob turns a request into a job. Headers are looked at before the body is read.
func (s *public) readJob(w http.ResponseWriter, r *http.Request) (queue.NewJob, error) {
	var job queue.NewJob
	if _, err := params(r); err != nil {
		return job, err
	}
	key, hasKey, err := single(r.Header, headerKey)
	if err != nil {
		return job, err
	}
	if job, err = readBudget(r.Header); err != nil {
		return job, err
	}
	if job.ContentType, err = readContentType(r.Header); err != nil {
		return job, err
	}
	if job.Headers, err = keptHeaders(r.Header); err != nil {
		return job, err
	}
	event, err := detectEvent(r.Header, job.ContentType)
	if err != nil {
		return job, err
	}
	if hasKey && event != notAnEvent {
		return job, invalid(headerKey, "a CloudEvent brings its own id (ce-id and ce-source); remove the header")
	}
	if job.Payload, err = readBody(w, r, s.backend.Settings().Policy.Limits.MaxPayload, "limits.maxPayload of the queue"); err != nil {
		return job, err
	}
	if event != notAnEvent {
		return job, identifyEvent(r, event, &job)
	}
	job.ID, err = s.identify(key, hasKey)
	job.ContentSHA = queue.ContentSHA(job.ContentType, job.Payload, nil)
	return job, err
}

// eventID is the form of ids made from CloudEvents; nobody may claim one by name.
var eventID = regexp.MustCompile(`^ce-[A-Za-z0-9_-]{43}$`)

// identify is the id of a job that is not an event.
func (s *public) identify(key string, hasKey bool) (string, error) {
	switch {
	case !hasKey:
		return s.newID()
	case key == "":
		return "", invalid(headerKey, "the header must not be empty; leave it out to get an id made")
	case eventID.MatchString(key):
		return "", invalid(headerKey, `ids of the form "ce-" and 43 characters are kept for CloudEvents; use another`)
	}
	return key, nil
}

// checkBudgetNames refuses RetryQueue-* headers that are not known: a misspelt one must not be silently without
// effect. Those that a delivery carries are let by, for queues that feed queues.
func checkBudgetNames(h http.Header) error {
	for name := range h {
		if !strings.HasPrefix(name, "Retryqueue-") {
			continue
		}
		switch name {
		case headerDeadline, headerMaxAttempts, headerDelay:
		case "Retryqueue-Queue", "Retryqueue-Attempt", "Retryqueue-First-Received", "Retryqueue-Redrive":
		default:
			return invalid(shownName(name), "no such header; use RetryQueue-Deadline, RetryQueue-Max-Attempts or RetryQueue-Delay")
		}
	}
	return nil
}

// readBudget reads the RetryQueue-* headers. On a delivery of another queue, which RetryQueue-Queue marks, deadline
// and attempts tell of the budget that the job has there, and ask for nothing here.
func readBudget(h http.Header) (job queue.NewJob, err error) {
	if err := checkBudgetNames(h); err != nil {
		return job, err
	}
	if len(h["Retryqueue-Queue"]) > 0 {
		h = h.Clone()
		h.Del(headerDeadline)
		h.Del(headerMaxAttempts)
	}
	if job.Deadline, err = durationHeader(h, headerDeadline, 1); err != nil {
		return job, err
	}
	if job.Delay, err = durationHeader(h, headerDelay, 0); err != nil {
		return job, err
	}
	value, set, err := single(h, headerMaxAttempts)
	if err != nil || !set {
		return job, err
	}
	if job.MaxAttempts, err = strconv.Atoi(value); err != nil || job.MaxAttempts < 1 {
		return job, invalid(shownName(headerMaxAttempts), "must be a whole number of at least 1, such as 3")
	}
	return job, nil
}

func durationHeader(h http.Header, name string, least queue.Millis) (queue.Millis, error) {
	value, set, err := single(h, name)
	if err != nil || !set {
		return 0, err
	}
	d, err := parseMillis(value, least)
	if err != nil {
		return 0, invalid(shownName(name), "%s", err.Error())
	}
	return d, nil
}

var (
	errDuration = errors.New(`must be a duration with a unit, such as "30s" or "5m"`)
	errTooShort = errors.New("must not be negative, and a deadline must be at least 1ms")
)

func parseMillis(s string, least queue.Millis) (queue.Millis, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, errDuration
	}
	if d < 0 || queue.MillisOf(d) < least {
		return 0, errTooShort
	}
	return queue.MillisOf(d), nil
}

func readContentType(h http.Header) (string, error) {
	value, set, err := single(h, "Content-Type")
	if err != nil || !set {
		return "", err
	}
	if err := checkMediaType(value); err != nil {
		return "", invalid("Content-Type", "%s", err.Error())
	}
	return value, nil
}

const maxMediaType = 256

func checkMediaType(value string) error {
	if len(value) > maxMediaType {
		return errors.New("must be at most 256 bytes")
	}
	media, _, err := mime.ParseMediaType(value)
	if err != nil || !strings.Contains(media, "/") {
		return errors.New("must be a media type such as application/json")
	}
	return nil
}

// readBody reads at most limit bytes.
func readBody(w http.ResponseWriter, r *http.Request, limit int64, limitName string) ([]byte, error) {
	tooLarge := refuse(KindTooLarge, "body", "the body must be at most %d bytes (%s)", limit, limitName)
	if r.ContentLength > limit {
		return nil, tooLarge
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err == nil {
		return body, nil
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooLarge
	}
	return nil, invalid("body", "the body ended early or came too slowly; send it again")
}

// headerNames makes the core's names of fields those of the request's headers.
func headerNames(err error) error {
	e, ok := errors.AsType[*queue.InvalidError](err)
	if !ok {
		return err
	}
	names := map[string]string{
		"id": headerKey, "deadline": "RetryQueue-Deadline", "maxAttempts": "RetryQueue-Max-Attempts",
		"delay": "RetryQueue-Delay", "contentType": "Content-Type",
	}
	if name, ok := names[e.Field]; ok {
		return invalid(name, "%s", e.Detail)
	}
	return err
}
