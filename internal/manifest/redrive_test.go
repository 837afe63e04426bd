package manifest

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
	"github.com/retryqueue/retryqueue/internal/queue"
)

// redriveOf reads a Redrive and the RetryQueue that it is of.
func redriveOf(t *testing.T, spec, queuePatch string) (*v1alpha1.Redrive, *v1alpha1.RetryQueue) {
	t.Helper()
	rq, err := Parse(with(t, `{metadata: {namespace: shop, uid: queue-uid}}`))
	if err != nil {
		t.Fatal(err)
	}
	if queuePatch != "" {
		if rq, err = Parse(with(t, queuePatch)); err != nil {
			t.Fatal(err)
		}
		rq.UID = "queue-uid"
	}
	rd := &v1alpha1.Redrive{ObjectMeta: metav1.ObjectMeta{Name: "inc-42", UID: "redrive-uid"}}
	if err := yaml.UnmarshalStrict([]byte(spec), &rd.Spec); err != nil {
		t.Fatal(err)
	}
	return rd, rq
}

func TestRedriveSpecResolvesDefaults(t *testing.T) {
	t.Parallel()
	rd, rq := redriveOf(t, `{queueRef: {name: orders}, reason: fixed, limit: 500, rate: {jobs: 10}}`, "")
	got, err := RedriveSpec(rd, rq)
	if err != nil {
		t.Fatal(err)
	}
	want := queue.RedriveSpec{
		UID: "redrive-uid", Name: "inc-42", QueueUID: "queue-uid", Limit: 500,
		Rate:           queue.Rate{Jobs: 10, Per: 1000, Burst: 2},
		Budget:         queue.RedriveBudget{MaxAttempts: 8, Deadline: 3_600_000},
		Canary:         queue.Canary{Jobs: 10, MaxFailurePercent: 10, Timeout: 120_000},
		Abort:          queue.Abort{MaxFailurePercent: 20, MinJobs: 20},
		MaxOutstanding: 200, // 2 · 10/s · 10 s
		MaxRedrives:    3,
		SpecDigest:     got.SpecDigest, TargetDigest: got.TargetDigest,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("RedriveSpec (-want +got):\n%s", diff)
	}
	if len(got.SpecDigest) != 64 || len(got.TargetDigest) != 64 {
		t.Errorf("digests = %q, %q, want 64 hexadecimal digits each", got.SpecDigest, got.TargetDigest)
	}
}

func TestRedriveSpecCarriesEveryFieldOver(t *testing.T) {
	t.Parallel()
	rd, rq := redriveOf(t, `
queueRef: {name: orders}
reason: fixed
selector:
  diedAfter: "2026-09-06T12:00:00.000001Z"
  diedBefore: "2026-09-06T13:00:00.000000Z"
  reasons: [Exhausted]
  httpStatuses: ["5xx"]
  fingerprints: [abc]
  ids: [a, b]
limit: 1
rate: {jobs: 3, per: 1m, burst: 40}
budget: {maxAttempts: 2, deadline: 30m}
canary: {jobs: 0, maxFailurePercent: 0, timeout: 5m}
abort: {maxFailurePercent: 0, minJobs: 1}
maxOutstanding: 7
`, "")
	got, err := RedriveSpec(rd, rq)
	if err != nil {
		t.Fatal(err)
	}
	noon := queue.TimeOf(time.Date(2026, 9, 6, 12, 0, 0, 0, time.UTC))
	want := queue.RedriveSpec{
		UID: "redrive-uid", Name: "inc-42", QueueUID: "queue-uid", Limit: 1,
		Selector: queue.Selector{
			DiedAfter: noon + 1, DiedBefore: noon + 3_600_000, // a microsecond past the full millisecond is the next one
			Reasons: []queue.Reason{queue.ReasonExhausted}, HTTPStatuses: []string{"5xx"}, Fingerprints: []string{"abc"}, IDs: []string{"a", "b"},
		},
		Rate:           queue.Rate{Jobs: 3, Per: 60_000, Burst: 40},
		Budget:         queue.RedriveBudget{MaxAttempts: 2, Deadline: 1_800_000},
		Canary:         queue.Canary{Timeout: 300_000},
		Abort:          queue.Abort{MinJobs: 1},
		MaxOutstanding: 7, MaxRedrives: 3,
		SpecDigest: got.SpecDigest, TargetDigest: got.TargetDigest,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("RedriveSpec (-want +got):\n%s", diff)
	}
}

func TestRedriveSpecDefaultsFollowTheQueue(t *testing.T) {
	t.Parallel()
	const spec = `{queueRef: {name: orders}, reason: fixed, limit: 5, rate: {jobs: 1, per: 1m}}`
	tests := map[string]struct {
		queue       string
		timeout     queue.Millis
		outstanding int64
	}{
		"a slow rate still leaves room for its burst": {`{spec: {retryPolicy: {attemptTimeout: 1s}}}`, 120_000, 2},
		"long attempts need more room and time":       {`{spec: {retryPolicy: {attemptTimeout: 10m}}}`, 2_400_000, 20},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rd, rq := redriveOf(t, spec, tt.queue)
			got, err := RedriveSpec(rd, rq)
			if err != nil {
				t.Fatal(err)
			}
			if got.Canary.Timeout != tt.timeout || got.MaxOutstanding != tt.outstanding {
				t.Errorf("canary timeout %s, maxOutstanding %d, want %s, %d", got.Canary.Timeout, got.MaxOutstanding, tt.timeout, tt.outstanding)
			}
		})
	}
}

func TestRedriveSpecRefuses(t *testing.T) {
	t.Parallel()
	const head = `{queueRef: {name: orders}, reason: fixed, limit: 500, `
	tests := map[string]struct{ spec, queue, field, says string }{
		"no rate":                            {head + `}`, "", "spec.rate", "must be set"},
		"no limit":                           {`{rate: {jobs: 10}}`, "", "spec.limit", "from 1 to 1000000"},
		"a rate above the queue's":           {head + `rate: {jobs: 51}}`, "", "spec.rate", "faster than the RetryQueue's redrivePolicy.maxRate, 50 per 1s"},
		"the queue's rate in a shorter span": {head + `rate: {jobs: 50, per: 999ms}}`, "", "spec.rate", "lower it"},
		"a burst above the queue's":          {head + `rate: {jobs: 1, per: 24h, burst: 500}}`, "", "spec.rate.burst", "at most 50"},
		"a burst that cannot keep the rate":  {head + `rate: {jobs: 50, burst: 5}}`, "", "spec.rate.burst", "6 (is 5)"},
		"a span between milliseconds":        {head + `rate: {jobs: 1, per: 1.9ms}}`, "", "spec.rate.per", "whole milliseconds"},
		"more attempts than the queue's":     {head + `rate: {jobs: 1}, budget: {maxAttempts: 9}}`, "", "spec.budget.maxAttempts", "retryPolicy.maxAttempts, 8 (is 9)"},
		"a deadline beyond the queue's":      {head + `rate: {jobs: 1}, budget: {deadline: 61m}}`, "", "spec.budget.deadline", "leave it out"},
		"a deadline that fits no attempt":    {head + `rate: {jobs: 1}, budget: {deadline: 9s}}`, "", "spec.budget.deadline", "attemptTimeout, 10s"},
		"times that pick nothing":            {head + `rate: {jobs: 1}, selector: {diedAfter: "2026-09-06T12:00:00.000000Z", diedBefore: "2026-09-06T12:00:00.000000Z"}}`, "", "spec.selector", "earlier"},
		"a bound that would mean none":       {head + `rate: {jobs: 1}, selector: {diedBefore: "1970-01-01T00:00:00.000000Z"}}`, "", "spec.selector.diedBefore", "after 1970"},
		"more than all may fail":             {head + `rate: {jobs: 1}, abort: {maxFailurePercent: 101}}`, "", "spec.abort.maxFailurePercent", "0 to 100"},
		"a queue that allows no redrives":    {head + `rate: {jobs: 1}}`, `{spec: {deadLetter: {maxRedrives: 0}}}`, "spec.queueRef", "deadLetter.maxRedrives"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rd, rq := redriveOf(t, tt.spec, tt.queue)
			_, err := RedriveSpec(rd, rq)
			wantProblem(t, err, tt.field, tt.says)
		})
	}
}

func TestARateTooFastIsNotBlamedOnABurstThatNobodySet(t *testing.T) {
	t.Parallel()
	rd, rq := redriveOf(t, `{queueRef: {name: orders}, reason: fixed, limit: 500, rate: {jobs: 5000}}`, "")
	_, err := RedriveSpec(rd, rq)
	var e *InvalidError
	if !errors.As(err, &e) || len(e.Problems) != 1 || e.Problems[0].Field != "spec.rate" {
		t.Errorf("error = %v, want one problem, at spec.rate", err)
	}
}

func TestRedriveAtExactlyTheQueuesRateIsAllowed(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]string{
		"in the same span":              `{limit: 1, rate: {jobs: 50, per: 1s, burst: 50}}`,
		"in another span":               `{limit: 1, rate: {jobs: 3000, per: 1m}}`,
		"the burst that the rate needs": `{limit: 1, rate: {jobs: 1, per: 20ms}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rd, rq := redriveOf(t, spec, "")
			if _, err := RedriveSpec(rd, rq); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestDigestsChangeWithWhatTheyCoverAndNothingElse(t *testing.T) {
	t.Parallel()
	const spec = `{queueRef: {name: orders}, reason: fixed, limit: 5, rate: {jobs: 1}}`
	resolve := func(redrive func(*v1alpha1.Redrive), owner func(*v1alpha1.RetryQueue)) queue.RedriveSpec {
		rd, rq := redriveOf(t, spec, `{spec: {delivery: {http: {headers: [{name: A, value: "1"}, {name: B, value: "2"}]}}}}`)
		redrive(rd)
		owner(rq)
		got, err := RedriveSpec(rd, rq)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	sameRedrive, sameQueue := func(*v1alpha1.Redrive) {}, func(*v1alpha1.RetryQueue) {}
	base := resolve(sameRedrive, sameQueue)
	tests := map[string]struct {
		redrive              func(*v1alpha1.Redrive)
		queue                func(*v1alpha1.RetryQueue)
		specSame, targetSame bool
	}{
		"suspend, cancel and who asked": {func(r *v1alpha1.Redrive) { r.Spec.Suspend, r.Spec.Cancel, r.Spec.RequestedBy = true, true, "bob" }, sameQueue, true, true},
		"another uid":                   {func(r *v1alpha1.Redrive) { r.UID = "new" }, sameQueue, true, true},
		"another reason":                {func(r *v1alpha1.Redrive) { r.Spec.Reason = "other" }, sameQueue, false, true},
		"another limit":                 {func(r *v1alpha1.Redrive) { r.Spec.Limit = 6 }, sameQueue, false, true},
		"another URL":                   {sameRedrive, func(q *v1alpha1.RetryQueue) { q.Spec.Delivery.HTTP.URL = "http://other" }, true, false},
		"another header value":          {sameRedrive, func(q *v1alpha1.RetryQueue) { q.Spec.Delivery.HTTP.Headers[0].Value = "9" }, true, false},
		"headers in another order and case": {sameRedrive, func(q *v1alpha1.RetryQueue) {
			h := q.Spec.Delivery.HTTP.Headers
			h[0], h[1] = h[1], h[0]
			h[0].Name = "b"
		}, true, true},
		"a header that reads like two": {sameRedrive, func(q *v1alpha1.RetryQueue) {
			q.Spec.Delivery.HTTP.Headers = []v1alpha1.HTTPHeader{{Name: "a", Value: "1b2"}}
		}, true, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := resolve(tt.redrive, tt.queue)
			if same := got.SpecDigest == base.SpecDigest; same != tt.specSame {
				t.Errorf("SpecDigest is the same: %v, want %v", same, tt.specSame)
			}
			if same := got.TargetDigest == base.TargetDigest; same != tt.targetSame {
				t.Errorf("TargetDigest is the same: %v, want %v", same, tt.targetSame)
			}
		})
	}
}
