package admission_test

import (
	"testing"

	authzv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/retryqueue/retryqueue/internal/testenv"
)

const (
	reservedNames = "reserved-names.retryqueue.dev"
	workerPods    = "worker-pods.retryqueue.dev"
	workerExec    = "worker-exec.retryqueue.dev"
	workerData    = "worker-data.retryqueue.dev"
	kubeSystem    = "system:serviceaccount:kube-system:"
)

const (
	deploymentManifest = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, labels: {app: x}}
spec:
  selector: {matchLabels: {app: x}}
  template:
    metadata: {labels: {app: x}}
    spec: {containers: [{name: worker, image: retryqueue}]}
`
	// replicaSetManifest is owned by the Deployment %[2]s.
	replicaSetManifest = `
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: %[1]s, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: %[2]s, uid: u1, controller: true}]}
spec:
  selector: {matchLabels: {app: x}}
  template:
    metadata: {labels: {app: x}}
    spec: {containers: [{name: worker, image: retryqueue}]}
`
	// podManifest is owned by the %[2]s %[3]s and mounts the claim %[4]s.
	podManifest = `
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, ownerReferences: [{apiVersion: apps/v1, kind: %[2]s, name: %[3]s, uid: u1, controller: true}]}
spec:
  containers: [{name: worker, image: retryqueue}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: %[4]s}}]
`
	configMapManifest = `
apiVersion: v1
kind: ConfigMap
metadata: {name: %[1]s}
data: {queue.yaml: "{}"}
`
	secretManifest = `
apiVersion: v1
kind: Secret
metadata: {name: %[1]s}
type: retryqueue.dev/worker-tls
stringData: {tls.key: k}
`
	serviceManifest = `
apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec: {selector: {app: x}, ports: [{port: 80}]}
`
	networkPolicyManifest = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: %[1]s}
spec: {podSelector: {matchLabels: {app: x}}}
`
	claimManifest = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %[1]s}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`
)

// house is a queue's objects as the manager and the controllers of Kubernetes make them, and a user who holds
// the built-in role edit in their namespace.
type house struct {
	ns                     string
	manager, eve           client.Client
	deployments, replicas  client.Client // the controllers
	deployment, replicaSet *unstructured.Unstructured
	pod, claim             *unstructured.Unstructured
	configMap, secret      *unstructured.Unstructured
	service, networkPolicy *unstructured.Unstructured
}

func build(t *testing.T) house {
	t.Helper()
	h := house{ns: cluster.Namespace(t)}
	cluster.Grant(t, "", "cluster-admin", testenv.ManagerUser)
	cluster.Grant(t, h.ns, "edit", "eve")
	h.manager, h.eve = cluster.As(t, testenv.ManagerUser), cluster.As(t, "eve")
	h.deployments, h.replicas = cluster.As(t, kubeSystem+"deployment-controller"), cluster.As(t, kubeSystem+"replicaset-controller")

	const name = "retryqueue-orders"
	h.deployment = object(t, h.ns, deploymentManifest, name)
	h.replicaSet = object(t, h.ns, replicaSetManifest, name+"-6d4f", name)
	h.pod = object(t, h.ns, podManifest, name+"-6d4f-x2x", "ReplicaSet", name+"-6d4f", name+"-data")
	h.pod.SetLabels(map[string]string{"retryqueue.dev/queue": "orders"})
	h.claim = object(t, h.ns, claimManifest, name+"-data")
	h.claim.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "u1"}})
	h.configMap = object(t, h.ns, configMapManifest, name)
	h.secret = object(t, h.ns, secretManifest, name+"-tls")
	h.service = object(t, h.ns, serviceManifest, name)
	h.networkPolicy = object(t, h.ns, networkPolicyManifest, name)
	for _, o := range []client.Object{h.deployment, h.claim, h.configMap, h.secret, h.service, h.networkPolicy} {
		create(t, h.manager, o)
	}
	create(t, h.deployments, h.replicaSet)
	create(t, h.replicas, h.pod)
	return h
}

// Each of these would give the holder of the built-in role edit a way to run code of her own with the queue's
// data, or to put keys or data of her own in the place of the queue's.
func TestEditCannotReachAWorker(t *testing.T) {
	h := build(t)
	image := `{"spec":{"template":{"spec":{"containers":[{"name":"worker","image":"evil"}]}}}}`
	for name, tc := range map[string]struct {
		policy, says string
		do           func(t *testing.T) error
	}{
		"another image in the Deployment": {reservedNames, "deployments with names that start with retryqueue- belong to RetryQueue", func(t *testing.T) error { return dryPatch(t, h.eve, h.deployment, image) }},
		"another image in the ReplicaSet": {reservedNames, "", func(t *testing.T) error { return dryPatch(t, h.eve, h.replicaSet, image) }},
		"another image in the pod": {workerPods, "", func(t *testing.T) error {
			return dryPatch(t, h.eve, h.pod, `{"spec":{"containers":[{"name":"worker","image":"evil"}]}}`)
		}},
		"another manifest in the ConfigMap": {reservedNames, "configmaps", func(t *testing.T) error { return dryPatch(t, h.eve, h.configMap, `{"data":{"queue.yaml":"x"}}`) }},
		"binary data in the ConfigMap":      {reservedNames, "", func(t *testing.T) error { return dryPatch(t, h.eve, h.configMap, `{"binaryData":{"x":"eA=="}}`) }},
		"another key in the Secret":         {reservedNames, "secrets", func(t *testing.T) error { return dryPatch(t, h.eve, h.secret, `{"stringData":{"tls.key":"x"}}`) }},
		"the Secret frozen":                 {reservedNames, "", func(t *testing.T) error { return dryPatch(t, h.eve, h.secret, `{"immutable":true}`) }},
		"a Service that leads elsewhere":    {reservedNames, "services", func(t *testing.T) error { return dryPatch(t, h.eve, h.service, `{"spec":{"selector":{"app":"evil"}}}`) }},
		"a NetworkPolicy for everyone":      {reservedNames, "networkpolicies", func(t *testing.T) error { return dryPatch(t, h.eve, h.networkPolicy, `{"spec":{"ingress":[{}]}}`) }},
		"a Deployment in the place of ours": {reservedNames, "choose another name", func(t *testing.T) error { return dry(t, h.eve, object(t, h.ns, deploymentManifest, "retryqueue-evil")) }},
		"a ReplicaSet of ours": {reservedNames, "", func(t *testing.T) error {
			return dry(t, h.eve, object(t, h.ns, replicaSetManifest, "retryqueue-orders-evil", "retryqueue-orders"))
		}},
		"a ConfigMap in the place of ours": {reservedNames, "", func(t *testing.T) error { return dry(t, h.eve, object(t, h.ns, configMapManifest, "retryqueue-evil")) }},
		"a Secret in the place of ours":    {reservedNames, "", func(t *testing.T) error { return dry(t, h.eve, object(t, h.ns, secretManifest, "retryqueue-evil")) }},
		"a Service in the place of ours":   {reservedNames, "", func(t *testing.T) error { return dry(t, h.eve, object(t, h.ns, serviceManifest, "retryqueue-evil")) }},
		"a NetworkPolicy in the place of ours": {reservedNames, "", func(t *testing.T) error {
			return dry(t, h.eve, object(t, h.ns, networkPolicyManifest, "retryqueue-evil"))
		}},
		"a pod that looks like ours": {workerPods, "must not use what belongs to the workers", func(t *testing.T) error {
			return dry(t, h.eve, object(t, h.ns, podManifest, "retryqueue-orders-6d4f-evil", "ReplicaSet", "retryqueue-orders-6d4f", "other"))
		}},
		"a pod with the volume": {workerPods, "a volume retryqueue-*-data", func(t *testing.T) error {
			return dry(t, h.eve, object(t, h.ns, podManifest, "evil", "ReplicaSet", "retryqueue-orders-6d4f", "retryqueue-orders-data"))
		}},
		"a pod that a generated name makes look like ours": {workerPods, "", func(t *testing.T) error {
			o := object(t, h.ns, podManifest, "x", "ReplicaSet", "retryqueue-orders-6d4f", "other")
			o.SetName("")
			o.SetGenerateName("retryqueue-orders-6d4f-")
			return dry(t, h.eve, o)
		}},
		"a pod behind our Service": {workerPods, "the label retryqueue.dev/queue", func(t *testing.T) error {
			o := object(t, h.ns, podManifest, "evil", "ReplicaSet", "evil", "other")
			o.SetLabels(map[string]string{"retryqueue.dev/queue": "orders"})
			return dry(t, h.eve, o)
		}},
		"an old pod put behind our Service": {workerPods, "", func(t *testing.T) error {
			o := object(t, h.ns, podManifest, "old", "ReplicaSet", "old", "other")
			create(t, h.eve, o)
			return dryPatch(t, h.eve, o, `{"metadata":{"labels":{"retryqueue.dev/queue":"orders"}}}`)
		}},
		"a worker under another queue's label": {workerPods, "", func(t *testing.T) error {
			return dryPatch(t, h.eve, h.pod, `{"metadata":{"labels":{"retryqueue.dev/queue":"other"}}}`)
		}},
		"a worker that its ReplicaSet loses": {workerPods, "", func(t *testing.T) error {
			return dryPatch(t, h.eve, h.pod, `{"metadata":{"labels":{"app.kubernetes.io/name":"lost"}}}`)
		}},
		"a worker of another template": {workerPods, "", func(t *testing.T) error {
			return dryPatch(t, h.eve, h.pod, `{"metadata":{"labels":{"pod-template-hash":"lost"}}}`)
		}},
		"a worker of nobody": {workerPods, "", func(t *testing.T) error {
			return dryPatch(t, h.eve, h.pod, `{"metadata":{"ownerReferences":null}}`)
		}},
		"a Deployment that the manager does not know": {reservedNames, "", func(t *testing.T) error {
			return dryPatch(t, h.eve, h.deployment, `{"metadata":{"labels":{"retryqueue.dev/queue-uid":"x"}}}`)
		}},
		"a Service that the manager does not see": {reservedNames, "", func(t *testing.T) error {
			return dryPatch(t, h.eve, h.service, `{"metadata":{"labels":{"app.kubernetes.io/managed-by":"eve"}}}`)
		}},
		"a ConfigMap of another queue": {reservedNames, "", func(t *testing.T) error {
			return dryPatch(t, h.eve, h.configMap, `{"metadata":{"labels":{"retryqueue.dev/queue":"x"}}}`)
		}},
		"a Secret with another owner": {reservedNames, "", func(t *testing.T) error {
			return dryPatch(t, h.eve, h.secret, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"u2","controller":true}]}}`)
		}},
		"an orphaned ReplicaSet in other hands": {reservedNames, "", func(t *testing.T) error {
			return dryPatch(t, h.deployments, h.replicaSet,
				`{"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment","name":"evil","uid":"u3","controller":true}]}}`)
		}},
		"a claim in the place of ours": {workerData, "eve must hold the verb set-redrive-policy", func(t *testing.T) error { return dry(t, h.eve, object(t, h.ns, claimManifest, "retryqueue-evil-data")) }},
		"another volume in the claim":  {workerData, "", func(t *testing.T) error { return dryPatch(t, h.eve, h.claim, `{"spec":{"volumeName":"evil"}}`) }},
		"the claim given to another queue by its label": {workerData, "", func(t *testing.T) error {
			return dryPatch(t, h.eve, h.claim, `{"metadata":{"labels":{"retryqueue.dev/queue-uid":"evil"}}}`)
		}},
		"the claim given to another queue by its name": {workerData, "", func(t *testing.T) error {
			return dryPatch(t, h.eve, h.claim, `{"metadata":{"labels":{"retryqueue.dev/queue":"evil"}}}`)
		}},
		"the claim given to another queue by its owner": {workerData, "", func(t *testing.T) error {
			return dryPatch(t, h.eve, h.claim, `{"metadata":{"ownerReferences":[{"apiVersion":"retryqueue.dev/v1alpha1","kind":"RetryQueue","name":"evil","uid":"evil"}]}}`)
		}},
		"a queue that adopts the claim": {redrivePolicy, "to adopt a volume", func(t *testing.T) error {
			return dry(t, h.eve, object(t, h.ns, queueManifest+"  storage: {sqlite: {existingClaim: retryqueue-orders-data}}", "evil"))
		}},
		"a command in the pod":  {workerExec, "must not be entered", func(t *testing.T) error { return connect(t, "eve", h.ns, h.pod.GetName(), "exec") }},
		"a terminal at the pod": {workerExec, "must not be entered", func(t *testing.T) error { return connect(t, "eve", h.ns, h.pod.GetName(), "attach") }},
		"a debugger in the pod": {workerExec, "must not be entered", func(t *testing.T) error { return debug(t, cluster.As(t, "root", "system:masters"), h.pod) }},
		"a command by the administrator": {workerExec, "must not be entered", func(t *testing.T) error {
			return connect(t, "root", h.ns, h.pod.GetName(), "exec", "system:masters")
		}},
	} {
		t.Run(name, func(t *testing.T) { wantDenied(t, tc.do(t), tc.policy, tc.says) })
	}
}

// What eve makes is turned into pods by controllers of Kubernetes, which may make pods.
func TestControllersMakeNoFalseWorkers(t *testing.T) {
	h := build(t)
	pod := func(name, kind, owner, claim string) *unstructured.Unstructured {
		return object(t, h.ns, podManifest, name, kind, owner, claim)
	}
	for name, tc := range map[string]struct {
		user string
		o    *unstructured.Unstructured
	}{
		"a Job with the volume":                        {kubeSystem + "job-controller", pod("evil-x", "Job", "evil", "retryqueue-orders-data")},
		"a Job named like a worker":                    {kubeSystem + "job-controller", pod("retryqueue-evil-x", "Job", "retryqueue-evil", "other")},
		"a StatefulSet named like a worker":            {kubeSystem + "statefulset-controller", pod("retryqueue-evil-0", "StatefulSet", "retryqueue-evil", "retryqueue-orders-data")},
		"a DaemonSet with the volume":                  {kubeSystem + "daemon-set-controller", pod("evil-x", "DaemonSet", "evil", "retryqueue-orders-data")},
		"a Deployment of another name with the volume": {kubeSystem + "replicaset-controller", pod("evil-x", "ReplicaSet", "evil", "retryqueue-orders-data")},
		"a ReplicaSet named retryqueue":                {kubeSystem + "replicaset-controller", pod("retryqueue-x", "ReplicaSet", "retryqueue", "retryqueue-orders-data")},
		"a Job, where one identity is all controllers": {"system:kube-controller-manager", pod("retryqueue-evil-x", "Job", "retryqueue-evil", "retryqueue-orders-data")},
		"a ReplicationController named like a worker":  {kubeSystem + "replication-controller", pod("retryqueue-evil-x", "ReplicationController", "retryqueue-evil", "retryqueue-orders-data")},
	} {
		t.Run(name, func(t *testing.T) {
			wantDenied(t, dry(t, cluster.As(t, tc.user, "system:masters"), tc.o), workerPods, "")
		})
	}
	t.Run("a Deployment named retryqueue", func(t *testing.T) {
		err := dry(t, h.deployments, object(t, h.ns, replicaSetManifest, "retryqueue-6d4f", "retryqueue"))
		wantDenied(t, err, reservedNames, "")
	})
}

// The guard is in nobody's way.
func TestOthersGoOn(t *testing.T) {
	h := build(t)
	controller := func(name string) client.Client { return cluster.As(t, kubeSystem+name, "system:masters") }
	annotate := `{"metadata":{"annotations":{"a":"b"},"finalizers":[]}}`
	for name, do := range map[string]func(t *testing.T) error{
		"eve deletes a worker's pod":   func(t *testing.T) error { return h.eve.Delete(t.Context(), h.pod.DeepCopy(), client.DryRunAll) },
		"eve deletes the Deployment":   func(t *testing.T) error { return h.eve.Delete(t.Context(), h.deployment.DeepCopy(), client.DryRunAll) },
		"eve annotates a worker's pod": func(t *testing.T) error { return dryPatch(t, h.eve, h.pod, `{"metadata":{"annotations":{"a":"b"}}}`) },
		"eve annotates the Deployment": func(t *testing.T) error {
			return dryPatch(t, h.eve, h.deployment, `{"metadata":{"annotations":{"a":"b"}}}`)
		},
		"eve makes a Deployment": func(t *testing.T) error { return dry(t, h.eve, object(t, h.ns, deploymentManifest, "shop")) },
		"eve makes a pod with her volume": func(t *testing.T) error {
			return dry(t, h.eve, object(t, h.ns, podManifest, "shop", "ReplicaSet", "shop", "shop-data"))
		},
		"eve makes a claim":  func(t *testing.T) error { return dry(t, h.eve, object(t, h.ns, claimManifest, "shop-data")) },
		"eve makes a Secret": func(t *testing.T) error { return dry(t, h.eve, object(t, h.ns, secretManifest, "orders-signing")) },
		"eve makes a queue":  func(t *testing.T) error { return dry(t, h.eve, object(t, h.ns, queueManifest, "orders")) },
		"eve grows the claim": func(t *testing.T) error {
			return notDenied(dryPatch(t, h.eve, h.claim, `{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`))
		},
		"the deployment controller scales": func(t *testing.T) error { return dryPatch(t, h.deployments, h.replicaSet, `{"spec":{"replicas":0}}`) },
		"one identity for all controllers makes a ReplicaSet": func(t *testing.T) error {
			return dry(t, cluster.As(t, "system:kube-controller-manager", "system:masters"), object(t, h.ns, replicaSetManifest, "retryqueue-orders-7e", "retryqueue-orders"))
		},
		"the replicaset controller makes a pod under a long name": func(t *testing.T) error {
			o := object(t, h.ns, podManifest, "x", "ReplicaSet", "retryqueue-a123456789012345678901234567890123456789012345678901-6d4f", "retryqueue-orders-data")
			o.SetName("")
			o.SetGenerateName("retryqueue-a123456789012345678901234567890123456789012345678901-6d4f-")
			return dry(t, h.replicas, o)
		},
		"the garbage collector orphans": func(t *testing.T) error {
			return dryPatch(t, controller("generic-garbage-collector"), h.pod, `{"metadata":{"ownerReferences":null}}`)
		},
		"the garbage collector orphans a ReplicaSet": func(t *testing.T) error {
			return dryPatch(t, controller("generic-garbage-collector"), h.replicaSet, `{"metadata":{"ownerReferences":null}}`)
		},
		"the deployment controller adopts a ReplicaSet": func(t *testing.T) error {
			return dryPatch(t, h.deployments, h.replicaSet,
				`{"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment","name":"retryqueue-orders","uid":"u2","controller":true}]}}`)
		},
		"the replicaset controller adopts a pod": func(t *testing.T) error {
			return dryPatch(t, h.replicas, h.pod,
				`{"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"retryqueue-orders-6d4f","uid":"u2","controller":true}]}}`)
		},
		"eve labels a worker's pod": func(t *testing.T) error {
			return dryPatch(t, h.eve, h.pod, `{"metadata":{"labels":{"team":"shop"}}}`)
		},
		"eve labels the Deployment": func(t *testing.T) error {
			return dryPatch(t, h.eve, h.deployment, `{"metadata":{"labels":{"team":"shop"}}}`)
		},
		"the namespace controller deletes": func(t *testing.T) error {
			return controller("namespace-controller").Delete(t.Context(), h.secret.DeepCopy(), client.DryRunAll)
		},
		"the binder binds": func(t *testing.T) error {
			return dryPatch(t, controller("persistent-volume-binder"), h.claim, `{"spec":{"volumeName":"pv-1"}}`)
		},
		"eve labels the claim": func(t *testing.T) error {
			return dryPatch(t, h.eve, h.claim, `{"metadata":{"labels":{"team":"shop"}}}`)
		},
		"the garbage collector orphans the claim": func(t *testing.T) error {
			return dryPatch(t, controller("generic-garbage-collector"), h.claim, `{"metadata":{"ownerReferences":null}}`)
		},
		"a controller drops finalizers": func(t *testing.T) error {
			return dryPatch(t, controller("pvc-protection-controller"), h.claim, annotate)
		},
		"the manager changes its Deployment": func(t *testing.T) error { return dryPatch(t, h.manager, h.deployment, `{"spec":{"paused":true}}`) },
		"the manager changes its Secret":     func(t *testing.T) error { return dryPatch(t, h.manager, h.secret, `{"stringData":{"tls.key":"x"}}`) },
		"the scheduler binds a worker": func(t *testing.T) error {
			c, err := kubernetes.NewForConfig(cluster.ConfigAs("system:kube-scheduler"))
			if err != nil {
				t.Fatal(err)
			}
			b := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: h.pod.GetName()}, Target: corev1.ObjectReference{Kind: "Node", Name: "n1"}}
			return c.CoreV1().Pods(h.ns).Bind(t.Context(), b, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		},
		"the kubelet reports on a worker": func(t *testing.T) error {
			return cluster.As(t, "system:node:n1", "system:nodes", "system:masters").Status().Patch(t.Context(), h.pod.DeepCopy(),
				client.RawPatch("application/merge-patch+json", []byte(`{"status":{"phase":"Running"}}`)), client.DryRunAll)
		},
		"an administrator restores a claim": func(t *testing.T) error {
			cluster.Grant(t, h.ns, "admin", "ann")
			cluster.Grant(t, h.ns, "retryqueue-admin", "ann")
			return dry(t, cluster.As(t, "ann"), object(t, h.ns, claimManifest, "retryqueue-restored-data"))
		},
		"a pod that is no worker is entered": func(t *testing.T) error {
			create(t, h.eve, object(t, h.ns, podManifest, "mine", "ReplicaSet", "mine", "mine"))
			return notDenied(connect(t, "eve", h.ns, "mine", "exec"))
		},
		"the manager's own namespace is free": func(t *testing.T) error {
			return dry(t, cluster.Client, object(t, testenv.ManagerNamespace, deploymentManifest, "retryqueue-manager"))
		},
	} {
		t.Run(name, func(t *testing.T) { wantAdmitted(t, do(t)) })
	}
}

func TestManagerTouchesNoOtherSecret(t *testing.T) {
	h := build(t)
	other := object(t, h.ns, secretManifest, "orders-signing")
	other.Object["type"] = "Opaque"
	create(t, h.eve, other)
	const policy = "manager-secrets.retryqueue.dev"
	t.Run("not even to read it by a patch", func(t *testing.T) { wantDenied(t, dryPatch(t, h.manager, other, `{}`), policy, "") })
	t.Run("nor one that only has the type", func(t *testing.T) {
		wantDenied(t, dry(t, h.manager, object(t, h.ns, secretManifest, "orders")), policy, "")
	})
	t.Run("nor make one of another type", func(t *testing.T) {
		o := object(t, h.ns, secretManifest, "retryqueue-orders-tls2")
		o.Object["type"] = "Opaque"
		wantDenied(t, dry(t, h.manager, o), policy, "")
	})
	t.Run("its own namespace apart", func(t *testing.T) {
		o := object(t, testenv.ManagerNamespace, secretManifest, "retryqueue-ca")
		o.Object["type"] = "Opaque"
		wantAdmitted(t, dry(t, h.manager, o))
	})
}

// connect asks for a command or a terminal in a pod. Without a kubelet it never succeeds.
func connect(t *testing.T, user, ns, pod, how string, groups ...string) error {
	t.Helper()
	c, err := kubernetes.NewForConfig(cluster.ConfigAs(user, groups...))
	if err != nil {
		t.Fatal(err)
	}
	return c.CoreV1().RESTClient().Post().Namespace(ns).Resource("pods").Name(pod).SubResource(how).
		Param("container", "worker").Param("command", "sh").Param("stdout", "true").Do(t.Context()).Error()
}

func debug(t *testing.T, c client.Client, o client.Object) error {
	t.Helper()
	pod := &corev1.Pod{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), pod); err != nil {
		t.Fatal(err)
	}
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{
		EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "evil", ImagePullPolicy: corev1.PullAlways, TerminationMessagePolicy: corev1.TerminationMessageReadFile},
		TargetContainerName:      "worker",
	}}
	return c.SubResource("ephemeralcontainers").Update(t.Context(), pod, client.DryRunAll)
}

// What edit may not do by RBAC, so that no policy of ours has to look after it.
func TestEditMayNot(t *testing.T) {
	ns := cluster.Namespace(t)
	cluster.Grant(t, ns, "edit", "eve")
	for _, what := range []authzv1.ResourceAttributes{
		{Verb: "update", Resource: "pods", Subresource: "ephemeralcontainers"},
		{Verb: "create", Resource: "pods", Subresource: "binding"},
		{Verb: "update", Resource: "pods", Subresource: "status"},
		{Verb: "create", Group: "discovery.k8s.io", Resource: "endpointslices"},
		{Verb: "update", Resource: "endpoints"},
		{Verb: "create", Resource: "persistentvolumes"},
		{Verb: "create", Group: "retryqueue.dev", Resource: "redrives"},
		{Verb: "patch", Group: "retryqueue.dev", Resource: "redrives"},
		{Verb: "create", Group: "retryqueue.dev", Resource: "redriveapprovals"},
		{Verb: "approve", Group: "retryqueue.dev", Resource: "redrives"},
		{Verb: "set-redrive-policy", Group: "retryqueue.dev", Resource: "retryqueues"},
		{Verb: "update", Group: "retryqueue.dev", Resource: "redrives", Subresource: "status"},
		{Verb: "update", Group: "retryqueue.dev", Resource: "retryqueues", Subresource: "status"},
		{Verb: "delete", Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"},
		{Verb: "impersonate", Resource: "users"},
		{Verb: "impersonate", Resource: "serviceaccounts", Namespace: testenv.ManagerNamespace},
		{Verb: "create", Resource: "serviceaccounts", Subresource: "token", Namespace: testenv.ManagerNamespace},
		{Verb: "get", Resource: "secrets", Namespace: testenv.ManagerNamespace},
		{Verb: "update", Resource: "configmaps", Namespace: testenv.ManagerNamespace},
	} {
		if what.Namespace == "" {
			what.Namespace = ns
		}
		sar := &authzv1.SubjectAccessReview{Spec: authzv1.SubjectAccessReviewSpec{User: "eve", ResourceAttributes: &what}}
		create(t, cluster.Client, sar)
		if sar.Status.Allowed {
			t.Errorf("edit may %s %s/%s/%s in %s", what.Verb, what.Group, what.Resource, what.Subresource, what.Namespace)
		}
	}
}
