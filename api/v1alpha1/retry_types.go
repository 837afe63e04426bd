package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
