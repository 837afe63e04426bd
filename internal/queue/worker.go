package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Deliverer makes one attempt and says what it came to. ctx ends at the attempt's timeout; Deliver must return
// soon after. A panic is an unknown outcome.
type Deliverer interface {
	Deliver(ctx context.Context, lease Lease) Result
}

// WorkerOptions make a Worker. Store, Deliverer and Settings are required.
type WorkerOptions struct {
	Store     Store
	Deliverer Deliverer
	Settings  Settings
	Observer  Observer       // default: none
	Clock     Clock          // default: SystemClock
	Random    func() float64 // uniform in [0, 1), for jitter of polls and waits; default: math/rand/v2
	Log       *slog.Logger   // default: none
}

// Worker claims due jobs, has them delivered, settles what became of them, and keeps the store tidy: expired
// leases are reaped, what is past its time is swept, permitted redrives are advanced.
type Worker struct {
	store     Store
	deliverer Deliverer
	observer  Observer
	clock     Clock
	random    func() float64
	log       *slog.Logger

	settings atomic.Pointer[Settings]
	changed  signal // settings were swapped
	woken    signal // something may be due
	slots    *slots

	obstacles obstacles
}

// NewWorker refuses invalid settings.
func NewWorker(o WorkerOptions) (*Worker, error) {
	if o.Store == nil || o.Deliverer == nil {
		return nil, errors.New("making a worker: Store and Deliverer must be set")
	}
	w := &Worker{
		store: o.Store, deliverer: o.Deliverer, log: cmp.Or(o.Log, slog.New(slog.DiscardHandler)),
		observer: o.Observer, clock: o.Clock, random: o.Random,
		changed: newSignal(), woken: newSignal(), slots: newSlots(),
	}
	if w.observer == nil {
		w.observer = NopObserver{}
	}
	if w.clock == nil {
		w.clock = SystemClock{}
	}
	if w.random == nil {
		w.random = rand.Float64
	}
	if err := w.SetSettings(o.Settings); err != nil {
		return nil, err
	}
	return w, nil
}

// SetSettings puts s in force at once, also while the worker runs. Invalid settings are refused and change nothing.
func (w *Worker) SetSettings(s Settings) error {
	if err := s.Validate(); err != nil {
		return fmt.Errorf("setting the worker: %w", err)
	}
	w.obstacles.suspend(s.Suspended, w.clock.Now())
	w.settings.Store(&s)
	w.changed.raise()
	return nil
}

// Wake says that a job may have fallen due: call it after Accept. It never blocks.
func (w *Worker) Wake() { w.woken.raise() }

// ErrDrainIncomplete says that attempts were still running when the worker had to stop; their leases will run out.
var ErrDrainIncomplete = errors.New("attempts were still running")

// Run works until ctx is done, then drains: it claims nothing more, lets what is in flight finish (at most until
// its leases end, which is attemptTimeout and SettleMargin after the claim), settles it and returns nil.
//
// It returns ErrFenced, with everything stopped, as soon as the store says so, and ErrDrainIncomplete when a
// deliverer has ignored the end of its context.
func (w *Worker) Run(ctx context.Context) error {
	return w.RunUntil(ctx, context.Background())
}

// RunUntil is Run with a second, harder stop: when hard is done, attempts in flight are cancelled. Those which do
// not succeed even so end as unknown.
func (w *Worker) RunUntil(ctx, hard context.Context) error {
	r := newRun(w, ctx, hard)
	defer r.stop()
	r.start()
	<-r.claiming.Done()
	return r.drain()
}

// Intervals and bounds of the loop.
const (
	// ClaimTime is the part of SettleMargin in which a claim must be answered and its attempts started: what is
	// not started ClaimTime after the claim was sent is left. The rest of the margin is for settling.
	ClaimTime = Millis(5_000)

	pollEvery     = time.Second
	minPoll       = 5 * time.Millisecond // when jobs are said to be due and yet none is given
	maxClaim      = 500
	settleTimeout = 5 * time.Second
	minBackoff    = 50 * time.Millisecond
	maxBackoff    = 5 * time.Second
	jumpWait      = time.Second
	graceOfCancel = 5 * time.Second // for deliverers to return once they are cancelled
)

// backoff is the wait after the given number of failures in a row: exponential, with half of it drawn.
func (w *Worker) backoff(failures int, err error) time.Duration {
	if errors.Is(err, ErrClockJump) {
		return jumpWait
	}
	d := min(minBackoff<<min(failures-1, 10), maxBackoff)
	return d/2 + time.Duration(w.random()*float64(d/2))
}

// failed tells about a failed call of the store.
func (w *Worker) failed(operation string, err error) {
	w.observer.StoreFailed(operation, err)
	w.log.Warn("store.failed", "operation", operation, "error", err)
}

// signal is a flag that can be waited for; raising it twice is raising it once.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) raise() {
	select {
	case s <- struct{}{}:
	default:
	}
}

func (s signal) clear() {
	select {
	case <-s:
	default:
	}
}
