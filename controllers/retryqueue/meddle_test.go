package retryqueue

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
	"github.com/retryqueue/retryqueue/controllers/workers"
	"github.com/retryqueue/retryqueue/internal/testenv"
)

// essence is what must come back after hands were at an object: all but what the API server counts.
func essence(t *testing.T, o client.Object) map[string]any {
	t.Helper()
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		t.Fatal(err)
	}
	meta := m["metadata"].(map[string]any)
	for _, k := range []string{"resourceVersion", "generation", "managedFields", "uid", "creationTimestamp", "annotations"} {
		delete(meta, k)
	}
	delete(m, "status")
	delete(m, "kind")
	delete(m, "apiVersion")
	if spec, ok := m["spec"].(map[string]any); ok {
		delete(spec, "clusterIP")
		delete(spec, "clusterIPs")
	}
	return m
}

func TestWhatIsChangedByHandIsPutRight(t *testing.T) {
	t.Parallel()
	type hands func(o client.Object)
	deployment := func(f func(*appsv1.Deployment)) hands { return func(o client.Object) { f(o.(*appsv1.Deployment)) } }
	configMap := func(f func(*corev1.ConfigMap)) hands { return func(o client.Object) { f(o.(*corev1.ConfigMap)) } }
	service := func(f func(*corev1.Service)) hands { return func(o client.Object) { f(o.(*corev1.Service)) } }
	policy := func(f func(*networkingv1.NetworkPolicy)) hands {
		return func(o client.Object) { f(o.(*networkingv1.NetworkPolicy)) }
	}
	secret := func(f func(*corev1.Secret)) hands { return func(o client.Object) { f(o.(*corev1.Secret)) } }
	unlabel := func(o client.Object) { o.SetLabels(nil) }
	disown := func(o client.Object) { o.SetOwnerReferences(nil) }
	estrange := func(o client.Object) { unlabel(o); disown(o) }
	rq := newQueue(t, nil)
	nodes.run(t, rq)
	reads(t, rq, "Current", v1alpha1.ReasonAvailable)
	for _, tc := range []struct {
		sentence, kind string
		hands          hands
	}{
		{"another image", "Deployment", deployment(func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "evil:1" })},
		{"a container more", "Deployment", deployment(func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{Name: "x", Image: "evil:1"})
		})},
		{"an init container", "Deployment", deployment(func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.InitContainers = []corev1.Container{{Name: "x", Image: "evil:1"}}
		})},
		{"a volume more", "Deployment", deployment(func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Volumes = append(d.Spec.Template.Spec.Volumes, corev1.Volume{Name: "x"})
		})},
		{"an argument more", "Deployment", deployment(func(d *appsv1.Deployment) {
			c := &d.Spec.Template.Spec.Containers[0]
			c.Args = append(c.Args, "--admin-token-file=/tmp/x")
		})},
		{"another service account", "Deployment", deployment(func(d *appsv1.Deployment) { d.Spec.Template.Spec.ServiceAccountName = "x" })},
		{"more replicas", "Deployment", deployment(func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(3)) })},
		{"no labels", "Deployment", unlabel},
		{"no owner", "Deployment", disown},
		{"neither labels nor owner", "Deployment", estrange},
		{"neither labels nor owner", "ConfigMap", estrange},
		{"neither labels nor owner", "Service", estrange},
		{"neither labels nor owner", "NetworkPolicy", estrange},
		{"neither labels nor owner", "Secret", estrange},
		{"another manifest", "ConfigMap", configMap(func(c *corev1.ConfigMap) { c.Data[manifestKey] = "x" })},
		{"a key more", "ConfigMap", configMap(func(c *corev1.ConfigMap) { c.Data["x"] = "y" })},
		{"no data", "ConfigMap", configMap(func(c *corev1.ConfigMap) { c.Data = nil })},
		{"no labels", "ConfigMap", unlabel},
		{"another selector", "Service", service(func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "evil"} })},
		{"a port more", "Service", service(func(s *corev1.Service) {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "x", Port: 99})
		})},
		{"an opened admin port", "NetworkPolicy", policy(func(p *networkingv1.NetworkPolicy) {
			p.Spec.Ingress = append(p.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{})
		})},
		{"another key", "Secret", secret(func(s *corev1.Secret) { s.Data["tls.key"] = []byte("x") })},
		{"another CA", "Secret", secret(func(s *corev1.Secret) { s.Data["ca.crt"] = nil })},
		{"not selected by our cache", "PersistentVolumeClaim", func(o client.Object) {
			l := o.GetLabels()
			delete(l, ManagedByLabel)
			o.SetLabels(l)
		}},
	} {
		t.Run(tc.kind+": "+tc.sentence, func(t *testing.T) {
			o := childrenOf(t, rq)[tc.kind]
			want := essence(t, o)
			NewWithT(t).Eventually(func() error {
				if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
					return err
				}
				tc.hands(o)
				return cluster.Client.Update(t.Context(), o)
			}).WithTimeout(wait).Should(Succeed())
			restored(t, rq, tc.kind, want)
		})
	}
}

func TestWhatIsAppliedByHandIsTakenOutAgain(t *testing.T) {
	t.Parallel()
	rq := newQueue(t, nil)
	nodes.run(t, rq)
	reads(t, rq, "Current", v1alpha1.ReasonAvailable)
	want := essence(t, childrenOf(t, rq)["ConfigMap"])
	extra := objectOf(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: retryqueue-orders}, data: {x: "y"}}`)
	extra.SetNamespace(rq.Namespace)
	if err := cluster.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(extra), client.FieldOwner("somebody")); err != nil {
		t.Fatal(err)
	}
	restored(t, rq, "ConfigMap", want)
}

func objectOf(t *testing.T, y string) *unstructured.Unstructured {
	t.Helper()
	all, err := testenv.ParseManifests([]byte(y))
	if err != nil || len(all) != 1 {
		t.Fatalf("reading %s: %v", y, err)
	}
	return all[0]
}

func restored(t *testing.T, rq *v1alpha1.RetryQueue, kind string, want map[string]any) {
	t.Helper()
	NewWithT(t).Eventually(func() string {
		o := emptyChildren(rq)[kind]
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err.Error()
		}
		return cmp.Diff(want, essence(t, o))
	}).WithTimeout(wait).Should(BeEmpty())
}

// What goes with its namespace is no failure, although the API server refuses to make it again.
func TestAQueueGoesQuietlyWithItsNamespace(t *testing.T) {
	t.Parallel()
	rq := newQueue(t, nil)
	reads(t, rq, "InProgress", v1alpha1.ReasonProgressing)
	gone := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: rq.Namespace}}, childrenOf(t, rq)["ConfigMap"]}
	for _, o := range gone { // the namespace stays: the controller that empties it does not run here
		if err := cluster.Client.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	NewWithT(t).Eventually(func() string {
		reads(t, rq, "InProgress", v1alpha1.ReasonProgressing)
		return condition(rq, v1alpha1.ConditionReady).Message
	}).WithTimeout(wait).Should(ContainSubstring("namespace is being deleted"))
}

func TestWhatIsDeletedByHandComesBack(t *testing.T) {
	t.Parallel()
	rq := newQueue(t, nil)
	nodes.run(t, rq)
	reads(t, rq, "Current", v1alpha1.ReasonAvailable)
	for kind, o := range childrenOf(t, rq) {
		t.Run(kind, func(t *testing.T) {
			want := essence(t, o)
			if kind == "PersistentVolumeClaim" {
				// Its protection is lifted by a controller that does not run here.
				o.SetFinalizers(nil)
				if err := cluster.Client.Update(t.Context(), o); err != nil {
					t.Fatal(err)
				}
			}
			if err := cluster.Client.Delete(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			if kind == "PersistentVolumeClaim" {
				want["metadata"].(map[string]any)["finalizers"] = []any{"kubernetes.io/pvc-protection"}
			}
			restored(t, rq, kind, want)
			now := emptyChildren(rq)[kind]
			if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(now), now); err != nil || now.GetUID() == o.GetUID() {
				t.Errorf("it is the same object, or not there: %v", err)
			}
		})
	}
}

func TestObjectsOfOthersAreNotTaken(t *testing.T) {
	t.Parallel()
	labels := map[string]string{ManagedByLabel: ManagedBy, QueueLabel: "orders", QueueUIDLabel: "another-queue"}
	for sentence, tc := range map[string]struct {
		kind   string
		labels map[string]string
		others string
	}{
		"a ConfigMap":          {"ConfigMap", nil, `{apiVersion: v1, kind: ConfigMap, metadata: {name: retryqueue-orders}, data: {a: b}}`},
		"an opaque Secret":     {"Secret", nil, `{apiVersion: v1, kind: Secret, metadata: {name: retryqueue-orders-tls}, data: {a: Yg==}}`},
		"a Secret of our type": {"Secret", nil, `{apiVersion: v1, kind: Secret, type: retryqueue.dev/worker-tls, metadata: {name: retryqueue-orders-tls}, data: {a: Yg==}}`},
		"a Service":            {"Service", nil, `{apiVersion: v1, kind: Service, metadata: {name: retryqueue-orders}, spec: {ports: [{port: 1}]}}`},
		"a claim":              {"PersistentVolumeClaim", nil, `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: retryqueue-orders-data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`},
		"the claim of a deleted queue of this name": {"PersistentVolumeClaim", labels, `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: retryqueue-orders-data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			var before string
			rq := newQueue(t, func(rq *v1alpha1.RetryQueue) {
				o := objectOf(t, tc.others)
				o.SetNamespace(rq.Namespace)
				o.SetLabels(tc.labels)
				if err := cluster.Client.Create(t.Context(), o); err != nil {
					t.Fatal(err)
				}
				before = o.GetResourceVersion()
			})
			reads(t, rq, "Failed", v1alpha1.ReasonNameTaken)
			o := emptyChildren(rq)[tc.kind]
			c := condition(rq, v1alpha1.ConditionStalled)
			if !strings.Contains(c.Message, tc.kind+" "+o.GetName()) {
				t.Errorf("message %q", c.Message)
			}
			if tc.kind == "PersistentVolumeClaim" && !strings.Contains(c.Message, "existingClaim: retryqueue-orders-data") {
				t.Errorf("the message does not say how to adopt: %q", c.Message)
			}
			happened(t, rq, v1alpha1.ReasonNameTaken, o.GetName())
			if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil || o.GetResourceVersion() != before {
				t.Errorf("it was touched: %v", err)
			}
		})
	}
}

func TestAnExistingClaimIsAdoptedByName(t *testing.T) {
	t.Parallel()
	rq := newQueue(t, func(rq *v1alpha1.RetryQueue) {
		rq.Spec.Storage.SQLite = &v1alpha1.SQLiteStorage{ExistingClaim: "retryqueue-old-data"}
		rq.Spec.DeletionPolicy = v1alpha1.DeletionDelete
	})
	reads(t, rq, "InProgress", v1alpha1.ReasonProgressing)
	all := emptyChildren(rq)
	d := all["Deployment"].(*appsv1.Deployment)
	setDeployment(t, d, 0)
	NewWithT(t).Eventually(func() error {
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1}
		return cluster.Client.Status().Update(t.Context(), d)
	}).Should(Succeed())
	reads(t, rq, "InProgress", v1alpha1.ReasonWorkersNotReady)
	if c := condition(rq, v1alpha1.ConditionReady); !strings.Contains(c.Message, "retryqueue-old-data of spec.storage.sqlite.existingClaim does not exist") {
		t.Errorf("message %q", c.Message)
	}
	if got := d.Spec.Template.Spec.Volumes[0].PersistentVolumeClaim.ClaimName; got != "retryqueue-old-data" {
		t.Errorf("the worker mounts %s", got)
	}
	claim := all["PersistentVolumeClaim"]
	if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); !apierrors.IsNotFound(err) {
		t.Errorf("a claim of its own was made: %v", err)
	}
}

func TestTheDeletionPolicyDecidesWhoOwnsTheData(t *testing.T) {
	t.Parallel()
	rq := newQueue(t, nil)
	reads(t, rq, "InProgress", v1alpha1.ReasonProgressing)
	owners := func() int {
		claim := emptyChildren(rq)["PersistentVolumeClaim"]
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
			return -1
		}
		return len(claim.GetOwnerReferences())
	}
	if n := owners(); n != 0 {
		t.Fatalf("Retain: %d owners", n)
	}
	g := NewWithT(t)
	edit(t, rq, func(s *v1alpha1.RetryQueueSpec) { s.DeletionPolicy = v1alpha1.DeletionDelete })
	g.Eventually(owners).WithTimeout(wait).Should(Equal(1))
	edit(t, rq, func(s *v1alpha1.RetryQueueSpec) { s.DeletionPolicy = v1alpha1.DeletionRetain })
	g.Eventually(owners).WithTimeout(wait).Should(Equal(0))
	if err := cluster.Client.Delete(t.Context(), rq); err != nil {
		t.Fatal(err)
	}
	happened(t, rq, eventKept, "retryqueue-orders-data and its jobs are kept")
	if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(rq), rq); !apierrors.IsNotFound(err) {
		t.Errorf("the RetryQueue hangs on something: %v", err)
	}
	if n := owners(); n != 0 {
		t.Errorf("the claim is gone, or owned: %d", n)
	}
}

func TestALostCAIsReplacedAndWorkersAreHeardAgain(t *testing.T) {
	// Not parallel: all queues of the cluster get new certificates.
	rq := newQueue(t, nil)
	w := nodes.run(t, rq)
	reads(t, rq, "Current", v1alpha1.ReasonAvailable)
	before := childrenOf(t, rq)["Secret"].(*corev1.Secret)
	ca := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: testenv.ManagerNamespace, Name: workers.CASecretName}}
	if err := cluster.Client.Delete(t.Context(), ca); err != nil {
		t.Fatal(err)
	}
	caClock.advance(time.Minute)
	after := &corev1.Secret{}
	NewWithT(t).Eventually(func() bool {
		err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(before), after)
		return err == nil && !bytes.Equal(before.Data["ca.crt"], after.Data["ca.crt"]) && !bytes.Equal(before.Data["tls.crt"], after.Data["tls.crt"])
	}).WithTimeout(wait).Should(BeTrue())
	reads(t, rq, "InProgress", v1alpha1.ReasonConfigPending) // the kubelet has not brought it yet
	w.mount(t, after)
	reads(t, rq, "Current", v1alpha1.ReasonAvailable)
}

// TestThereAndBackAgain drives a queue through random legal specs and back: it must come to the same children.
func TestThereAndBackAgain(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	rq := newQueue(t, nil)
	nodes.run(t, rq)
	reads(t, rq, "Current", v1alpha1.ReasonAvailable)
	first := rq.Spec.DeepCopy()
	want := map[string]map[string]any{}
	for kind, o := range childrenOf(t, rq) {
		want[kind] = essence(t, o)
	}
	delete(want, "ConfigMap") // it holds the generation
	changes := legalChanges()
	for range 8 {
		edit(t, rq, func(s *v1alpha1.RetryQueueSpec) {
			for range 1 + random.IntN(4) {
				changes[random.IntN(len(changes))](s)
			}
		})
	}
	size := rq.Spec.Storage.SQLite
	edit(t, rq, func(s *v1alpha1.RetryQueueSpec) { *s = *first.DeepCopy(); s.Storage.SQLite = size })
	nodes.run(t, rq)
	reads(t, rq, "Current", v1alpha1.ReasonAvailable)
	for kind, w := range want {
		restored(t, rq, kind, w)
	}
}

func legalChanges() []func(*v1alpha1.RetryQueueSpec) {
	template := func(f func(*v1alpha1.WorkerTemplate)) func(*v1alpha1.RetryQueueSpec) {
		return func(s *v1alpha1.RetryQueueSpec) {
			if s.Workers.Template == nil {
				s.Workers.Template = &v1alpha1.WorkerTemplate{}
			}
			f(s.Workers.Template)
		}
	}
	return []func(*v1alpha1.RetryQueueSpec){
		func(s *v1alpha1.RetryQueueSpec) { s.Suspend = !s.Suspend },
		func(s *v1alpha1.RetryQueueSpec) { s.RetryPolicy.AttemptTimeout.Duration = 2 * time.Minute },
		func(s *v1alpha1.RetryQueueSpec) { s.DeletionPolicy = v1alpha1.DeletionDelete },
		func(s *v1alpha1.RetryQueueSpec) { s.Workers.Replicas = new(int32(0)) },
		func(s *v1alpha1.RetryQueueSpec) {
			s.Accept = v1alpha1.Accept{From: []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}}}
		},
		func(s *v1alpha1.RetryQueueSpec) {
			s.Accept = v1alpha1.Accept{TokenSecretRef: &v1alpha1.SecretRef{Name: "tokens"}}
		},
		func(s *v1alpha1.RetryQueueSpec) { s.Delivery.HTTP.SigningSecretRef = &v1alpha1.SecretRef{Name: "keys"} },
		template(func(w *v1alpha1.WorkerTemplate) { w.Labels = map[string]string{"team": "shop"} }),
		template(func(w *v1alpha1.WorkerTemplate) { w.Annotations = map[string]string{"note": "x"} }),
		template(func(w *v1alpha1.WorkerTemplate) { w.NodeSelector = map[string]string{"disk": "ssd"} }),
		template(func(w *v1alpha1.WorkerTemplate) {
			w.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		}),
		template(func(w *v1alpha1.WorkerTemplate) {
			w.Sidecars = []v1alpha1.Sidecar{{Name: "a", Image: "b", Env: []corev1.EnvVar{{Name: "K", Value: "v"}}}}
		}),
		template(func(w *v1alpha1.WorkerTemplate) {
			w.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}}
		}),
	}
}
