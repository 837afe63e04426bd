// Package v1alpha1 holds the API of RetryQueue: types, defaults and validation rules, nothing else.
//
// +kubebuilder:object:generate=true
// +groupName=retryqueue.dev
package v1alpha1
