package retryqueue

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
)

// buildClaim is the queue's storage, or nil when an existing claim is adopted. Only with deletionPolicy Delete
// does it have an owner, and so go when the queue goes.
func buildClaim(rq *v1alpha1.RetryQueue) *corev1ac.PersistentVolumeClaimApplyConfiguration {
	if adoptedClaim(rq) != "" {
		return nil
	}
	size, mode := resource.MustParse("1Gi"), corev1.ReadWriteOncePod
	spec := corev1ac.PersistentVolumeClaimSpec()
	if s := rq.Spec.Storage.SQLite; s != nil {
		if !s.Size.IsZero() {
			size = s.Size
		}
		if s.AccessMode != "" {
			mode = s.AccessMode
		}
		if s.StorageClassName != nil {
			spec.WithStorageClassName(*s.StorageClassName)
		}
	}
	spec.WithAccessModes(mode).
		WithResources(corev1ac.VolumeResourceRequirements().WithRequests(corev1.ResourceList{corev1.ResourceStorage: size}))
	claim := corev1ac.PersistentVolumeClaim(ownClaim(rq), rq.Namespace).WithLabels(objectLabels(rq)).WithSpec(spec)
	if rq.Spec.DeletionPolicy == v1alpha1.DeletionDelete {
		claim.WithOwnerReferences(owner(rq))
	}
	return claim
}
