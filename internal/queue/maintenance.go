package queue

import (
	"context"
	"fmt"
	"time"
)

const (
	sweepEvery   = time.Minute
	maxReapEvery = time.Second
	choreTimeout = 10 * time.Second
	reapBatch    = 500
	sweepBatch   = 1000
	restOfSweep  = 20 * time.Millisecond // between two batches, so that a long sweep hinders nobody
)

// chore is one recurring duty of maintenance.
type chore struct {
	name  string
	every func(*Settings) time.Duration
	// once does a bounded part of it; more says that there is more to do right away.
	once func(context.Context, *Settings) (more bool, err error)
	rest time.Duration // before more is done
}

func (w *Worker) chores() []chore {
	always := func(d time.Duration) func(*Settings) time.Duration {
		return func(*Settings) time.Duration { return d }
	}
	return []chore{
		{name: "reap", every: reapEvery, once: w.reapOnce},
		{name: "sweep", every: always(sweepEvery), once: w.sweepOnce, rest: restOfSweep},
		{name: "advance", every: always(AdvanceEvery.Std()), once: w.advanceOnce},
	}
}

func reapEvery(s *Settings) time.Duration { return min(maxReapEvery, s.Policy.Lease().Std()/10) }

// keep does a chore until nothing more is to be claimed, the first time at once.
func (r *run) keep(c chore) {
	w := r.w
	for failures := 0; r.claiming.Err() == nil; {
		s := w.settings.Load()
		began := w.clock.Now()
		more, err := w.doOnce(r.claiming, c, s)
		wait := c.every(s) - w.clock.Now().Sub(began) // a steady beat, whatever the chore takes
		switch {
		case err != nil:
			if r.claiming.Err() != nil {
				return
			}
			failures++
			w.failed(c.name, err)
			r.fail(err)
			wait = max(wait, w.backoff(failures, err))
		case more:
			failures, wait = 0, c.rest
		default:
			failures = 0
		}
		r.sleep(wait)
	}
}

func (r *run) sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	timer := r.w.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-r.claiming.Done():
	}
}

func (w *Worker) doOnce(ctx context.Context, c chore, s *Settings) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, choreTimeout)
	defer cancel()
	return c.once(ctx, s)
}

// reapOnce settles leases that have run out.
func (w *Worker) reapOnce(ctx context.Context, s *Settings) (bool, error) {
	got, err := w.store.Reap(ctx, s.Policy, reapBatch)
	if err != nil {
		return false, fmt.Errorf("reaping leases: %w", err)
	}
	if len(got.Deaths) > 0 {
		w.observer.Died(got.Deaths)
	}
	if got.Lost > 0 {
		w.observer.LeasesReaped(got.Lost)
		w.log.Warn("leases.reaped", "jobs", got.Lost)
		w.Wake()
	}
	return got.Lost >= reapBatch, nil
}

// sweepOnce forgets ids, and dead jobs past their retention.
func (w *Worker) sweepOnce(ctx context.Context, s *Settings) (bool, error) {
	got, err := w.store.Sweep(ctx, s.Policy, sweepBatch)
	if err != nil {
		return false, fmt.Errorf("sweeping: %w", err)
	}
	if got.Expired > 0 {
		w.log.Info("dead.expired", "jobs", got.Expired)
	}
	return got.Forgotten+got.Expired >= sweepBatch, nil
}

// advanceOnce lets permitted redrives release what is due.
func (w *Worker) advanceOnce(ctx context.Context, s *Settings) (bool, error) {
	n, err := w.store.AdvanceRedrives(ctx, s.Policy, s.held())
	if err != nil {
		return false, fmt.Errorf("advancing redrives: %w", err)
	}
	if n > 0 {
		w.observer.RedriveReleased(n)
		w.Wake()
	}
	return false, nil
}
