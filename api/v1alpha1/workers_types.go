package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
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
