package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
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

// RetryPolicy bounds the retrying of one job.
//
// +kubebuilder:validation:XValidation:rule="!has(self.deadline) || !has(self.attemptTimeout) || !self.deadline.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') || !self.attemptTimeout.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') || duration(self.deadline) >= duration(self.attemptTimeout)",message="deadline must be at least attemptTimeout, so that one attempt fits: raise deadline or lower attemptTimeout"
type RetryPolicy struct {
	// maxAttempts is the number of starts, the first included; 1 to 100, default 8.
	// +default=8
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	MaxAttempts int32 `json:"maxAttempts,omitempty"`
	// backoff is the wait between attempts.
	// +default={}
	// +optional
	Backoff Backoff `json:"backoff,omitzero"`
	// deadline counts from the first acceptance and is never extended by a retry: no attempt starts at or
	// after it. Default 1h, at most 720h, at least attemptTimeout.
	// +default="1h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('1ms') && duration(self) <= duration('720h')",message="deadline must be from 1ms to 720h, such as 30s or 1h30m"
	// +optional
	Deadline metav1.Duration `json:"deadline,omitempty,omitzero"`
	// attemptTimeout is the hard limit of one attempt. Default 10s, at most 15m.
	// +default="10s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('1ms') && duration(self) <= duration('15m')",message="attemptTimeout must be from 1ms to 15m, such as 30s or 1h30m"
	// +optional
	AttemptTimeout metav1.Duration `json:"attemptTimeout,omitempty,omitzero"`
	// retryAfterMax bounds the Retry-After that a target may ask for; 0s ignores it. Default 5m, at most 24h.
	// +default="5m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('0s') && duration(self) <= duration('24h')",message="retryAfterMax must be from 0s to 24h, such as 30s or 1h30m"
	// +optional
	RetryAfterMax metav1.Duration `json:"retryAfterMax,omitempty"`
}

// Backoff is capped exponential backoff with jitter; none of the three can be left out.
//
// +kubebuilder:validation:XValidation:rule="!has(self.cap) || !has(self.base) || !self.cap.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') || !self.base.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') || duration(self.cap) >= duration(self.base)",message="cap must be at least base: raise cap or lower base"
type Backoff struct {
	// base is the window of the first retry; greater than 0, default 1s.
	// +default="1s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('1ms') && duration(self) <= duration('24h')",message="base must be from 1ms to 24h, such as 30s or 1h30m"
	// +optional
	Base metav1.Duration `json:"base,omitempty,omitzero"`
	// cap is the largest window; at least base, at most 24h, default 30s.
	// +default="30s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('1ms') && duration(self) <= duration('24h')",message="cap must be from 1ms to 24h, such as 30s or 1h30m"
	// +optional
	Cap metav1.Duration `json:"cap,omitempty,omitzero"`
	// jitter is Full (uniform over the window, the default) or Decorrelated.
	// +default="Full"
	// +optional
	Jitter Jitter `json:"jitter,omitempty"`
}

// Jitter says how a delay is drawn.
//
// +kubebuilder:validation:Enum=Full;Decorrelated
type Jitter string

// The kinds of jitter.
const (
	JitterFull         Jitter = "Full"
	JitterDecorrelated Jitter = "Decorrelated"
)

// FailurePolicy is an ordered list of rules; the first that matches decides.
type FailurePolicy struct {
	// rules are tried in order before the defaults: 2xx succeeds; 408, 425, 429, 5xx and transport errors
	// are retried; every other status is permanent.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +required
	Rules []FailureRule `json:"rules,omitempty"`
}

// FailureRule maps failures to an action.
//
// +kubebuilder:validation:XValidation:rule="has(self.onHTTPStatus) || has(self.onError)",message="a rule must match something: set onHTTPStatus or onError"
// +kubebuilder:validation:XValidation:rule="self.action != 'Succeed' || !has(self.onError)",message="action Succeed must not be used with onError, since a request without an answer may not have arrived: use Retry or Fail"
type FailureRule struct {
	// name of the rule, shown as the cause.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="the name of a rule must be lower-case letters, digits and '-', neither starting nor ending with '-'"
	// +required
	Name string `json:"name,omitempty"`
	// onHTTPStatus matches these answers: a status ("409") or a class ("5xx").
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[1-5]([0-9][0-9]|xx)$')",message="a status must be three digits such as 503, or a class such as 5xx"
	// +kubebuilder:validation:items:MaxLength=3
	// +optional
	OnHTTPStatus []string `json:"onHTTPStatus,omitempty"`
	// onError matches attempts without an answer: Timeout, Connection (refused, reset, DNS) or TLS.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	// +optional
	OnError []TransportError `json:"onError,omitempty"`
	// action is what a match means: Succeed, Retry or Fail (dead at once).
	// +required
	Action FailureAction `json:"action,omitempty"`
}

// TransportError is a class of failure without an HTTP answer.
//
// +kubebuilder:validation:Enum=Timeout;Connection;TLS
type TransportError string

// The classes of transport errors.
const (
	TransportTimeout    TransportError = "Timeout"
	TransportConnection TransportError = "Connection"
	TransportTLS        TransportError = "TLS"
)

// FailureAction is what a matching rule does.
//
// +kubebuilder:validation:Enum=Succeed;Retry;Fail
type FailureAction string

// The actions of a rule.
const (
	ActionSucceed FailureAction = "Succeed"
	ActionRetry   FailureAction = "Retry"
	ActionFail    FailureAction = "Fail"
)

// Delivery is where jobs go. Exactly one way.
type Delivery struct {
	// http posts each job to a URL.
	// +required
	HTTP *HTTPDelivery `json:"http,omitempty"`
}

// HTTPDelivery posts each job. One attempt is one request; redirects are not followed.
type HTTPDelivery struct {
	// url is http or https, with a host and without user information or fragment.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['http','https'] && url(self).getHostname() != '' && !self.matches('[^!-~]')",message="url must be an absolute http or https URL with a host, such as http://orders.shop.svc/handle"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[^/?#]*//[^/?#]*@')",message="url must not hold user information: remove what stands before the @ and let the target check the signature of signingSecretRef"
	// +kubebuilder:validation:XValidation:rule="!self.contains('#')",message="url must not hold a fragment: remove the # and what follows"
	// +required
	URL string `json:"url,omitempty"`
	// headers are added to every request. They replace headers of the job, and cannot replace those that
	// RetryQueue sets.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(h, self.exists_one(g, g.name.lowerAscii() == h.name.lowerAscii()))",message="headers must not name one header twice, upper and lower case being the same: remove one"
	// +optional
	Headers []HTTPHeader `json:"headers,omitempty"`
	// signingSecretRef names a Secret in this namespace whose keys hold Standard Webhooks secrets
	// ("whsec_" and base64). Two keys sign with both, for rotation.
	// +optional
	SigningSecretRef *SecretRef `json:"signingSecretRef,omitempty"`
}

// HTTPHeader is one header of a request.
type HTTPHeader struct {
	// name of the header. Reserved are those that RetryQueue or the connection sets: RetryQueue-*, Webhook-*,
	// Idempotency-Key, Content-Type, Content-Length, Host and those of the connection.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9!#$%&*+.^_`|~\\x27-]+$')",message="the name of a header must be a token: letters, digits and '-', no spaces or colons"
	// +kubebuilder:validation:XValidation:rule="!self.lowerAscii().startsWith('retryqueue-') && !self.lowerAscii().startsWith('webhook-') && !(self.lowerAscii() in ['connection','content-length','content-type','expect','host','idempotency-key','keep-alive','proxy-authorization','proxy-connection','te','trailer','transfer-encoding','upgrade'])",message="the name of a header must not be one that RetryQueue or the connection sets (RetryQueue-*, Webhook-*, Idempotency-Key, Content-Type, Content-Length, Host, Connection, …): remove it or choose another"
	// +required
	Name string `json:"name,omitempty"`
	// value of the header; never a secret.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="!self.matches('[[:cntrl:]]')",message="the value of a header must not hold control characters such as line ends: remove them"
	// +optional
	Value string `json:"value,omitempty"`
}

// SecretRef names a Secret in the RetryQueue's namespace.
type SecretRef struct {
	// name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$')",message="name must be one that a Secret can have: lower-case letters, digits, '-' and '.'"
	// +required
	Name string `json:"name,omitempty"`
}

// Accept says who may put jobs in.
//
// +kubebuilder:validation:XValidation:rule="self.insecure || has(self.tokenSecretRef) || has(self.from)",message="accept must say who may put jobs in: set tokenSecretRef or from, or insecure: true to let in anyone who reaches the Service"
// +kubebuilder:validation:XValidation:rule="!self.insecure || (!has(self.tokenSecretRef) && !has(self.from))",message="insecure must not stand beside tokenSecretRef or from: remove insecure or the others"
type Accept struct {
	// tokenSecretRef names a Secret; each of its values is a bearer token that producers may use.
	// +optional
	TokenSecretRef *SecretRef `json:"tokenSecretRef,omitempty"`
	// from are the peers that a NetworkPolicy lets in.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(p, has(p.ipBlock) ? !has(p.podSelector) && !has(p.namespaceSelector) : has(p.podSelector) || has(p.namespaceSelector))",message="each peer of from must have podSelector, namespaceSelector or both, or else ipBlock alone"
	// +kubebuilder:validation:XValidation:rule="self.all(p, !has(p.ipBlock) || isCIDR(p.ipBlock.cidr))",message="ipBlock.cidr must be a network such as 10.0.0.0/8 or 2001:db8::/32"
	// +optional
	From []networkingv1.NetworkPolicyPeer `json:"from,omitempty"`
	// insecure lets anyone who reaches the Service put jobs in.
	// +default=false
	// +optional
	Insecure bool `json:"insecure,omitempty"`
}

// Limits bound what is accepted. What exceeds them is refused with 413 or 429, never dropped.
//
// +kubebuilder:validation:XValidation:rule="!has(self.maxBytes) || !has(self.maxPayload) || quantity(string(self.maxBytes)).compareTo(quantity(string(self.maxPayload))) >= 0",message="maxBytes must be at least maxPayload: raise maxBytes or lower maxPayload"
type Limits struct {
	// maxPayload is the largest payload; default 256Ki, at most 16Mi.
	// +default="256Ki"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1')) >= 0 && quantity(string(self)).compareTo(quantity('16Mi')) <= 0",message="maxPayload must be from 1 to 16Mi"
	// +optional
	MaxPayload resource.Quantity `json:"maxPayload,omitempty,omitzero"`
	// maxPending is how many jobs may be waiting or in flight; default 1000000.
	// +default=1000000
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000000
	// +optional
	MaxPending int64 `json:"maxPending,omitempty"`
	// maxBytes is how many bytes of payloads and headers may be kept, dead jobs included; default 900Mi. It
	// must be at least maxPayload, and with SQLite less than the volume's size.
	// +default="900Mi"
	// +optional
	MaxBytes resource.Quantity `json:"maxBytes,omitempty,omitzero"`
	// perWorkerConcurrency is how many jobs one worker has in flight; 1 to 1024, default 64.
	// +default=64
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	// +optional
	PerWorkerConcurrency int32 `json:"perWorkerConcurrency,omitempty"`
}

// StorageType is a kind of store.
//
// +kubebuilder:validation:Enum=SQLite
type StorageType string

// StorageSQLite is the embedded store: one worker pod with a PersistentVolumeClaim.
const StorageSQLite StorageType = "SQLite"

// Storage is where jobs are kept.
//
// +kubebuilder:validation:XValidation:rule="!has(self.type) || !has(oldSelf.type) || self.type == oldSelf.type",message="type must not change, since the jobs would be left behind: make a new RetryQueue"
type Storage struct {
	// type is SQLite.
	// +default="SQLite"
	// +optional
	Type StorageType `json:"type,omitempty"`
	// sqlite shapes the embedded store; only with type SQLite.
	// +default={}
	// +optional
	SQLite *SQLiteStorage `json:"sqlite,omitempty"`
}

// SQLiteStorage shapes the volume of the embedded store.
//
// +kubebuilder:validation:XValidation:rule="!has(self.size) || !has(oldSelf.size) || quantity(string(self.size)).compareTo(quantity(string(oldSelf.size))) >= 0",message="size must not shrink: a volume can only grow"
// +kubebuilder:validation:XValidation:rule="!has(self.accessMode) || !has(oldSelf.accessMode) || self.accessMode == oldSelf.accessMode",message="accessMode must not change, since a volume keeps its own: make a new RetryQueue"
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",message="storageClassName must not change, since a volume keeps its own: make a new RetryQueue"
// +kubebuilder:validation:XValidation:rule="has(self.existingClaim) == has(oldSelf.existingClaim) && (!has(self.existingClaim) || self.existingClaim == oldSelf.existingClaim)",message="existingClaim must not change, since the jobs would be left behind: make a new RetryQueue"
type SQLiteStorage struct {
	// size of the volume; default 1Gi, at least 64Mi. It can grow where the storage class allows it, never shrink.
	// +default="1Gi"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('64Mi')) >= 0",message="size must be at least 64Mi"
	// +optional
	Size resource.Quantity `json:"size,omitempty,omitzero"`
	// accessMode of the volume: ReadWriteOncePod (the default) or ReadWriteOnce, for drivers without the former.
	// +kubebuilder:validation:Enum=ReadWriteOncePod;ReadWriteOnce
	// +default="ReadWriteOncePod"
	// +optional
	AccessMode corev1.PersistentVolumeAccessMode `json:"accessMode,omitempty"`
	// storageClassName of the volume; unset takes the cluster's default.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	StorageClassName *string `json:"storageClassName,omitempty"`
	// existingClaim adopts this PersistentVolumeClaim, such as the one that a deleted RetryQueue of this name and
	// namespace left behind, instead of making one. It is kept whatever deletionPolicy says. Its name must have the form retryqueue-NAME-data, which admission guards, and to
	// set it takes the verb set-redrive-policy, since its dead jobs come under this queue's redrivePolicy.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^retryqueue-[a-z0-9]([-a-z0-9]*[a-z0-9])?-data$')",message="existingClaim must be named retryqueue-NAME-data, the names that only workers may mount: copy the volume into such a claim"
	// +optional
	ExistingClaim string `json:"existingClaim,omitempty"`
}

// DeadLetter says what becomes of dead jobs.
type DeadLetter struct {
	// maxRedrives is how often one job may be redriven; default 3.
	// +default=3
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	MaxRedrives *int32 `json:"maxRedrives,omitempty"`
	// retention deletes dead jobs this long after their death. At least 1s; unset keeps them until
	// they are purged.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('1s') && duration(self) <= duration('87600h')",message="retention must be from 1s to 87600h, such as 30s or 1h30m"
	// +optional
	Retention *metav1.Duration `json:"retention,omitempty"`
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

// DeletionPolicy says what becomes of the data when the RetryQueue is deleted.
//
// +kubebuilder:validation:Enum=Retain;Delete
type DeletionPolicy string

// The deletion policies.
const (
	DeletionRetain DeletionPolicy = "Retain"
	DeletionDelete DeletionPolicy = "Delete"
)

// Workers shape the pods that run the queue.
type Workers struct {
	// replicas is the number of worker pods; SQLite allows one. 0 stops the queue and its API.
	// +default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`
	// template adds to the worker pods what is listed here, and nothing else.
	// +optional
	Template *WorkerTemplate `json:"template,omitempty"`
}

// WorkerTemplate is the allow-list of what may be set on worker pods.
type WorkerTemplate struct {
	// labels are added to the pods. retryqueue.dev/*, app.kubernetes.io/* and pod-template-hash are not yours.
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('retryqueue.dev/') && !k.startsWith('app.kubernetes.io/') && k != 'pod-template-hash')",message="labels must not use retryqueue.dev/*, app.kubernetes.io/* or pod-template-hash, which the operator sets: remove or rename them"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !format.qualifiedName().validate(k).hasValue())",message="labels must have valid keys: letters, digits, '-', '_' and '.', at most 63, with an optional DNS prefix and '/'"
	// +kubebuilder:validation:XValidation:rule="self.all(k, self[k].size() <= 63)",message="labels must have values of at most 63 characters"
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// annotations are added to the pods. retryqueue.dev/* are not yours.
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('retryqueue.dev/'))",message="annotations must not use retryqueue.dev/*, which the operator sets: remove or rename them"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !format.qualifiedName().validate(k.lowerAscii()).hasValue())",message="annotations must have valid keys: letters, digits, '-', '_' and '.', at most 63, with an optional DNS prefix and '/'"
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// resources of the worker container.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// nodeSelector of the pods.
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// affinity of the pods.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
	// tolerations of the pods.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// priorityClassName of the pods.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// imagePullSecrets of the pods.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +optional
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	// sidecars run beside the worker; one may be the target. They get the same restricted security context.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Sidecars []Sidecar `json:"sidecars,omitempty"`
}

// Sidecar is a container beside the worker. It cannot mount the queue's data or keys.
type Sidecar struct {
	// name of the container.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="the name of a sidecar must be lower-case letters, digits and '-', neither starting nor ending with '-'"
	// +kubebuilder:validation:XValidation:rule="self != 'worker'",message="the name of a sidecar must not be worker, which is the worker itself: choose another"
	// +required
	Name string `json:"name,omitempty"`
	// image of the container.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +required
	Image string `json:"image,omitempty"`
	// args of the container.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=1024
	// +optional
	Args []string `json:"args,omitempty"`
	// env of the container.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Env []corev1.EnvVar `json:"env,omitempty"`
	// resources of the container.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
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
