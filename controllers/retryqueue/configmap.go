package retryqueue

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
)

// document is a RetryQueue as its workers read it: without what only the API server is concerned with.
type document struct {
	APIVersion string                  `json:"apiVersion"`
	Kind       string                  `json:"kind"`
	Metadata   documentMeta            `json:"metadata"`
	Spec       v1alpha1.RetryQueueSpec `json:"spec"`
}

type documentMeta struct {
	Name       string    `json:"name"`
	Namespace  string    `json:"namespace"`
	UID        types.UID `json:"uid"`
	Generation int64     `json:"generation"`
}

// buildManifest is what workers are started with, and what is pushed to running ones. YAML is a superset of
// JSON, but people read the ConfigMap.
func buildManifest(rq *v1alpha1.RetryQueue) ([]byte, error) {
	b, err := yaml.Marshal(document{
		APIVersion: v1alpha1.GroupVersion.String(),
		Kind:       "RetryQueue",
		Metadata:   documentMeta{Name: rq.Name, Namespace: rq.Namespace, UID: rq.UID, Generation: rq.Generation},
		Spec:       rq.Spec,
	})
	if err != nil {
		return nil, fmt.Errorf("writing the workers' manifest: %w", err)
	}
	return b, nil
}

// buildConfigMap serves starts. Running workers are told of a change by a push.
func buildConfigMap(rq *v1alpha1.RetryQueue) (*corev1ac.ConfigMapApplyConfiguration, error) {
	m, err := buildManifest(rq)
	if err != nil {
		return nil, err
	}
	return corev1ac.ConfigMap(childName(rq), rq.Namespace).
		WithLabels(objectLabels(rq)).
		WithOwnerReferences(owner(rq)).
		WithData(map[string]string{manifestKey: string(m)}), nil
}
