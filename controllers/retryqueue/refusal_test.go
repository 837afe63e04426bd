package retryqueue

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
)

func TestAVolumeThatCannotGrowHoldsUpNothingElse(t *testing.T) {
	t.Parallel()
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "rigid"}, Provisioner: "example.com/rigid"}
	if err := cluster.Client.Create(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	rq := newQueue(t, func(rq *v1alpha1.RetryQueue) {
		rq.Spec.Storage.SQLite = &v1alpha1.SQLiteStorage{StorageClassName: &class.Name}
	})
	w := nodes.run(t, rq)
	reads(t, rq, "Current", v1alpha1.ReasonAvailable)
	claim := childrenOf(t, rq)["PersistentVolumeClaim"].(*corev1.PersistentVolumeClaim)
	claim.Status.Phase = corev1.ClaimBound
	if err := cluster.Client.Status().Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	edit(t, rq, func(s *v1alpha1.RetryQueueSpec) { s.Storage.SQLite.Size = resource.MustParse("2Gi") })
	reads(t, rq, "Failed", v1alpha1.ReasonObjectRefused)
	if m := condition(rq, v1alpha1.ConditionStalled).Message; !strings.Contains(m, "must support resize") {
		t.Errorf("message: %s", m)
	}
	edit(t, rq, func(s *v1alpha1.RetryQueueSpec) { s.Suspend = true })
	NewWithT(t).Eventually(func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.config.Suspended
	}).WithTimeout(wait).Should(BeTrue(), "the worker is not told of the suspension")
}

func TestAQuotaIsTold(t *testing.T) {
	t.Parallel()
	runController(t)
	rq := newQueue(t, nil)
	nodes.run(t, rq)
	reads(t, rq, "Current", v1alpha1.ReasonAvailable)
	service := childrenOf(t, rq)["Service"]
	none := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: rq.Namespace, Name: "none"}}
	none.Spec.Hard = corev1.ResourceList{"services": resource.MustParse("0")}
	if err := cluster.Client.Create(t.Context(), none); err != nil {
		t.Fatal(err)
	}
	none.Status.Hard, none.Status.Used = none.Spec.Hard, corev1.ResourceList{"services": resource.MustParse("0")}
	if err := cluster.Client.Status().Update(t.Context(), none); err != nil { // its controller does not run here
		t.Fatal(err)
	}
	if err := cluster.Client.Delete(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	reads(t, rq, "Failed", v1alpha1.ReasonObjectRefused)
	happened(t, rq, v1alpha1.ReasonObjectRefused, "exceeded quota: none")
}

func TestWhatWasMadeImmutableByHandIsToBeDeleted(t *testing.T) {
	t.Parallel()
	rq := newQueue(t, nil)
	nodes.run(t, rq)
	reads(t, rq, "Current", v1alpha1.ReasonAvailable)
	o := childrenOf(t, rq)["ConfigMap"]
	freeze := client.RawPatch("application/merge-patch+json", []byte(`{"immutable":true}`))
	if err := cluster.Client.Patch(t.Context(), o, freeze); err != nil {
		t.Fatal(err)
	}
	reads(t, rq, "Failed", v1alpha1.ReasonObjectRefused)
	happened(t, rq, v1alpha1.ReasonObjectRefused, "ConfigMap retryqueue-orders was made immutable by hand: delete it")
	if err := cluster.Client.Delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	reads(t, rq, "Current", v1alpha1.ReasonAvailable)
}
