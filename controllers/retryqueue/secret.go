package retryqueue

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
	"github.com/retryqueue/retryqueue/internal/pki"
)

// secretType marks the only Secrets that an admission policy lets the manager touch in other namespaces.
const secretType corev1.SecretType = "retryqueue.dev/worker-tls"

// buildSecret is a worker's certificate and key, and the public CA by which it knows the manager. The same CA,
// queue and time of the year make the same Secret.
func buildSecret(rq *v1alpha1.RetryQueue, ca *pki.CA, now time.Time) (*corev1ac.SecretApplyConfiguration, error) {
	cert, key, err := ca.Server(string(rq.UID), now)
	if err != nil {
		return nil, fmt.Errorf("issuing the workers' certificate: %w", err)
	}
	return corev1ac.Secret(secretName(rq), rq.Namespace).
		WithLabels(objectLabels(rq)).
		WithOwnerReferences(owner(rq)).
		WithType(secretType).
		WithData(map[string][]byte{
			corev1.TLSCertKey:              cert,
			corev1.TLSPrivateKeyKey:        key,
			corev1.ServiceAccountRootCAKey: ca.CertPEM(),
		}), nil
}
