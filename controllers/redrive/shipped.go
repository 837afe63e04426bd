package redrive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Names of the policies, and of their bindings, that identities rest on.
const (
	approvalPolicy  = "redriveapprovals.retryqueue.dev"
	requesterPolicy = "redrives.retryqueue.dev"
)

// shippedNamespace is the manager's namespace in the shipped manifests.
const shippedNamespace = "retryqueue-system"

// shipped are the admission policies that must be in force, as the API server would store them.
type shipped struct {
	policies []admissionv1.ValidatingAdmissionPolicy
	bindings []admissionv1.ValidatingAdmissionPolicyBinding
}

// readShipped reads the validating policies and bindings among manifests, for a manager in namespace. Policies that
// only fill in names are left out: what they fill in is checked by a validating one.
func readShipped(files fs.FS, namespace string) (shipped, error) {
	var s shipped
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".yaml" {
			return err
		}
		b, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		if namespace != shippedNamespace {
			b = bytes.ReplaceAll(b, []byte(shippedNamespace), []byte(namespace))
		}
		if err := s.add(b); err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return s, fmt.Errorf("reading the shipped admission policies: %w", err)
	}
	return s, s.check()
}

// add takes the documents of one file.
func (s *shipped) add(b []byte) error {
	dec := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(b), 4096)
	for {
		var u unstructured.Unstructured
		err := dec.Decode(&u.Object)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !strings.HasPrefix(u.GetAPIVersion(), admissionv1.GroupName+"/") {
			continue
		}
		switch u.GetKind() {
		case "ValidatingAdmissionPolicy":
			var v admissionv1.ValidatingAdmissionPolicy
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &v); err != nil {
				return err
			}
			defaultPolicy(&v.Spec)
			s.policies = append(s.policies, v)
		case "ValidatingAdmissionPolicyBinding":
			var v admissionv1.ValidatingAdmissionPolicyBinding
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &v); err != nil {
				return err
			}
			defaultMatch(v.Spec.MatchResources)
			s.bindings = append(s.bindings, v)
		}
	}
}

// check refuses a set without the policies that everything rests on.
func (s *shipped) check() error {
	for _, name := range []string{approvalPolicy, requesterPolicy} {
		policy, binding := false, false
		for _, p := range s.policies {
			policy = policy || p.Name == name
		}
		for _, b := range s.bindings {
			binding = binding || b.Name == name && b.Spec.PolicyName == name
		}
		if !policy || !binding {
			return fmt.Errorf("the shipped admission policies lack %s or its binding", name)
		}
	}
	return nil
}

// defaultPolicy fills in what the API server fills in.
func defaultPolicy(s *admissionv1.ValidatingAdmissionPolicySpec) {
	if s.FailurePolicy == nil {
		fail := admissionv1.Fail
		s.FailurePolicy = &fail
	}
	defaultMatch(s.MatchConstraints)
}

func defaultMatch(m *admissionv1.MatchResources) {
	if m == nil {
		return
	}
	if m.MatchPolicy == nil {
		equivalent := admissionv1.Equivalent
		m.MatchPolicy = &equivalent
	}
	if m.NamespaceSelector == nil {
		m.NamespaceSelector = &everything
	}
	if m.ObjectSelector == nil {
		m.ObjectSelector = &everything
	}
	for _, rules := range [][]admissionv1.NamedRuleWithOperations{m.ResourceRules, m.ExcludeResourceRules} {
		for i := range rules {
			if rules[i].Scope == nil {
				all := admissionv1.AllScopes
				rules[i].Scope = &all
			}
		}
	}
}
