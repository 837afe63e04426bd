package sqlite

import (
	"sync"
	"time"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// Clock reads a wall clock and a monotonic one at one moment. The monotonic one counts from anywhere.
type Clock interface {
	Read() (wall queue.Time, mono queue.Millis)
}

// SystemClock is the machine's clock.
func SystemClock() Clock { return systemClock{start: time.Now()} }

type systemClock struct{ start time.Time }

func (c systemClock) Read() (queue.Time, queue.Millis) {
	now := time.Now()
	return queue.TimeOf(now), queue.MillisOf(now.Sub(c.start))
}

const (
	jumpLimit   = queue.Millis(5 * 60 * 1000)
	jumpConfirm = queue.Millis(60 * 1000)
)

// logicalClock is the store's time: L = max(wall, L before + monotonic time since). It never goes back, not over
// a restart either, when it starts from the latest time that was stored.
//
// A wall clock that leaps ahead of the monotonic one by more than jumpLimit is not followed until it has stayed
// there for jumpConfirm: a leap would make every deadline pass at once.
//
// A monotonic clock that goes back is a broken machine; it is not hidden here, so that the settle's own check
// against the time of the claim can refuse it.
type logicalClock struct {
	source Clock

	mu     sync.Mutex
	now    queue.Time
	mono   queue.Millis
	jumped bool
	since  queue.Millis // monotonic time at which the leap was first seen
}

func newLogicalClock(source Clock, floor queue.Time) *logicalClock {
	wall, mono := source.Read()
	return &logicalClock{source: source, now: max(wall, floor), mono: mono}
}

// read returns the present time, and whether a leap of the wall clock waits for its confirmation.
func (c *logicalClock) read() (now queue.Time, jumped bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall, mono := c.source.Read()
	c.now, c.mono = c.now.Add(mono-c.mono), mono
	switch {
	case wall <= c.now:
		c.jumped = false
	case wall.Sub(c.now) <= jumpLimit:
		c.now, c.jumped = wall, false
	case !c.jumped:
		c.jumped, c.since = true, mono
	case mono-c.since >= jumpConfirm:
		c.now, c.jumped = wall, false
	}
	return c.now, c.jumped
}
