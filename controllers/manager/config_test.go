package manager

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/retryqueue/retryqueue/internal/testenv"
)

func TestTheShippedManagerPassesTheRestrictedPodSecurityStandard(t *testing.T) {
	d := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: testenv.ManagerNamespace, Name: "retryqueue-manager"}
	if err := cluster.Client.Get(t.Context(), key, d); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: *d.Spec.Template.ObjectMeta.DeepCopy(), Spec: d.Spec.Template.Spec}
	pod.Name, pod.Namespace = "probe", key.Namespace
	if err := cluster.Client.Create(t.Context(), pod, client.DryRunAll); err != nil {
		t.Error(err)
	}
}

func TestWorkersRunTheManagersImage(t *testing.T) {
	d := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: testenv.ManagerNamespace, Name: "retryqueue-manager"}
	if err := cluster.Client.Get(t.Context(), key, d); err != nil {
		t.Fatal(err)
	}
	want := d.Spec.Template.Spec.Containers[0].Image
	if got, err := OwnImage(t.Context(), managerConfig(), testenv.ManagerNamespace); err != nil || got != want || got == "" {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if got, err := OwnImage(t.Context(), managerConfig(), "default"); err == nil || !strings.Contains(err.Error(), "RETRYQUEUE_IMAGE") {
		t.Errorf("elsewhere got %q, %v", got, err)
	}
}

// TestTheManagerMayReadEveryShippedPolicy: it compares them with what is in force, and holds redrives otherwise.
func TestTheManagerMayReadEveryShippedPolicy(t *testing.T) {
	root, err := testenv.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	shipped, err := testenv.ReadManifests(filepath.Join(root, "config", "admission"))
	if err != nil {
		t.Fatal(err)
	}
	m := cluster.As(t, testenv.ManagerUser)
	var names []string
	for _, o := range shipped {
		switch o.GetKind() {
		case "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding":
			names = append(names, o.GetName())
			if err := m.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
				t.Error(err)
			}
		}
	}
	role := &rbacv1.ClusterRole{}
	if err := cluster.Client.Get(t.Context(), client.ObjectKey{Name: "retryqueue-manager"}, role); err != nil {
		t.Fatal(err)
	}
	for _, r := range role.Rules {
		for _, list := range [][]string{r.APIGroups, r.Resources, r.Verbs} {
			if slices.Contains(list, "*") {
				t.Errorf("a wildcard: %+v", r)
			}
		}
		for _, n := range r.ResourceNames {
			if !slices.Contains(names, n) {
				t.Errorf("the role names %s, which is not shipped", n)
			}
		}
	}
}
