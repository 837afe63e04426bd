package retryqueue

import (
	"log/slog"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/retryqueue/retryqueue/controllers/workers"
	"github.com/retryqueue/retryqueue/internal/pki"
)

func TestTheCAIsKeptAndReplacedOnlyWhenUnusable(t *testing.T) {
	ns := cluster.Namespace(t)
	current := func() *pki.CA {
		t.Helper()
		ca, err := workers.NewAuthority(workers.AuthorityOptions{
			Client: cluster.Client, Live: cluster.Client, Namespace: ns, Clock: clock.RealClock{}, Log: slog.New(slog.DiscardHandler),
		}).Current(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return ca
	}
	first := current()
	if again := current(); again.ID() != first.ID() {
		t.Error("a restart made another CA")
	}
	s := &corev1.Secret{}
	if err := cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: workers.CASecretName}, s); err != nil {
		t.Fatal(err)
	}
	s.Data["tls.crt"] = []byte("garbage")
	if err := cluster.Client.Update(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	second := current()
	if second.ID() == first.ID() {
		t.Error("an unreadable CA was not replaced")
	}
	if again := current(); again.ID() != second.ID() {
		t.Error("the new CA was not kept")
	}
}
