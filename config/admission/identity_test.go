package admission_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	approvals = "redriveapprovals.retryqueue.dev"
	redrives  = "redrives.retryqueue.dev"
	flux      = "system:serviceaccount:flux-system:kustomize-controller"
)

func TestApproval(t *testing.T) {
	ns := cluster.Namespace(t)
	cluster.Grant(t, ns, "retryqueue-approver", "alice")
	cluster.Grant(t, ns, "creator", "bob") // may create approvals, but lacks the verb approve
	create(t, cluster.Client, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "creator"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"retryqueue.dev"}, Resources: []string{"redriveapprovals"}, Verbs: []string{"create"}}}})
	create(t, cluster.Client, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "only-other"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"retryqueue.dev"}, Resources: []string{"redriveapprovals"}, Verbs: []string{"create"}},
		{APIGroups: []string{"retryqueue.dev"}, Resources: []string{"redrives"}, ResourceNames: []string{"other"}, Verbs: []string{"approve"}}}})
	for _, who := range []string{"carol", flux, "system:serviceaccount:argocd:application-controller"} {
		cluster.Grant(t, ns, "cluster-admin", who)
	}
	cluster.Grant(t, ns, "only-other", "dave")
	trust(t, flux)

	for name, tc := range map[string]struct {
		user, approver string
		groups         []string
		says           string // empty: admitted
	}{
		"one who holds the verb, by name":                       {user: "alice", approver: "alice"},
		"one who holds the verb, name left out":                 {user: "alice"},
		"one who may do everything":                             {user: "carol", approver: "carol"},
		"a member of system:masters":                            {user: "root", groups: []string{"system:masters"}},
		"one who may create approvals but not approve":          {user: "bob", says: "bob must hold the verb approve on redrives.retryqueue.dev fix"},
		"one who may approve another Redrive only":              {user: "dave", says: "dave must hold the verb approve on redrives.retryqueue.dev fix"},
		"one who signs with another's name":                     {user: "alice", approver: "carol", says: "spec.approver must be your own user name, alice"},
		"an administrator who signs with another's name":        {user: "root", groups: []string{"system:masters"}, approver: "alice", says: "spec.approver must be your own user name, root"},
		"a service account that may do everything":              {user: "system:serviceaccount:argocd:application-controller", says: "is not a person"},
		"a service account that is listed":                      {user: flux},
		"a listed service account that signs with a person":     {user: flux, approver: "alice", says: "spec.approver must be your own user name"},
		"a certificate of the system, even of system:masters":   {user: "system:admin", groups: []string{"system:masters"}, says: "is not a person"},
		"the manager itself, who may do everything in a mishap": {user: "system:serviceaccount:retryqueue-system:retryqueue-manager", groups: []string{"system:masters"}, says: "is not a person"},
	} {
		t.Run(name, func(t *testing.T) {
			o := object(t, ns, approvalManifest, "fix", "")
			if tc.approver != "" {
				set(t, o, tc.approver, "spec", "approver")
			}
			err := dry(t, cluster.As(t, tc.user, tc.groups...), o)
			if tc.says != "" {
				wantDenied(t, err, approvals, tc.says)
				return
			}
			wantAdmitted(t, err)
			if got := o.Object["spec"].(map[string]any)["approver"]; got != tc.user {
				t.Errorf("spec.approver is %v, want %s", got, tc.user)
			}
		})
	}
}

// trust lists a service account among those that may approve.
func trust(t *testing.T, who string) {
	t.Helper()
	list := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: "retryqueue-system", Name: "retryqueue-trusted-approvers"}
	if err := cluster.Client.Get(t.Context(), key, list); err != nil {
		t.Fatal(err)
	}
	list.Data = map[string]string{"serviceAccounts": "system:serviceaccount:other:one\n  " + who + "\n"}
	if err := cluster.Client.Update(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	// The API server learns of the change by a watch.
	ns := cluster.Namespace(t)
	cluster.Grant(t, ns, "cluster-admin", who)
	eventually(t, "the list of trusted approvers is in force", func() bool {
		return dry(t, cluster.As(t, who), object(t, ns, approvalManifest, "fix", "")) == nil
	})
}

func TestApprovalIsKept(t *testing.T) {
	ns := cluster.Namespace(t)
	cluster.Grant(t, ns, "retryqueue-approver", "alice")
	alice := cluster.As(t, "alice")
	o := object(t, ns, approvalManifest, "fix", "")
	create(t, alice, o)

	t.Run("its plan cannot be exchanged", func(t *testing.T) {
		if err := dryPatch(t, alice, o, `{"spec":{"planHash":"other"}}`); err == nil {
			t.Error("admitted")
		}
	})
	t.Run("the garbage collector may remove finalizers", func(t *testing.T) {
		gc := cluster.As(t, "system:serviceaccount:kube-system:generic-garbage-collector")
		wantAdmitted(t, dryPatch(t, gc, o, `{"metadata":{"finalizers":[]}}`))
	})
	t.Run("a replacement without the name keeps the name", func(t *testing.T) {
		r := object(t, ns, approvalManifest, "fix", "")
		r.SetResourceVersion(o.GetResourceVersion())
		if err := cluster.Client.Update(t.Context(), r, client.DryRunAll); err != nil {
			t.Fatal(err)
		}
		if got := r.Object["spec"].(map[string]any)["approver"]; got != "alice" {
			t.Errorf("spec.approver is %v, want alice", got)
		}
	})
	t.Run("it can be taken back", func(t *testing.T) {
		wantAdmitted(t, alice.Delete(t.Context(), o, client.DryRunAll))
	})
}

func TestRequester(t *testing.T) {
	ns := cluster.Namespace(t)
	cluster.Grant(t, ns, "retryqueue-requester", "bob")
	cluster.Grant(t, ns, "retryqueue-requester", flux)
	for name, tc := range map[string]struct{ user, by, says string }{
		"the name is left out":          {user: "bob"},
		"the name is one's own":         {user: "bob", by: "bob"},
		"the name is another's":         {user: "bob", by: "alice", says: "spec.requestedBy must be your own user name, bob"},
		"a service account may ask":     {user: flux},
		"a service account may not lie": {user: flux, by: "alice", says: "spec.requestedBy must be your own user name, " + flux},
	} {
		t.Run(name, func(t *testing.T) {
			o := object(t, ns, redriveManifest, "fix", "")
			if tc.by != "" {
				set(t, o, tc.by, "spec", "requestedBy")
			}
			err := dry(t, cluster.As(t, tc.user), o)
			if tc.says != "" {
				wantDenied(t, err, redrives, tc.says)
				return
			}
			wantAdmitted(t, err)
			if got := o.Object["spec"].(map[string]any)["requestedBy"]; got != tc.user {
				t.Errorf("spec.requestedBy is %v, want %s", got, tc.user)
			}
		})
	}
}

func set(t *testing.T, o *unstructured.Unstructured, v any, path ...string) {
	t.Helper()
	if err := unstructured.SetNestedField(o.Object, v, path...); err != nil {
		t.Fatal(err)
	}
}
