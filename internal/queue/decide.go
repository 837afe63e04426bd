package queue

import "fmt"

// Budget is what Decide needs to know of a job: how much of its budget is used, the present attempt included.
type Budget struct {
	Attempts      int
	MaxAttempts   int
	Deadline      Time
	PreviousDelay Millis // 0: none yet
}

// Decision is what becomes of a job after an attempt.
type Decision struct {
	State       State  // Succeeded, Pending or Dead
	Reason      Reason // when Dead
	AvailableAt Time   // when Pending
	Delay       Millis // when Pending: the drawn delay, without Retry-After; the next PreviousDelay
}

// Decide is the whole rule of what happens after an attempt, at now, with a ratio in [0, 1] for jitter:
//
//   - success → Succeeded, also after the deadline: a deadline bounds starts;
//   - permanent → Dead(Permanent);
//   - retryable → Dead(Exhausted) when no attempt is left; else next = now + min(RetryAfter, RetryAfterMax)
//   - delay; Dead(DeadlineExceeded) when next >= deadline; else Pending at next.
//
// It refuses an unknown outcome (that is never settled) and what [Delay] refuses.
func Decide(p Policy, b Budget, r Result, now Time, ratio float64) (Decision, error) {
	switch r.Outcome {
	case OutcomeSucceeded:
		return Decision{State: Succeeded}, nil
	case OutcomePermanent:
		return Decision{State: Dead, Reason: ReasonPermanent}, nil
	case OutcomeRetryable:
	default:
		return Decision{}, fmt.Errorf("outcome %q must not be settled", r.Outcome)
	}
	if b.Attempts >= b.MaxAttempts {
		return Decision{State: Dead, Reason: ReasonExhausted}, nil
	}
	delay, err := Delay(p.Backoff, b.Attempts, b.PreviousDelay, ratio)
	if err != nil {
		return Decision{}, fmt.Errorf("computing the delay: %w", err)
	}
	next := now.Add(min(max(r.RetryAfter, 0), p.RetryAfterMax)).Add(delay)
	if next >= b.Deadline {
		return Decision{State: Dead, Reason: ReasonDeadlineExceeded}, nil
	}
	return Decision{State: Pending, AvailableAt: next, Delay: delay}, nil
}

// Overdue says whether a job that is due must die instead of being claimed, and why.
func Overdue(b Budget, now Time) (Reason, bool) {
	switch {
	case b.Attempts >= b.MaxAttempts:
		return ReasonExhausted, true
	case b.Deadline <= now:
		return ReasonDeadlineExceeded, true
	}
	return "", false
}
