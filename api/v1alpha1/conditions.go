package v1alpha1

// Types of conditions, by the kstatus rules: Ready is always present, Reconciling and Stalled only while true.
const (
	ConditionReady       = "Ready"
	ConditionReconciling = "Reconciling"
	ConditionStalled     = "Stalled"

	// ConditionWorkersAvailable (RetryQueue): enough worker pods are ready and report this generation.
	ConditionWorkersAvailable = "WorkersAvailable"
	// ConditionDeadLetters (RetryQueue): True while dead jobs wait for a person.
	ConditionDeadLetters = "DeadLetters"
	// ConditionBudget (RetryQueue): False when the deadline makes some attempts unreachable.
	ConditionBudget = "BudgetReachable"

	// ConditionPlanned (Redrive): the plan is frozen.
	ConditionPlanned = "Planned"
	// ConditionApproved (Redrive): enough people have approved the plan.
	ConditionApproved = "Approved"
	// ConditionComplete (Redrive): every job of the plan has come to an end.
	ConditionComplete = "Complete"
	// ConditionFailed (Redrive): it ended before its plan was done.
	ConditionFailed = "Failed"
)

// Reasons of the conditions of a RetryQueue.
const (
	ReasonAvailable       = "Available"
	ReasonSuspended       = "Suspended"
	ReasonProgressing     = "Progressing"
	ReasonWorkersNotReady = "WorkersNotReady"
	ReasonConfigPending   = "ConfigPending" // workers do not run this generation yet
	ReasonScaledToZero    = "ScaledToZero"
	ReasonInvalidSpec     = "InvalidSpec"
	ReasonNameTaken       = "NameTaken"     // an object that we did not make has a name that we need
	ReasonObjectRefused   = "ObjectRefused" // the API server does not take an object of the queue
	ReasonNoDeadJobs      = "NoDeadJobs"
	ReasonDeadJobs        = "DeadJobs"
	ReasonReachable       = "AllAttemptsReachable"
	ReasonUnreachable     = "DeadlineBeforeLastAttempt"
	ReasonUnknown         = "Unknown"
)

// Reasons of the conditions of a Redrive.
const (
	ReasonPlanning           = "Planning"
	ReasonPlanned            = "Planned"
	ReasonAwaitingApproval   = "AwaitingApproval"
	ReasonApproved           = "Approved"
	ReasonReleasing          = "Releasing"
	ReasonWaitingForWorker   = "WaitingForWorker"
	ReasonPolicyNotEnforced  = "AdmissionPolicyNotEnforced" // approvals are not guarded: nothing runs
	ReasonQueueSuspended     = "QueueSuspended"
	ReasonBreakerOpen        = "BreakerOpen"
	ReasonCanaryInconclusive = "CanaryInconclusive"
	ReasonFailing            = "Failing"
	ReasonComplete           = "Complete"
	ReasonCancelled          = "Cancelled"
	ReasonAborted            = "Aborted"
	ReasonPlanExpired        = "PlanExpired"
	ReasonPlanLost           = "PlanLost"
	ReasonPlanRefused        = "PlanRefused" // the queue's policy does not allow it
	ReasonQueueNotFound      = "QueueNotFound"
	ReasonAlreadyExecuted    = "AlreadyExecuted"
	ReasonNothingSelected    = "NothingSelected"
	ReasonRequesterUnknown   = "RequesterUnknown"  // nothing vouches for spec.requestedBy, so self approval cannot be told
	ReasonPlanOutdated       = "PlanOutdated"      // the queue's target changed since the plan was made
	ReasonWaitingForRedrive  = "WaitingForRedrive" // another Redrive of the queue runs: one at a time
)
