package testenv

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// As is a client that acts as a user: a person ("alice@example.com"), a service account
// ("system:serviceaccount:ns:name") or a part of Kubernetes. Groups that the API server knows by itself
// (system:authenticated, those of service accounts) need not be named. A user may do what RBAC says, so
// nothing at first: see Grant.
func (c *Cluster) As(t testing.TB, user string, groups ...string) client.Client {
	t.Helper()
	cl, err := client.New(c.ConfigAs(user, groups...), client.Options{Scheme: c.Scheme})
	if err != nil {
		t.Fatalf("making a client for %s: %v", user, err)
	}
	return cl
}

// ConfigAs is As for those who make their own client.
func (c *Cluster) ConfigAs(user string, groups ...string) *rest.Config {
	cfg := rest.CopyConfig(c.Config)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	return cfg
}

// AddUser is a user with a client certificate of its own, for tests in which impersonation would hide something.
func (c *Cluster) AddUser(t testing.TB, user string, groups ...string) *rest.Config {
	t.Helper()
	u, err := c.env.AddUser(envtest.User{Name: user, Groups: groups}, c.Config)
	if err != nil {
		t.Fatalf("adding user %s: %v", user, err)
	}
	return u.Config()
}

// Namespace makes a namespace that no other test of this API server has.
func (c *Cluster) Namespace(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test-%d", c.serial.Add(1))
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := c.Client.Create(t.Context(), ns); err != nil {
		t.Fatalf("making namespace %s: %v", name, err)
	}
	return name
}
