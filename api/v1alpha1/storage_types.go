package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StorageType is a kind of store.
//
// +kubebuilder:validation:Enum=SQLite
type StorageType string

// StorageSQLite is the embedded store: one worker pod with a PersistentVolumeClaim.
const StorageSQLite StorageType = "SQLite"

// Storage is where jobs are kept.
//
// +kubebuilder:validation:XValidation:rule="!has(self.type) || !has(oldSelf.type) || self.type == oldSelf.type",message="type must not change, since the jobs would be left behind: make a new RetryQueue"
type Storage struct {
	// type is SQLite.
	// +default="SQLite"
	// +optional
	Type StorageType `json:"type,omitempty"`
	// sqlite shapes the embedded store; only with type SQLite.
	// +default={}
	// +optional
	SQLite *SQLiteStorage `json:"sqlite,omitempty"`
}

// SQLiteStorage shapes the volume of the embedded store.
//
// +kubebuilder:validation:XValidation:rule="!has(self.size) || !has(oldSelf.size) || quantity(string(self.size)).compareTo(quantity(string(oldSelf.size))) >= 0",message="size must not shrink: a volume can only grow"
// +kubebuilder:validation:XValidation:rule="!has(self.accessMode) || !has(oldSelf.accessMode) || self.accessMode == oldSelf.accessMode",message="accessMode must not change, since a volume keeps its own: make a new RetryQueue"
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",message="storageClassName must not change, since a volume keeps its own: make a new RetryQueue"
// +kubebuilder:validation:XValidation:rule="has(self.existingClaim) == has(oldSelf.existingClaim) && (!has(self.existingClaim) || self.existingClaim == oldSelf.existingClaim)",message="existingClaim must not change, since the jobs would be left behind: make a new RetryQueue"
type SQLiteStorage struct {
	// size of the volume; default 1Gi, at least 64Mi. It can grow where the storage class allows it, never shrink.
	// +default="1Gi"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('64Mi')) >= 0",message="size must be at least 64Mi"
	// +optional
	Size resource.Quantity `json:"size,omitempty,omitzero"`
	// accessMode of the volume: ReadWriteOncePod (the default) or ReadWriteOnce, for drivers without the former.
	// +kubebuilder:validation:Enum=ReadWriteOncePod;ReadWriteOnce
	// +default="ReadWriteOncePod"
	// +optional
	AccessMode corev1.PersistentVolumeAccessMode `json:"accessMode,omitempty"`
	// storageClassName of the volume; unset takes the cluster's default.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	StorageClassName *string `json:"storageClassName,omitempty"`
	// existingClaim adopts this PersistentVolumeClaim, such as the one that a deleted RetryQueue of this name and
	// namespace left behind, instead of making one. It is kept whatever deletionPolicy says. Its name must have the form retryqueue-NAME-data, which admission guards, and to
	// set it takes the verb set-redrive-policy, since its dead jobs come under this queue's redrivePolicy.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^retryqueue-[a-z0-9]([-a-z0-9]*[a-z0-9])?-data$')",message="existingClaim must be named retryqueue-NAME-data, the names that only workers may mount: copy the volume into such a claim"
	// +optional
	ExistingClaim string `json:"existingClaim,omitempty"`
}

// DeadLetter says what becomes of dead jobs.
type DeadLetter struct {
	// maxRedrives is how often one job may be redriven; default 3.
	// +default=3
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	MaxRedrives *int32 `json:"maxRedrives,omitempty"`
	// retention deletes dead jobs this long after their death. At least 1s; unset keeps them until
	// they are purged.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('1s') && duration(self) <= duration('87600h')",message="retention must be from 1s to 87600h, such as 30s or 1h30m"
	// +optional
	Retention *metav1.Duration `json:"retention,omitempty"`
}

// DeletionPolicy says what becomes of the data when the RetryQueue is deleted.
//
// +kubebuilder:validation:Enum=Retain;Delete
type DeletionPolicy string

// The deletion policies.
const (
	DeletionRetain DeletionPolicy = "Retain"
	DeletionDelete DeletionPolicy = "Delete"
)
