package retryqueue

import (
	"time"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
)

// verdict is what a pass came to. Messages hold no generated names and no times, so that a verdict that stays
// writes nothing.
type verdict struct {
	state   state
	reason  string
	message string
	after   time.Duration // when to look again; 0 takes the usual
}

type state int

const (
	stateReady state = iota
	// stateWaiting: nobody need do anything, it should come by itself.
	stateWaiting
	// stateStalled: a person must mend something first.
	stateStalled
)

func ready(reason, message string) verdict {
	return verdict{state: stateReady, reason: reason, message: message}
}

func waiting(reason, message string) verdict {
	return verdict{state: stateWaiting, reason: reason, message: message}
}

func stalled(reason, message string) verdict {
	return verdict{state: stateStalled, reason: reason, message: message, after: stalledAfter}
}

func (v verdict) in(after time.Duration) *verdict {
	v.after = after
	return &v
}

func invalid(message string) *verdict {
	v := stalled(v1alpha1.ReasonInvalidSpec, message)
	return &v
}
