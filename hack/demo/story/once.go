package story

import (
	"context"
	"fmt"
	"time"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
)

func (s *Story) once(ctx context.Context) error {
	report, err := s.report(ctx)
	if err != nil {
		return err
	}
	for _, j := range s.outage.jobs {
		want := 1
		if invalid(j.ID) {
			want = 0
		}
		if report.Taken[j.ID] != want {
			return fmt.Errorf("%s was taken %d times, not %d", j.ID, report.Taken[j.ID], want)
		}
	}
	s.say("   Every valid order has been taken exactly once (%d of %d; the others are invalid and dead).", len(report.Taken), orders)
	before := len(report.Arrivals)
	for _, args := range [][]string{
		{"--as=requester", "apply", "-f", s.manifest("redrive.yaml")},
		{"-n", namespace, "delete", "redrive", redriveName},
		{"--as=requester", "apply", "-f", s.manifest("redrive.yaml")},
	} {
		if _, err := s.kubectl(ctx, "", args...); err != nil {
			return err
		}
	}
	if _, err := s.redriveReady(ctx, time.Minute, v1alpha1.ReasonAlreadyExecuted); err != nil {
		return err
	}
	if report, err = s.report(ctx); err != nil {
		return err
	}
	if len(report.Arrivals) != before {
		return fmt.Errorf("%d requests came after the same Redrive was applied again", len(report.Arrivals)-before)
	}
	s.say("   The same Redrive applied again, and deleted and applied again, replays nothing:")
	return s.show(ctx, "-n", namespace, "get", "redrives")
}
