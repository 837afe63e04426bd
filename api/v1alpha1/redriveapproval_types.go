package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RedriveApproval is the act of approving one plan of one Redrive. It must not change once made.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource
// +kubebuilder:printcolumn:name="Redrive",type=string,JSONPath=`.spec.redriveRef.name`
// +kubebuilder:printcolumn:name="Approver",type=string,JSONPath=`.spec.approver`
// +kubebuilder:printcolumn:name="Hash",type=string,JSONPath=`.spec.planHash`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type RedriveApproval struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is approved, and by whom.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a RedriveApproval must not change once made: delete it and make a new one"
	// +required
	Spec RedriveApprovalSpec `json:"spec,omitzero"`
}

// RedriveApprovalList is a list of RedriveApprovals.
//
// +kubebuilder:object:root=true
type RedriveApprovalList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RedriveApproval `json:"items"`
}

// RedriveApprovalSpec binds an approval to one plan.
type RedriveApprovalSpec struct {
	// redriveRef is the Redrive that is approved.
	// +required
	RedriveRef RedriveRef `json:"redriveRef,omitzero"`
	// planHash is status.plan.hash of that Redrive, as it was looked at.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^sha256:[0-9a-f]{64}$')",message="planHash must be status.plan.hash of the Redrive: sha256: and 64 hexadecimal digits"
	// +required
	PlanHash string `json:"planHash,omitempty"`
	// decision is Approved.
	// +default="Approved"
	// +optional
	Decision Decision `json:"decision,omitempty"`
	// approver is your own user name. Clusters with MutatingAdmissionPolicy (1.36 and later) fill it in.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Approver string `json:"approver,omitempty"`
	// message is for those who read it later.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
}

// RedriveRef names one Redrive for good.
type RedriveRef struct {
	// name of the Redrive, in the same namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name,omitempty"`
	// uid of the Redrive, so that a new one of the same name needs a new approval.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +required
	UID string `json:"uid,omitempty"`
}

// Decision is the verdict of an approval.
//
// +kubebuilder:validation:Enum=Approved
type Decision string

// DecisionApproved is the only decision: to refuse, do not approve, or cancel the Redrive.
const DecisionApproved Decision = "Approved"
