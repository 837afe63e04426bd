package workerapi

import (
	"unicode/utf8"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// JobView is a job in JSON. Payload is set when the bytes are UTF-8, PayloadBase64 when they are not, and
// neither on the public API.
type JobView struct {
	queue.Job
	Payload       *string `json:"payload,omitempty"`
	PayloadBase64 []byte  `json:"payloadBase64,omitempty"`
}

// view is a job as producers see it: without payload and headers.
func view(j queue.Job) JobView {
	j.Headers, j.Payload = nil, nil
	return JobView{Job: j}
}

// fullView is a job as operators see it.
func fullView(j queue.Job) JobView {
	v := JobView{Job: j}
	if utf8.Valid(j.Payload) {
		s := string(j.Payload)
		v.Payload = &s
	} else {
		v.PayloadBase64 = j.Payload
	}
	return v
}

// job is the queue.Job that v shows.
func (v JobView) job() queue.Job {
	j := v.Job
	j.Payload = v.PayloadBase64
	if v.Payload != nil {
		j.Payload = []byte(*v.Payload)
	}
	return j
}

// BatchResult is one line of the answer to a batch. Status is what the job alone would have been answered:
// 202 stored, 200 known.
type BatchResult struct {
	Status int     `json:"status"`
	Job    JobView `json:"job"`
}
