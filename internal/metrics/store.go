package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// StatsFunc reads the store's numbers.
type StatsFunc func(context.Context) (queue.Stats, error)

const (
	// statsTTL is how long numbers of the store are shown again, so that many scrapers cost no more than one.
	statsTTL = time.Second
	// statsTimeout bounds one read: a scrape must not hang on a busy store.
	statsTimeout = 3 * time.Second
)

// storeCollector shows the numbers of the store. A scrape for which it cannot be read has none of them.
type storeCollector struct {
	stats StatsFunc
	now   func() time.Time

	jobs, due, bytes, oldestPending, oldestDead, up *prometheus.Desc

	mu     sync.Mutex
	last   queue.Stats
	readAt time.Time
	ok     bool
}

func newStoreCollector(stats StatsFunc, now func() time.Time) *storeCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &storeCollector{
		stats: stats, now: now,
		jobs:  desc("retryqueue_jobs", "Jobs stored, by state; Succeeded ones for as long as their ids are remembered.", "state"),
		due:   desc("retryqueue_due_jobs", "Pending jobs that are due, counted up to 10,000."),
		bytes: desc("retryqueue_stored_bytes", "Payload and header bytes stored, dead jobs included."),
		oldestPending: desc("retryqueue_oldest_pending_age_seconds",
			"For how long the oldest pending job has been due; 0 when none is."),
		oldestDead: desc("retryqueue_oldest_dead_age_seconds", "How long ago the oldest dead job died; 0 when none is dead."),
		up:         desc("retryqueue_store_up", "1 when the store could be read for this scrape."),
	}
}

func (c *storeCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.jobs, c.due, c.bytes, c.oldestPending, c.oldestDead, c.up} {
		ch <- d
	}
}

func (c *storeCollector) Collect(ch chan<- prometheus.Metric) {
	s, ok := c.read()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	if !ok {
		gauge(c.up, 0)
		return
	}
	gauge(c.up, 1)
	gauge(c.jobs, float64(s.Pending), string(queue.Pending))
	gauge(c.jobs, float64(s.Leased), string(queue.Leased))
	gauge(c.jobs, float64(s.Succeeded), string(queue.Succeeded))
	gauge(c.jobs, float64(s.Dead), string(queue.Dead))
	gauge(c.due, float64(s.Due))
	gauge(c.bytes, float64(s.Bytes))
	gauge(c.oldestPending, age(s.OldestPendingAt, s.Now))
	gauge(c.oldestDead, age(s.OldestDeadAt, s.Now))
}

// age is how long before now t was, in seconds; 0 when it is not set or yet to come.
func age(t, now queue.Time) float64 {
	if t == 0 || t > now {
		return 0
	}
	return float64(now.Sub(t)) / 1000
}

func (c *storeCollector) read() (queue.Stats, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if !c.readAt.IsZero() && now.Sub(c.readAt) < statsTTL {
		return c.last, c.ok
	}
	ctx, cancel := context.WithTimeout(context.Background(), statsTimeout)
	defer cancel()
	s, err := c.stats(ctx)
	c.last, c.ok, c.readAt = s, err == nil, now
	return c.last, c.ok
}
