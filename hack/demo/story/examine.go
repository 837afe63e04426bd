package story

import (
	"context"
	"fmt"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
	"github.com/retryqueue/retryqueue/hack/demo/shop"
)

// tally counts what became of the orders.
type tally struct{ delivered, permanent, exhausted, lost, requests int }

func (s *Story) examine(ctx context.Context) error {
	if err := s.settled(ctx); err != nil {
		return err
	}
	report, err := s.report(ctx)
	if err != nil {
		return err
	}
	t, err := examineJobs(s.outage.jobs, report)
	if err != nil {
		return err
	}
	s.say("   Of %d orders %d were delivered, %d died Permanent (422, on their first attempt) and %d died Exhausted after %d attempts.",
		len(s.outage.jobs), t.delivered, t.permanent, t.exhausted, queueAttempts)
	s.say("   %d attempts were lost with the killed worker; each counts against its job's budget. %d requests reached the service.", t.lost, t.requests)
	if t.lost == 0 {
		return fmt.Errorf("the killed worker had nothing in flight, so its loss was not shown")
	}
	gaps, err := delays(s.outage.jobs)
	if err != nil {
		return err
	}
	s.say("   Mean wait before attempts 2, 3 and 4: %s, %s, %s (half of the windows 200, 400 and 800 ms, and the way to the service).",
		gaps[0].Round(time.Millisecond), gaps[1].Round(time.Millisecond), gaps[2].Round(time.Millisecond))
	failing := since(report.Arrivals, s.outage.failedAt)
	s.say("   Arrivals at the failing service per 250 ms:")
	s.chart(failing)
	s.say("   Nothing is sent while there is no worker. The %d lost attempts come back when their leases have run out, 20 s after the attempt began, each with a delay of its own.", t.lost)
	if peak, limit := peak(failing, 250*time.Millisecond), ordersPerSec*4; peak > limit {
		return fmt.Errorf("%d requests arrived within 250 ms, more than the %d of a whole second of orders with all their retries: a wave", peak, limit)
	}
	return s.queueShowsDead(ctx, int64(t.permanent+t.exhausted))
}

func examineJobs(jobs []job, report shop.Report) (tally, error) {
	var t tally
	requests := map[string]int{}
	for _, a := range report.Arrivals {
		requests[a.ID]++
	}
	t.requests = len(report.Arrivals)
	if len(jobs) != orders {
		return t, fmt.Errorf("%d orders were accepted and %d are known to the queue", orders, len(jobs))
	}
	for _, j := range jobs {
		t.lost += j.lost()
		if requests[j.ID] > j.Attempts || j.Attempts > j.MaxAttempts {
			return t, fmt.Errorf("%s was sent %d times with %d attempts of %d counted", j.ID, requests[j.ID], j.Attempts, j.MaxAttempts)
		}
		switch {
		case j.State == "Succeeded":
			t.delivered++
		case j.LastError == nil || j.Fingerprint == "":
			return t, fmt.Errorf("%s is dead without a cause: %+v", j.ID, j)
		case invalid(j.ID) && (j.Reason != "Permanent" || j.Attempts != 1+j.lost() || j.LastError.HTTPStatus != 422):
			return t, fmt.Errorf("%s is invalid, but did not die on its first answer: %+v", j.ID, j)
		case invalid(j.ID):
			t.permanent++
		case j.Reason != "Exhausted" || j.Attempts != queueAttempts:
			return t, fmt.Errorf("%s should have died Exhausted after %d attempts: %+v", j.ID, queueAttempts, j)
		default:
			t.exhausted++
		}
	}
	if t.permanent != orders/invalidEvery || t.delivered == 0 || t.exhausted == 0 {
		return t, fmt.Errorf("unexpected ends: %+v", t)
	}
	return t, nil
}

// delays are the mean waits before attempts 2, 3 and 4, and an error where one is longer than its window allows.
func delays(jobs []job) ([3]time.Duration, error) {
	windows := [3]time.Duration{200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond}
	var sum [3]time.Duration
	var n [3]int
	for _, j := range jobs {
		if j.lost() > 0 {
			continue // the wait for the lost worker's lease is not backoff
		}
		for i := 1; i < len(j.History); i++ {
			gap := j.History[i].StartedAt.Sub(j.History[i-1].EndedAt)
			sum[i-1] += gap
			n[i-1]++
		}
	}
	for i := range sum {
		if n[i] == 0 {
			return sum, fmt.Errorf("no job had attempt %d", i+2)
		}
		sum[i] /= time.Duration(n[i])
		if sum[i] < windows[i]/4 {
			return sum, fmt.Errorf("the mean wait before attempt %d is only %s of a window of %s", i+2, sum[i], windows[i])
		}
		if i > 0 && sum[i] <= sum[i-1] {
			return sum, fmt.Errorf("the waits do not grow: %v", sum)
		}
	}
	return sum, nil
}

func (s *Story) queueShowsDead(ctx context.Context, want int64) error {
	q := &v1alpha1.RetryQueue{}
	err := wait(ctx, 90*time.Second, fmt.Sprintf("a status with %d dead jobs", want), func() (bool, string, error) {
		if err := s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "orders"}, q); err != nil {
			return false, "", err
		}
		jobs := q.Status.Jobs
		if jobs == nil || jobs.Dead == nil {
			return false, "no counts yet", nil
		}
		return *jobs.Dead == want && apimeta.IsStatusConditionTrue(q.Status.Conditions, v1alpha1.ConditionDeadLetters),
			fmt.Sprintf("%d dead", *jobs.Dead), nil
	})
	if err != nil {
		return err
	}
	return s.show(ctx, "-n", namespace, "get", "retryqueues")
}
