package story

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/retryqueue/retryqueue/hack/demo/shop"
)

const (
	orders       = 500
	ordersPerSec = 25
	invalidEvery = 50
)

// outage is what the story remembers of the bad hour.
type outage struct {
	failedAt time.Time // by the orders service's clock
	killed   string    // the worker pod
	jobs     []job
}

// job is what the public API says of a job.
type job struct {
	ID          string `json:"id"`
	State       string `json:"state"`
	Attempts    int    `json:"attempts"`
	MaxAttempts int    `json:"maxAttempts"`
	Reason      string `json:"reason"`
	Fingerprint string `json:"fingerprint"`
	LastError   *struct {
		Kind       string `json:"kind"`
		HTTPStatus int    `json:"httpStatus"`
		Message    string `json:"message"`
	} `json:"lastError"`
	History []struct {
		Attempt   int       `json:"attempt"`
		StartedAt time.Time `json:"startedAt"`
		EndedAt   time.Time `json:"endedAt"`
		Error     *struct {
			Kind string `json:"kind"`
		} `json:"error"`
	} `json:"history"`
}

func (j job) finished() bool { return j.State == "Succeeded" || j.State == "Dead" }

func (j job) lost() int {
	n := 0
	for _, a := range j.History {
		if a.Error != nil && a.Error.Kind == "WorkerLost" {
			n++
		}
	}
	return n
}

func invalid(id string) bool {
	var n int
	_, _ = fmt.Sscanf(id, "order-%d", &n)
	return n%invalidEvery == 0
}

func (s *Story) ordersAndOutage(ctx context.Context) error {
	if err := s.mode(ctx, shop.Mode{}); err != nil {
		return err
	}
	params := map[string]string{"count": fmt.Sprint(orders), "rate": fmt.Sprint(ordersPerSec), "invalid": fmt.Sprint(invalidEvery)}
	if err := s.call(ctx, http.MethodPost, "front", "/orders", params, nil, nil); err != nil {
		return err
	}
	for _, event := range []struct {
		accepted int
		run      func() error
	}{
		{120, func() error { return s.mode(ctx, shop.Mode{DelayMillis: 300}) }},
		{180, func() error { return s.fail(ctx) }},
		// A forced deletion still gives a process about two seconds, in which the worker would finish what
		// it has in flight; a service that hangs for longer makes the kill cost attempts.
		{330, func() error { return s.mode(ctx, shop.Mode{DelayMillis: 4000, Status: http.StatusServiceUnavailable}) }},
		{350, func() error { return s.killWorker(ctx) }},
		{365, func() error { return s.mode(ctx, shop.Mode{DelayMillis: 400, Status: http.StatusServiceUnavailable}) }},
		{orders, func() error { return nil }},
	} {
		if err := s.accepted(ctx, event.accepted); err != nil {
			return err
		}
		if err := event.run(); err != nil {
			return err
		}
	}
	var status shop.FrontStatus
	if err := s.call(ctx, http.MethodGet, "front", "/status", nil, nil, &status); err != nil {
		return err
	}
	s.say("   %d orders are accepted; the front had to repeat a post %d times while the worker was away.", status.Accepted, status.Repeated)
	return nil
}

func (s *Story) mode(ctx context.Context, m shop.Mode) error {
	return s.call(ctx, http.MethodPut, "orders", "/mode", nil, m, nil)
}

func (s *Story) fail(ctx context.Context) error {
	if err := s.mode(ctx, shop.Mode{DelayMillis: 400, Status: http.StatusServiceUnavailable}); err != nil {
		return err
	}
	report, err := s.report(ctx)
	s.outage.failedAt = report.Now
	s.say("   The service slowed down to 300 ms and now answers 503 after 400 ms.")
	return err
}

func (s *Story) report(ctx context.Context) (shop.Report, error) {
	var r shop.Report
	err := s.call(ctx, http.MethodGet, "orders", "/report", nil, nil, &r)
	return r, err
}

func (s *Story) accepted(ctx context.Context, n int) error {
	return wait(ctx, 3*time.Minute, fmt.Sprintf("the %dth accepted order", n), func() (bool, string, error) {
		var status shop.FrontStatus
		err := s.call(ctx, http.MethodGet, "front", "/status", nil, nil, &status)
		return status.Accepted >= n, fmt.Sprintf("%+v", status), err
	})
}

func (s *Story) killWorker(ctx context.Context) error {
	pods := &corev1.PodList{}
	if err := s.client.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels{"retryqueue.dev/queue": "orders"}); err != nil {
		return fmt.Errorf("listing the worker pods: %w", err)
	}
	if len(pods.Items) != 1 {
		return fmt.Errorf("there are %d worker pods, not one", len(pods.Items))
	}
	s.outage.killed = pods.Items[0].Name
	s.say("   $ kubectl -n %s delete pod %s --grace-period=0 --force", namespace, s.outage.killed)
	_, err := s.kubectl(ctx, "", "-n", namespace, "delete", "pod", s.outage.killed, "--grace-period=0", "--force")
	return err
}

// settled waits until every order is Succeeded or Dead.
func (s *Story) settled(ctx context.Context) error {
	return wait(ctx, 3*time.Minute, "the end of every job", func() (bool, string, error) {
		if err := s.call(ctx, http.MethodGet, "front", "/jobs", nil, nil, &s.outage.jobs); err != nil {
			return false, "", err
		}
		open := slices.IndexFunc(s.outage.jobs, func(j job) bool { return !j.finished() })
		if open < 0 {
			return true, "", nil
		}
		return false, fmt.Sprintf("%+v", s.outage.jobs[open]), nil
	})
}
