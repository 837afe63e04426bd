package story

import (
	"context"
	"fmt"
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
	"github.com/retryqueue/retryqueue/hack/demo/shop"
)

const (
	redriveName  = "inc-42"
	redriveRate  = 20
	redriveBurst = 3  // the default: what the rate gives in 0.1 s, and one
	canary       = 10 // the default
	// mended is how long the mended service takes: it sets the rest apart from the canary.
	mended = 400 * time.Millisecond
)

func (s *Story) redrive(ctx context.Context) (*v1alpha1.Redrive, error) {
	r := &v1alpha1.Redrive{}
	err := s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: redriveName}, r)
	return r, err
}

// redriveReady waits for Ready with this reason.
func (s *Story) redriveReady(ctx context.Context, limit time.Duration, reason string) (*v1alpha1.Redrive, error) {
	var r *v1alpha1.Redrive
	err := wait(ctx, limit, "the Redrive's reason "+reason, func() (bool, string, error) {
		var err error
		if r, err = s.redrive(ctx); err != nil {
			return false, "", err
		}
		c := apimeta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionReady)
		if c == nil {
			return false, "no Ready condition yet", nil
		}
		return c.Reason == reason, c.Reason + ": " + c.Message, nil
	})
	return r, err
}

func (s *Story) planAndApprove(ctx context.Context) error {
	if _, err := s.kubectl(ctx, "", "--as=requester", "apply", "-f", s.manifest("redrive.yaml")); err != nil {
		return err
	}
	r, err := s.redriveReady(ctx, time.Minute, v1alpha1.ReasonAwaitingApproval)
	if err != nil {
		return err
	}
	plan := r.Status.Plan
	exhausted := int64(0)
	for _, j := range s.outage.jobs {
		if j.Reason == "Exhausted" {
			exhausted++
		}
	}
	if plan == nil || plan.Selected != exhausted {
		return fmt.Errorf("the plan should select the %d exhausted orders: %+v", exhausted, plan)
	}
	s.say("   %s asks: %s", r.Spec.RequestedBy, r.Spec.Reason)
	s.say("   The plan: %d jobs, about %s at 20/s, hash %s. It waits.", plan.Selected, plan.EstimatedDuration.Duration.Round(time.Second), plan.Hash)
	for _, c := range plan.ByFingerprint {
		s.say("     %d × %s: %s", c.Count, c.Reason, c.Sample)
	}
	if err := s.refused(ctx, r); err != nil {
		return err
	}
	s.say("   The cause is fixed: the service answers 200 again, after %s.", mended)
	if err := s.mode(ctx, shop.Mode{DelayMillis: int(mended.Milliseconds())}); err != nil {
		return err
	}
	if _, err := s.kubectl(ctx, approval(r), "--as=approver", "create", "-f", "-"); err != nil {
		return err
	}
	s.say("   approver approves that hash.")
	return nil
}

// refused has the requester try to approve, by every name that he might type.
func (s *Story) refused(ctx context.Context, r *v1alpha1.Redrive) error {
	for _, approver := range []string{"", "requester", "approver"} {
		manifest := approval(r)
		if approver != "" {
			manifest += "  approver: " + approver + "\n"
		}
		out, err := s.kubectl(ctx, manifest, "--as=requester", "create", "-f", "-")
		if err == nil {
			return fmt.Errorf("requester approved the Redrive: %s", out)
		}
		if !strings.Contains(strings.ToLower(err.Error()), "forbidden") {
			return fmt.Errorf("requester should be refused as forbidden: %w", err)
		}
		if approver == "" {
			_, answer, _ := strings.Cut(err.Error(), "exit status 1: ")
			s.say("   requester tries to approve it: %s", answer)
		}
	}
	return nil
}

func approval(r *v1alpha1.Redrive) string {
	return fmt.Sprintf(`apiVersion: retryqueue.dev/v1alpha1
kind: RedriveApproval
metadata: {generateName: %[1]s-, namespace: %[2]s}
spec:
  redriveRef: {name: %[1]s, uid: %[3]s}
  planHash: %[4]q
`, r.Name, r.Namespace, r.UID, r.Status.Plan.Hash)
}

func (s *Story) replay(ctx context.Context) error {
	var restarted bool
	var r *v1alpha1.Redrive
	err := wait(ctx, 4*time.Minute, "the end of the Redrive", func() (bool, string, error) {
		var err error
		if r, err = s.redrive(ctx); err != nil {
			return false, "", err
		}
		p := r.Status.Progress
		if !restarted && p != nil && p.Delivered >= r.Status.Plan.Selected/4 {
			restarted = true
			s.say("   %d of %d are delivered. $ kubectl -n %s delete pod (the manager's)", p.Delivered, r.Status.Plan.Selected, systemNamespace)
			if _, err := s.kubectl(ctx, "", "-n", systemNamespace, "delete", "pod", "-l", "app.kubernetes.io/name=retryqueue-manager", "--wait=false"); err != nil {
				return false, "", err
			}
		}
		c := apimeta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionReady)
		return c != nil && c.Reason == v1alpha1.ReasonComplete, fmt.Sprintf("%+v, progress %+v", c, p), nil
	})
	if err != nil {
		return err
	}
	if !restarted {
		return fmt.Errorf("the Redrive ended before the manager was restarted")
	}
	report, err := s.report(ctx)
	if err != nil {
		return err
	}
	var replayed []shop.Arrival
	for _, a := range report.Arrivals {
		if a.Redrive != "" {
			replayed = append(replayed, a)
		}
	}
	s.say("   Replayed arrivals per 250 ms:")
	s.chart(replayed)
	if err := s.canaryFirst(replayed); err != nil {
		return err
	}
	most := peak(replayed, time.Second)
	s.say("   At most %d arrived within any one second; the rate is %d and the burst %d.", most, redriveRate, redriveBurst)
	// The pace is of what is sent, and the store's tests hold it exactly. What is measured here is what arrives,
	// and on a busy machine requests can be up to a quarter of a second late, so that later ones catch them up.
	if most > redriveRate+redriveRate/4+redriveBurst {
		return fmt.Errorf("%d jobs arrived within one second", most)
	}
	p, plan := r.Status.Progress, r.Status.Plan
	if p.Delivered != plan.Selected || p.DiedAgain != 0 || p.Outstanding != 0 || p.Remaining != 0 || len(r.Status.Approvals) != 1 || r.Status.Approvals[0].Approver != "approver" {
		return fmt.Errorf("the counts are not true: progress %+v of plan %+v, approvals %+v", p, plan, r.Status.Approvals)
	}
	return s.show(ctx, "-n", namespace, "get", "redrives")
}

// canaryFirst holds that nothing was sent between the canary and its last answer.
func (s *Story) canaryFirst(replayed []shop.Arrival) error {
	if len(replayed) <= canary {
		return fmt.Errorf("only %d jobs were replayed, no more than the canary", len(replayed))
	}
	pause := replayed[canary].At.Sub(replayed[canary-1].At)
	s.say("   The canary went first: %d jobs, and for %s, until the last was answered, none after them.", canary, pause.Round(time.Millisecond))
	if pause < mended {
		return fmt.Errorf("job %d was sent %s after the canary's last, sooner than its answer came", canary+1, pause)
	}
	return nil
}
