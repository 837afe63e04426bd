package workers

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/retryqueue/retryqueue/internal/pki"
)

// CASecretName is the Secret in the manager's namespace that holds the CA.
const CASecretName = "retryqueue-ca"

// caLook is how often the Secret is looked at: a lost one is replaced within this time.
const caLook = 15 * time.Second

// Authority keeps the CA in a Secret: made if absent, made anew when it is unreadable or about to run out. To
// change the CA, delete the Secret. Only the leader may use it.
type Authority struct {
	client    client.Writer
	live      client.Reader
	namespace string
	clock     clock.PassiveClock
	log       *slog.Logger

	mu     sync.Mutex
	ca     *pki.CA
	looked time.Time
}

var _ CASource = (*Authority)(nil)

// AuthorityOptions are the needs of an Authority.
type AuthorityOptions struct {
	Client    client.Writer
	Live      client.Reader // not cached
	Namespace string        // the manager's own
	Clock     clock.PassiveClock
	Log       *slog.Logger
}

// NewAuthority makes an Authority.
func NewAuthority(o AuthorityOptions) *Authority {
	return &Authority{client: o.Client, live: o.Live, namespace: o.Namespace, clock: o.Clock, log: o.Log}
}

// +kubebuilder:rbac:groups="",namespace=retryqueue-system,resources=secrets,verbs=create
// +kubebuilder:rbac:groups="",namespace=retryqueue-system,resources=secrets,resourceNames=retryqueue-ca,verbs=get;update

// Current returns the CA in force, as the Secret had it at most caLook ago.
func (a *Authority) Current(ctx context.Context) (*pki.CA, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Now()
	if a.ca != nil && now.Sub(a.looked) < caLook && !now.Before(a.looked) {
		return a.ca, nil
	}
	ca, err := a.load(ctx, now)
	if err != nil {
		return nil, err
	}
	a.ca, a.looked = ca, now
	return ca, nil
}

func (a *Authority) load(ctx context.Context, now time.Time) (*pki.CA, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: a.namespace, Name: CASecretName}
	err := a.live.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		return a.replace(ctx, nil, now, "there is none")
	}
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", key, err)
	}
	ca, err := pki.ParseCA(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return a.replace(ctx, secret, now, err.Error())
	}
	if ca.Retired(now) {
		return a.replace(ctx, secret, now, "it is about to run out")
	}
	return ca, nil
}

// replace makes a new CA. When somebody else was quicker it errors, and the next call reads theirs.
func (a *Authority) replace(ctx context.Context, old *corev1.Secret, now time.Time, why string) (*pki.CA, error) {
	ca, err := pki.NewCA(now)
	if err != nil {
		return nil, err
	}
	cert, key, err := ca.Encode()
	if err != nil {
		return nil, err
	}
	data := map[string][]byte{corev1.TLSCertKey: bytes.Clone(cert), corev1.TLSPrivateKeyKey: key}
	if old == nil {
		err = a.client.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: a.namespace, Name: CASecretName,
				Labels: map[string]string{"app.kubernetes.io/name": "retryqueue", "app.kubernetes.io/component": "ca"},
			},
			Type: corev1.SecretTypeTLS,
			Data: data,
		})
	} else {
		old.Data = data
		err = a.client.Update(ctx, old)
	}
	if err != nil {
		return nil, fmt.Errorf("keeping the CA in Secret %s/%s: %w", a.namespace, CASecretName, err)
	}
	a.log.InfoContext(ctx, "ca.made", "id", ca.ID(), "because", why)
	return ca, nil
}
