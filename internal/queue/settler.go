package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	flushAfter   = 3 * time.Millisecond
	flushAt      = 100
	flushesAtOne = 4 // calls of Settle at the same time
)

// unsettled is a settlement on its way.
type unsettled struct {
	Settlement
	expires time.Time // when its lease ends
	redrive bool
}

// settler gathers settlements and hands them to the store, many at once: the first of a batch waits at most
// flushAfter. What the store does not take is tried again while its lease lives.
type settler struct {
	w     *Worker
	fail  func(error)
	in    chan unsettled
	ended chan struct{}
	ctx   context.Context // ends when settlements are given up
	quit  context.CancelFunc
}

func newSettler(w *Worker, fail func(error)) *settler {
	s := &settler{w: w, fail: fail, in: make(chan unsettled, flushAt), ended: make(chan struct{})}
	s.ctx, s.quit = context.WithCancel(context.Background())
	return s
}

func (s *settler) start() { go s.loop() }

// add hands over what became of t.
func (s *settler) add(t task, st Settlement) { s.in <- newUnsettled(t, st) }

func newUnsettled(t task, st Settlement) unsettled {
	return unsettled{Settlement: st, expires: t.expires, redrive: t.lease.Job.RedriveUID != ""}
}

// finish settles the rest and returns when all is done or given up. Nothing may be added any more.
func (s *settler) finish() {
	close(s.in)
	<-s.ended
	s.quit()
}

// abandon gives up what is not settled yet.
func (s *settler) abandon() { s.quit() }

func (s *settler) loop() {
	defer close(s.ended)
	var flushes sync.WaitGroup
	defer flushes.Wait()
	free := make(chan struct{}, flushesAtOne)
	var carried []unsettled
	for {
		batch, rest, more := s.gather(carried)
		carried = rest
		if len(batch) > 0 {
			free <- struct{}{}
			flushes.Go(func() {
				defer func() { <-free }()
				s.flush(batch)
			})
		}
		if !more && len(carried) == 0 {
			return
		}
	}
}

// gather makes up the next batch, which begins with what was carried over from the last. No id is in it twice: the
// store would refuse that. more is false when nothing will come.
func (s *settler) gather(carried []unsettled) (batch, rest []unsettled, more bool) {
	ids := map[string]bool{}
	put := func(u unsettled) {
		if ids[u.ID] {
			rest = append(rest, u)
			return
		}
		ids[u.ID] = true
		batch = append(batch, u)
	}
	for _, u := range carried {
		put(u)
	}
	if len(batch) == 0 {
		u, ok := <-s.in
		if !ok {
			return nil, nil, false
		}
		put(u)
	}
	timer := s.w.clock.NewTimer(flushAfter)
	defer timer.Stop()
	for len(batch) < flushAt {
		select {
		case u, ok := <-s.in:
			if !ok {
				return batch, rest, false
			}
			put(u)
		case <-timer.C():
			return batch, rest, true
		}
	}
	return batch, rest, true
}

// flush settles one batch, with tries as long as leases live. What was refused is tried in halves the next time, so
// that one settlement which the store cannot take does not keep the others from being settled.
func (s *settler) flush(batch []unsettled) {
	parts := [][]unsettled{batch}
	for failures := 0; len(parts) > 0 && s.ctx.Err() == nil; {
		refused, left, err := s.try(parts, failures > 0)
		if err == nil {
			return
		}
		parts = left
		for _, part := range refused {
			parts = append(parts, halves(part)...)
		}
		failures++
		s.w.failed("settle", err)
		s.fail(err)
		if errors.Is(err, ErrFenced) || !s.wait(s.w.backoff(failures, err)) {
			break
		}
		parts = s.living(parts)
	}
	s.abandoned(slices.Concat(parts...))
}

// try settles each part. What the store refused is apart from what is left since the store is not there for any of
// it; the error is one of those met.
func (s *settler) try(parts [][]unsettled, again bool) (refused, left [][]unsettled, err error) {
	for i, part := range parts {
		e := s.w.settle(s.ctx, part, again)
		switch {
		case e == nil:
			s.w.slots.settled(len(part))
			continue
		case s.ctx.Err() != nil, errors.Is(e, ErrFenced), errors.Is(e, ErrStorageFull), errors.Is(e, context.DeadlineExceeded):
			return refused, parts[i:], e
		}
		refused, err = append(refused, part), e
	}
	return refused, nil, err
}

func halves(part []unsettled) [][]unsettled {
	if len(part) == 1 {
		return [][]unsettled{part}
	}
	return [][]unsettled{part[:len(part)/2], part[len(part)/2:]}
}

// abandoned gives up batch.
func (s *settler) abandoned(batch []unsettled) {
	if len(batch) > 0 {
		s.w.slots.settled(len(batch))
		s.w.observer.SettlesAbandoned(len(batch))
		s.w.log.Error("settle.abandoned", "jobs", len(batch), "first", batch[0].ID)
	}
}

// living drops what is left to the reaper.
func (s *settler) living(parts [][]unsettled) (alive [][]unsettled) {
	now := s.w.clock.Now()
	var late []unsettled
	for _, part := range parts {
		var living []unsettled
		for _, u := range part {
			if now.Before(u.expires) {
				living = append(living, u)
			} else {
				late = append(late, u)
			}
		}
		if len(living) > 0 {
			alive = append(alive, living)
		}
	}
	s.abandoned(late)
	return alive
}

func (s *settler) wait(d time.Duration) bool {
	timer := s.w.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-s.ctx.Done():
		return false
	}
}

// settle makes one call of Settle and tells what became of each. again says that the batch was sent before, and
// may have been applied then.
func (w *Worker) settle(ctx context.Context, batch []unsettled, again bool) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	list := make([]Settlement, len(batch))
	retries := false
	for i, u := range batch {
		list[i] = u.Settlement
		retries = retries || u.Result.Outcome == OutcomeRetryable
	}
	got, err := w.store.Settle(ctx, w.settings.Load().Policy, list)
	if err == nil && len(got.Errs) != len(batch) {
		err = fmt.Errorf("the store answered %d of %d settlements", len(got.Errs), len(batch))
	}
	if err != nil {
		return fmt.Errorf("settling attempts: %w", err)
	}
	if len(got.Deaths) > 0 {
		w.observer.Died(got.Deaths)
	}
	w.tell(batch, got.Errs, again)
	if retries {
		w.Wake() // the loop does not know yet when they are due
	}
	return nil
}

func (w *Worker) tell(batch []unsettled, errs []error, again bool) {
	var delivered, lost, backwards int
	for i, u := range batch {
		switch err := errs[i]; {
		case err == nil:
			if u.redrive && u.Result.Outcome == OutcomeSucceeded {
				delivered++
			}
		case errors.Is(err, ErrLeaseLost):
			lost++
			w.log.Warn("settle.lease_lost", "id", u.ID, "outcome", u.Result.Outcome, "again", again)
		case errors.Is(err, ErrClockBackwards):
			backwards++
			w.log.Error("settle.clock_backwards", "id", u.ID)
		default:
			w.failed("settle", fmt.Errorf("settling job %s: %w", u.ID, err))
		}
	}
	report := func(n int, to func(int)) {
		if n > 0 {
			to(n)
		}
	}
	report(delivered, w.observer.RedriveDelivered)
	report(backwards, w.observer.ClockBackwards)
	if again {
		report(lost, w.observer.SettlesAmbiguous)
	} else {
		report(lost, w.observer.LeasesLost)
	}
}
