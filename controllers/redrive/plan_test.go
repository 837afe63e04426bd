package redrive

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/apimachinery/pkg/types"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
	"github.com/retryqueue/retryqueue/internal/queue"
)

func TestOutdated(t *testing.T) {
	frozen := queue.RedriveSpec{
		TargetDigest: "t", MaxRedrives: 3, Budget: queue.RedriveBudget{MaxAttempts: 4, Deadline: 1000},
	}
	tests := map[string]struct {
		change func(*queue.RedriveSpec)
		want   string
	}{
		"the same queue": {func(*queue.RedriveSpec) {}, ""},
		"a wider queue": {func(s *queue.RedriveSpec) {
			s.MaxRedrives, s.Budget.MaxAttempts, s.Budget.Deadline = 4, 5, 2000
		}, ""},
		"another target":   {func(s *queue.RedriveSpec) { s.TargetDigest = "u" }, "URL"},
		"fewer attempts":   {func(s *queue.RedriveSpec) { s.Budget.MaxAttempts = 3 }, "maxAttempts"},
		"a shorter budget": {func(s *queue.RedriveSpec) { s.Budget.Deadline = 999 }, "deadline"},
		"fewer redrives":   {func(s *queue.RedriveSpec) { s.MaxRedrives = 2 }, "maxRedrives"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := frozen
			tt.change(&now)
			got := outdated(frozen, now)
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestDescribeKeepsToTheSchema(t *testing.T) {
	t.Parallel()
	rd := queue.Redrive{Spec: queue.RedriveSpec{QueueUID: "q"}, Summary: queue.RedriveSummary{
		Hash: "h", PlannedAt: queue.TimeOf(planned), Skipped: map[string]int64{"RedriveLimit": 2, "Limit": 0},
	}}
	for range 30 {
		rd.Summary.SampleIDs = append(rd.Summary.SampleIDs, strings.Repeat("i", 300))
		rd.Summary.ByFingerprint = append(rd.Summary.ByFingerprint, queue.DeadGroup{
			Fingerprint: strings.Repeat("f", 100), SampleError: &queue.Failure{Message: strings.Repeat("ü", 300)},
		})
	}
	rq := &v1alpha1.RetryQueue{}
	rq.Spec.RedrivePolicy.ApprovalTTL = metav1.Duration{Duration: time.Hour}
	got := describe(rd, rq)
	if len(got.SampleIDs) != 20 || len(got.SampleIDs[0]) != 256 {
		t.Errorf("sampleIDs: %d of %d characters", len(got.SampleIDs), len(got.SampleIDs[0]))
	}
	if c := got.ByFingerprint[0]; len(got.ByFingerprint) != 20 || len(c.Fingerprint) != 64 || utf8.RuneCountInString(c.Sample) != 256 {
		t.Errorf("byFingerprint: %d, first %+v", len(got.ByFingerprint), c)
	}
	if want := planned.Add(time.Hour); !got.ExpiresAt.Time.Equal(want) {
		t.Errorf("expiresAt: got %s, want %s", got.ExpiresAt, want)
	}
	if len(got.Skipped) != 1 || got.Skipped["RedriveLimit"] != 2 {
		t.Errorf("skipped: got %v, want only what was", got.Skipped)
	}
}

func TestHasTurn(t *testing.T) {
	running := func(uid string, startedAt, runUntil queue.Time) queue.Redrive {
		return queue.Redrive{
			UID: uid, State: queue.RedriveRunning, StartedAt: startedAt, RunUntil: runUntil, Now: 100,
			Progress: queue.RedriveProgress{Remaining: 5},
		}
	}
	drained := running("b", 5, 200)
	drained.Progress.Remaining = 0
	finished := running("b", 5, 200)
	finished.State = queue.RedriveCancelled
	tests := map[string]struct {
		theirs, ours queue.Redrive
		want         bool
	}{
		"one that may release keeps one out that may not yet": {running("b", 0, 200), running("a", 0, 0), true},
		"one whose permission has lapsed does not":            {running("b", 5, 100), running("a", 0, 0), false},
		"one that has released all does not":                  {drained, running("a", 0, 0), false},
		"one that is finished does not":                       {finished, running("a", 0, 0), false},
		"of two that may, the first to start goes on":         {running("b", 5, 200), running("a", 6, 200), true},
		"and is not kept out by the other":                    {running("a", 6, 200), running("b", 5, 200), false},
		"one that has started goes before one that has not":   {running("b", 5, 200), running("a", 0, 200), true},
		"of two that have not, the smaller uid goes on":       {running("a", 0, 200), running("b", 0, 200), true},
		"and only that one":                                   {running("b", 0, 200), running("a", 0, 200), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := hasTurn(tt.theirs, tt.ours); got != tt.want {
				t.Errorf("got %t, want %t", got, tt.want)
			}
		})
	}
}

func TestPaceOfProgress(t *testing.T) {
	t.Parallel()
	p := &pace{last: map[types.UID]time.Time{}}
	for i, tt := range []struct {
		after time.Duration
		want  bool
	}{{0, true}, {time.Second, false}, {progressEvery, true}, {progressEvery + time.Second, false}, {0, true}} {
		if got := p.allow("u", planned.Add(tt.after)); got != tt.want {
			t.Errorf("%d: at %s got %t, want %t", i, tt.after, got, tt.want)
		}
	}
}
