package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// crowd is how many goroutines work at once.
const crowd = 16

// together runs f in crowd goroutines and waits for them. Each has randomness of its own.
func together(f func(g int, rng *rand.Rand)) {
	var wg sync.WaitGroup
	for g := range crowd {
		wg.Go(func() { f(g, rand.New(rand.NewPCG(uint64(g), 2))) })
	}
	wg.Wait()
}

var concurrencyRules = rules{
	"two claims never hold one job": func(t *testing.T, e *env) {
		const n = 1500
		e.acceptIDs(names("j", n)...)
		var mu sync.Mutex
		holders, tokens := map[string]int{}, map[int64]int{}
		together(func(g int, rng *rand.Rand) {
			for call := 0; ; call++ {
				c, err := e.s.Claim(t.Context(), e.policy, queue.ClaimRequest{Max: 1 + rng.IntN(12)})
				if err != nil {
					t.Error(err)
					return
				}
				if len(c.Leases) == 0 {
					return
				}
				mu.Lock()
				for _, l := range c.Leases {
					holders[l.Job.ID]++
					if by, ok := tokens[l.Token]; ok && by != g*1_000_000+call {
						t.Errorf("token %d was handed out by two calls", l.Token)
					}
					tokens[l.Token] = g*1_000_000 + call
				}
				mu.Unlock()
			}
		})
		if len(holders) != n {
			t.Errorf("%d of %d jobs were claimed", len(holders), n)
		}
		for id, k := range holders {
			if k != 1 {
				t.Errorf("%s is held %d times", id, k)
			}
		}
		e.wantCounts(0, n, 0, 0)
	},
	"an id that many accept at once is new to exactly one of them": func(t *testing.T, e *env) {
		var fresh [40]atomic.Int64
		all := names("j", len(fresh))
		together(func(_ int, rng *rand.Rand) {
			order := rng.Perm(len(all))
			for batch := range slices.Chunk(order, 7) {
				var jobs []queue.NewJob
				for _, i := range batch {
					jobs = append(jobs, newJob(all[i]))
				}
				got, err := e.s.Accept(t.Context(), e.policy, jobs)
				if err != nil {
					t.Error(err)
					return
				}
				for k, a := range got {
					if !a.Known {
						fresh[batch[k]].Add(1)
					}
				}
			}
		})
		for i := range fresh {
			if n := fresh[i].Load(); n != 1 {
				t.Errorf("%s was new to %d", all[i], n)
			}
		}
		e.wantCounts(int64(len(all)), 0, 0, 0)
	},
	"limits hold when many accept at once": func(t *testing.T, e *env) {
		e.policy.Limits.MaxPending = 100
		var stored atomic.Int64
		together(func(g int, _ *rand.Rand) {
			for i := range 20 {
				_, err := e.s.Accept(t.Context(), e.policy, []queue.NewJob{newJob(fmt.Sprintf("g%d-%d", g, i))})
				var limit *queue.LimitError
				switch {
				case err == nil:
					stored.Add(1)
				case !errors.As(err, &limit):
					t.Error(err)
				}
			}
		})
		if n := stored.Load(); n != 100 {
			t.Errorf("stored %d, the limit is 100", n)
		}
		e.wantCounts(100, 0, 0, 0)
	},
	"one lease is settled once, whoever settles or reaps at the same time": func(t *testing.T, e *env) {
		for round := range 10 {
			id := fmt.Sprint("j-", round)
			e.acceptIDs(id)
			l := e.lease(id)
			e.clock.Advance(e.policy.Lease() + 1)
			var ends atomic.Int64
			together(func(g int, _ *rand.Rand) {
				if g%2 == 0 {
					r, err := e.s.Reap(t.Context(), e.policy, 10)
					if err != nil {
						t.Error(err)
					}
					ends.Add(int64(r.Lost))
					return
				}
				got, err := e.s.Settle(t.Context(), e.policy, []queue.Settlement{settlement(l, permanent(422, "x"))})
				switch {
				case err != nil:
					t.Error(err)
				case got.Errs[0] == nil:
					ends.Add(1)
				case !errors.Is(got.Errs[0], queue.ErrLeaseLost):
					t.Error(got.Errs[0])
				}
			})
			if n := ends.Load(); n != 1 {
				t.Errorf("one lease ended %d times", n)
			}
			if got := len(e.job(id).History); got != 1 {
				t.Errorf("history has %d entries", got)
			}
			if e.job(id).State == queue.Pending {
				e.settleLater(id)
			}
		}
	},
	"one id is never in two states: accept, run, purge, forget and redrive it all at once": func(t *testing.T, e *env) {
		e.policy.DedupeWindow, e.policy.MaxRedrives = 1, 1000
		together(func(g int, rng *rand.Rand) {
			for i := range 30 {
				if err := e.anything(rng, fmt.Sprintf("r-%d-%d", g, i)); err != nil {
					t.Error(err)
					return
				}
				s, err := e.s.Stats(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				if n := s.Pending + s.Leased + s.Dead + s.Succeeded; n > 1 {
					t.Errorf("one id is counted %d times: %+v", n, s)
					return
				}
			}
		})
	},
	"many plan one uid at once: there is one plan": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), names("d", 20)...)
		var mu sync.Mutex
		hashes := map[string]int{}
		together(func(int, *rand.Rand) {
			r, err := e.s.PlanRedrive(t.Context(), spec("r1", everything()))
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			hashes[r.Summary.Hash]++
			mu.Unlock()
		})
		if len(hashes) != 1 {
			t.Errorf("hashes %v", hashes)
		}
	},
	"a mixed load leaves every job in one place, with no attempt over budget and no end told twice": func(t *testing.T, e *env) {
		e.jitter.set(sequence())
		h := &history{ends: map[string][]string{}, starts: map[string]int{}, accepted: map[string]bool{}}
		together(func(g int, rng *rand.Rand) { e.mixedLoad(t, h, g, rng) })
		for range 100 {
			e.clock.Advance(e.policy.Lease() + 1)
			e.reap(10_000)
			if c := e.claim(10_000); len(c.Leases) > 0 {
				h.started(c)
				e.settleAll(c, permanent(422, "the end"))
				h.ended(c, "dead")
			}
			if s := e.stats(); s.Pending+s.Leased == 0 {
				break
			}
		}
		e.checkHistory(h)
	},
}

// anything does one random thing to the id "x".
func (e *env) anything(rng *rand.Rand, uid string) error {
	ctx := e.t.Context()
	var err error
	switch rng.IntN(6) {
	case 0, 1:
		_, err = e.s.Accept(ctx, e.policy, newJobs("x"))
	case 2:
		var c queue.Claimed
		if c, err = e.s.Claim(ctx, e.policy, queue.ClaimRequest{Max: 1}); err == nil && len(c.Leases) == 1 {
			r := permanent(422, "x")
			if rng.IntN(4) == 0 {
				r = succeeded()
			}
			_, err = e.s.Settle(ctx, e.policy, []queue.Settlement{settlement(c.Leases[0], r)})
		}
	case 3:
		_, err = e.s.Purge(ctx, e.policy, ids("x"))
	case 4:
		e.clock.Advance(2)
		_, err = e.s.Sweep(ctx, e.policy, 10)
	case 5:
		var r queue.Redrive
		s := spec(uid, ids("x"))
		s.MaxRedrives = 1000
		if r, err = e.s.PlanRedrive(ctx, s); err != nil {
			return err
		}
		if _, err = e.s.PermitRedrive(ctx, queue.RedrivePermit{UID: uid, Hash: r.Summary.Hash, For: 60_000}); err != nil {
			return err
		}
		_, err = e.s.AdvanceRedrives(ctx, e.policy, "")
	}
	return err
}

// history is what the workers of a mixed load saw.
type history struct {
	mu       sync.Mutex
	accepted map[string]bool
	starts   map[string]int
	ends     map[string][]string // the settles that were told to have worked: done, dead
}

func (h *history) started(c queue.Claimed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range c.Leases {
		h.starts[l.Job.ID]++
	}
}

func (h *history) ended(c queue.Claimed, how string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range c.Leases {
		h.ends[l.Job.ID] = append(h.ends[l.Job.ID], how)
	}
}

// mixedLoad is one producer and worker of many.
func (e *env) mixedLoad(t *testing.T, h *history, g int, rng *rand.Rand) {
	for i := range 25 {
		batch := names(fmt.Sprintf("g%d-%d", g, i), 1+rng.IntN(4))
		if _, err := e.s.Accept(t.Context(), e.policy, newJobs(batch...)); err != nil {
			t.Error(err)
			return
		}
		h.mu.Lock()
		for _, id := range batch {
			h.accepted[id] = true
		}
		h.mu.Unlock()
		c, err := e.s.Claim(t.Context(), e.policy, queue.ClaimRequest{Max: 1 + rng.IntN(6)})
		if err != nil {
			t.Error(err)
			return
		}
		h.started(c)
		if rng.IntN(8) == 0 { // a worker that dies, or stalls beyond its lease
			e.clock.Advance(e.policy.Lease() + 1)
		} else {
			e.clock.Advance(queue.Millis(rng.IntN(200)))
		}
		if rng.IntN(3) == 0 {
			if _, err := e.s.Reap(t.Context(), e.policy, 50); err != nil {
				t.Error(err)
				return
			}
		}
		for _, l := range c.Leases {
			e.settleRandomly(t, h, l, rng)
		}
	}
}

func (e *env) settleRandomly(t *testing.T, h *history, l queue.Lease, rng *rand.Rand) {
	r, how := succeeded(), "done"
	switch rng.IntN(4) {
	case 0:
		r, how = permanent(422, "x"), "dead"
	case 1:
		r, how = retryable(503, "busy"), ""
	}
	got, err := e.s.Settle(t.Context(), e.policy, []queue.Settlement{settlement(l, r)})
	switch {
	case err != nil:
		t.Error(err)
	case got.Errs[0] == nil && how != "":
		h.ended(queue.Claimed{Leases: []queue.Lease{l}}, how)
	case got.Errs[0] != nil && !errors.Is(got.Errs[0], queue.ErrLeaseLost):
		t.Error(got.Errs[0])
	}
}

func (e *env) checkHistory(h *history) {
	e.t.Helper()
	var done, dead int64
	for id := range h.accepted {
		j := e.job(id)
		want := map[queue.State]string{queue.Succeeded: "done", queue.Dead: "dead"}[j.State]
		switch {
		case want == "":
			e.t.Errorf("%s is %s at the end", id, j.State)
		case len(h.ends[id]) > 1, len(h.ends[id]) == 1 && h.ends[id][0] != want:
			e.t.Errorf("%s is %s and its workers were told %v", id, j.State, h.ends[id])
		case j.State == queue.Succeeded && len(h.ends[id]) == 0:
			e.t.Errorf("%s succeeded and nobody did it", id)
		case h.starts[id] > e.policy.MaxAttempts:
			e.t.Errorf("%s was started %d times", id, h.starts[id])
		case j.State == queue.Dead && j.Attempts != h.starts[id]:
			e.t.Errorf("%s counts %d attempts of %d", id, j.Attempts, h.starts[id])
		}
		if j.State == queue.Dead {
			dead++
		} else {
			done++
		}
	}
	for id := range h.starts {
		if !h.accepted[id] {
			e.t.Errorf("%s was started and never accepted", id)
		}
	}
	e.wantCounts(0, 0, done, dead)
}
