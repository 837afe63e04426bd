package queue

import "time"

// Observer hears what a [Worker] does, for metrics. Its methods are called from many goroutines at once and must
// not block.
type Observer interface {
	// AttemptEnded is called when an attempt's outcome is known, before it is settled.
	AttemptEnded(AttemptEnd)
	// Died counts deaths, however they came about.
	Died(Deaths)
	// RedriveDelivered counts redriven jobs whose success was settled.
	RedriveDelivered(n int)
	// RedriveReleased counts dead jobs that redrives have made pending.
	RedriveReleased(n int)
	// LeasesReaped counts expired leases that were settled as WorkerLost.
	LeasesReaped(n int)
	// ClaimsUnstarted counts claimed jobs that were not sent, since the attempt no longer fitted into the lease or
	// the deadline had passed.
	ClaimsUnstarted(n int)
	// LeasesLost counts settlements that came too late.
	LeasesLost(n int)
	// SettlesAmbiguous counts settlements that were sent again and refused then: either the first try was applied
	// and its answer lost, or the lease was.
	SettlesAmbiguous(n int)
	// ClockBackwards counts settlements refused because the store's clock was before the claim's.
	ClockBackwards(n int)
	// SettlesAbandoned counts settlements that the store did not take while the lease lived.
	SettlesAbandoned(n int)
	// StoreFailed is called for each failed call of the store: claim, settle, reap, sweep or advance.
	StoreFailed(operation string, err error)
}

// AttemptEnd is how one attempt ended.
type AttemptEnd struct {
	Lease  Lease
	Result Result
	Took   time.Duration
	// Overran says that the deliverer returned only after the attempt's timeout by more than a second.
	Overran bool
}

// NopObserver hears nothing. Embed it to implement a part of Observer.
type NopObserver struct{}

var _ Observer = NopObserver{}

// AttemptEnded implements Observer.
func (NopObserver) AttemptEnded(AttemptEnd) {}

// Died implements Observer.
func (NopObserver) Died(Deaths) {}

// RedriveDelivered implements Observer.
func (NopObserver) RedriveDelivered(int) {}

// RedriveReleased implements Observer.
func (NopObserver) RedriveReleased(int) {}

// LeasesReaped implements Observer.
func (NopObserver) LeasesReaped(int) {}

// ClaimsUnstarted implements Observer.
func (NopObserver) ClaimsUnstarted(int) {}

// LeasesLost implements Observer.
func (NopObserver) LeasesLost(int) {}

// SettlesAmbiguous implements Observer.
func (NopObserver) SettlesAmbiguous(int) {}

// ClockBackwards implements Observer.
func (NopObserver) ClockBackwards(int) {}

// SettlesAbandoned implements Observer.
func (NopObserver) SettlesAbandoned(int) {}

// StoreFailed implements Observer.
func (NopObserver) StoreFailed(string, error) {}
