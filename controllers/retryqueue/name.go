package retryqueue

import (
	"maps"

	"k8s.io/apimachinery/pkg/labels"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
)

// FieldOwner is the field manager of everything that this controller applies.
const FieldOwner = "retryqueue-controller"

// Labels of the objects of a queue. ManagedByLabel selects what the manager keeps in its cache.
const (
	ManagedByLabel = "app.kubernetes.io/managed-by"
	ManagedBy      = "retryqueue"
	QueueLabel     = "retryqueue.dev/queue"
	// QueueUIDLabel says whose an object is that has no owner, such as a claim that outlives its queue.
	QueueUIDLabel = "retryqueue.dev/queue-uid"
)

func childName(rq *v1alpha1.RetryQueue) string  { return "retryqueue-" + rq.Name }
func secretName(rq *v1alpha1.RetryQueue) string { return childName(rq) + "-tls" }

// ownClaim is the claim that the controller makes, unless an existing one is adopted.
func ownClaim(rq *v1alpha1.RetryQueue) string { return childName(rq) + "-data" }

// adoptedClaim is the claim that the owner of the queue names, or "".
func adoptedClaim(rq *v1alpha1.RetryQueue) string {
	if s := rq.Spec.Storage.SQLite; s != nil {
		return s.ExistingClaim
	}
	return ""
}

func claimName(rq *v1alpha1.RetryQueue) string {
	if name := adoptedClaim(rq); name != "" {
		return name
	}
	return ownClaim(rq)
}

// Address is where producers post jobs.
func Address(rq *v1alpha1.RetryQueue) string {
	return "http://" + childName(rq) + "." + rq.Namespace + ".svc/v1/jobs"
}

// selectorLabels pick the pods of a queue. They must never change: a Deployment's selector cannot.
func selectorLabels(rq *v1alpha1.RetryQueue) map[string]string {
	return map[string]string{"app.kubernetes.io/name": "retryqueue-worker", QueueLabel: rq.Name}
}

// selector is selectorLabels for the scale subresource.
func selector(rq *v1alpha1.RetryQueue) string { return labels.FormatLabels(selectorLabels(rq)) }

func objectLabels(rq *v1alpha1.RetryQueue) map[string]string {
	l := map[string]string{ManagedByLabel: ManagedBy, QueueUIDLabel: string(rq.UID)}
	maps.Copy(l, selectorLabels(rq))
	return l
}

// owner makes the garbage collector delete an object with its queue. It does not block the queue's deletion:
// that would take a permission which some clusters check.
func owner(rq *v1alpha1.RetryQueue) *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().
		WithAPIVersion(v1alpha1.GroupVersion.String()).
		WithKind("RetryQueue").
		WithName(rq.Name).
		WithUID(rq.UID).
		WithController(true)
}
