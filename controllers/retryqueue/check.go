package retryqueue

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
	"github.com/retryqueue/retryqueue/internal/manifest"
)

// check finds what the CRD's rules let pass and no worker could run.
func (p *pass) check(context.Context) (*verdict, error) {
	if _, err := manifest.ToConfig(p.rq); err != nil {
		return invalid(err.Error()), nil
	}
	if message := forbiddenSecret(p.rq); message != "" {
		return invalid(message), nil
	}
	p.reportBudget()
	return nil, nil
}

// forbiddenSecret says where the spec would hand a queue's key to somebody else than its worker, or "".
func forbiddenSecret(rq *v1alpha1.RetryQueue) string {
	reserved := func(name string) bool {
		return strings.HasPrefix(name, "retryqueue-") && strings.HasSuffix(name, "-tls")
	}
	const mend = "is the key of a queue's worker: name another Secret"
	if ref := rq.Spec.Accept.TokenSecretRef; ref != nil && reserved(ref.Name) {
		return fmt.Sprintf("spec.accept.tokenSecretRef: %s %s", ref.Name, mend)
	}
	if h := rq.Spec.Delivery.HTTP; h != nil && h.SigningSecretRef != nil && reserved(h.SigningSecretRef.Name) {
		return fmt.Sprintf("spec.delivery.http.signingSecretRef: %s %s", h.SigningSecretRef.Name, mend)
	}
	if rq.Spec.Workers.Template == nil {
		return ""
	}
	for _, s := range rq.Spec.Workers.Template.Sidecars {
		for _, e := range s.Env {
			if name := secretOf(e); reserved(name) {
				return fmt.Sprintf("spec.workers.template.sidecars: env %s of %s: %s %s", e.Name, s.Name, name, mend)
			}
		}
	}
	return ""
}

func secretOf(e corev1.EnvVar) string {
	if e.ValueFrom == nil || e.ValueFrom.SecretKeyRef == nil {
		return ""
	}
	return e.ValueFrom.SecretKeyRef.Name
}
