package story

import (
	"context"
	"crypto/rand"
	"fmt"
	"path/filepath"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
)

const (
	systemNamespace = "retryqueue-system"
	managerName     = "retryqueue-manager"
	queueAttempts   = 4
)

func (s *Story) manifest(name string) string { return filepath.Join(s.Manifests, name) }

func (s *Story) install(ctx context.Context) error {
	for _, args := range [][]string{
		{"apply", "--server-side", "--force-conflicts", "-k", s.manifest("install")},
		{"-n", systemNamespace, "rollout", "status", "deploy/" + managerName, "--timeout=120s"},
		{"apply", "--server-side", "-f", s.manifest("shop.yaml"), "-f", s.manifest("people.yaml")},
	} {
		if _, err := s.kubectl(ctx, "", args...); err != nil {
			return err
		}
	}
	secret := fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: orders-producers, namespace: %s}\nstringData: {front: %s}\n", namespace, rand.Text())
	if _, err := s.kubectl(ctx, secret, "apply", "-f", "-"); err != nil {
		return err
	}
	for _, d := range []string{"orders", "front"} {
		if _, err := s.kubectl(ctx, "", "-n", namespace, "rollout", "status", "deploy/"+d, "--timeout=120s"); err != nil {
			return err
		}
	}
	return s.show(ctx, "-n", systemNamespace, "get", "pods")
}

func (s *Story) declare(ctx context.Context) error {
	if _, err := s.kubectl(ctx, "", "apply", "-f", s.manifest("queue.yaml")); err != nil {
		return err
	}
	q := &v1alpha1.RetryQueue{}
	err := wait(ctx, 2*time.Minute, "Ready=True of the queue", func() (bool, string, error) {
		if err := s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "orders"}, q); err != nil {
			return false, "", err
		}
		c := apimeta.FindStatusCondition(q.Status.Conditions, v1alpha1.ConditionReady)
		if c == nil {
			return false, "no Ready condition yet", nil
		}
		return c.Status == "True" && c.ObservedGeneration == q.Generation, c.Reason + ": " + c.Message, nil
	})
	if err != nil {
		return err
	}
	if q.Status.Address == "" || q.Status.Budget == nil || q.Status.Budget.LongestWait == nil {
		return fmt.Errorf("the status lacks the address or the budget: %+v", q.Status)
	}
	if got := q.Status.Budget.LongestWait.Duration; got != 1400*time.Millisecond {
		return fmt.Errorf("the longest wait of 200+400+800 ms is given as %s", got)
	}
	b := q.Status.Budget
	s.say("   Producers post to %s.", q.Status.Address)
	s.say("   Between its attempts a job waits %s at the most and %s on average. It costs %d requests at the worst: %d attempts, and %d more for each of %d replays.",
		b.LongestWait.Duration, b.MeanWait.Duration, b.MaxRequestsPerJob, queueAttempts, queueAttempts, int(b.MaxRequestsPerJob)/queueAttempts-1)
	return s.show(ctx, "-n", namespace, "get", "pods")
}
