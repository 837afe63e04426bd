package queue

// Outcome is the kind of an attempt's end.
type Outcome string

const (
	// OutcomeSucceeded: the target took the job.
	OutcomeSucceeded Outcome = "Succeeded"
	// OutcomePermanent: trying again cannot help; the job dies at once.
	OutcomePermanent Outcome = "Permanent"
	// OutcomeRetryable: try again within the budget.
	OutcomeRetryable Outcome = "Retryable"
	// OutcomeUnknown: we cannot tell. It is never settled: the lease runs out and the attempt is lost.
	OutcomeUnknown Outcome = "Unknown"
)

// Result is what an attempt came to.
type Result struct {
	Outcome Outcome
	Failure *Failure // set unless succeeded
	// RetryAfter is the target's wish, >= 0; zero means none. It only applies to a retryable failure.
	RetryAfter Millis
}
