package workerapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"
	strictjson "sigs.k8s.io/json"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// Bounds of a batch.
const (
	MaxBatchLines = 1000
	// maxBatchProblems is how many faulty lines one answer lists.
	maxBatchProblems = 100
)

// batchLine is one line of a batch as it is sent.
type batchLine struct {
	ID          *string `json:"id"`
	ContentType string  `json:"contentType"`
	// Headers: a value is a string, or a list of them.
	Headers map[string]json.RawMessage `json:"headers"`
	// Payload is a string, whose bytes are the payload, or any other JSON value, whose text is.
	Payload       json.RawMessage `json:"payload"`
	PayloadBase64 *string         `json:"payloadBase64"`
	Deadline      *string         `json:"deadline"`
	Delay         *string         `json:"delay"`
	MaxAttempts   *int            `json:"maxAttempts"`
}

// numbered is a job of a batch and the number of its line, from 1. Blank lines count, but hold no job.
type numbered struct {
	line int
	job  queue.NewJob
}

// decodeBatch reads newline-delimited JSON. It returns the jobs, or what is wrong with which lines; newID makes
// the ids of lines without one.
func decodeBatch(body []byte, newID func() (string, error)) ([]numbered, []LineProblem, error) {
	var jobs []numbered
	var faults []LineProblem
	number := 0
	for raw := range bytes.Lines(body) {
		number++
		raw = bytes.TrimSpace(raw)
		if len(raw) == 0 {
			continue
		}
		if len(jobs)+len(faults) == MaxBatchLines {
			return nil, nil, refuse(KindTooLarge, "body", "a batch must be at most %d lines; send several", MaxBatchLines)
		}
		job, err := decodeLine(raw)
		if err == nil && job.ID == "" {
			if job.ID, err = newID(); err != nil {
				return nil, nil, err
			}
		}
		if err != nil {
			faults = append(faults, lineProblem(number, err))
			continue
		}
		jobs = append(jobs, numbered{line: number, job: job})
	}
	if len(jobs)+len(faults) == 0 {
		return nil, nil, invalid("body", `a batch must have at least one line such as {"id":"a","payload":{"order":1}}`)
	}
	return jobs, faults, nil
}

func lineProblem(number int, err error) LineProblem {
	if e, ok := errors.AsType[*queue.InvalidError](err); ok {
		return LineProblem{Line: number, Field: e.Field, Detail: e.Detail}
	}
	return LineProblem{Line: number, Detail: err.Error()}
}

func fault(field, format string, args ...any) error {
	return &queue.InvalidError{Field: field, Detail: fmt.Sprintf(format, args...)}
}

// decodeLine reads one line; its ID is empty when the line has none.
func decodeLine(raw []byte) (job queue.NewJob, err error) {
	if !utf8.Valid(raw) {
		return job, fault("", "the line must be UTF-8; send other bytes as payloadBase64")
	}
	if raw[0] != '{' {
		return job, fault("", `the line must be a JSON object such as {"id":"a","payload":{"order":1}}`)
	}
	var line batchLine
	strict, err := strictjson.UnmarshalStrict(raw, &line)
	if field, detail := mistyped(err); field != "" {
		return job, fault(field, "%s", detail)
	}
	if err != nil {
		return job, fault("", "the line must be one JSON object: %s", firstLine(err))
	}
	if len(strict) > 0 {
		return job, fault("", "%s; the fields are id, contentType, headers, payload or payloadBase64, deadline, maxAttempts, delay",
			firstLine(strict[0]))
	}
	return line.job()
}

func (l batchLine) job() (job queue.NewJob, err error) {
	if l.ID != nil {
		switch job.ID = *l.ID; {
		case job.ID == "":
			return job, fault("id", "must not be empty; leave it out to get an id made")
		case eventID.MatchString(job.ID):
			return job, fault("id", `ids of the form "ce-" and 43 characters are kept for CloudEvents; use another`)
		}
	}
	if err := l.content(&job); err != nil {
		return job, err
	}
	if job.Headers, err = lineHeaders(l.Headers); err != nil {
		return job, err
	}
	if l.MaxAttempts != nil {
		if job.MaxAttempts = *l.MaxAttempts; job.MaxAttempts < 1 {
			return job, fault("maxAttempts", "must be at least 1")
		}
	}
	if job.Deadline, err = lineDuration("deadline", l.Deadline, 1); err != nil {
		return job, err
	}
	job.Delay, err = lineDuration("delay", l.Delay, 0)
	job.ContentSHA = queue.ContentSHA(job.ContentType, job.Payload, nil)
	return job, err
}

func lineDuration(field string, value *string, least queue.Millis) (queue.Millis, error) {
	if value == nil {
		return 0, nil
	}
	d, err := parseMillis(*value, least)
	if err != nil {
		return 0, fault(field, "%s", err.Error())
	}
	return d, nil
}

// content sets payload and media type.
func (l batchLine) content(job *queue.NewJob) (err error) {
	switch {
	case l.Payload != nil && l.PayloadBase64 != nil:
		return fault("payloadBase64", "a line must have payload or payloadBase64, not both")
	case l.PayloadBase64 != nil:
		if job.Payload, err = base64.StdEncoding.Strict().DecodeString(*l.PayloadBase64); err != nil {
			return fault("payloadBase64", "must be standard base64 with padding")
		}
	case l.Payload == nil || string(l.Payload) == "null":
		return fault("payload", `the line must have a payload or payloadBase64; for an empty one, send "payload":""`)
	case l.Payload[0] == '"':
		text, err := exactString(l.Payload)
		if err != nil {
			return fault("payload", "%s", err.Error())
		}
		job.Payload = []byte(text)
	default:
		job.Payload = bytes.Clone(l.Payload)
		job.ContentType = "application/json"
	}
	if l.ContentType != "" {
		if err := checkMediaType(l.ContentType); err != nil {
			return fault("contentType", "%s", err.Error())
		}
		job.ContentType = l.ContentType
	}
	return nil
}

// exactString decodes a JSON string and refuses lone surrogates, which the decoder would replace in silence.
func exactString(raw json.RawMessage) (string, error) {
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", errors.New("must be a JSON string")
	}
	replaced := strings.Count(s, "\uFFFD")
	if replaced == 0 {
		return s, nil
	}
	meant := bytes.Count(raw, []byte("\uFFFD")) + strings.Count(strings.ToLower(string(raw)), `\ufffd`)
	if replaced > meant {
		return "", errors.New(`must not hold half of a surrogate pair (\ud800 to \udfff); send other bytes in base64`)
	}
	return s, nil
}

func lineHeaders(raw map[string]json.RawMessage) ([]queue.Header, error) {
	var headers []queue.Header
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			return nil, fault("headers", "%q must be a header's name: letters, digits and -", name[:min(len(name), 64)])
		case seen[canonical]:
			return nil, fault("headers", "%s must be given once; its value may be a list", canonical)
		case canonical == "Content-Type":
			return nil, fault("headers", "Content-Type must be given as contentType")
		case !Kept(name):
			return nil, fault("headers", "%s does not travel with a job; remove it", canonical)
		}
		seen[canonical] = true
		values, err := headerValues(raw[name])
		if err != nil {
			return nil, fault("headers", "%s %s", canonical, err.Error())
		}
		for _, value := range values {
			headers = append(headers, queue.Header{Name: canonical, Value: value})
		}
	}
	return headers, nil
}

var errHeaderValue = errors.New("must be a string, or a list of strings")

func headerValues(raw json.RawMessage) (values []string, err error) {
	list := []json.RawMessage{raw}
	if len(raw) > 0 && raw[0] == '[' {
		if err := json.Unmarshal(raw, &list); err != nil {
			return nil, errHeaderValue
		}
	}
	if len(list) == 0 {
		return nil, errHeaderValue
	}
	for _, item := range list {
		if len(item) == 0 || item[0] != '"' {
			return nil, errHeaderValue
		}
		value, err := exactString(item)
		if err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	for _, value := range values {
		if !httpguts.ValidHeaderFieldValue(value) {
			return nil, errors.New("must not hold control characters")
		}
	}
	return values, nil
}
