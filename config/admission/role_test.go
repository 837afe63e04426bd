package admission_test

import (
	"slices"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
)

// What each role may do; the built-in view, edit and admin hold ours by aggregation.
var (
	everyone   = []string{"view", "edit", "admin", "retryqueue-viewer", "retryqueue-editor", "retryqueue-requester", "retryqueue-approver", "retryqueue-admin"}
	editors    = []string{"edit", "admin", "retryqueue-editor", "retryqueue-admin"}
	requesters = []string{"retryqueue-requester"}
	stoppers   = []string{"retryqueue-requester", "retryqueue-approver"}
	approvers  = []string{"retryqueue-approver"}
	admins     = []string{"retryqueue-admin"}
	nobody     []string
)

// scene is what a role's actions are tried on.
type scene struct {
	t        *testing.T
	ns, user string
	c        client.Client

	queue, redrive, approval *unstructured.Unstructured
}

func (s scene) list(kind string) error {
	l := &unstructured.UnstructuredList{}
	l.SetGroupVersionKind(schema.GroupVersionKind{Group: v1alpha1.GroupVersion.Group, Version: v1alpha1.GroupVersion.Version, Kind: kind})
	return s.c.List(s.t.Context(), l, client.InNamespace(s.ns))
}

func (s scene) status(o *unstructured.Unstructured) error {
	return s.c.Status().Patch(s.t.Context(), o.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"status":{"observedGeneration":7}}`)), client.DryRunAll)
}

func (s scene) remove(o *unstructured.Unstructured) error {
	return s.c.Delete(s.t.Context(), o.DeepCopy(), client.DryRunAll)
}

func (s scene) create(manifest string, args ...any) error {
	return dry(s.t, s.c, object(s.t, s.ns, manifest, args...))
}

func (s scene) patch(o *unstructured.Unstructured, p string) error { return dryPatch(s.t, s.c, o, p) }

func (s scene) scale(n int32) error {
	return s.c.SubResource("scale").Update(s.t.Context(), s.queue.DeepCopy(), client.DryRunAll,
		client.WithSubResourceBody(&autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: n}}))
}

func TestRoles(t *testing.T) {
	ns := cluster.Namespace(t)
	s := scene{ns: ns}
	s.queue = object(t, ns, queueManifest, "orders")
	s.redrive = object(t, ns, redriveManifest, "fix", "")
	s.approval = object(t, ns, approvalManifest, "fix", "")
	root := cluster.As(t, "root", "system:masters")
	for _, o := range []client.Object{s.queue, s.redrive, s.approval} {
		create(t, root, o)
	}
	for _, role := range everyone {
		cluster.Grant(t, ns, role, "holder-of-"+role)
	}

	for action, tc := range map[string]struct {
		may []string
		do  func(scene) error
	}{
		"see queues":     {everyone, func(s scene) error { return s.list("RetryQueueList") }},
		"see redrives":   {everyone, func(s scene) error { return s.list("RedriveList") }},
		"see approvals":  {everyone, func(s scene) error { return s.list("RedriveApprovalList") }},
		"make a queue":   {editors, func(s scene) error { return s.create(queueManifest, "other") }},
		"change a queue": {editors, func(s scene) error { return s.patch(s.queue, `{"spec":{"suspend":true}}`) }},
		"scale a queue":  {editors, func(s scene) error { return s.scale(0) }},
		"delete a queue": {editors, func(s scene) error { return s.remove(s.queue) }},
		"make a queue with a loose policy": {admins, func(s scene) error {
			return s.create(queueManifest+"  redrivePolicy: {forbidSelfApproval: false}", "other")
		}},
		"loosen the policy of a queue": {admins, func(s scene) error {
			return s.patch(s.queue, `{"spec":{"redrivePolicy":{"forbidSelfApproval":false}}}`)
		}},
		"adopt a volume": {admins, func(s scene) error {
			return s.create(queueManifest+"  storage: {sqlite: {existingClaim: retryqueue-orders-data}}", "other")
		}},
		"write the status of a queue":       {nobody, func(s scene) error { return s.status(s.queue) }},
		"ask for a redrive":                 {requesters, func(s scene) error { return s.create(redriveManifest, "other", "") }},
		"ask for a redrive as somebody":     {nobody, func(s scene) error { return s.create(redriveManifest, "other", ", requestedBy: alice") }},
		"suspend a redrive":                 {stoppers, func(s scene) error { return s.patch(s.redrive, `{"spec":{"suspend":true}}`) }},
		"cancel a redrive":                  {stoppers, func(s scene) error { return s.patch(s.redrive, `{"spec":{"cancel":true}}`) }},
		"raise the limit of a redrive":      {nobody, func(s scene) error { return s.patch(s.redrive, `{"spec":{"limit":6}}`) }},
		"take over a redrive":               {nobody, func(s scene) error { return s.patch(s.redrive, `{"spec":{"requestedBy":"`+s.user+`"}}`) }},
		"delete a redrive":                  {requesters, func(s scene) error { return s.remove(s.redrive) }},
		"write the status of a redrive":     {nobody, func(s scene) error { return s.status(s.redrive) }},
		"approve":                           {approvers, func(s scene) error { return s.create(approvalManifest, "other", "") }},
		"approve as somebody":               {nobody, func(s scene) error { return s.create(approvalManifest, "other", ", approver: alice") }},
		"exchange the plan of an approval":  {nobody, func(s scene) error { return s.patch(s.approval, `{"spec":{"planHash":"other"}}`) }},
		"sign an approval of somebody else": {nobody, func(s scene) error { return s.patch(s.approval, `{"spec":{"approver":"`+s.user+`"}}`) }},
		"take an approval back":             {approvers, func(s scene) error { return s.remove(s.approval) }},
	} {
		t.Run(action, func(t *testing.T) {
			for _, role := range everyone {
				s := s
				s.t, s.user = t, "holder-of-"+role
				s.c = cluster.As(t, s.user)
				err := tc.do(s)
				switch may := slices.Contains(tc.may, role); {
				case may && err != nil:
					t.Errorf("%s may not: %v", role, err)
				case !may && err == nil:
					t.Errorf("%s may", role)
				case !may && !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err):
					t.Errorf("%s: %v; want a refusal", role, err)
				}
			}
		})
	}
}
