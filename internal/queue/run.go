package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// run is one life of a Worker's loop.
type run struct {
	w         *Worker
	claiming  context.Context // ends when nothing more is to be claimed
	stopClaim context.CancelCauseFunc
	sending   context.Context // ends when attempts are to be cancelled
	cutOff    context.CancelFunc
	settler   *settler
	loops     sync.WaitGroup // the claim loop and maintenance
	attempts  sync.WaitGroup
}

func newRun(w *Worker, ctx, hard context.Context) *run {
	r := &run{w: w}
	r.claiming, r.stopClaim = context.WithCancelCause(ctx)
	r.sending, r.cutOff = context.WithCancel(hard)
	context.AfterFunc(r.sending, func() { r.stopClaim(nil) })
	r.settler = newSettler(w, r.fail)
	return r
}

func (r *run) start() {
	r.settler.start()
	r.loops.Go(r.claimLoop)
	for _, c := range r.w.chores() {
		r.loops.Go(func() { r.keep(c) })
	}
}

func (r *run) stop() {
	r.stopClaim(nil)
	r.cutOff()
}

// fail ends the run if err says that the store is another's.
func (r *run) fail(err error) {
	if errors.Is(err, ErrFenced) {
		r.stopClaim(err)
		r.cutOff()
	}
}

// drain waits for what is in flight, and says what ended the run.
func (r *run) drain() error {
	r.loops.Wait()
	finished := make(chan struct{})
	go func() {
		r.attempts.Wait()
		r.settler.finish()
		close(finished)
	}()
	complete := r.await(finished)
	r.cutOff()
	if err := context.Cause(r.claiming); errors.Is(err, ErrFenced) {
		return err
	}
	if !complete {
		return fmt.Errorf("draining: %w: %d", ErrDrainIncomplete, r.w.slots.inFlight())
	}
	return nil
}

// await waits for finished until the last lease has ended, or for a little while once attempts are cancelled.
func (r *run) await(finished <-chan struct{}) bool {
	leases := r.w.clock.NewTimer(r.w.slots.lastLease().Sub(r.w.clock.Now()))
	defer leases.Stop()
	select {
	case <-finished:
		return true
	case <-leases.C():
	case <-r.sending.Done():
	}
	r.cutOff()
	grace := r.w.clock.NewTimer(graceOfCancel)
	defer grace.Stop()
	select {
	case <-finished:
		return true
	case <-grace.C():
		r.settler.abandon()
		return false
	}
}

// claimLoop claims and starts attempts.
func (r *run) claimLoop() {
	w, failures := r.w, 0
	for r.claiming.Err() == nil {
		w.changed.clear() // what was raised till now is answered by this claim
		w.woken.clear()
		s := w.settings.Load()
		n := w.room(s)
		// Not cancelled by the drain: what the store has leased by then is better sent than lost.
		got, err := w.claim(context.WithoutCancel(r.claiming), s, n)
		if err != nil {
			failures++
			w.failed("claim", err)
			r.fail(err)
			r.pause(pause{d: w.backoff(failures, err)})
			continue
		}
		failures = 0
		for _, t := range got.tasks {
			r.attempts.Go(func() { w.attempt(r.sending, t, func(s Settlement) { r.settler.add(t, s) }) })
		}
		r.pause(w.untilNext(s, got, n))
	}
}

// room is how many jobs to claim.
func (w *Worker) room(s *Settings) int {
	if s.Suspended {
		return 0
	}
	return min(w.slots.free(s.Concurrency), maxClaim)
}

// pause says how long the claim loop waits, and for what besides.
type pause struct {
	d time.Duration
	// wake: a wake ends it. slot: a free slot ends it, since more jobs may be due than there were slots.
	wake, slot bool
	settings   *Settings
}

// untilNext is the pause after a claim of n jobs.
func (w *Worker) untilNext(s *Settings, got round, n int) pause {
	poll := pollEvery - time.Duration(w.random()*float64(pollEvery)/4)
	if got.buried { // one claim buries only so many
		poll = minPoll
	}
	if n == len(got.tasks) { // there may be more; when suspended or full there is nothing to do but bury
		return pause{d: poll, slot: !s.Suspended, settings: s}
	}
	if !got.nextAt.IsZero() {
		poll = min(poll, max(got.nextAt.Sub(w.clock.Now()), minPoll))
	}
	return pause{d: poll, wake: true, settings: s}
}

func (r *run) pause(p pause) {
	w := r.w
	if p.slot && w.room(p.settings) > 0 {
		return
	}
	timer := w.clock.NewTimer(p.d)
	defer timer.Stop()
	var woken, freed <-chan struct{}
	if p.wake {
		woken = w.woken
	}
	if p.slot {
		freed = w.slots.freed
	}
	for {
		select {
		case <-r.claiming.Done():
			return
		case <-timer.C():
			return
		case <-w.changed:
			return
		case <-woken:
			return
		case <-freed:
			if w.room(p.settings) > 0 {
				return
			}
		}
	}
}
