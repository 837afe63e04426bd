package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the group and version of every kind here.
	GroupVersion = schema.GroupVersion{Group: "retryqueue.dev", Version: "v1alpha1"}

	// SchemeBuilder registers the kinds.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme adds the kinds to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&RetryQueue{}, &RetryQueueList{},
		&Redrive{}, &RedriveList{},
		&RedriveApproval{}, &RedriveApprovalList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
