package admission_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/retryqueue/retryqueue/internal/testenv"
)

var cluster *testenv.Cluster

func TestMain(m *testing.M) {
	os.Exit(testenv.Run(m, &cluster, testenv.WithAdmission(), testenv.WithRBAC()))
}

// object reads one manifest into a namespace.
func object(t *testing.T, ns, manifest string, args ...any) *unstructured.Unstructured {
	t.Helper()
	objects, err := testenv.ParseManifests(fmt.Appendf(nil, manifest, args...))
	if err != nil || len(objects) != 1 {
		t.Fatalf("reading a manifest: %d objects, %v:\n%s", len(objects), err, manifest)
	}
	objects[0].SetNamespace(ns)
	return objects[0]
}

// create stores an object.
func create(t *testing.T, c client.Client, o client.Object) {
	t.Helper()
	if err := c.Create(t.Context(), o); err != nil {
		t.Fatalf("making %s: %v", o.GetName(), err)
	}
}

// dry creates an object without keeping it.
func dry(t *testing.T, c client.Client, o client.Object) error {
	t.Helper()
	return c.Create(t.Context(), o, client.DryRunAll, client.FieldValidation("Strict"))
}

// dryPatch merges a JSON patch into an object without keeping it.
func dryPatch(t *testing.T, c client.Client, o client.Object, patch string) error {
	t.Helper()
	return c.Patch(t.Context(), o.DeepCopyObject().(client.Object), client.RawPatch("application/merge-patch+json", []byte(patch)), client.DryRunAll)
}

// wantDenied demands a refusal by a policy of ours that says something.
func wantDenied(t *testing.T, err error, policy, says string) {
	t.Helper()
	switch {
	case err == nil:
		t.Errorf("admitted; want a refusal by %s", policy)
	case !apierrors.IsForbidden(err):
		t.Errorf("got %v; want Forbidden", err)
	case !strings.Contains(err.Error(), "ValidatingAdmissionPolicy '"+policy+"'"), !strings.Contains(err.Error(), says):
		t.Errorf("got %v; want a refusal by %s that says %q", err, policy, says)
	}
}

// wantAdmitted demands that nothing refuses.
func wantAdmitted(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("refused: %v", err)
	}
}

const queueManifest = `
apiVersion: retryqueue.dev/v1alpha1
kind: RetryQueue
metadata: {name: %s}
spec:
  delivery: {http: {url: "http://orders.shop.svc/handle"}}
  accept: {insecure: true}
`

const redriveManifest = `
apiVersion: retryqueue.dev/v1alpha1
kind: Redrive
metadata: {name: %s}
spec: {queueRef: {name: orders}, reason: "INC-42: fixed", limit: 5, rate: {jobs: 10}%s}
`

const approvalManifest = `
apiVersion: retryqueue.dev/v1alpha1
kind: RedriveApproval
metadata: {name: %s}
spec: {redriveRef: {name: fix, uid: 1f0c}, planHash: sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef%s}
`

// notDenied lets every error pass but the refusal of a policy, where something else must fail in a cluster
// without nodes.
func notDenied(err error) error {
	if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy") {
		return err
	}
	return nil
}
