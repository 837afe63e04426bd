package queue

import (
	"context"
	"sync"
)

// Once is what one round of work came to.
type Once struct {
	Claimed int
	Settled int // of these, handed to the store, which may have refused some as stale
}

// RunOnce claims what is due, up to the free slots, has it delivered, waits for all of it, and settles it: one
// unit of work, apart from the loop. ctx cancels the claim and the attempts, not the settling. An error is the
// store's; what was not settled is left to the reaper.
func (w *Worker) RunOnce(ctx context.Context) (Once, error) {
	s := w.settings.Load()
	got, err := w.claim(ctx, s, w.room(s))
	if err != nil {
		w.failed("claim", err)
		return Once{}, err
	}
	var (
		mu       sync.Mutex
		attempts sync.WaitGroup
		all      []unsettled
	)
	for _, t := range got.tasks {
		attempts.Go(func() {
			w.attempt(ctx, t, func(st Settlement) {
				mu.Lock()
				defer mu.Unlock()
				all = append(all, newUnsettled(t, st))
			})
		})
	}
	attempts.Wait()
	defer w.slots.settled(len(all))
	out := Once{Claimed: len(got.tasks)}
	for len(all) > out.Settled {
		batch := all[out.Settled:min(len(all), out.Settled+flushAt)]
		if err := w.settle(context.WithoutCancel(ctx), batch, false); err != nil {
			w.failed("settle", err)
			return out, err
		}
		out.Settled += len(batch)
	}
	return out, nil
}
