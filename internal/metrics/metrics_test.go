package metrics

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// clock is a clock that a test moves.
type clock struct{ now time.Time }

func newMetrics(stats StatsFunc, c *clock) *Metrics {
	return New(Options{
		Queue: "orders", Namespace: "shop", Version: "v1", AcceptResults: []string{"accepted", "invalid"}, Stats: stats,
		Now: func() time.Time { return c.now },
	})
}

func goodStats(context.Context) (queue.Stats, error) {
	return queue.Stats{
		Pending: 3, Due: 2, Leased: 1, Succeeded: 5, Dead: 4, Bytes: 99,
		OldestPendingAt: 8_500, OldestDeadAt: 4_000, Now: 10_000,
	}, nil
}

func compare(t *testing.T, m *Metrics, want string, names ...string) {
	t.Helper()
	if err := testutil.GatherAndCompare(m.Gatherer(), strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

func TestStoreIsReadWhenScraped(t *testing.T) {
	t.Parallel()
	c := &clock{now: time.Unix(1000, 0)}
	reads := 0
	var broken error
	m := newMetrics(func(ctx context.Context) (queue.Stats, error) {
		reads++
		s, _ := goodStats(ctx)
		return s, broken
	}, c)
	const want = `
# HELP retryqueue_due_jobs Pending jobs that are due, counted up to 10,000.
# TYPE retryqueue_due_jobs gauge
retryqueue_due_jobs{namespace="shop",queue="orders"} 2
# HELP retryqueue_jobs Jobs stored, by state; Succeeded ones for as long as their ids are remembered.
# TYPE retryqueue_jobs gauge
retryqueue_jobs{namespace="shop",queue="orders",state="Dead"} 4
retryqueue_jobs{namespace="shop",queue="orders",state="Leased"} 1
retryqueue_jobs{namespace="shop",queue="orders",state="Pending"} 3
retryqueue_jobs{namespace="shop",queue="orders",state="Succeeded"} 5
# HELP retryqueue_oldest_dead_age_seconds How long ago the oldest dead job died; 0 when none is dead.
# TYPE retryqueue_oldest_dead_age_seconds gauge
retryqueue_oldest_dead_age_seconds{namespace="shop",queue="orders"} 6
# HELP retryqueue_oldest_pending_age_seconds For how long the oldest pending job has been due; 0 when none is.
# TYPE retryqueue_oldest_pending_age_seconds gauge
retryqueue_oldest_pending_age_seconds{namespace="shop",queue="orders"} 1.5
`
	names := []string{"retryqueue_jobs", "retryqueue_due_jobs", "retryqueue_oldest_pending_age_seconds", "retryqueue_oldest_dead_age_seconds"}
	compare(t, m, want, names...)
	compare(t, m, want, names...)
	if reads != 1 {
		t.Errorf("two scrapes within a second read the store %d times", reads)
	}
	c.now = c.now.Add(statsTTL)
	broken = errors.New("disk")
	compare(t, m, "", names...)
	compare(t, m, `
# HELP retryqueue_store_up 1 when the store could be read for this scrape.
# TYPE retryqueue_store_up gauge
retryqueue_store_up{namespace="shop",queue="orders"} 0
`, "retryqueue_store_up")
	if reads != 2 {
		t.Errorf("a second later the store was read %d times", reads)
	}
}

func TestAgeOfWhatIsNotThereIsZero(t *testing.T) {
	t.Parallel()
	if age(0, 1000) != 0 || age(2000, 1000) != 0 || age(500, 1000) != .5 {
		t.Errorf("ages %v %v %v", age(0, 1000), age(2000, 1000), age(500, 1000))
	}
}

func TestLabelsAreBounded(t *testing.T) {
	t.Parallel()
	b := newBounded(2)
	for _, tc := range [][2]string{{"a", "a"}, {"b", "b"}, {"c", overflow}, {"a", "a"}, {"d", overflow}} {
		if got := b.value(tc[0]); got != tc[1] {
			t.Errorf("%s is counted as %s, want %s", tc[0], got, tc[1])
		}
	}
}

func TestMetricsAreWellNamedAndDocumented(t *testing.T) {
	t.Parallel()
	m := newMetrics(goodStats, &clock{})
	exercise(m)
	problems, err := testutil.GatherAndLint(m.Gatherer())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "retryqueue_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "retryqueue_") {
			continue
		}
		seen++
		if !strings.Contains(string(page), "| `"+f.GetName()) {
			t.Errorf("docs/metrics.md does not have %s", f.GetName())
		}
		for _, one := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range one.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["queue"] != "orders" || labels["namespace"] != "shop" {
				t.Errorf("%s has labels %v", f.GetName(), labels)
			}
		}
	}
	if documented := strings.Count(string(page), "\n| `retryqueue_"); documented != seen {
		t.Errorf("docs/metrics.md has %d metrics, there are %d", documented, seen)
	}
}

// exercise makes m count one of everything.
func exercise(m *Metrics) {
	m.Suspended(true)
	m.Accepted("accepted", 2)
	m.AttemptEnded(queue.AttemptEnd{Result: queue.Result{Outcome: queue.OutcomeSucceeded}, Took: 30 * time.Millisecond})
	m.AttemptEnded(queue.AttemptEnd{Result: queue.Result{
		Outcome: queue.OutcomeRetryable, Failure: &queue.Failure{Kind: "HTTPStatus", HTTPStatus: 503},
	}})
	m.AttemptEnded(queue.AttemptEnd{Overran: true, Result: queue.Result{
		Outcome: queue.OutcomeUnknown, Failure: &queue.Failure{Kind: queue.KindUnknown},
	}})
	m.Died(queue.Deaths{queue.ReasonExhausted: 3})
	m.RedriveDelivered(4)
	m.RedriveReleased(5)
	m.LeasesReaped(6)
	m.ClaimsUnstarted(7)
	m.LeasesLost(8)
	m.SettlesAmbiguous(9)
	m.ClockBackwards(10)
	m.SettlesAbandoned(11)
	m.StoreFailed("claim", errors.New("disk"))
}

func TestObserverCounts(t *testing.T) {
	t.Parallel()
	m := newMetrics(goodStats, &clock{})
	exercise(m)
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, one := range f.GetMetric() {
			name := f.GetName()
			for _, l := range one.GetLabel() {
				if l.GetName() != "queue" && l.GetName() != "namespace" {
					name += "," + l.GetValue()
				}
			}
			switch {
			case one.GetCounter() != nil:
				got[name] = one.GetCounter().GetValue()
			case one.GetHistogram() != nil:
				got[name] = float64(one.GetHistogram().GetSampleCount())
			case one.GetGauge() != nil:
				got[name] = one.GetGauge().GetValue()
			}
		}
	}
	for name, want := range map[string]float64{
		"retryqueue_suspended": 1, "retryqueue_accepts_total,accepted": 2, "retryqueue_accepts_total,invalid": 0,
		"retryqueue_attempts_total,,Succeeded": 1, "retryqueue_attempts_total,HTTP 5xx,Retryable": 1,
		"retryqueue_attempts_total,Unknown,Unknown": 1, "retryqueue_attempts_overran_total": 1, "retryqueue_outcomes_unknown_total": 1,
		"retryqueue_delivery_duration_seconds,Succeeded": 1, "retryqueue_delivery_duration_seconds,Retryable": 1,
		"retryqueue_deaths_total,Exhausted": 3, "retryqueue_deaths_total,Permanent": 0,
		"retryqueue_redrive_delivered_total": 4, "retryqueue_redrive_released_total": 5, "retryqueue_leases_reaped_total": 6,
		"retryqueue_claims_unstarted_total": 7, "retryqueue_leases_lost_total": 8, "retryqueue_settles_ambiguous_total": 9,
		"retryqueue_clock_backwards_total": 10, "retryqueue_settles_abandoned_total": 11,
		"retryqueue_store_errors_total,claim": 1, "retryqueue_store_errors_total,settle": 0,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v (there: %v), want %v", name, v, ok, want)
		}
	}
}
