package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RetryQueue declares how work may be retried: backoff, attempts and deadline, where it is delivered, and
// what becomes of work that cannot be done.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.workers.replicas,statuspath=.status.workers.replicas,selectorpath=.status.workers.selector
// +kubebuilder:resource:shortName=rq
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Pending",type=integer,JSONPath=`.status.jobs.pending`
// +kubebuilder:printcolumn:name="Dead",type=integer,JSONPath=`.status.jobs.dead`
// +kubebuilder:printcolumn:name="Oldest-Dead",type=date,JSONPath=`.status.jobs.oldestDeadTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Address",type=string,JSONPath=`.status.address`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 52 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be at most 52 characters, lower-case letters, digits and '-', starting with a letter: a Service is named after it"
type RetryQueue struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the owner of the queue declares.
	// +required
	Spec RetryQueueSpec `json:"spec,omitzero"`
	// status is what the controller last observed.
	// +default={"observedGeneration":-1}
	// +optional
	Status RetryQueueStatus `json:"status,omitzero"`
}

// RetryQueueList is a list of RetryQueues.
//
// +kubebuilder:object:root=true
type RetryQueueList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RetryQueue `json:"items"`
}

// RetryQueueSpec is the desired state of a RetryQueue.
//
// +kubebuilder:validation:XValidation:rule="self.storage.type != 'SQLite' || !has(self.workers.replicas) || self.workers.replicas <= 1",message="workers.replicas must be 0 or 1 with storage.type SQLite, whose file only one worker can own"
// +kubebuilder:validation:XValidation:rule="!has(self.storage.sqlite) || quantity(string(self.limits.maxBytes)).isLessThan(quantity(string(self.storage.sqlite.size)))",message="limits.maxBytes must be less than storage.sqlite.size, since the store needs room beside the payloads: lower maxBytes or raise size"
type RetryQueueSpec struct {
	// suspend stops claiming when true; accepting goes on, and deadlines still run.
	// +default=false
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// retryPolicy bounds the retrying of one job.
	// +default={}
	// +optional
	RetryPolicy RetryPolicy `json:"retryPolicy,omitzero"`
	// failurePolicy says which failures are worth another attempt, before the defaults do.
	// +optional
	FailurePolicy *FailurePolicy `json:"failurePolicy,omitempty"`
	// delivery is where jobs go.
	// +required
	Delivery Delivery `json:"delivery,omitzero"`
	// accept says who may put jobs in. At least one of tokenSecretRef and from, or insecure: true.
	// +required
	Accept Accept `json:"accept,omitzero"`
	// dedupeWindow is how long an id is remembered after its job has left the queue.
	// Default 24h; 1s to 720h.
	// +default="24h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('1s') && duration(self) <= duration('720h')",message="dedupeWindow must be from 1s to 720h, such as 30s or 1h30m"
	// +optional
	DedupeWindow metav1.Duration `json:"dedupeWindow,omitempty,omitzero"`
	// limits bound what the queue accepts.
	// +default={}
	// +optional
	Limits Limits `json:"limits,omitzero"`
	// storage is where jobs are kept.
	// +default={}
	// +optional
	Storage Storage `json:"storage,omitzero"`
	// deadLetter says what becomes of dead jobs.
	// +default={}
	// +optional
	DeadLetter DeadLetter `json:"deadLetter,omitzero"`
	// redrivePolicy restrains the replay of dead jobs. To set it off its defaults takes the verb
	// set-redrive-policy on the RetryQueue.
	// +default={}
	// +optional
	RedrivePolicy RedrivePolicy `json:"redrivePolicy,omitzero"`
	// deletionPolicy is Retain (the default: the data outlives the RetryQueue) or Delete.
	// +default="Retain"
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
	// workers shape the pods that run the queue.
	// +default={}
	// +optional
	Workers Workers `json:"workers,omitzero"`
}

// RedrivePolicy restrains redrives of this queue.
type RedrivePolicy struct {
	// maxRate is the fastest rate that a Redrive may declare; default 50 jobs per 1s.
	// +default={"jobs":50,"per":"1s"}
	// +optional
	MaxRate MaxRate `json:"maxRate,omitzero"`
	// minApprovals is how many different people must approve; default 1.
	// +default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	// +optional
	MinApprovals int32 `json:"minApprovals,omitempty"`
	// forbidSelfApproval refuses approvals by the one who made the Redrive; default true.
	// +default=true
	// +optional
	ForbidSelfApproval *bool `json:"forbidSelfApproval,omitempty"`
	// approvalTTL is how long a plan waits for its approvals, and how long an approval counts.
	// Default 24h; 1s to 720h.
	// +default="24h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('1s') && duration(self) <= duration('720h')",message="approvalTTL must be from 1s to 720h, such as 30s or 1h30m"
	// +optional
	ApprovalTTL metav1.Duration `json:"approvalTTL,omitempty,omitzero"`
}

// MaxRate is a number of jobs per span of time.
type MaxRate struct {
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
}

// RetryQueueStatus is what the controller last observed.
type RetryQueueStatus struct {
	// observedGeneration is the generation that this status speaks of; -1 before the first pass.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions are Ready always; Reconciling and Stalled while true; WorkersAvailable, DeadLetters, Budget.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// address is where producers post jobs.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Address string `json:"address,omitempty"`
	// jobs counts jobs, at most every 30 s; live numbers are in the metrics.
	// +optional
	Jobs *JobCounts `json:"jobs,omitempty"`
	// budget is what the retry policy can cost and how long it waits.
	// +optional
	Budget *BudgetStatus `json:"budget,omitempty"`
	// workers of the queue.
	// +optional
	Workers *WorkersStatus `json:"workers,omitempty"`
}

// JobCounts are coarse counts of a queue.
type JobCounts struct {
	// pending jobs wait for their next attempt.
	// +optional
	Pending *int64 `json:"pending,omitempty"`
	// leased jobs are being delivered.
	// +optional
	Leased *int64 `json:"leased,omitempty"`
	// dead jobs wait for a person.
	// +optional
	Dead *int64 `json:"dead,omitempty"`
	// oldestPendingTime is when the oldest waiting job became due, or will.
	// +optional
	OldestPendingTime *metav1.Time `json:"oldestPendingTime,omitempty"`
	// oldestDeadTime is when the oldest dead job died.
	// +optional
	OldestDeadTime *metav1.Time `json:"oldestDeadTime,omitempty"`
	// observedTime is when these were read.
	// +optional
	ObservedTime *metav1.Time `json:"observedTime,omitempty"`
}

// BudgetStatus is arithmetic over the retry policy.
type BudgetStatus struct {
	// longestWait is the most that one job can wait between its attempts, by backoff alone.
	// +optional
	LongestWait *metav1.Duration `json:"longestWait,omitempty"`
	// meanWait is the mean of that wait over the jitter. Judge by this whether a queue rides out an outage.
	// +optional
	MeanWait *metav1.Duration `json:"meanWait,omitempty"`
	// reachableAttempts is how many attempts can start before the deadline when each attempt uses its
	// whole timeout and each delay its whole window.
	// +optional
	ReachableAttempts int32 `json:"reachableAttempts,omitempty"`
	// maxRequestsPerJob is the most requests that one job can cost: maxAttempts x (1 + maxRedrives).
	// +optional
	MaxRequestsPerJob int64 `json:"maxRequestsPerJob,omitempty"`
}

// WorkersStatus is what the controller sees of the worker pods.
type WorkersStatus struct {
	// replicas is the number of worker pods.
	// +optional
	Replicas int32 `json:"replicas"`
	// readyReplicas is the number of ready worker pods.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`
	// selector of the worker pods, for the scale subresource.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Selector string `json:"selector,omitempty"`
}
