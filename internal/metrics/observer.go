package metrics

import (
	"fmt"

	"github.com/retryqueue/retryqueue/internal/queue"
)

var _ queue.Observer = (*Metrics)(nil)

// AttemptEnded implements queue.Observer.
func (m *Metrics) AttemptEnded(e queue.AttemptEnd) {
	outcome := string(e.Result.Outcome)
	m.attempts.WithLabelValues(outcome, m.causes.value(cause(e.Result.Failure))).Inc()
	m.duration.WithLabelValues(outcome).Observe(e.Took.Seconds())
	if e.Result.Outcome == queue.OutcomeUnknown {
		m.unknown.Inc()
	}
	if e.Overran {
		m.overran.Inc()
	}
}

// cause is the kind of a failure, with the class of an HTTP status; empty for a success.
func cause(f *queue.Failure) string {
	switch {
	case f == nil:
		return ""
	case f.HTTPStatus != 0:
		return fmt.Sprintf("HTTP %dxx", f.HTTPStatus/100)
	}
	return f.Kind
}

// Died implements queue.Observer.
func (m *Metrics) Died(d queue.Deaths) {
	for reason, n := range d {
		m.deaths.WithLabelValues(string(reason)).Add(float64(n))
	}
}

// RedriveDelivered implements queue.Observer.
func (m *Metrics) RedriveDelivered(n int) { m.delivered.Add(float64(n)) }

// RedriveReleased implements queue.Observer.
func (m *Metrics) RedriveReleased(n int) { m.released.Add(float64(n)) }

// LeasesReaped implements queue.Observer.
func (m *Metrics) LeasesReaped(n int) { m.reaped.Add(float64(n)) }

// ClaimsUnstarted implements queue.Observer.
func (m *Metrics) ClaimsUnstarted(n int) { m.unstarted.Add(float64(n)) }

// LeasesLost implements queue.Observer.
func (m *Metrics) LeasesLost(n int) { m.lost.Add(float64(n)) }

// SettlesAmbiguous implements queue.Observer.
func (m *Metrics) SettlesAmbiguous(n int) { m.ambiguous.Add(float64(n)) }

// ClockBackwards implements queue.Observer.
func (m *Metrics) ClockBackwards(n int) { m.backwards.Add(float64(n)) }

// SettlesAbandoned implements queue.Observer.
func (m *Metrics) SettlesAbandoned(n int) { m.abandoned.Add(float64(n)) }

// StoreFailed implements queue.Observer.
func (m *Metrics) StoreFailed(operation string, _ error) {
	m.errors.WithLabelValues(operation).Inc()
}
