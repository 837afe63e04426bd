package testenv

import (
	"context"
	"fmt"
	"testing"
	"time"

	authzv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Grant gives a user a ClusterRole, in one namespace or, with an empty one, everywhere, and returns once the
// API server's authorizer knows.
func (c *Cluster) Grant(t testing.TB, namespace, clusterRole, user string) {
	t.Helper()
	if err := c.bind(t.Context(), namespace, clusterRole, user); err != nil {
		t.Fatalf("granting %s to %s: %v", clusterRole, user, err)
	}
	if err := c.awaitRBAC(t.Context(), namespace); err != nil {
		t.Fatalf("granting %s to %s: %v", clusterRole, user, err)
	}
}

func (c *Cluster) bind(ctx context.Context, namespace, clusterRole, user string) error {
	meta := metav1.ObjectMeta{GenerateName: "testenv-", Namespace: namespace}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterRole}
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}
	if namespace == "" {
		return c.Client.Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects})
	}
	return c.Client.Create(ctx, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects})
}

// awaitRBAC returns once the authorizer knows every role and binding that was made before. It learns of them
// by watches, in order: when it knows one made last, it knows all before it.
func (c *Cluster) awaitRBAC(ctx context.Context, namespace string) error {
	name := fmt.Sprintf("testenv-probe-%d", c.serial.Add(1))
	rules := []rbacv1.PolicyRule{{APIGroups: []string{"testenv"}, Resources: []string{"probes"}, Verbs: []string{"get"}}}
	if err := c.Client.Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}); err != nil {
		return fmt.Errorf("making the probe's role: %w", err)
	}
	if err := c.bind(ctx, namespace, name, name); err != nil {
		return fmt.Errorf("binding the probe's role: %w", err)
	}
	err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		sar := &authzv1.SubjectAccessReview{Spec: authzv1.SubjectAccessReviewSpec{
			User:               name,
			ResourceAttributes: &authzv1.ResourceAttributes{Namespace: namespace, Group: "testenv", Resource: "probes", Verb: "get"},
		}}
		err := c.Client.Create(ctx, sar)
		return sar.Status.Allowed, err
	})
	if err != nil {
		return fmt.Errorf("waiting for the authorizer: %w", err)
	}
	return nil
}

// aggregate does what the controller manager does in a whole cluster: it gives the aggregating ClusterRoles
// (view, edit, admin) the rules that their labels select.
func (c *Cluster) aggregate(ctx context.Context) error {
	all := &rbacv1.ClusterRoleList{}
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		err := c.Client.Get(ctx, client.ObjectKey{Name: "system:aggregate-to-view"}, &rbacv1.ClusterRole{})
		return err == nil, client.IgnoreNotFound(err)
	})
	if err != nil {
		return fmt.Errorf("waiting for the built-in roles: %w", err)
	}
	// admin selects edit, which selects view: three passes reach a fixed point.
	for range 3 {
		if err := c.Client.List(ctx, all); err != nil {
			return fmt.Errorf("listing roles: %w", err)
		}
		for i := range all.Items {
			if err := c.aggregateOne(ctx, &all.Items[i], all.Items); err != nil {
				return fmt.Errorf("aggregating role %s: %w", all.Items[i].Name, err)
			}
		}
	}
	return nil
}

func (c *Cluster) aggregateOne(ctx context.Context, role *rbacv1.ClusterRole, all []rbacv1.ClusterRole) error {
	if role.AggregationRule == nil {
		return nil
	}
	role.Rules = nil
	for _, s := range role.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&s)
		if err != nil {
			return err
		}
		for _, other := range all {
			if other.Name != role.Name && selector.Matches(labels.Set(other.Labels)) {
				role.Rules = append(role.Rules, other.Rules...)
			}
		}
	}
	if err := c.Client.Update(ctx, role); err != nil && !apierrors.IsConflict(err) {
		return err
	}
	return nil
}
