package queue

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func testPolicy() Policy {
	return Policy{
		Backoff: Backoff{Base: 1000, Cap: 8000, Jitter: JitterFull}, MaxAttempts: 3, Deadline: 3_600_000,
		AttemptTimeout: 10_000, RetryAfterMax: 60_000, DedupeWindow: 3_600_000, MaxRedrives: 3,
		Limits: Limits{MaxPayload: 1000, MaxPending: 1000, MaxBytes: 1_000_000},
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	const now = Time(1_000_000)
	failure := &Failure{Kind: "HTTPStatus", HTTPStatus: 503}
	retry := func(after Millis) Result {
		return Result{Outcome: OutcomeRetryable, Failure: failure, RetryAfter: after}
	}
	plenty := Budget{Attempts: 1, MaxAttempts: 3, Deadline: now + 3_600_000}
	with := func(f func(*Budget)) Budget { b := plenty; f(&b); return b }
	tests := map[string]struct {
		budget Budget
		result Result
		want   Decision
	}{
		"success ends it":                      {plenty, Result{Outcome: OutcomeSucceeded}, Decision{State: Succeeded}},
		"a success after the deadline is one":  {with(func(b *Budget) { b.Deadline = now - 1 }), Result{Outcome: OutcomeSucceeded}, Decision{State: Succeeded}},
		"a permanent failure kills at once":    {plenty, Result{Outcome: OutcomePermanent, Failure: failure}, Decision{State: Dead, Reason: ReasonPermanent}},
		"permanent comes before exhausted":     {with(func(b *Budget) { b.Attempts, b.Deadline = 3, now }), Result{Outcome: OutcomePermanent, Failure: failure}, Decision{State: Dead, Reason: ReasonPermanent}},
		"the last attempt exhausts":            {with(func(b *Budget) { b.Attempts = 3 }), retry(0), Decision{State: Dead, Reason: ReasonExhausted}},
		"a budget that was cut exhausts too":   {with(func(b *Budget) { b.Attempts = 5 }), retry(0), Decision{State: Dead, Reason: ReasonExhausted}},
		"exhausted comes before the deadline":  {with(func(b *Budget) { b.Attempts, b.Deadline = 3, now }), retry(0), Decision{State: Dead, Reason: ReasonExhausted}},
		"a retry waits for its delay":          {plenty, retry(0), Decision{State: Pending, AvailableAt: now + 500, Delay: 500}},
		"the next window is twice as wide":     {with(func(b *Budget) { b.Attempts = 2 }), retry(0), Decision{State: Pending, AvailableAt: now + 1000, Delay: 1000}},
		"jitter comes on top of Retry-After":   {plenty, retry(7000), Decision{State: Pending, AvailableAt: now + 7500, Delay: 500}},
		"Retry-After is bounded":               {plenty, retry(1 << 50), Decision{State: Pending, AvailableAt: now + 60_500, Delay: 500}},
		"a negative Retry-After is none":       {plenty, retry(-7000), Decision{State: Pending, AvailableAt: now + 500, Delay: 500}},
		"a retry at the deadline is too late":  {with(func(b *Budget) { b.Deadline = now + 500 }), retry(0), Decision{State: Dead, Reason: ReasonDeadlineExceeded}},
		"a millisecond earlier is in time":     {with(func(b *Budget) { b.Deadline = now + 501 }), retry(0), Decision{State: Pending, AvailableAt: now + 500, Delay: 500}},
		"Retry-After may pass the deadline":    {with(func(b *Budget) { b.Deadline = now + 7500 }), retry(7000), Decision{State: Dead, Reason: ReasonDeadlineExceeded}},
		"a deadline at the end of time is one": {with(func(b *Budget) { b.Deadline = maxTime }), retry(0), Decision{State: Pending, AvailableAt: now + 500, Delay: 500}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Decide(testPolicy(), tt.budget, tt.result, now, .5)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Decide (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecideRefusesWhatIsNotSettled(t *testing.T) {
	t.Parallel()
	for _, o := range []Outcome{OutcomeUnknown, "", "succeeded"} {
		if got, err := Decide(testPolicy(), Budget{Attempts: 1, MaxAttempts: 3, Deadline: 10}, Result{Outcome: o}, 1, .5); err == nil {
			t.Errorf("outcome %q: %+v, want an error", o, got)
		}
	}
}

func TestOverdue(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		budget Budget
		reason Reason
		dies   bool
	}{
		"within its budget":          {Budget{Attempts: 2, MaxAttempts: 3, Deadline: 101}, "", false},
		"at its deadline":            {Budget{Attempts: 2, MaxAttempts: 3, Deadline: 100}, ReasonDeadlineExceeded, true},
		"out of attempts":            {Budget{Attempts: 3, MaxAttempts: 3, Deadline: 101}, ReasonExhausted, true},
		"both: exhausted goes first": {Budget{Attempts: 3, MaxAttempts: 3, Deadline: 99}, ReasonExhausted, true},
	}
	for name, tt := range tests {
		if reason, dies := Overdue(tt.budget, 100); reason != tt.reason || dies != tt.dies {
			t.Errorf("%s: Overdue = %q, %v, want %q, %v", name, reason, dies, tt.reason, tt.dies)
		}
	}
}

func TestDecideHoldsItsRules(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := testPolicy()
		p.Backoff = anyBackoff(t)
		p.RetryAfterMax = Millis(rapid.Int64Range(0, int64(MaxBackoffCap)).Draw(t, "retryAfterMax"))
		b := Budget{
			Attempts: rapid.IntRange(1, 40).Draw(t, "attempts"), MaxAttempts: rapid.IntRange(1, 40).Draw(t, "maxAttempts"),
			Deadline: Time(rapid.Int64Range(0, 1<<60).Draw(t, "deadline")), PreviousDelay: Millis(rapid.Int64().Draw(t, "previous")),
		}
		r := Result{
			Outcome:    rapid.SampledFrom([]Outcome{OutcomeSucceeded, OutcomePermanent, OutcomeRetryable}).Draw(t, "outcome"),
			RetryAfter: Millis(rapid.Int64().Draw(t, "retryAfter")),
		}
		now := Time(rapid.Int64Range(0, 1<<60).Draw(t, "now"))
		d, err := Decide(p, b, r, now, rapid.Float64Range(0, 1).Draw(t, "ratio"))
		if err != nil {
			t.Fatal(err)
		}
		earliest := now.Add(min(max(r.RetryAfter, 0), p.RetryAfterMax))
		switch {
		case d.State == Succeeded && r.Outcome == OutcomeSucceeded,
			d.State == Dead && d.Reason == ReasonPermanent && r.Outcome == OutcomePermanent,
			d.State == Dead && d.Reason == ReasonExhausted && r.Outcome == OutcomeRetryable && b.Attempts >= b.MaxAttempts,
			d.State == Dead && d.Reason == ReasonDeadlineExceeded && r.Outcome == OutcomeRetryable && b.Attempts < b.MaxAttempts &&
				earliest.Add(p.Backoff.Cap) >= b.Deadline:
		case d.State == Pending && r.Outcome == OutcomeRetryable && b.Attempts < b.MaxAttempts &&
			d.AvailableAt == earliest.Add(d.Delay) && d.AvailableAt < b.Deadline && d.Delay >= 0 && d.Delay <= p.Backoff.Cap:
		default:
			t.Fatalf("%+v after %+v at %d with %+v", d, r, now, b)
		}
	})
}
