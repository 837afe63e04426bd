package workerapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// maxBatchBytes bounds a batch; the largest payload always fits, in base64.
func maxBatchBytes(maxPayload int64) int64 { return max(8<<20, maxPayload*3/2+64<<10) }

// acceptBatch serves POST /v1/jobs:batch.
func (s *public) acceptBatch(w http.ResponseWriter, r *http.Request, _ []string) error {
	if err := checkBatchHeaders(r); err != nil {
		return err
	}
	limit := maxBatchBytes(s.backend.Settings().Policy.Limits.MaxPayload)
	body, err := readBody(w, r, limit, "a batch; send several")
	if err != nil {
		return err
	}
	lines, faults, err := decodeBatch(body, s.newID)
	if err != nil {
		return err
	}
	if len(faults) > 0 {
		return batchProblem(faults)
	}
	jobs := make([]queue.NewJob, len(lines))
	for i, l := range lines {
		jobs[i] = l.job
	}
	accepted, err := s.accept(r, jobs)
	if err != nil {
		return batchError(err, lines)
	}
	return writeBatch(w, accepted)
}

func checkBatchHeaders(r *http.Request) error {
	if _, err := params(r); err != nil {
		return err
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/x-ndjson" && media != "application/ndjson" {
		return refuse(KindUnsupportedMedia, "Content-Type", "a batch must be application/x-ndjson: one JSON object a line")
	}
	if r.Header.Get("Content-Encoding") != "" {
		return refuse(KindUnsupportedMedia, "Content-Encoding", "a batch must come without Content-Encoding")
	}
	for _, name := range []string{headerKey, headerDeadline, headerMaxAttempts, headerDelay} {
		if len(r.Header[name]) > 0 {
			return invalid(shownName(name), "the header does not apply to a batch; put it into each line as id, deadline, maxAttempts or delay")
		}
	}
	return checkBudgetNames(r.Header)
}

func writeBatch(w http.ResponseWriter, accepted []queue.Accepted) error {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	status := http.StatusOK
	for _, a := range accepted {
		if !a.Known {
			status = http.StatusAccepted
		}
		if err := enc.Encode(BatchResult{Status: acceptStatus(a), Job: view(a.Job)}); err != nil {
			return fmt.Errorf("encoding a result: %w", err)
		}
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(out.Bytes()) // the client has gone: nobody to tell
	return nil
}

// batchError turns what the store said of jobs into what is wrong with lines.
func batchError(err error, lines []numbered) error {
	number := func(index int) int {
		if index < 0 || index >= len(lines) {
			return 0
		}
		return lines[index].line
	}
	var faults []LineProblem
	for _, e := range invalidErrors(err) {
		faults = append(faults, LineProblem{Line: number(e.Index), Field: e.Field, Detail: e.Detail})
	}
	if e, ok := errors.AsType[*queue.ConflictError](err); ok {
		for _, i := range e.Indexes {
			faults = append(faults, LineProblem{Line: number(i), Field: "id",
				Detail: "the id is already known with another payload or media type; send the same content, or use another id"})
		}
	}
	if len(faults) > 0 {
		return batchProblem(faults)
	}
	if e, ok := errors.AsType[*queue.LimitError](err); ok && e.Limit == "maxPayload" {
		p := limitProblem(e)
		p.Errors = []LineProblem{{Line: number(e.Index), Field: "payload", Detail: "the payload is too large"}}
		return &ProblemError{Problem: p}
	}
	return err
}

func batchProblem(faults []LineProblem) error {
	slices.SortStableFunc(faults, func(a, b LineProblem) int { return a.Line - b.Line })
	e := refuse(KindInvalidBatch, "", "mend the %d line(s) listed in errors and send the whole batch again", len(faults))
	if len(faults) > maxBatchProblems {
		e.Problem.Detail = fmt.Sprintf("%d lines are wrong; errors lists the first %d. Mend them and send the whole batch again",
			len(faults), maxBatchProblems)
		faults = faults[:maxBatchProblems]
	}
	e.Problem.Errors = faults
	return e
}
