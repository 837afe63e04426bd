package testenv

import (
	"bytes"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// sentinels deny a ConfigMap named testenv-sentinel-TAG and annotate one named testenv-mutated-TAG.
const sentinels = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: testenv-TAG}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  validations: [{expression: "object.metadata.name != 'testenv-sentinel-TAG'", message: in force}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: testenv-TAG}
spec: {policyName: testenv-TAG, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: testenv-TAG}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  matchConditions: [{name: ours, expression: "object.metadata.name == 'testenv-mutated-TAG'"}]
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: "Object{metadata: Object.metadata{annotations: {'testenv': 'seen'}}}"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: testenv-TAG}
spec: {policyName: testenv-TAG}
`

// retag puts a tag where the manifest says TAG, so that sentinels of two installations are not confused.
func retag(o *unstructured.Unstructured, tag string) error {
	b, err := o.MarshalJSON()
	if err != nil {
		return err
	}
	return o.UnmarshalJSON(bytes.ReplaceAll(b, []byte("TAG"), []byte(tag)))
}
