package queue

import (
	"sync"
	"time"
)

// slots counts what is in flight, so that no more is claimed than can start at once.
type slots struct {
	mu        sync.Mutex
	running   int       // claimed, and not returned from the deliverer
	unsettled int       // returned, and not settled
	latest    time.Time // when the last lease of all claims so far ends
	freed     signal
}

func newSlots() *slots { return &slots{freed: newSignal()} }

// free is how many may be claimed. While the store is slow to settle, at most as many again as may run wait for
// it: their leases run.
func (s *slots) free(concurrency int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, min(concurrency-s.running, 2*concurrency-s.running-s.unsettled))
}

func (s *slots) take(n int, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running += n
	if until.After(s.latest) {
		s.latest = until
	}
}

// returned gives the slot of one attempt back; settling says that it is to be settled.
func (s *slots) returned(settling bool) {
	s.mu.Lock()
	s.running--
	if settling {
		s.unsettled++
	}
	s.mu.Unlock()
	s.freed.raise()
}

func (s *slots) settled(n int) {
	s.mu.Lock()
	s.unsettled -= n
	s.mu.Unlock()
	s.freed.raise()
}

func (s *slots) lastLease() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.latest
}

func (s *slots) inFlight() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running + s.unsettled
}
