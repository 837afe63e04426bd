package retryqueue

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
	"github.com/retryqueue/retryqueue/internal/workerapi"
)

const wait = 30 * time.Second

// newQueue makes a RetryQueue in a namespace that only takes restricted pods.
func newQueue(t *testing.T, change func(*v1alpha1.RetryQueue)) *v1alpha1.RetryQueue {
	t.Helper()
	runController(t)
	rq := &v1alpha1.RetryQueue{}
	rq.Name, rq.Namespace = "orders", restrictedNamespace(t)
	rq.Spec.Delivery.HTTP = &v1alpha1.HTTPDelivery{URL: "http://orders.shop.svc/handle"}
	rq.Spec.Accept.Insecure = true
	if change != nil {
		change(rq)
	}
	if err := cluster.Client.Create(t.Context(), rq); err != nil {
		t.Fatal(err)
	}
	return rq
}

func restrictedNamespace(t *testing.T) string {
	t.Helper()
	name := cluster.Namespace(t)
	ns := &corev1.Namespace{}
	if err := cluster.Client.Get(t.Context(), client.ObjectKey{Name: name}, ns); err != nil {
		t.Fatal(err)
	}
	ns.Labels["pod-security.kubernetes.io/enforce"] = "restricted"
	if err := cluster.Client.Update(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	return name
}

// edit changes a RetryQueue as a user would.
func edit(t *testing.T, rq *v1alpha1.RetryQueue, change func(*v1alpha1.RetryQueueSpec)) {
	t.Helper()
	NewWithT(t).Eventually(func() error {
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(rq), rq); err != nil {
			return err
		}
		change(&rq.Spec)
		return cluster.Client.Update(t.Context(), rq)
	}).WithTimeout(wait).Should(Succeed())
}

// reads waits until the status of rq reads so, keeping to the rules of kstatus all the way.
func reads(t *testing.T, rq *v1alpha1.RetryQueue, status, reason string) {
	t.Helper()
	NewWithT(t).Eventually(func() string {
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(rq), rq); err != nil {
			return err.Error()
		}
		got, err := kstatus(rq)
		if err != nil {
			t.Fatalf("kstatus: %v", err)
		}
		c := meta.FindStatusCondition(rq.Status.Conditions, v1alpha1.ConditionReady)
		if c == nil {
			return got
		}
		if rq.Status.ObservedGeneration != rq.Generation {
			return "stale"
		}
		return got + " " + c.Reason
	}).WithTimeout(wait).WithPolling(20*time.Millisecond).Should(Equal(status+" "+reason), func() string {
		return fmt.Sprintf("%+v", rq.Status.Conditions)
	})
}

func condition(rq *v1alpha1.RetryQueue, name string) metav1.Condition {
	if c := meta.FindStatusCondition(rq.Status.Conditions, name); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// childrenOf reads all children.
func childrenOf(t *testing.T, rq *v1alpha1.RetryQueue) map[string]client.Object {
	t.Helper()
	all := emptyChildren(rq)
	for kind, o := range all {
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
	}
	return all
}

func emptyChildren(rq *v1alpha1.RetryQueue) map[string]client.Object {
	all := map[string]client.Object{
		"Deployment": &appsv1.Deployment{}, "Service": &corev1.Service{}, "ConfigMap": &corev1.ConfigMap{},
		"NetworkPolicy": &networkingv1.NetworkPolicy{}, "Secret": &corev1.Secret{}, "PersistentVolumeClaim": &corev1.PersistentVolumeClaim{},
	}
	for kind, o := range all {
		o.SetNamespace(rq.Namespace)
		o.SetName(childName(rq))
		switch kind {
		case "Secret":
			o.SetName(secretName(rq))
		case "PersistentVolumeClaim":
			o.SetName(ownClaim(rq))
		}
	}
	return all
}

func happened(t *testing.T, rq *v1alpha1.RetryQueue, reason, says string) {
	t.Helper()
	NewWithT(t).Eventually(func() []string {
		var list eventsv1.EventList
		if err := cluster.Client.List(t.Context(), &list, client.InNamespace(rq.Namespace)); err != nil {
			return []string{err.Error()}
		}
		var notes []string
		for _, e := range list.Items {
			if e.Reason == reason && e.Regarding.UID == rq.UID {
				notes = append(notes, e.Note)
			}
		}
		return notes
	}).WithTimeout(wait).Should(ContainElement(ContainSubstring(says)))
}

func TestAQueueComesToBeReady(t *testing.T) {
	t.Parallel()
	rq := newQueue(t, nil)
	if rq.Status.ObservedGeneration != -1 {
		t.Errorf("before the first pass observedGeneration is %d, want -1", rq.Status.ObservedGeneration)
	}
	reads(t, rq, "InProgress", v1alpha1.ReasonProgressing)
	w := nodes.run(t, rq)
	reads(t, rq, "Current", v1alpha1.ReasonAvailable)

	if want := "http://retryqueue-orders." + rq.Namespace + ".svc/v1/jobs"; rq.Status.Address != want {
		t.Errorf("address %q, want %q", rq.Status.Address, want)
	}
	if got := rq.Status.Workers; got == nil || got.ReadyReplicas != 1 || got.Selector != "app.kubernetes.io/name=retryqueue-worker,retryqueue.dev/queue=orders" {
		t.Errorf("workers %+v", got)
	}
	if got := rq.Status.Budget; got == nil || got.MaxRequestsPerJob != 32 || got.ReachableAttempts != 8 {
		t.Errorf("budget %+v", got)
	}
	if got := w.generation(); got != rq.Generation {
		t.Errorf("the worker runs %d, want %d", got, rq.Generation)
	}
	happened(t, rq, eventCreated, "made Deployment retryqueue-orders")
	for kind, o := range childrenOf(t, rq) {
		owner := metav1.GetControllerOf(o)
		switch {
		case kind == "PersistentVolumeClaim" && owner != nil:
			t.Errorf("%s has an owner, and the data would go with the queue", kind)
		case kind != "PersistentVolumeClaim" && (owner == nil || owner.UID != rq.UID || owner.BlockOwnerDeletion != nil):
			t.Errorf("%s: owner %+v", kind, owner)
		}
	}
}

func TestWorkersPassTheRestrictedPodSecurityStandard(t *testing.T) {
	t.Parallel()
	for name, template := range map[string]*v1alpha1.WorkerTemplate{
		"alone":          nil,
		"with a sidecar": {Sidecars: []v1alpha1.Sidecar{{Name: "target", Image: "target:1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rq := newQueue(t, func(rq *v1alpha1.RetryQueue) { rq.Spec.Workers.Template = template })
			reads(t, rq, "InProgress", v1alpha1.ReasonProgressing)
			d := childrenOf(t, rq)["Deployment"].(*appsv1.Deployment)
			pod := &corev1.Pod{ObjectMeta: *d.Spec.Template.ObjectMeta.DeepCopy(), Spec: d.Spec.Template.Spec}
			pod.Name, pod.Namespace = "probe", rq.Namespace
			sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: rq.Namespace}}
			if err := cluster.Client.Create(t.Context(), sa); err != nil {
				t.Fatal(err)
			}
			if err := cluster.Client.Create(t.Context(), pod, client.DryRunAll); err != nil {
				t.Fatal(err)
			}
			for _, v := range pod.Spec.Volumes {
				if v.Projected != nil {
					t.Errorf("volume %s holds a token of the service account", v.Name)
				}
			}
			pod.Spec.Containers[0].SecurityContext = nil // the standard is in force here
			pod.ResourceVersion = ""
			if err := cluster.Client.Create(t.Context(), pod, client.DryRunAll); err == nil {
				t.Error("the namespace takes any pod")
			}
		})
	}
}

func TestAChangeOfPolicyIsPushedAndRestartsNothing(t *testing.T) {
	t.Parallel()
	rq := newQueue(t, nil)
	w := nodes.run(t, rq)
	reads(t, rq, "Current", v1alpha1.ReasonAvailable)
	before := childrenOf(t, rq)["Deployment"].(*appsv1.Deployment)
	edit(t, rq, func(s *v1alpha1.RetryQueueSpec) { s.RetryPolicy.MaxAttempts = 3 })
	reads(t, rq, "Current", v1alpha1.ReasonAvailable)
	if got := w.Settings().Policy.MaxAttempts; got != 3 {
		t.Errorf("the worker runs %d attempts, want 3", got)
	}
	after := childrenOf(t, rq)
	if got := after["Deployment"].GetGeneration(); got != before.Generation {
		t.Errorf("the Deployment went from generation %d to %d", before.Generation, got)
	}
	if m := after["ConfigMap"].(*corev1.ConfigMap).Data[manifestKey]; !strings.Contains(m, "maxAttempts: 3") {
		t.Errorf("the ConfigMap lags behind:\n%s", m)
	}
	happened(t, rq, eventConfigured, "took the changed spec")

	edit(t, rq, func(s *v1alpha1.RetryQueueSpec) { s.Suspend = true })
	reads(t, rq, "Current", v1alpha1.ReasonSuspended)
	if !w.Settings().Config.Suspended {
		t.Error("the worker is not suspended")
	}
}

func TestAChangeOfThePodWaitsForTheNewOne(t *testing.T) {
	t.Parallel()
	rq := newQueue(t, nil)
	nodes.run(t, rq)
	reads(t, rq, "Current", v1alpha1.ReasonAvailable)
	edit(t, rq, func(s *v1alpha1.RetryQueueSpec) {
		s.Workers.Template = &v1alpha1.WorkerTemplate{Labels: map[string]string{"team": "shop"}}
	})
	reads(t, rq, "InProgress", v1alpha1.ReasonProgressing)
	nodes.run(t, rq)
	reads(t, rq, "Current", v1alpha1.ReasonAvailable)
}

func TestARestartedWorkerWithAnOldManifestIsToldTheNewOne(t *testing.T) {
	t.Parallel()
	rq := newQueue(t, nil)
	w := nodes.run(t, rq)
	reads(t, rq, "Current", v1alpha1.ReasonAvailable)
	w.set(func(w *fakeWorker) { w.config.Generation = 0 })
	NewWithT(t).Eventually(w.generation).WithTimeout(wait).Should(Equal(rq.Generation))
}

func TestAGenerationThatTheWorkerRefusesStalls(t *testing.T) {
	t.Parallel()
	rq := newQueue(t, nil)
	w := nodes.run(t, rq)
	reads(t, rq, "Current", v1alpha1.ReasonAvailable)
	w.set(func(w *fakeWorker) {
		w.refuse = &workerapi.ConfigError{Reason: workerapi.ConfigInvalid, Field: "spec.some.field", Detail: "must be mended"}
	})
	edit(t, rq, func(s *v1alpha1.RetryQueueSpec) { s.RetryPolicy.MaxAttempts = 3 })
	reads(t, rq, "Failed", v1alpha1.ReasonInvalidSpec)
	if c := condition(rq, v1alpha1.ConditionStalled); !strings.Contains(c.Message, "spec.some.field: must be mended") {
		t.Errorf("message %q", c.Message)
	}
	happened(t, rq, v1alpha1.ReasonInvalidSpec, "must be mended")
	w.set(func(w *fakeWorker) { w.refuse = nil })
	edit(t, rq, func(s *v1alpha1.RetryQueueSpec) { s.RetryPolicy.MaxAttempts = 4 })
	reads(t, rq, "Current", v1alpha1.ReasonAvailable)
}

func TestAWorkerThatDoesNotAnswerIsNotReady(t *testing.T) {
	t.Parallel()
	rq := newQueue(t, nil)
	w := nodes.run(t, rq)
	reads(t, rq, "Current", v1alpha1.ReasonAvailable)
	w.server.Close()
	reads(t, rq, "InProgress", v1alpha1.ReasonConfigPending)
	happened(t, rq, eventUnreachable, "does not answer")
	nodes.run(t, rq)
	reads(t, rq, "Current", v1alpha1.ReasonAvailable)
}

func TestWorkersThatDieAreTold(t *testing.T) {
	t.Parallel()
	rq := newQueue(t, nil)
	nodes.run(t, rq)
	reads(t, rq, "Current", v1alpha1.ReasonAvailable)
	d := childrenOf(t, rq)["Deployment"].(*appsv1.Deployment)
	NewWithT(t).Eventually(func() error {
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
			return err
		}
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1, UnavailableReplicas: 1}
		return cluster.Client.Status().Update(t.Context(), d)
	}).WithTimeout(wait).Should(Succeed())
	happened(t, rq, v1alpha1.ReasonWorkersNotReady, "no worker is ready")
}

func TestScaledToZero(t *testing.T) {
	t.Parallel()
	rq := newQueue(t, nil)
	nodes.run(t, rq)
	reads(t, rq, "Current", v1alpha1.ReasonAvailable)
	edit(t, rq, func(s *v1alpha1.RetryQueueSpec) { s.Workers.Replicas = new(int32(0)) })
	reads(t, rq, "InProgress", v1alpha1.ReasonProgressing)
	setDeployment(t, childrenOf(t, rq)["Deployment"].(*appsv1.Deployment), 0)
	reads(t, rq, "Current", v1alpha1.ReasonScaledToZero)
	if c := condition(rq, v1alpha1.ConditionWorkersAvailable); c.Status != metav1.ConditionFalse {
		t.Errorf("WorkersAvailable is %s", c.Status)
	}
}

func TestDeadJobsShowInTheStatus(t *testing.T) {
	t.Parallel()
	rq := newQueue(t, nil)
	w := nodes.run(t, rq)
	reads(t, rq, "Current", v1alpha1.ReasonAvailable)
	w.set(func(w *fakeWorker) { w.stats.Dead, w.stats.Pending, w.stats.OldestDeadAt = 12, 3, 1_790_000_000_123 })
	g := NewWithT(t)
	g.Eventually(func() string {
		_ = cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(rq), rq)
		return condition(rq, v1alpha1.ConditionDeadLetters).Message
	}).WithTimeout(wait).Should(ContainSubstring("12 dead jobs wait"))
	j := rq.Status.Jobs
	if *j.Dead != 12 || *j.Pending != 3 || j.OldestDeadTime.Unix() != 1_790_000_000 {
		t.Errorf("jobs %+v", j)
	}
	if c := condition(rq, v1alpha1.ConditionReady); c.Status != metav1.ConditionTrue {
		t.Error("dead jobs do not make a queue unready")
	}
	happened(t, rq, eventDead, "12 dead jobs")
	w.set(func(w *fakeWorker) { w.stats.Dead, w.stats.OldestDeadAt = 0, 0 })
	g.Eventually(func() string {
		_ = cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(rq), rq)
		return condition(rq, v1alpha1.ConditionDeadLetters).Reason
	}).WithTimeout(wait).Should(Equal(v1alpha1.ReasonNoDeadJobs))
}

func TestNothingIsWrittenWhileNothingChanges(t *testing.T) {
	t.Parallel()
	rq := newQueue(t, nil)
	w := nodes.run(t, rq)
	reads(t, rq, "Current", v1alpha1.ReasonAvailable)
	// Let two passes go by, so that the first counts are written.
	passes := func(n int) {
		t.Helper()
		var from int
		w.set(func(w *fakeWorker) { from = w.asked })
		NewWithT(t).Eventually(func() (n int) { w.set(func(w *fakeWorker) { n = w.asked }); return n }).
			WithTimeout(wait).Should(BeNumerically(">=", from+n))
	}
	passes(2)
	versions := func() map[string]string {
		v := map[string]string{}
		for kind, o := range childrenOf(t, rq) {
			v[kind] = o.GetResourceVersion()
		}
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(rq), rq); err != nil {
			t.Fatal(err)
		}
		v["RetryQueue"] = rq.ResourceVersion
		return maps.Clone(v)
	}
	before := versions()
	passes(5)
	if diff := cmp.Diff(before, versions()); diff != "" {
		t.Errorf("five passes wrote (-before +after):\n%s", diff)
	}
}
