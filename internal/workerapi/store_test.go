package workerapi

import (
	"errors"
	"context"
	"sync"
	"testing"

	"github.com/retryqueue/retryqueue/internal/queue"
)

type fake struct {
	queue.Store
	mu   sync.Mutex
	jobs map[string]queue.Job
	sha  map[string][32]byte
}

func openStore(t *testing.T) queue.Store {
	return &fake{jobs: map[string]queue.Job{}, sha: map[string][32]byte{}}
}

func (f *fake) Accept(_ context.Context, p queue.Policy, jobs []queue.NewJob) ([]queue.Accepted, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := []queue.Accepted{}
	add := map[string]queue.Job{}
	sha := map[string][32]byte{}
	conf := []int{}
	errs := []error{}
	for i, j := range jobs {
		if err := queue.ValidateNewJob(p, j); err != nil {
			if ie, ok := err.(*queue.InvalidError); ok {
				ie.Index = i
				errs = append(errs, ie)
			}
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	for i, j := range jobs {
		if int64(len(j.Payload)) > p.Limits.MaxPayload {
			return nil, &queue.LimitError{Limit: "maxPayload", Max: p.Limits.MaxPayload, Index: i}
		}
		old, ok := f.jobs[j.ID]
		os := f.sha[j.ID]
		if !ok {
			old, ok = add[j.ID]
			os = sha[j.ID]
		}
		if ok {
			if os != j.ContentSHA {
				conf = append(conf, i)
			}
			out = append(out, queue.Accepted{Job: old, Known: true})
			continue
		}
		n := queue.Job{ID: j.ID, State: queue.Pending, MaxAttempts: j.MaxAttempts, ContentType: j.ContentType, Headers: j.Headers, Payload: j.Payload, FirstReceivedAt: 1000, Deadline: 1000 + queue.Time(j.Deadline), AvailableAt: 1000 + queue.Time(j.Delay)}
		add[j.ID] = n
		sha[j.ID] = j.ContentSHA
		out = append(out, queue.Accepted{Job: n})
	}
	if len(conf) > 0 {
		return nil, &queue.ConflictError{Indexes: conf}
	}
	if int64(len(add)+len(f.jobs)) > p.Limits.MaxPending {
		return nil, &queue.LimitError{Limit: "maxPending", Max: p.Limits.MaxPending}
	}
	for k, v := range add {
		f.jobs[k] = v
		f.sha[k] = sha[k]
	}
	return out, nil
}

func (f *fake) Job(_ context.Context, id string) (queue.Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	j, ok := f.jobs[id]
	if !ok {
		return j, queue.ErrNotFound
	}
	return j, nil
}

func (f *fake) Stats(context.Context) (queue.Stats, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return queue.Stats{Pending: int64(len(f.jobs))}, nil
}
