package queue

import "context"

// Redriver is the part of a Store that replays dead jobs.
//
// The life of a redrive: planned once (a frozen list of items and a hash over everything that matters);
// then, while somebody renews a permission to run that names uid and hash, the maintenance owner advances it:
// dead jobs become pending along a rate whose state is stored. What happens to each is written in the
// transaction that settles it.
type Redriver interface {
	// PlanRedrive freezes the plan of a uid. Called again with the same uid it returns the stored one and
	// plans nothing. RedriveError AlreadyExecuted: a redrive of the same name and spec digest has released
	// something before under another uid.
	PlanRedrive(ctx context.Context, r RedriveSpec) (Redrive, error)

	// PermitRedrive lets uid run until now + p.For, if p.Hash is its plan's. For = 0 withdraws the
	// permission (suspend). Withdrawing and permitting again also restarts the canary's timeout. A finished
	// redrive is returned unchanged.
	PermitRedrive(ctx context.Context, p RedrivePermit) (Redrive, error)

	// CancelRedrive ends uid for good: what was not released stays dead. Idempotent.
	CancelRedrive(ctx context.Context, uid string) (Redrive, error)

	// Redrive returns the present state of uid, or ErrNotFound.
	Redrive(ctx context.Context, uid string) (Redrive, error)

	// AdvanceRedrives releases what the permitted redrives may release now: the maintenance owner calls it
	// every 100 ms. obstacle, when not empty (QueueSuspended, …), holds them all and no credit accrues.
	AdvanceRedrives(ctx context.Context, p Policy, obstacle HeldReason) (released int, err error)
}

// Rate is Jobs per Per, with at most Burst at once.
type Rate struct {
	Jobs  int64  `json:"jobs"`  // 1..100,000
	Per   Millis `json:"per"`   // 1 ms..24 h
	Burst int64  `json:"burst"` // >= rate · 0.1 s + 1
}

// RedriveBudget is the fresh budget of a released job.
type RedriveBudget struct {
	MaxAttempts int    `json:"maxAttempts"`
	Deadline    Millis `json:"deadline"` // from the job's release slot
}

// Within is b as far as p allows it: the policy may have become stricter since the plan was made.
func (b RedriveBudget) Within(p Policy) RedriveBudget {
	return RedriveBudget{MaxAttempts: min(b.MaxAttempts, p.MaxAttempts), Deadline: min(b.Deadline, p.Deadline)}
}

// Canary is what must be delivered before the rest is released.
type Canary struct {
	Jobs              int64  `json:"jobs"` // 0: no canary
	MaxFailurePercent int64  `json:"maxFailurePercent"`
	Timeout           Millis `json:"timeout"`
}

// Abort is when a redrive stops itself.
type Abort struct {
	MaxFailurePercent int64 `json:"maxFailurePercent"`
	MinJobs           int64 `json:"minJobs"`
}

// RedriveSpec is what PlanRedrive freezes. Every field is part of the hash.
type RedriveSpec struct {
	UID            string        `json:"uid"`  // printable ASCII without spaces, since deliveries carry it as a header
	Name           string        `json:"name"` // of the Redrive resource; with SpecDigest the key of "once only"
	SpecDigest     string        `json:"specDigest"`
	QueueUID       string        `json:"queueUID"`
	Selector       Selector      `json:"selector"`
	Limit          int64         `json:"limit"` // 1..1,000,000
	Rate           Rate          `json:"rate"`
	Budget         RedriveBudget `json:"budget"`
	Canary         Canary        `json:"canary"`
	Abort          Abort         `json:"abort"`
	MaxOutstanding int64         `json:"maxOutstanding"` // released and unfinished; >= 1
	MaxRedrives    int           `json:"maxRedrives"`    // jobs redriven this often are skipped
	TargetDigest   string        `json:"targetDigest"`   // of the delivery's URL and headers
}

// RedrivePermit is a permission to run.
type RedrivePermit struct {
	UID  string `json:"uid"`
	Hash string `json:"hash"`
	For  Millis `json:"for"` // 0..60 s
}

// RedriveState is where a redrive is.
type RedriveState string

const (
	// RedrivePlanned: frozen, nothing released yet and no permission given.
	RedrivePlanned RedriveState = "Planned"
	// RedriveRunning: permitted at least once, and not finished. Held says what keeps it from releasing, if anything.
	RedriveRunning RedriveState = "Running"
	// RedriveComplete: every item is delivered, died again or gone.
	RedriveComplete RedriveState = "Complete"
	// RedriveCancelled: ended by a person; what was not released stays dead.
	RedriveCancelled RedriveState = "Cancelled"
	// RedriveAborted: ended itself; too many died again.
	RedriveAborted RedriveState = "Aborted"
)

// Finished says that s never changes again.
func (s RedriveState) Finished() bool {
	return s == RedriveComplete || s == RedriveCancelled || s == RedriveAborted
}

// HeldReason is what keeps a running redrive from releasing just now.
type HeldReason string

// Why a redrive holds.
const (
	HeldNoPermission       HeldReason = "NoPermission" // suspended, or nobody renews the permission
	HeldQueueSuspended     HeldReason = "QueueSuspended"
	HeldBreakerOpen        HeldReason = "BreakerOpen"
	HeldCanary             HeldReason = "Canary"             // the canary's jobs are on their way
	HeldCanaryInconclusive HeldReason = "CanaryInconclusive" // undecided at its timeout: a person must suspend and resume, or cancel
	HeldFailing            HeldReason = "Failing"            // too many of the latest released fail
	HeldOutstanding        HeldReason = "MaxOutstanding"
	HeldUnstarted          HeldReason = "Unstarted" // released jobs wait for a worker
)

// RedriveSummary describes the frozen plan for people.
type RedriveSummary struct {
	Hash          string           `json:"hash"`
	Matched       int64            `json:"matched"`           // dead jobs that the selector picked
	Selected      int64            `json:"selected"`          // items: matched, less skipped, up to the limit
	Skipped       map[string]int64 `json:"skipped,omitempty"` // RedriveLimit, Limit
	ByReason      map[Reason]int64 `json:"byReason,omitempty"`
	ByFingerprint []DeadGroup      `json:"byFingerprint,omitempty"` // the 20 largest
	SampleIDs     []string         `json:"sampleIDs,omitempty"`     // at most 20
	PlannedAt     Time             `json:"plannedAt"`
	Estimated     Millis           `json:"estimated"` // at the declared rate, canary apart
}

// RedriveProgress counts items. Released = Delivered + DiedAgain + Outstanding; Selected = Released + Gone + Remaining.
type RedriveProgress struct {
	Released    int64 `json:"released"`
	Delivered   int64 `json:"delivered"`
	DiedAgain   int64 `json:"diedAgain"`
	Outstanding int64 `json:"outstanding"`
	Failing     int64 `json:"failing"` // outstanding with at least one failed attempt
	Gone        int64 `json:"gone"`    // purged or replayed by somebody else meanwhile
	Remaining   int64 `json:"remaining"`
}

// Redrive is a plan and how far it got.
type Redrive struct {
	UID        string          `json:"uid"`
	Spec       RedriveSpec     `json:"spec"` // as frozen, so that the operator sees what was planned for, and where to
	State      RedriveState    `json:"state"`
	Held       HeldReason      `json:"held,omitempty"`
	Message    string          `json:"message,omitempty"` // why it is held or was aborted, for people
	Summary    RedriveSummary  `json:"summary"`
	Progress   RedriveProgress `json:"progress"`
	RunUntil   Time            `json:"runUntil,omitzero"`
	StartedAt  Time            `json:"startedAt,omitzero"` // first release
	FinishedAt Time            `json:"finishedAt,omitzero"`
	Now        Time            `json:"now"`
}
