package queue

import (
	"context"
	"testing"
	"time"
)

func TestWhatStandsInTheWayIsToldWithSinceWhenAndTheLastTargetError(t *testing.T) {
	unavailable := Result{Outcome: OutcomeRetryable, Failure: &Failure{Kind: "HTTPStatus", HTTPStatus: 503, Message: "down for repair"}}
	suspend := func(s *Settings) { s.Suspended = true }
	at := func(b *bench, d time.Duration, f func(*Settings)) { let(d); b.set(f) }
	bubble(t, map[string]func(*testing.T){
		"nothing while all is well": func(t *testing.T) {
			b := newBench(t, succeed)
			b.wantObstacle("")
		},
		"a suspension, since it was first heard of": func(t *testing.T) {
			b := newBench(t, succeed)
			at(b, time.Minute, suspend)
			at(b, time.Minute, suspend) // as a change of something else
			b.wantObstacle("the queue is suspended, since 2000-01-01T00:01:00.000Z or before")
			at(b, time.Minute, func(*Settings) {})
			b.wantObstacle("")
			at(b, time.Minute, suspend)
			b.wantObstacle("the queue is suspended, since 2000-01-01T00:04:00.000Z or before")
		},
		"the target's error, until it succeeds": func(t *testing.T) {
			result := unavailable
			b := newBench(t, func(context.Context, Lease) Result { return result })
			b.store.add(0, "a")
			b.once()
			b.wantObstacle("the deadline passed before a worker was free to start it; last target error: HTTP 503: down for repair")
			b.set(suspend)
			b.wantObstacle("the queue is suspended, since 2000-01-01T00:00:00.000Z or before; last target error: HTTP 503: down for repair")
			b.set(func(*Settings) {})
			result = Result{Outcome: OutcomeSucceeded}
			b.store.add(0, "b")
			b.once()
			b.wantObstacle("")
		},
	})
}

func (b *bench) once() {
	b.t.Helper()
	if _, err := b.w.RunOnce(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

// wantObstacle says what the next claim tells the store.
func (b *bench) wantObstacle(want string) {
	b.t.Helper()
	b.once()
	if got := b.store.claims[len(b.store.claims)-1].Obstacle; got != want {
		b.t.Errorf("the obstacle is %q, want %q", got, want)
	}
}
