package retryqueue

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
	"github.com/retryqueue/retryqueue/internal/manifest"
)

var update = flag.Bool("update", false, "write the golden files")

const minimal = `
apiVersion: retryqueue.dev/v1alpha1
kind: RetryQueue
metadata: {name: orders, namespace: shop, uid: 11111111-2222-3333-4444-555555555555, generation: 7}
spec:
  delivery: {http: {url: "http://orders.shop.svc/handle"}}
  accept: {insecure: true}
`

const full = `
apiVersion: retryqueue.dev/v1alpha1
kind: RetryQueue
metadata: {name: orders, namespace: shop, uid: 11111111-2222-3333-4444-555555555555, generation: 7}
spec:
  retryPolicy: {attemptTimeout: 2m}
  delivery: {http: {url: "http://orders.shop.svc/handle", signingSecretRef: {name: orders-signing}}}
  accept:
    tokenSecretRef: {name: orders-producers}
    from:
    - podSelector: {matchLabels: {app: shop}}
    - ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}
  storage: {sqlite: {size: 5Gi, accessMode: ReadWriteOnce, storageClassName: fast}}
  limits: {maxBytes: 4Gi}
  deletionPolicy: Delete
  workers:
    template:
      labels: {team: shop}
      annotations: {note: "1"}
      resources: {requests: {cpu: "1"}, limits: {memory: 1Gi}}
      nodeSelector: {disk: ssd}
      affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}]}}}
      tolerations: [{key: dedicated, operator: Exists, effect: NoSchedule}]
      priorityClassName: high
      imagePullSecrets: [{name: registry}]
      sidecars:
      - {name: target, image: "shop/target:1", args: [serve], env: [{name: A, value: b}], resources: {limits: {memory: 64Mi}}}
`

func parse(t *testing.T, y string) *v1alpha1.RetryQueue {
	t.Helper()
	rq, err := manifest.Parse([]byte(y))
	if err != nil {
		t.Fatal(err)
	}
	return rq
}

// objects are the YAML of all children but the Secret, which is random by nature.
func objects(t *testing.T, rq *v1alpha1.RetryQueue) string {
	t.Helper()
	configMap, err := buildConfigMap(rq)
	if err != nil {
		t.Fatal(err)
	}
	policy, err := buildNetworkPolicy(rq, "retryqueue-system")
	if err != nil {
		t.Fatal(err)
	}
	deployment, err := buildDeployment(rq, "image:1")
	if err != nil {
		t.Fatal(err)
	}
	var docs []string
	for _, o := range []any{buildClaim(rq), configMap, policy, buildService(rq), deployment} {
		b, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, string(b))
	}
	return strings.Join(docs, "---\n")
}

func TestChildrenAreAsWrittenDown(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{"minimal": minimal, "full": full} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := objects(t, parse(t, in))
			file := filepath.Join("testdata", name+".yaml")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("differs from %s (-want +got), run with -update if that is meant:\n%s", file, diff)
			}
		})
	}
}

func TestOnlyThePodsShapeRestartsWorkers(t *testing.T) {
	t.Parallel()
	d := func(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }
	for sentence, tc := range map[string]struct {
		change  func(*v1alpha1.RetryQueueSpec)
		restart bool
	}{
		"attempts do not": {func(s *v1alpha1.RetryQueueSpec) { s.RetryPolicy.MaxAttempts = 3 }, false},
		"backoff does not": {func(s *v1alpha1.RetryQueueSpec) {
			s.RetryPolicy.Backoff = v1alpha1.Backoff{Base: d(time.Millisecond), Cap: d(time.Second), Jitter: v1alpha1.JitterDecorrelated}
		}, false},
		"the deadline does not":                      {func(s *v1alpha1.RetryQueueSpec) { s.RetryPolicy.Deadline = d(time.Minute) }, false},
		"a timeout within the grace period does not": {func(s *v1alpha1.RetryQueueSpec) { s.RetryPolicy.AttemptTimeout = d(15 * time.Second) }, false},
		"a timeout that needs a longer one does":     {func(s *v1alpha1.RetryQueueSpec) { s.RetryPolicy.AttemptTimeout = d(16 * time.Second) }, true},
		"suspension does not":                        {func(s *v1alpha1.RetryQueueSpec) { s.Suspend = true }, false},
		"another target does not":                    {func(s *v1alpha1.RetryQueueSpec) { s.Delivery.HTTP.URL = "http://b/" }, false},
		"headers do not": {func(s *v1alpha1.RetryQueueSpec) {
			s.Delivery.HTTP.Headers = []v1alpha1.HTTPHeader{{Name: "A", Value: "b"}}
		}, false},
		"limits do not":             {func(s *v1alpha1.RetryQueueSpec) { s.Limits.MaxPending = 5 }, false},
		"failure rules do not":      {func(s *v1alpha1.RetryQueueSpec) { s.FailurePolicy = &v1alpha1.FailurePolicy{} }, false},
		"redrivePolicy does not":    {func(s *v1alpha1.RetryQueueSpec) { s.RedrivePolicy.MinApprovals = 2 }, false},
		"deletionPolicy does not":   {func(s *v1alpha1.RetryQueueSpec) { s.DeletionPolicy = v1alpha1.DeletionDelete }, false},
		"who may reach it does not": {func(s *v1alpha1.RetryQueueSpec) { s.Accept.From = []networkingv1.NetworkPolicyPeer{{}} }, false},
		"a larger volume does not": {func(s *v1alpha1.RetryQueueSpec) {
			s.Storage.SQLite = &v1alpha1.SQLiteStorage{Size: resource.MustParse("2Gi")}
		}, false},
		"a mounted secret does": {func(s *v1alpha1.RetryQueueSpec) { s.Accept.TokenSecretRef = &v1alpha1.SecretRef{Name: "a"} }, true},
		"a signing secret does": {func(s *v1alpha1.RetryQueueSpec) { s.Delivery.HTTP.SigningSecretRef = &v1alpha1.SecretRef{Name: "a"} }, true},
		"an adopted volume does": {func(s *v1alpha1.RetryQueueSpec) {
			s.Storage.SQLite = &v1alpha1.SQLiteStorage{ExistingClaim: "retryqueue-x-data"}
		}, true},
		"resources do": {func(s *v1alpha1.RetryQueueSpec) {
			s.Workers.Template = &v1alpha1.WorkerTemplate{Resources: &corev1.ResourceRequirements{}}
		}, true},
		"a sidecar does": {func(s *v1alpha1.RetryQueueSpec) {
			s.Workers.Template = &v1alpha1.WorkerTemplate{Sidecars: []v1alpha1.Sidecar{{Name: "a", Image: "b"}}}
		}, true},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			template := func(rq *v1alpha1.RetryQueue) any {
				dep, err := buildDeployment(rq, "image:1")
				if err != nil {
					t.Fatal(err)
				}
				return dep.Spec.Template
			}
			rq := parse(t, minimal)
			before := template(rq)
			rq.Generation++
			tc.change(&rq.Spec)
			diff := cmp.Diff(before, template(rq), cmp.Comparer(func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 }))
			if (diff != "") != tc.restart {
				t.Errorf("restart = %t, want %t\n%s", diff != "", tc.restart, diff)
			}
		})
	}
}

func TestTheGracePeriodHoldsEveryAttempt(t *testing.T) {
	t.Parallel()
	for timeout := time.Second; timeout <= 15*time.Minute; timeout += time.Second {
		if got := time.Duration(gracePeriod(timeout)) * time.Second; got < timeout+drainMargin || got > 2*(timeout+drainMargin) {
			t.Fatalf("attemptTimeout %s: grace period %s", timeout, got)
		}
	}
}

func TestTheWorkersManifestIsOneThatTheyTake(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{"minimal": minimal, "full": full} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rq := parse(t, in)
			b, err := buildManifest(rq)
			if err != nil {
				t.Fatal(err)
			}
			got, err := manifest.Parse(b)
			if err != nil {
				t.Fatal(err)
			}
			quantities := cmp.Comparer(func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 })
			if diff := cmp.Diff(rq, got, quantities); diff != "" {
				t.Errorf("what the worker reads (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAQueuesKeyIsHandedToNobody(t *testing.T) {
	t.Parallel()
	for sentence, tc := range map[string]struct {
		change func(*v1alpha1.RetryQueueSpec)
		want   string
	}{
		"not as a producer's token": {func(s *v1alpha1.RetryQueueSpec) {
			s.Accept.TokenSecretRef = &v1alpha1.SecretRef{Name: "retryqueue-orders-tls"}
		}, "tokenSecretRef"},
		"not as a signing secret": {func(s *v1alpha1.RetryQueueSpec) {
			s.Delivery.HTTP.SigningSecretRef = &v1alpha1.SecretRef{Name: "retryqueue-b-tls"}
		}, "signingSecretRef"},
		"not to a sidecar": {func(s *v1alpha1.RetryQueueSpec) {
			s.Workers.Template = &v1alpha1.WorkerTemplate{Sidecars: []v1alpha1.Sidecar{{Name: "s", Env: []corev1.EnvVar{{Name: "K", ValueFrom: &corev1.EnvVarSource{
				SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "retryqueue-orders-tls"}}}}}}}}
		}, "sidecars"},
		"other secrets are free": {func(s *v1alpha1.RetryQueueSpec) { s.Accept.TokenSecretRef = &v1alpha1.SecretRef{Name: "orders-tls"} }, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			rq := parse(t, minimal)
			tc.change(&rq.Spec)
			if got := forbiddenSecret(rq); (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
