package queue

import (
	"errors"
	"fmt"
)

// Settings are what a [Worker] obeys. They are swapped as a whole while it runs: what is claimed from then on
// follows the new ones, what is in flight ends under those it was claimed with.
type Settings struct {
	Policy Policy
	// Concurrency is how many attempts may run at once; >= 1.
	Concurrency int
	// Suspended stops the claiming of jobs. Overdue ones are still buried, leases still reaped.
	Suspended bool
}

// Validate says everything that is wrong with s.
func (s Settings) Validate() error {
	err := s.Policy.Validate()
	if s.Concurrency < 1 {
		err = errors.Join(err, fmt.Errorf("concurrency must be at least 1, is %d", s.Concurrency))
	}
	return err
}

// held is what keeps redrives from releasing.
func (s Settings) held() HeldReason {
	if s.Suspended {
		return HeldQueueSuspended
	}
	return ""
}
