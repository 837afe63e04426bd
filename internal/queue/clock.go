package queue

import "time"

// Clock is a process's own clock, for spans only: instants of jobs are the store's.
type Clock interface {
	// Now has a monotonic reading, so that differences are real spans whatever happens to the wall clock.
	Now() time.Time
	// NewTimer fires once after d.
	NewTimer(d time.Duration) Timer
}

// Timer is one wait. It must be stopped when it is no longer waited for.
type Timer interface {
	C() <-chan time.Time
	Stop() bool
}

// SystemClock is the machine's clock.
type SystemClock struct{}

// Now implements Clock.
func (SystemClock) Now() time.Time { return time.Now() }

// NewTimer implements Clock.
func (SystemClock) NewTimer(d time.Duration) Timer { return systemTimer{time.NewTimer(d)} }

type systemTimer struct{ *time.Timer }

func (t systemTimer) C() <-chan time.Time { return t.Timer.C }
