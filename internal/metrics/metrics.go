package metrics

import (
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// Options make a set of metrics.
type Options struct {
	Queue, Namespace string
	Version          string
	// AcceptResults are the values that Accepted is called with; they show as 0 from the start.
	AcceptResults []string
	// Stats reads the store; nil answers, and errors, leave the store's series out of a scrape.
	Stats StatsFunc
	// Now is the monotonic clock for the age of what was read.
	Now func() time.Time
}

// Metrics are the metrics of one worker.
type Metrics struct {
	registry *prometheus.Registry

	attempts  *prometheus.CounterVec
	deaths    *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	accepts   *prometheus.CounterVec
	errors    *prometheus.CounterVec
	lost      prometheus.Counter
	ambiguous prometheus.Counter
	reaped    prometheus.Counter
	unknown   prometheus.Counter
	unstarted prometheus.Counter
	overran   prometheus.Counter
	abandoned prometheus.Counter
	backwards prometheus.Counter
	released  prometheus.Counter
	delivered prometheus.Counter
	suspended prometheus.Gauge
	causes    *bounded
}

// New registers everything on a registry of its own, with what Go and the process tell.
func New(o Options) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), causes: newBounded(maxCauses)}
	labels := prometheus.Labels{"queue": o.Queue, "namespace": o.Namespace}
	own := prometheus.WrapRegistererWith(labels, m.registry)
	m.make(own)
	m.zero(o)
	own.MustRegister(newStoreCollector(o.Stats, o.Now))
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "retryqueue_build_info", Help: "1, with the version of the worker and of Go.",
		ConstLabels: prometheus.Labels{"version": o.Version, "goversion": runtime.Version()},
	})
	info.Set(1)
	own.MustRegister(info)
	return m
}

// Gatherer yields the metrics for exposition.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

func (m *Metrics) make(r prometheus.Registerer) {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		r.MustRegister(c)
		return c
	}
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		r.MustRegister(c)
		return c
	}
	m.attempts = vec("retryqueue_attempts_total", "Attempts that ended, by outcome and cause of failure.", "outcome", "cause")
	m.deaths = vec("retryqueue_deaths_total", "Jobs that died, by reason.", "reason")
	m.accepts = vec("retryqueue_accepts_total", "Jobs accepted or already known, and requests refused, by result.", "result")
	m.errors = vec("retryqueue_store_errors_total", "Calls of the store that failed, by operation.", "operation")
	m.lost = counter("retryqueue_leases_lost_total", "Settlements refused because the lease had been lost.")
	m.ambiguous = counter("retryqueue_settles_ambiguous_total", "Settlements that were sent again and found done, or the lease lost: it cannot be told which.")
	m.reaped = counter("retryqueue_leases_reaped_total", "Leases that ran out and were settled as WorkerLost.")
	m.unknown = counter("retryqueue_outcomes_unknown_total", "Attempts whose outcome cannot be told; they end as lost ones.")
	m.unstarted = counter("retryqueue_claims_unstarted_total", "Claims that were not sent because too little of the lease or the deadline was left.")
	m.overran = counter("retryqueue_attempts_overran_total", "Attempts that ended more than a second after their timeout.")
	m.abandoned = counter("retryqueue_settles_abandoned_total", "Settlements that the store did not take while the lease lived; the attempt ends as a lost one.")
	m.backwards = counter("retryqueue_clock_backwards_total", "Settlements refused because the clock had gone backwards since the claim.")
	m.released = counter("retryqueue_redrive_released_total", "Dead jobs released by redrives.")
	m.delivered = counter("retryqueue_redrive_delivered_total", "Redriven jobs that were delivered.")
	m.suspended = prometheus.NewGauge(prometheus.GaugeOpts{Name: "retryqueue_suspended", Help: "1 while the queue is suspended."})
	m.duration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "retryqueue_delivery_duration_seconds",
		Help:    "How long one attempt took, from the start of the send to its outcome.",
		Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900},

		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  100,
		NativeHistogramMinResetDuration: time.Hour,
	}, []string{"outcome"})
	r.MustRegister(m.suspended, m.duration)
}

// zero shows counters before their first event, so that a first increase is seen by rate().
func (m *Metrics) zero(o Options) {
	for _, r := range queue.Reasons() {
		m.deaths.WithLabelValues(string(r))
	}
	for _, r := range o.AcceptResults {
		m.accepts.WithLabelValues(r)
	}
	for _, operation := range []string{"claim", "settle", "reap", "sweep", "advance"} {
		m.errors.WithLabelValues(operation)
	}
	m.attempts.WithLabelValues(string(queue.OutcomeSucceeded), "")
}

// Accepted counts what became of what producers sent.
func (m *Metrics) Accepted(result string, n int) { m.accepts.WithLabelValues(result).Add(float64(n)) }

// Suspended shows whether the queue is suspended.
func (m *Metrics) Suspended(is bool) {
	m.suspended.Set(0)
	if is {
		m.suspended.Set(1)
	}
}
