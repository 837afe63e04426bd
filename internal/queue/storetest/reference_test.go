package storetest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// TestReference holds the suite itself to a store in memory that is made from the model's rules: a rule that
// no correct store could keep shows here, without any database.
func TestReference(t *testing.T) {
	Run(t, Harness{Open: openReference, Copy: copyReference})
}

// TestPace tries the pace on many more random courses than a store on a disk could afford.
func TestPace(t *testing.T) {
	e := newEnv(t, Harness{Open: openReference, Copy: copyReference})
	for seed := range uint64(300) {
		e.sendRandomly(t, seed)
	}
}

// reference is a store in memory. Its data outlives Close, under the directory's name.
type reference struct {
	*refData
	o Options
}

type refData struct {
	mu       sync.Mutex
	ID       string
	Floor    queue.Time
	Token    int64
	DeadSeq  int64
	Jobs     map[string]*refJob
	Redrives map[string]*refRedrive
}

type refJob struct {
	Job            queue.Job
	Payload        []byte
	SHA            [32]byte
	Purged         bool
	Forgotten      queue.Time
	Previous       queue.Millis
	Token          int64
	Claimed, Until queue.Time
	Order          int
}

type refRedrive struct {
	R         queue.Redrive
	Items     []*refItem
	Pace      queue.Pace
	Pauses    bool
	Canary    queue.Millis // time left of the canary's timeout
	CanaryRun bool
	Last      queue.Time
	Order     int
}

type refItem struct {
	ID       string
	DeadSeq  int64
	Canary   bool
	State    string // "", gone, released, failing, started, delivered, died
	Started  bool
	Released queue.Time
}

var refStores sync.Map

func openReference(o Options) (queue.Store, error) {
	d := &refData{ID: o.Dir, Jobs: map[string]*refJob{}, Redrives: map[string]*refRedrive{}}
	if b, err := os.ReadFile(filepath.Join(o.Dir, "id")); err == nil {
		d.ID = string(b)
	} else if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	} else if err := os.WriteFile(filepath.Join(o.Dir, "id"), []byte(o.Dir), 0o600); err != nil {
		return nil, err
	}
	got, _ := refStores.LoadOrStore(o.Dir, d)
	return &reference{refData: got.(*refData), o: o}, nil
}

func copyReference(t testing.TB, from, to string) {
	got, ok := refStores.Load(from)
	if !ok {
		t.Fatalf("no store %s", from)
	}
	b, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	d := &refData{}
	if err := json.Unmarshal(b, d); err != nil {
		t.Fatal(err)
	}
	for id, j := range got.(*refData).Jobs { // Payload is not part of a job's JSON
		d.Jobs[id].Job.Payload = j.Job.Payload
	}
	refStores.Store(to, d)
}

func (s *reference) Close() error { return nil }

func (s *reference) now() queue.Time {
	wall, _ := s.o.Clock.Read()
	return wall
}

func (s *reference) Now(context.Context) (queue.Time, error) { return s.now(), nil }

func (s *reference) Accept(_ context.Context, p queue.Policy, jobs []queue.NewJob) ([]queue.Accepted, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	var bad []error
	conflict := &queue.ConflictError{}
	fresh := map[string]queue.NewJob{}
	st := s.stats(now)
	pending, bytes := st.Pending+st.Leased, st.Bytes
	for i, nj := range jobs {
		if err := refCheck(p, i, nj); err != nil {
			bad = append(bad, err)
			continue
		}
		old, ok := s.Jobs[nj.ID]
		twin, twice := fresh[nj.ID]
		switch {
		case ok && old.SHA != nj.ContentSHA, twice && twin.ContentSHA != nj.ContentSHA:
			conflict.Indexes = append(conflict.Indexes, i)
		case !ok && !twice:
			fresh[nj.ID] = nj
			pending++
			bytes += refBytes(nj.Payload, nj.Headers)
			if int64(len(nj.Payload)) > p.Limits.MaxPayload {
				return nil, &queue.LimitError{Limit: "maxPayload", Max: p.Limits.MaxPayload, Index: i}
			}
		}
	}
	switch {
	case len(bad) > 0:
		return nil, errors.Join(bad...)
	case len(conflict.Indexes) > 0:
		return nil, conflict
	case len(fresh) > 0 && pending > p.Limits.MaxPending:
		return nil, &queue.LimitError{Limit: "maxPending", Max: p.Limits.MaxPending, RetryAfter: 1000}
	case len(fresh) > 0 && bytes > p.Limits.MaxBytes:
		return nil, &queue.LimitError{Limit: "maxBytes", Max: p.Limits.MaxBytes, RetryAfter: 1000}
	}
	var out []queue.Accepted
	for _, nj := range jobs {
		old, known := s.Jobs[nj.ID]
		if !known {
			old = s.store(p, nj, now)
		}
		out = append(out, queue.Accepted{Job: old.Job, Known: known})
	}
	return out, nil
}

func refBytes(payload []byte, hs []queue.Header) int64 {
	n := len(payload)
	for _, h := range hs {
		n += len(h.Name) + len(h.Value)
	}
	return int64(n)
}

func refCheck(p queue.Policy, i int, nj queue.NewJob) error {
	size := 0
	for _, h := range nj.Headers {
		size += len(h.Name) + len(h.Value)
	}
	field := ""
	switch printable := strings.IndexFunc(nj.ID, func(r rune) bool { return r < 0x21 || r > 0x7e }) < 0; {
	case nj.ID == "" || len(nj.ID) > queue.MaxIDLength || !printable:
		field = "id"
	case nj.MaxAttempts < 0 || nj.MaxAttempts > p.MaxAttempts:
		field = "maxAttempts"
	case nj.Deadline < 0 || nj.Deadline > p.Deadline:
		field = "deadline"
	case nj.Delay < 0 || nj.Delay >= cmp.Or(nj.Deadline, p.Deadline):
		field = "delay"
	case len(nj.Headers) > queue.MaxHeaders || size > queue.MaxHeaderBytes:
		field = "headers"
	default:
		return nil
	}
	return &queue.InvalidError{Index: i, Field: field, Detail: "is wrong"}
}

func (s *reference) store(p queue.Policy, nj queue.NewJob, now queue.Time) *refJob {
	j := &refJob{SHA: nj.ContentSHA, Order: len(s.Jobs), Job: queue.Job{
		ID: nj.ID, Queue: s.o.Queue, State: queue.Pending, MaxAttempts: cmp.Or(nj.MaxAttempts, p.MaxAttempts),
		AvailableAt: now.Add(nj.Delay), Deadline: now.Add(cmp.Or(nj.Deadline, p.Deadline)), FirstReceivedAt: now,
		ContentType: nj.ContentType, Headers: nj.Headers, Payload: nj.Payload,
	}}
	s.Jobs[nj.ID] = j
	return j
}

func (s *reference) Job(_ context.Context, id string) (queue.Job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j, ok := s.Jobs[id]; ok && !j.Purged {
		return j.shown(), nil
	}
	return queue.Job{}, queue.ErrNotFound
}

func (j *refJob) shown() queue.Job {
	job := j.Job
	job.History = slices.Clone(job.History)
	return job
}

func (s *reference) pending() []*refJob {
	var all []*refJob
	for _, j := range s.Jobs {
		if j.Job.State == queue.Pending {
			all = append(all, j)
		}
	}
	slices.SortFunc(all, func(a, b *refJob) int {
		return cmp.Or(cmp.Compare(a.Job.AvailableAt, b.Job.AvailableAt), cmp.Compare(a.Order, b.Order))
	})
	return all
}

func (j *refJob) budget() queue.Budget {
	return queue.Budget{Attempts: j.Job.Attempts, MaxAttempts: j.Job.MaxAttempts, Deadline: j.Job.Deadline, PreviousDelay: j.Previous}
}

func (s *reference) Claim(_ context.Context, p queue.Policy, c queue.ClaimRequest) (queue.Claimed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	out := queue.Claimed{Now: now, Deaths: queue.Deaths{}}
	s.Token++
	for _, j := range s.pending() {
		why, over := queue.Overdue(j.budget(), now)
		switch {
		case j.Job.AvailableAt > now || !over && len(out.Leases) == c.Max:
			out.NextAt = earliest(out.NextAt, j.Job.AvailableAt)
		case over:
			if j.Job.Attempts == 0 {
				f := &queue.Failure{Kind: queue.KindNeverStarted, Message: cmp.Or(c.Obstacle, "no worker took it")}
				j.Job.LastError = f
				j.note(queue.Attempt{EndedAt: now, Outcome: queue.OutcomeRetryable, Error: f})
			}
			s.die(j, why, now)
			out.Deaths[why]++
		default:
			j.Job.State, j.Job.Attempts = queue.Leased, j.Job.Attempts+1
			j.Token, j.Claimed, j.Until = s.Token, now, now.Add(p.Lease())
			s.item(j, func(it *refItem) { it.Started = true })
			out.Leases = append(out.Leases, queue.Lease{Job: j.shown(), Token: s.Token})
		}
	}
	return out, nil
}

func (j *refJob) note(a queue.Attempt) {
	a.Redrive = j.Job.RedriveUID
	h := append(slices.Clone(j.Job.History), a)
	if len(h) > queue.MaxHistory {
		h = slices.Delete(h, 1, 2)
	}
	j.Job.History = h
}

var refNumbers = regexp.MustCompile(`0x[0-9a-f]+|[0-9]+`)

func (s *reference) die(j *refJob, why queue.Reason, now queue.Time) {
	s.DeadSeq++
	j.Job.State, j.Job.Reason, j.Job.DiedAt, j.Job.DeadSeq = queue.Dead, why, now, s.DeadSeq
	j.Job.AvailableAt = 0
	f := j.Job.LastError
	j.Job.Fingerprint = fmt.Sprint(f.Kind, f.HTTPStatus, refNumbers.ReplaceAllString(f.Message, "#"))
	s.item(j, func(it *refItem) { it.State = "died" })
}

func (s *reference) item(j *refJob, f func(*refItem)) {
	if r := s.Redrives[j.Job.RedriveUID]; r != nil {
		for _, it := range r.Items {
			if it.ID == j.Job.ID && (it.State == "released" || it.State == "failing") {
				f(it)
			}
		}
	}
}

func (s *reference) Settle(_ context.Context, p queue.Policy, ss []queue.Settlement) (queue.Settled, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	out := queue.Settled{Deaths: queue.Deaths{}}
	seen := map[string]bool{}
	for _, x := range ss {
		if seen[x.ID] {
			return out, fmt.Errorf("%s is settled twice", x.ID)
		}
		seen[x.ID] = true
		switch x.Result.Outcome {
		case queue.OutcomeSucceeded, queue.OutcomePermanent, queue.OutcomeRetryable:
		default:
			return out, fmt.Errorf("%s has outcome %q", x.ID, x.Result.Outcome)
		}
	}
	for _, x := range ss {
		j := s.Jobs[x.ID]
		switch {
		case j == nil || j.Token == 0 || j.Token != x.Token:
			out.Errs = append(out.Errs, queue.ErrLeaseLost)
		case now < j.Claimed:
			out.Errs = append(out.Errs, queue.ErrClockBackwards)
		default:
			out.Errs = append(out.Errs, s.end(p, j, x.Result, now, now, out.Deaths))
		}
	}
	return out, nil
}

func (s *reference) end(p queue.Policy, j *refJob, r queue.Result, ended, now queue.Time, deaths queue.Deaths) error {
	d, err := queue.Decide(p, j.budget(), r, now, s.o.Ratio())
	if err != nil {
		return err
	}
	j.Token = 0
	if r.Outcome == queue.OutcomeSucceeded {
		j.Job.State, j.Job.FinishedAt, j.Forgotten = queue.Succeeded, now, now.Add(p.DedupeWindow)
		s.item(j, func(it *refItem) { it.State = "delivered" })
		j.Job.Payload, j.Job.Headers = nil, nil
		return nil
	}
	f := *r.Failure
	for len(f.Message) > queue.MaxErrorMessage {
		_, n := utf8.DecodeLastRuneInString(f.Message)
		f.Message = f.Message[:len(f.Message)-n]
	}
	j.Job.LastError = &f
	j.Job.FirstFailedAt = cmp.Or(j.Job.FirstFailedAt, ended)
	j.note(queue.Attempt{Attempt: j.Job.Attempts, StartedAt: j.Claimed, EndedAt: ended, Outcome: r.Outcome, Error: &f})
	if d.State == queue.Dead {
		s.die(j, d.Reason, now)
		deaths[d.Reason]++
		return nil
	}
	j.Job.State, j.Job.AvailableAt, j.Previous = queue.Pending, d.AvailableAt, d.Delay
	s.item(j, func(it *refItem) { it.State = "failing" })
	return nil
}

func (s *reference) Reap(_ context.Context, p queue.Policy, limit int) (queue.Reaped, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	out := queue.Reaped{Deaths: queue.Deaths{}}
	for _, j := range s.Jobs {
		if j.Job.State == queue.Leased && j.Until < now && out.Lost < limit {
			out.Lost++
			r := queue.Result{Outcome: queue.OutcomeRetryable, Failure: &queue.Failure{Kind: queue.KindWorkerLost, Message: "lost"}}
			if err := s.end(p, j, r, j.Until, now, out.Deaths); err != nil {
				return out, err
			}
		}
	}
	return out, nil
}

func (s *reference) Sweep(_ context.Context, p queue.Policy, limit int) (queue.Swept, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	var out queue.Swept
	for id, j := range s.Jobs {
		switch {
		case out.Expired+out.Forgotten == limit:
		case j.Forgotten != 0 && j.Forgotten < now:
			delete(s.Jobs, id)
			out.Forgotten++
		case j.Job.State == queue.Dead && !j.Purged && p.Retention > 0 && j.Job.DiedAt.Add(p.Retention) < now:
			j.Purged, j.Forgotten = true, now.Add(p.DedupeWindow)
			out.Expired++
		}
	}
	return out, nil
}
