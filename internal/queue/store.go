package queue

import "context"

// Store keeps one queue durably. Two implementations hold it (SQLite, PostgreSQL); package storetest is
// its specification. Every method is atomic (Purge: each of its batches), safe for concurrent use, takes its time
// from the store's own clock, and returns only after what it did is durable.
//
// Errors besides those named: ErrFenced and ErrStorageFull from any write, and whatever the database says.
type Store interface {
	// Accept stores new jobs, all or none. A known id with the same content answers with the stored job,
	// unchanged; a second job of the call with the same id and content is Known too. Refusals, each of the
	// whole call: InvalidError (joined, one a job), ConflictError, LimitError.
	Accept(ctx context.Context, p Policy, jobs []NewJob) ([]Accepted, error)

	// Job returns one job with its history, headers and payload, or ErrNotFound.
	Job(ctx context.Context, id string) (Job, error)

	// Claim leases up to n due jobs, oldest due first, for p.Lease(). Attempts rises in the same
	// transaction; every call that leases anything has a new token. Due jobs that are Overdue are buried
	// on the way. n = 0 only buries.
	Claim(ctx context.Context, p Policy, c ClaimRequest) (Claimed, error)

	// Settle ends attempts by Decide, each fenced by its own token: the answer has one error a
	// settlement, in order: nil, ErrLeaseLost or ErrClockBackwards. One stale settlement does not stop
	// the others. It is an error of the call to settle one id twice.
	Settle(ctx context.Context, p Policy, s []Settlement) (Settled, error)

	// Reap settles up to limit expired leases as retryable WorkerLost, ended when the lease did.
	Reap(ctx context.Context, p Policy, limit int) (Reaped, error)

	// Sweep deletes, in a bounded batch, ids past their dedupe window and dead jobs past p.Retention.
	Sweep(ctx context.Context, p Policy, limit int) (Swept, error)

	// Stats counts without scanning: its cost does not grow with the backlog.
	Stats(ctx context.Context) (Stats, error)

	// DeadJobs lists dead jobs in order of death, without payloads.
	DeadJobs(ctx context.Context, q DeadQuery) (DeadPage, error)

	// DeadGroups counts the selected dead jobs by reason and fingerprint, most first, at most limit groups.
	DeadGroups(ctx context.Context, s Selector, limit int) ([]DeadGroup, error)

	// Purge deletes the selected dead jobs for good and remembers their ids for p.DedupeWindow. An empty
	// selector is refused with InvalidError. It picks from what was dead when it began, and works in batches, so
	// that a purge of a million does not stop the queue: each is atomic, and the number says how many were
	// deleted, beside an error as well. The same call again goes on with what is left.
	Purge(ctx context.Context, p Policy, s Selector) (int, error)

	// Now is the store's clock.
	Now(ctx context.Context) (Time, error)

	Redriver

	Close() error
}

// ClaimRequest says how much to claim.
type ClaimRequest struct {
	Max int
	// Obstacle is what keeps the queue from starting work ("queue is suspended since …"), for the record of
	// jobs that die unstarted. Empty when nothing does.
	Obstacle string
}

// Lease is a job in hand.
type Lease struct {
	Job   Job // with headers and payload
	Token int64
}

// Claimed is the answer to Claim.
type Claimed struct {
	Now    Time // the store's clock at the claim
	Leases []Lease
	Deaths Deaths
	NextAt Time // when the next pending job falls due; zero when none is pending. May be in the past.
}

// Settlement ends one attempt.
type Settlement struct {
	ID     string
	Token  int64
	Result Result
}

// Settled is the answer to Settle.
type Settled struct {
	Errs   []error
	Deaths Deaths
}

// Reaped is the answer to Reap.
type Reaped struct {
	Lost   int // leases that had run out
	Deaths Deaths
}

// Swept is the answer to Sweep.
type Swept struct{ Forgotten, Expired int }

// Deaths counts deaths by reason.
type Deaths map[Reason]int

// Stats is the state of a queue in numbers.
type Stats struct {
	Pending         int64 `json:"pending"`
	Due             int64 `json:"due"` // exact up to DueCountMax
	Leased          int64 `json:"leased"`
	Succeeded       int64 `json:"succeeded"` // still remembered for the dedupe window
	Dead            int64 `json:"dead"`
	Bytes           int64 `json:"bytes"`
	OldestPendingAt Time  `json:"oldestPendingAt,omitzero"` // availableAt of the oldest pending job
	OldestDeadAt    Time  `json:"oldestDeadAt,omitzero"`
	NextDueAt       Time  `json:"nextDueAt,omitzero"`
	Now             Time  `json:"now"`
}

// DueCountMax is where counting due jobs stops, so that it stays cheap.
const DueCountMax = 10_000

// Selector picks dead jobs; all its parts must hold. Times are half-open: [DiedAfter, DiedBefore).
type Selector struct {
	DiedAfter    Time     `json:"diedAfter,omitzero"`
	DiedBefore   Time     `json:"diedBefore,omitzero"`
	Reasons      []Reason `json:"reasons,omitempty"`
	HTTPStatuses []string `json:"httpStatuses,omitempty"` // "503" or "5xx"
	Fingerprints []string `json:"fingerprints,omitempty"`
	IDs          []string `json:"ids,omitempty"`
}

// Empty says that s would pick every dead job.
func (s Selector) Empty() bool {
	return s.DiedAfter == 0 && s.DiedBefore == 0 && len(s.Reasons) == 0 && len(s.HTTPStatuses) == 0 &&
		len(s.Fingerprints) == 0 && len(s.IDs) == 0
}

// DeadQuery is one page of dead jobs.
type DeadQuery struct {
	Selector Selector
	After    int64 // DeadSeq of the last job of the page before
	Limit    int   // 1..1000
}

// DeadPage is the answer to a DeadQuery. Next is zero on the last page.
type DeadPage struct {
	Jobs []Job `json:"jobs"`
	Next int64 `json:"next,omitempty"`
}

// DeadGroup is one cause.
type DeadGroup struct {
	Reason      Reason   `json:"reason"`
	Fingerprint string   `json:"fingerprint"`
	Count       int64    `json:"count"`
	FirstDiedAt Time     `json:"firstDiedAt"`
	LastDiedAt  Time     `json:"lastDiedAt"`
	SampleID    string   `json:"sampleID"`
	SampleError *Failure `json:"sampleError,omitempty"`
}
