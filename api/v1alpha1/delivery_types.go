package v1alpha1

import (
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
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
