package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"
)

// fakeStore is as much of a store as a worker sees, in memory, on the bubble's clock.
type fakeStore struct {
	Store // panics on anything else
	// hook runs ahead of each call, by its operation; it may take time, and its error is the call's answer.
	hook map[string]func() error
	// lostReply, when true, makes Settle work and yet fail, once.
	lostReply bool

	mu       sync.Mutex
	jobs     map[string]*fakeJob
	token    int64
	claims   []ClaimRequest
	settles  [][]Settlement
	advances []HeldReason
	release  int // what the next AdvanceRedrives makes due
	buryMax  int // how many one Claim buries; 0 for all
}

type fakeJob struct {
	Job
	token     int64
	until     Time
	backwards bool // its settle finds the clock before the claim
	poisoned  bool // a call that settles it fails as a whole
}

func newFakeStore() *fakeStore {
	return &fakeStore{jobs: map[string]*fakeJob{}, hook: map[string]func() error{}}
}

func now() Time { return TimeOf(time.Now()) }

// add makes jobs pending that are due after d.
func (s *fakeStore) add(d Millis, ids ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		s.jobs[id] = &fakeJob{Job: Job{ID: id, State: Pending, MaxAttempts: 3, AvailableAt: now().Add(d), Deadline: now().Add(3_600_000)}}
	}
}

func (s *fakeStore) set(id string, f func(*fakeJob)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.jobs[id])
}

func (s *fakeStore) job(id string) fakeJob {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.jobs[id]
}

// in is how many jobs are in a state.
func (s *fakeStore) in(state State) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		if j.State == state {
			n++
		}
	}
	return n
}

func (s *fakeStore) enter(op string) error {
	s.mu.Lock()
	f := s.hook[op]
	s.mu.Unlock()
	if f == nil {
		return nil
	}
	return f()
}

// on replaces the hook of op while the worker runs.
func (s *fakeStore) on(op string, f func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook[op] = f
}

func (s *fakeStore) Claim(ctx context.Context, p Policy, c ClaimRequest) (Claimed, error) {
	out := Claimed{Now: now(), Deaths: Deaths{}}
	s.mu.Lock()
	s.claims = append(s.claims, c)
	s.token++
	buried := 0
	for _, id := range slices.Sorted(maps.Keys(s.jobs)) {
		j := s.jobs[id]
		if j.State != Pending || s.buryMax > 0 && buried == s.buryMax {
			continue
		}
		reason, dies := Overdue(Budget{Attempts: j.Attempts, MaxAttempts: j.MaxAttempts, Deadline: j.Deadline}, out.Now)
		switch {
		case j.AvailableAt <= out.Now && dies:
			j.State, j.Reason = Dead, reason
			out.Deaths[reason]++
			buried++
		case j.AvailableAt <= out.Now && len(out.Leases) < c.Max:
			j.State, j.token, j.until = Leased, s.token, out.Now.Add(p.Lease())
			j.Attempts++
			out.Leases = append(out.Leases, Lease{Job: j.Job, Token: j.token})
		case out.NextAt == 0 || j.AvailableAt < out.NextAt:
			out.NextAt = j.AvailableAt
		}
	}
	s.mu.Unlock()
	if err := s.enter("claim"); err != nil || !errors.Is(ctx.Err(), context.Canceled) {
		return out, err // late ones as well: the answer may have been on its way
	}
	return Claimed{}, ctx.Err()
}

func (s *fakeStore) Settle(_ context.Context, p Policy, list []Settlement) (Settled, error) {
	if err := s.enter("settle"); err != nil {
		return Settled{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range list {
		if s.jobs[st.ID].poisoned {
			return Settled{}, fmt.Errorf("job %s cannot be read", st.ID)
		}
	}
	s.settles = append(s.settles, list)
	out := Settled{Deaths: Deaths{}}
	seen := map[string]bool{}
	for _, st := range list {
		if seen[st.ID] {
			return Settled{}, fmt.Errorf("job %s is settled twice", st.ID)
		}
		seen[st.ID] = true
		out.Errs = append(out.Errs, s.settleOne(p, st, out.Deaths))
	}
	if s.lostReply {
		s.lostReply = false
		return Settled{}, context.DeadlineExceeded
	}
	return out, nil
}

func (s *fakeStore) settleOne(p Policy, st Settlement, deaths Deaths) error {
	j := s.jobs[st.ID]
	if j.token != st.Token {
		return ErrLeaseLost
	}
	if j.backwards {
		return ErrClockBackwards
	}
	d, err := Decide(p, Budget{Attempts: j.Attempts, MaxAttempts: j.MaxAttempts, Deadline: j.Deadline}, st.Result, now(), 1)
	if err != nil {
		return err
	}
	j.State, j.Reason, j.AvailableAt, j.token = d.State, d.Reason, d.AvailableAt, 0
	if d.State == Dead {
		deaths[d.Reason]++
	}
	return nil
}

func (s *fakeStore) Reap(_ context.Context, p Policy, _ int) (Reaped, error) {
	if err := s.enter("reap"); err != nil {
		return Reaped{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Reaped{Deaths: Deaths{}}
	for id, j := range s.jobs {
		if j.State == Leased && j.until < now() {
			out.Lost++
			lost := Result{Outcome: OutcomeRetryable, Failure: &Failure{Kind: KindWorkerLost}}
			if err := s.settleOne(p, Settlement{ID: id, Token: j.token, Result: lost}, out.Deaths); err != nil {
				return Reaped{}, err
			}
		}
	}
	return out, nil
}

func (s *fakeStore) Sweep(context.Context, Policy, int) (Swept, error) {
	return Swept{}, s.enter("sweep")
}

func (s *fakeStore) AdvanceRedrives(_ context.Context, _ Policy, held HeldReason) (int, error) {
	if err := s.enter("advance"); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advances = append(s.advances, held)
	if held != "" {
		return 0, nil
	}
	n := s.release
	s.release = 0
	for i := range n {
		id := fmt.Sprint("released-", i)
		s.jobs[id] = &fakeJob{Job: Job{ID: id, State: Pending, MaxAttempts: 3, AvailableAt: now(), Deadline: now().Add(3_600_000), RedriveUID: "r"}}
	}
	return n, nil
}

// deliverFunc is a Deliverer.
type deliverFunc func(context.Context, Lease) Result

func (f deliverFunc) Deliver(ctx context.Context, l Lease) Result { return f(ctx, l) }

func succeed(context.Context, Lease) Result { return Result{Outcome: OutcomeSucceeded} }

// takes makes a Deliverer that succeeds after d, or fails when its context ends.
func takes(d time.Duration) deliverFunc {
	return func(ctx context.Context, _ Lease) Result {
		select {
		case <-time.After(d):
			return Result{Outcome: OutcomeSucceeded}
		case <-ctx.Done():
			return Result{Outcome: OutcomeRetryable, Failure: &Failure{Kind: "Timeout"}}
		}
	}
}

// tally is an Observer that counts.
type tally struct {
	mu   sync.Mutex
	n    map[string]int
	ends []AttemptEnd
}

func (c *tally) add(what string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[what] += n
}

func (c *tally) get(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[what]
}

func (c *tally) AttemptEnded(e AttemptEnd) {
	c.add(string(e.Result.Outcome), 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends = append(c.ends, e)
}

func (c *tally) Died(d Deaths) {
	for r, n := range d {
		c.add("died "+string(r), n)
	}
}
func (c *tally) RedriveDelivered(n int)         { c.add("redrive delivered", n) }
func (c *tally) RedriveReleased(n int)          { c.add("redrive released", n) }
func (c *tally) LeasesReaped(n int)             { c.add("reaped", n) }
func (c *tally) ClaimsUnstarted(n int)          { c.add("unstarted", n) }
func (c *tally) LeasesLost(n int)               { c.add("lost", n) }
func (c *tally) SettlesAmbiguous(n int)         { c.add("ambiguous", n) }
func (c *tally) ClockBackwards(n int)           { c.add("backwards", n) }
func (c *tally) SettlesAbandoned(n int)         { c.add("abandoned", n) }
func (c *tally) StoreFailed(op string, _ error) { c.add("failed "+op, 1) }

// bench is a worker on a fake store.
type bench struct {
	t     *testing.T
	store *fakeStore
	seen  *tally
	w     *Worker
}

func testSettings() Settings { return Settings{Policy: testPolicy(), Concurrency: 10} }

func newBench(t *testing.T, d deliverFunc) *bench {
	t.Helper()
	b := &bench{t: t, store: newFakeStore(), seen: &tally{n: map[string]int{}}}
	w, err := NewWorker(WorkerOptions{
		Store: b.store, Deliverer: d, Settings: testSettings(), Observer: b.seen, Random: func() float64 { return .5 },
	})
	if err != nil {
		t.Fatal(err)
	}
	b.w = w
	return b
}

// run starts the worker; stop drains it and returns its error.
func (b *bench) run() (stop func() error) {
	ctx, cancel := context.WithCancel(b.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.w.Run(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}
}

// drained stops the worker and expects a clean end.
func (b *bench) drained(stop func() error) {
	b.t.Helper()
	if err := stop(); err != nil {
		b.t.Errorf("Run: %v", err)
	}
	if n := b.w.slots.inFlight(); n != 0 {
		b.t.Errorf("%d slots are taken after the drain", n)
	}
}

func (b *bench) set(f func(*Settings)) {
	b.t.Helper()
	s := testSettings()
	f(&s)
	if err := b.w.SetSettings(s); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) want(what string, n int) {
	b.t.Helper()
	if got := b.seen.get(what); got != n {
		b.t.Errorf("%s: %d, want %d", what, got, n)
	}
}

func (b *bench) wantIn(state State, n int) {
	b.t.Helper()
	if got := b.store.in(state); got != n {
		b.t.Errorf("%d jobs are %s, want %d", got, state, n)
	}
}

func names(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("job-%03d", i))
	}
	return ids
}
