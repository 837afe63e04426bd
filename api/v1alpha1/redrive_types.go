package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Redrive replays dead jobs: planned, approved, paced, self-stopping, once.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource
// +kubebuilder:printcolumn:name="Queue",type=string,JSONPath=`.spec.queueRef.name`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Selected",type=integer,JSONPath=`.status.plan.selected`
// +kubebuilder:printcolumn:name="Delivered",type=integer,JSONPath=`.status.progress.delivered`
// +kubebuilder:printcolumn:name="Died-Again",type=integer,JSONPath=`.status.progress.diedAgain`
// +kubebuilder:printcolumn:name="Remaining",type=integer,JSONPath=`.status.progress.remaining`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Requested-By",type=string,JSONPath=`.spec.requestedBy`,priority=1
// +kubebuilder:printcolumn:name="Hash",type=string,JSONPath=`.status.plan.hash`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
type Redrive struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is to be replayed and how. It must not change once made, only suspend and cancel.
	// +required
	Spec RedriveSpec `json:"spec,omitzero"`
	// status is the plan, its approvals and how far it got.
	// +default={"observedGeneration":-1}
	// +optional
	Status RedriveStatus `json:"status,omitzero"`
}

// RedriveList is a list of Redrives.
//
// +kubebuilder:object:root=true
type RedriveList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Redrive `json:"items"`
}

// RedriveSpec is the desired replay.
//
// +kubebuilder:validation:XValidation:rule="self.queueRef == oldSelf.queueRef && self.reason == oldSelf.reason && self.limit == oldSelf.limit && has(self.requestedBy) == has(oldSelf.requestedBy) && (!has(self.requestedBy) || self.requestedBy == oldSelf.requestedBy) && has(self.selector) == has(oldSelf.selector) && (!has(self.selector) || self.selector == oldSelf.selector) && has(self.rate) == has(oldSelf.rate) && (!has(self.rate) || self.rate == oldSelf.rate) && has(self.budget) == has(oldSelf.budget) && (!has(self.budget) || self.budget == oldSelf.budget) && has(self.canary) == has(oldSelf.canary) && (!has(self.canary) || self.canary == oldSelf.canary) && has(self.abort) == has(oldSelf.abort) && (!has(self.abort) || self.abort == oldSelf.abort) && has(self.maxOutstanding) == has(oldSelf.maxOutstanding) && (!has(self.maxOutstanding) || self.maxOutstanding == oldSelf.maxOutstanding)",message="a Redrive must not change once made, only suspend and cancel: make a new one"
// +kubebuilder:validation:XValidation:rule="!oldSelf.cancel || self.cancel",message="cancel must stay true once set: make a new Redrive"
type RedriveSpec struct {
	// queueRef names the RetryQueue, in the same namespace.
	// +required
	QueueRef QueueRef `json:"queueRef,omitzero"`
	// requestedBy is the user name of the one who makes the Redrive. Clusters with
	// MutatingAdmissionPolicy (1.36 and later) fill it in; elsewhere it must be your own.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +optional
	RequestedBy string `json:"requestedBy,omitempty"`
	// reason says what the cause was and what was done about it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.trim() != ''",message="reason must say what the cause was and what was done about it"
	// +required
	Reason string `json:"reason,omitempty"`
	// selector picks dead jobs; all its parts must hold. Unset picks all.
	// +optional
	Selector *DeadSelector `json:"selector,omitempty"`
	// limit is the most jobs to replay; 1 to 1000000.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +required
	Limit int64 `json:"limit,omitempty"`
	// rate of release; at most the queue's redrivePolicy.maxRate.
	// +required
	Rate *RedriveRate `json:"rate,omitempty"`
	// budget is the fresh budget of each replayed job; at most the queue's.
	// +optional
	Budget *RedriveBudget `json:"budget,omitempty"`
	// canary is released first, spread over the causes; the rest goes only if it is delivered. Default 10 jobs.
	// +optional
	Canary *Canary `json:"canary,omitempty"`
	// abort says when the Redrive stops itself.
	// +optional
	Abort *Abort `json:"abort,omitempty"`
	// maxOutstanding is how many jobs may be released and unfinished; default twice what the rate releases
	// in one attemptTimeout, at least burst.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	MaxOutstanding *int64 `json:"maxOutstanding,omitempty"`
	// suspend holds the release of jobs while true; what was released goes on.
	// +default=false
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// cancel ends the Redrive for good: what was not released stays dead.
	// +default=false
	// +optional
	Cancel bool `json:"cancel,omitempty"`
}

// QueueRef names a RetryQueue.
type QueueRef struct {
	// name of the RetryQueue.
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="name must be one that a RetryQueue can have: lower-case letters, digits and '-', starting with a letter and not ending with '-'"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=52
	// +required
	Name string `json:"name,omitempty"`
}

// DeadSelector picks dead jobs.
//
// +kubebuilder:validation:XValidation:rule="!has(self.diedAfter) || !has(self.diedBefore) || self.diedAfter < self.diedBefore",message="diedAfter must be earlier than diedBefore: swap or widen them"
type DeadSelector struct {
	// diedAfter picks jobs that died at or after this time.
	// +optional
	DiedAfter *metav1.MicroTime `json:"diedAfter,omitempty"`
	// diedBefore picks jobs that died before this time. Unset means before the plan was made.
	// +optional
	DiedBefore *metav1.MicroTime `json:"diedBefore,omitempty"`
	// reasons picks by reason.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	// +optional
	Reasons []DeathReason `json:"reasons,omitempty"`
	// httpStatuses picks by the last answer: a status ("503") or a class ("5xx").
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[1-5]([0-9][0-9]|xx)$')",message="a status must be three digits such as 503, or a class such as 5xx"
	// +kubebuilder:validation:items:MaxLength=3
	// +optional
	HTTPStatuses []string `json:"httpStatuses,omitempty"`
	// fingerprints picks by cause.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	// +optional
	Fingerprints []string `json:"fingerprints,omitempty"`
	// ids picks single jobs.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[!-~]+$')",message="an id must be printable ASCII without spaces, as the ids of jobs are"
	// +optional
	IDs []string `json:"ids,omitempty"`
}

// DeathReason is why a job died.
//
// +kubebuilder:validation:Enum=Permanent;Exhausted;DeadlineExceeded
type DeathReason string

// RedriveRate is the pace of release.
//
// +kubebuilder:validation:XValidation:rule="!has(self.burst) || !self.per.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') || (self.burst - 1) * duration(self.per).getMilliseconds() >= self.jobs * 100",message="burst must be at least what the rate gives in 0.1s, and one (jobs * 100ms / per + 1): raise burst or leave it out"
type RedriveRate struct {
	// jobs per span; 1 to 100000.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	// +required
	Jobs int64 `json:"jobs,omitempty"`
	// per is the span; 1ms to 24h, default 1s.
	// +default="1s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('1ms') && duration(self) <= duration('24h')",message="per must be from 1ms to 24h, such as 30s or 1h30m"
	// +optional
	Per metav1.Duration `json:"per,omitempty,omitzero"`
	// burst is the most that may go at once; at least what the rate gives in 0.1 s, and one. Default just that.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	// +optional
	Burst *int64 `json:"burst,omitempty"`
}

// RedriveBudget is the fresh budget of a replayed job.
type RedriveBudget struct {
	// maxAttempts is the number of starts; at most the queue's, which is the default.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	MaxAttempts *int32 `json:"maxAttempts,omitempty"`
	// deadline counts from the job's release; at most 720h, default the queue's.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('1ms') && duration(self) <= duration('720h')",message="deadline must be from 1ms to 720h, such as 30s or 1h30m"
	// +optional
	Deadline *metav1.Duration `json:"deadline,omitempty"`
}

// Canary is what goes first.
type Canary struct {
	// jobs of the canary; 0 for none.
	// +default=10
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	// +optional
	Jobs *int64 `json:"jobs,omitempty"`
	// maxFailurePercent of the canary may die again; default 10.
	// +default=10
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	MaxFailurePercent *int64 `json:"maxFailurePercent,omitempty"`
	// timeout after which an undecided canary waits for a person. 1s to 24h; default the longer
	// of 2m and four attemptTimeouts.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="timeout must be from 1s to 24h, such as 30s or 1h30m"
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}

// Abort says when a Redrive stops itself.
type Abort struct {
	// maxFailurePercent of the finished jobs may have died again; default 20.
	// +default=20
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	MaxFailurePercent *int64 `json:"maxFailurePercent,omitempty"`
	// minJobs must have finished before the percentage counts; default 20.
	// +default=20
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +optional
	MinJobs *int64 `json:"minJobs,omitempty"`
}

// RedriveStatus is the plan, its approvals and how far it got.
type RedriveStatus struct {
	// observedGeneration is the generation that this status speaks of; -1 before the first pass.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions are Planned, Approved, Complete, Failed, Ready; Reconciling and Stalled while true.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// plan is what will run once approved, frozen.
	// +optional
	Plan *RedrivePlan `json:"plan,omitempty"`
	// progress counts the jobs of the plan.
	// +optional
	Progress *RedriveProgress `json:"progress,omitempty"`
	// approvals that counted, copied so that the record outlives the objects.
	// +listType=map
	// +listMapKey=approver
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Approvals []RedriveApprovalRecord `json:"approvals,omitempty"`
}

// RedrivePlan describes a frozen plan.
type RedrivePlan struct {
	// hash covers the store, the queue, this Redrive, the jobs, the budget, the rate, the stop rules and the target.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Hash string `json:"hash,omitempty"`
	// queueUID is the queue that was planned for.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	QueueUID string `json:"queueUID,omitempty"`
	// matched is how many dead jobs the selector picked.
	// +optional
	Matched int64 `json:"matched"`
	// selected is how many will be replayed.
	// +optional
	Selected int64 `json:"selected"`
	// skipped counts matched jobs that will not be replayed, by why: RedriveLimit, Limit.
	// +optional
	Skipped map[string]int64 `json:"skipped,omitempty"`
	// byReason counts the selected by reason.
	// +optional
	ByReason map[string]int64 `json:"byReason,omitempty"`
	// byFingerprint are the 20 most frequent causes.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	// +optional
	ByFingerprint []CauseCount `json:"byFingerprint,omitempty"`
	// sampleIDs are some of the jobs.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MaxLength=256
	// +optional
	SampleIDs []string `json:"sampleIDs,omitempty"`
	// plannedAt is when the plan was frozen, by the store's clock.
	// +optional
	PlannedAt *metav1.MicroTime `json:"plannedAt,omitempty"`
	// expiresAt is when the plan lapses without its approvals.
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`
	// estimatedDuration at the declared rate.
	// +optional
	EstimatedDuration *metav1.Duration `json:"estimatedDuration,omitempty"`
}

// CauseCount is one cause and how many jobs it has.
type CauseCount struct {
	// fingerprint of the cause.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Fingerprint string `json:"fingerprint,omitempty"`
	// reason of the deaths.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	Reason string `json:"reason,omitempty"`
	// count of jobs; at least 1.
	// +kubebuilder:validation:Minimum=1
	// +required
	Count int64 `json:"count,omitempty"`
	// sample is one error message of this cause.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Sample string `json:"sample,omitempty"`
}

// RedriveProgress counts the jobs of a plan.
type RedriveProgress struct {
	// released jobs went back to the queue.
	// +optional
	Released int64 `json:"released"`
	// delivered of those.
	// +optional
	Delivered int64 `json:"delivered"`
	// diedAgain of those.
	// +optional
	DiedAgain int64 `json:"diedAgain"`
	// outstanding are released and unfinished.
	// +optional
	Outstanding int64 `json:"outstanding"`
	// gone were purged or replayed by another Redrive since the plan.
	// +optional
	Gone int64 `json:"gone"`
	// remaining are not released yet.
	// +optional
	Remaining int64 `json:"remaining"`
}

// RedriveApprovalRecord is one approval that counted.
type RedriveApprovalRecord struct {
	// approver is a user name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +required
	Approver string `json:"approver,omitempty"`
	// planHash that was approved.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	PlanHash string `json:"planHash,omitempty"`
	// time of the approval.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
}
