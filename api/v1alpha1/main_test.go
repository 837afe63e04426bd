package v1alpha1_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/retryqueue/retryqueue/internal/testenv"
)

var cluster *testenv.Cluster

func TestMain(m *testing.M) { os.Exit(testenv.Run(m, &cluster)) }

// The smallest manifests that are valid.
const (
	minimalQueue = `
apiVersion: retryqueue.dev/v1alpha1
kind: RetryQueue
metadata: {name: orders}
spec:
  delivery: {http: {url: "http://orders.shop.svc/handle"}}
  accept: {insecure: true}
`
	minimalRedrive = `
apiVersion: retryqueue.dev/v1alpha1
kind: Redrive
metadata: {name: fix}
spec:
  queueRef: {name: orders}
  reason: "INC-42: schema fixed"
  limit: 500
  rate: {jobs: 10}
`
	minimalApproval = `
apiVersion: retryqueue.dev/v1alpha1
kind: RedriveApproval
metadata: {name: fix}
spec:
  redriveRef: {name: fix, uid: 1f0c}
  planHash: sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
  approver: alice
`
)

// manifest is base with JSON merge patches, written in YAML, laid over it.
func manifest(t *testing.T, base string, patches ...string) *unstructured.Unstructured {
	t.Helper()
	doc := toJSON(t, base)
	for _, p := range patches {
		var err error
		if doc, err = jsonpatch.MergePatch(doc, toJSON(t, p)); err != nil {
			t.Fatalf("merging %s: %v", p, err)
		}
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(doc); err != nil {
		t.Fatalf("reading %s: %v", doc, err)
	}
	return o
}

func toJSON(t *testing.T, y string) []byte {
	t.Helper()
	b, err := yaml.YAMLToJSON([]byte(y))
	if err != nil {
		t.Fatalf("reading %s: %v", y, err)
	}
	if string(b) == "null" {
		return []byte("{}")
	}
	return b
}

// rule is one sentence of the API, with manifests that keep it and manifests that break it.
type rule struct {
	good []string // patches over the base
	bad  []string
	want string // what the refusal must say
}

// checkRules creates the manifests of each rule without keeping them.
func checkRules(t *testing.T, base string, rules map[string]rule) {
	t.Helper()
	ns := cluster.Namespace(t)
	for sentence, r := range rules {
		t.Run(sentence, func(t *testing.T) {
			if len(r.bad) == 0 || r.want == "" {
				t.Fatal("a rule needs a manifest that breaks it and a message")
			}
			for _, p := range r.good {
				if err := dryCreate(t, ns, manifest(t, base, p)); err != nil {
					t.Errorf("%s\nis refused: %v", p, err)
				}
			}
			for _, p := range r.bad {
				wantRefusal(t, p, dryCreate(t, ns, manifest(t, base, p)), r.want)
			}
		})
	}
}

// change is one rule about updates: from is laid over the base, then good and bad over that.
type change struct {
	from string
	good []string
	bad  []string
	want string
}

// checkChanges makes the object of each rule and updates it without keeping that.
func checkChanges(t *testing.T, base string, changes map[string]change) {
	t.Helper()
	for sentence, c := range changes {
		t.Run(sentence, func(t *testing.T) {
			o := manifest(t, base, c.from)
			o.SetNamespace(cluster.Namespace(t))
			if err := cluster.Client.Create(t.Context(), o, client.FieldValidation("Strict")); err != nil {
				t.Fatalf("making the object: %v", err)
			}
			for _, p := range c.good {
				if err := dryUpdate(t, o, p); err != nil {
					t.Errorf("%s\nis refused: %v", p, err)
				}
			}
			for _, p := range c.bad {
				wantRefusal(t, p, dryUpdate(t, o, p), c.want)
			}
		})
	}
}

func dryCreate(t *testing.T, ns string, o *unstructured.Unstructured) error {
	t.Helper()
	o.SetNamespace(ns)
	return cluster.Client.Create(t.Context(), o, client.DryRunAll, client.FieldValidation("Strict"))
}

func dryUpdate(t *testing.T, o *unstructured.Unstructured, patch string) error {
	t.Helper()
	b, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return cluster.Client.Update(t.Context(), manifest(t, string(b), patch), client.DryRunAll, client.FieldValidation("Strict"))
}

func wantRefusal(t *testing.T, patch string, err error, want string) {
	t.Helper()
	switch {
	case err == nil:
		t.Errorf("%s\nis accepted; want a refusal that says %q", patch, want)
	case !apierrors.IsInvalid(err):
		t.Errorf("%s\nis refused with %v; want Invalid", patch, err)
	case !strings.Contains(err.Error(), want):
		t.Errorf("%s\nis refused with %v; want %q", patch, err, want)
	}
}

// under writes a YAML value below a path such as "spec.retryPolicy".
func under(path, value string) string {
	parts := strings.Split(path, ".")
	return strings.Join(parts, ": {") + ": " + value + strings.Repeat("}", len(parts)-1)
}

// all is under for several values.
func all(path string, values ...string) []string {
	var out []string
	for _, v := range values {
		out = append(out, under(path, v))
	}
	return out
}

// quoted writes a string of n times c.
func quoted(c string, n int) string { return fmt.Sprintf("%q", strings.Repeat(c, n)) }
