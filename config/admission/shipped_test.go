package admission_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
	"github.com/retryqueue/retryqueue/config/admission"
	"github.com/retryqueue/retryqueue/internal/testenv"
)

// The tests apply whole directories, people apply what kustomize lists.
func TestKustomizationsListEveryManifest(t *testing.T) {
	for _, dir := range []string{".", "../crd", "../rbac"} {
		b, err := os.ReadFile(filepath.Join(dir, "kustomization.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var k struct{ Resources []string }
		if err := yaml.Unmarshal(b, &k); err != nil {
			t.Fatal(err)
		}
		listed, files := map[string]bool{}, map[string]bool{}
		for _, r := range k.Resources {
			listed[r] = true
		}
		paths, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paths {
			if name := filepath.Base(p); name != "kustomization.yaml" {
				files[name] = true
			}
		}
		if diff := cmp.Diff(files, listed); diff != "" {
			t.Errorf("%s (-files +kustomization.yaml):\n%s", dir, diff)
		}
	}
}

// A policy without a binding, or one that only warns, does nothing.
func TestEveryPolicyIsBoundAndDenies(t *testing.T) {
	objects, err := testenv.ReadManifests(".")
	if err != nil {
		t.Fatal(err)
	}
	policies, bound := map[string]bool{}, map[string]bool{}
	for _, o := range objects {
		spec, _ := o.Object["spec"].(map[string]any)
		switch o.GetKind() {
		case "ValidatingAdmissionPolicy", "MutatingAdmissionPolicy":
			policies[o.GetName()] = spec["failurePolicy"] == "Fail"
		case "ValidatingAdmissionPolicyBinding":
			bound[spec["policyName"].(string)] = cmp.Equal(spec["validationActions"], []any{"Deny"})
		case "MutatingAdmissionPolicyBinding":
			bound[spec["policyName"].(string)] = true
		}
	}
	if diff := cmp.Diff(policies, bound); diff != "" || len(policies) < 9 {
		t.Errorf("%d policies (-fail closed +bound to deny):\n%s", len(policies), diff)
	}
	for name, ok := range policies {
		if !ok || !bound[name] {
			t.Errorf("%s: fails closed %t, denies %t", name, ok, bound[name])
		}
	}
}

// The policies write out names that the code has as constants.
func TestPoliciesUseTheNamesOfTheCode(t *testing.T) {
	for file, names := range map[string][]string{
		"reserved-names.yaml":   {"'" + v1alpha1.ReservedPrefix + "'", testenv.ManagerUser},
		"worker-pods.yaml":      {"'" + v1alpha1.ReservedPrefix + "'", "'" + v1alpha1.DataSuffix + "'", "'" + v1alpha1.LabelQueue + "'"},
		"worker-data.yaml":      {"'" + v1alpha1.ReservedPrefix + "'", "'" + v1alpha1.DataSuffix + "'", "'" + v1alpha1.LabelQueue + "'", "'" + v1alpha1.LabelQueueUID + "'", testenv.ManagerUser, "'" + v1alpha1.VerbSetRedrivePolicy + "'"},
		"worker-exec.yaml":      {"'" + v1alpha1.ReservedPrefix + "'"},
		"manager-secrets.yaml":  {"'" + v1alpha1.SecretTypeWorkerTLS + "'", testenv.ManagerUser},
		"redrivepolicy.yaml":    {"'" + v1alpha1.VerbSetRedrivePolicy + "'"},
		"redriveapprovals.yaml": {"'" + v1alpha1.VerbApprove + "'"},
	} {
		b, err := admission.Files.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if !bytes.Contains(b, []byte(name)) {
				t.Errorf("%s lacks %s", file, name)
			}
		}
	}
}
