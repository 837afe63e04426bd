package v1alpha1_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
)

const notADuration = ", such as 30s or 1h30m"

func TestRetryQueueRetryPolicy(t *testing.T) {
	checkRules(t, minimalQueue, map[string]rule{
		"maxAttempts is from 1": {
			good: all("spec.retryPolicy.maxAttempts", "1"),
			bad:  all("spec.retryPolicy.maxAttempts", "0", "-1"),
			want: "greater than or equal to 1",
		},
		"maxAttempts is at most 100": {
			good: all("spec.retryPolicy.maxAttempts", "100"),
			bad:  all("spec.retryPolicy.maxAttempts", "101"),
			want: "less than or equal to 100",
		},
		"a duration is a number with a unit": {
			good: all("spec.retryPolicy.backoff.base", "1.5s", "0m30s", "250ms"),
			bad:  all("spec.retryPolicy.backoff.base", "abc", `"10"`, `""`, `"-1s"`, "1d", `"1 s"`, "1us"),
			want: notADuration,
		},
		"a duration is not too large to be read": {
			bad:  all("spec.retryPolicy.backoff.cap", "99999999999h"),
			want: "cap must be from 1ms to 24h",
		},
		"base is greater than 0": {
			good: all("spec.retryPolicy.backoff.base", "1ms"),
			bad:  all("spec.retryPolicy.backoff.base", "0s", "0.5ms"),
			want: "base must be from 1ms to 24h",
		},
		"cap is at least base": {
			good: all("spec.retryPolicy.backoff", "{base: 2s, cap: 2s}"),
			bad:  all("spec.retryPolicy.backoff", "{base: 2s, cap: 1999ms}", "{base: 31s}", "{cap: 0.9s}"),
			want: "cap must be at least base: raise cap or lower base",
		},
		"cap is at most 24h": {
			good: all("spec.retryPolicy", "{backoff: {cap: 24h}, deadline: 48h}"),
			bad:  all("spec.retryPolicy", "{backoff: {cap: 24h0m0.001s}, deadline: 48h}"),
			want: "cap must be from 1ms to 24h",
		},
		"jitter cannot be switched off": {
			good: all("spec.retryPolicy.backoff.jitter", "Full", "Decorrelated"),
			bad:  all("spec.retryPolicy.backoff.jitter", "None", `""`),
			want: `supported values: "Full", "Decorrelated"`,
		},
		"deadline is at least attemptTimeout": {
			good: all("spec.retryPolicy", "{deadline: 10s, attemptTimeout: 10s}"),
			bad:  all("spec.retryPolicy", "{deadline: 10s, attemptTimeout: 11s}", "{deadline: 9s}"),
			want: "deadline must be at least attemptTimeout",
		},
		"deadline is at most 720h": {
			good: all("spec.retryPolicy.deadline", "720h"),
			bad:  all("spec.retryPolicy.deadline", "721h"),
			want: "deadline must be from 1ms to 720h",
		},
		"attemptTimeout is greater than 0 and at most 15m": {
			good: all("spec.retryPolicy.attemptTimeout", "1ms", "15m"),
			bad:  all("spec.retryPolicy.attemptTimeout", "0s", "15m1s"),
			want: "attemptTimeout must be from 1ms to 15m",
		},
		"retryAfterMax may be 0 and is at most 24h": {
			good: all("spec.retryPolicy.retryAfterMax", "0s", "24h"),
			bad:  all("spec.retryPolicy.retryAfterMax", "25h"),
			want: "retryAfterMax must be from 0s to 24h",
		},
		"retryAfterMax is not negative": {
			bad:  all("spec.retryPolicy.retryAfterMax", `"-1s"`),
			want: notADuration,
		},
		"dedupeWindow is from 1s to 720h": {
			good: all("spec.dedupeWindow", "1s", "720h"),
			bad:  all("spec.dedupeWindow", "0s", "721h"),
			want: "dedupeWindow must be from 1s to 720h",
		},
		"retention is greater than 0": {
			good: all("spec.deadLetter.retention", "1s", "8760h"),
			bad:  all("spec.deadLetter.retention", "0s", "87601h"),
			want: "retention must be from 1s to 87600h",
		},
		"maxRedrives may be 0 and is at most 100": {
			good: all("spec.deadLetter.maxRedrives", "0", "100"),
			bad:  all("spec.deadLetter.maxRedrives", "101"),
			want: "less than or equal to 100",
		},
	})
}

func TestRetryQueueFailurePolicy(t *testing.T) {
	const path = "spec.failurePolicy.rules"
	checkRules(t, minimalQueue, map[string]rule{
		"a rule matches something": {
			good: all(path, `[{name: a, onHTTPStatus: ["409"], action: Succeed}]`, `[{name: a, onError: [Timeout], action: Retry}]`),
			bad:  all(path, `[{name: a, action: Fail}]`),
			want: "a rule must match something: set onHTTPStatus or onError",
		},
		"a transport error is no success": {
			good: all(path, `[{name: a, onError: [TLS], action: Fail}]`),
			bad:  all(path, `[{name: a, onError: [Connection], action: Succeed}]`, `[{name: a, onHTTPStatus: ["409"], onError: [TLS], action: Succeed}]`),
			want: "action Succeed must not be used with onError",
		},
		"a status is three digits or a class": {
			good: all(path, `[{name: a, onHTTPStatus: ["404", "5xx"], action: Retry}]`),
			bad:  all(path, `[{name: a, onHTTPStatus: ["4x4"], action: Retry}]`, `[{name: a, onHTTPStatus: ["600"], action: Retry}]`),
			want: "a status must be three digits such as 503, or a class such as 5xx",
		},
		"an action is one of three": {
			bad:  all(path, `[{name: a, onHTTPStatus: ["404"], action: Ignore}]`),
			want: `supported values: "Succeed", "Retry", "Fail"`,
		},
		"rules are not empty": {
			bad:  all(path, `[]`),
			want: "should have at least 1 items",
		},
		"names of rules are unique": {
			bad:  all(path, `[{name: a, onHTTPStatus: ["404"], action: Retry}, {name: a, onHTTPStatus: ["409"], action: Retry}]`),
			want: "Duplicate value",
		},
	})
}

func TestRetryQueueDelivery(t *testing.T) {
	const url, headers = "spec.delivery.http.url", "spec.delivery.http.headers"
	reserved := strings.Fields("RetryQueue-Attempt retryqueue-x Host Content-Length content-type Transfer-Encoding Connection " +
		"Keep-Alive Upgrade TE Trailer Expect Proxy-Connection Proxy-Authorization Idempotency-Key Webhook-Id webhook-signature")
	var bad []string
	for _, name := range reserved {
		bad = append(bad, under(headers, `[{name: "`+name+`", value: x}]`))
	}
	checkRules(t, minimalQueue, map[string]rule{
		"the URL is http or https with a host": {
			good: all(url, `"https://orders.example.com:8443/a/b?c=d@e"`, `"http://[2001:db8::1]:80/"`, `"http://127.0.0.1:9000"`, `"HTTP://orders"`),
			bad: all(url, `"ftp://orders/handle"`, `"orders.shop.svc/handle"`, `"/handle"`, `"http://"`, `"http:///handle"`, `"http://:80/"`,
				`"mailto:a@b"`, `"http://orders/a b"`, `"http://orders/\u00e9"`, `"http://orders/\n"`, `"http://a:b:c/"`),
			want: "url must be an absolute http or https URL with a host",
		},
		"the URL holds no user information": {
			bad:  all(url, `"http://user:secret@orders/"`, `"https://user@orders"`),
			want: "url must not hold user information",
		},
		"the URL holds no fragment": {
			bad:  all(url, `"http://orders/#top"`),
			want: "url must not hold a fragment",
		},
		"the URL is at most 2048 characters": {
			bad:  all(url, `"http://orders/`+strings.Repeat("a", 2048)+`"`),
			want: "may not be more than 2048",
		},
		"delivery has a way": {
			bad:  all("spec.delivery.http", "null"),
			want: "spec.delivery.http: Required value",
		},
		"headers that RetryQueue or the connection sets are reserved": {
			good: all(headers, `[{name: Authorization-Hint, value: x}, {name: X-Team, value: ""}]`),
			bad:  bad,
			want: "the name of a header must not be one that RetryQueue or the connection sets",
		},
		"the name of a header is a token": {
			bad:  all(headers, `[{name: "X Team", value: x}]`, `[{name: "X:Team", value: x}]`, `[{name: "Äpfel", value: x}]`),
			want: "the name of a header must be a token",
		},
		"the value of a header is one line": {
			good: all(headers, `[{name: X-Team, value: "päyments, and; more"}]`),
			bad:  all(headers, `[{name: X-Team, value: "a\r\nHost: b"}]`, `[{name: X-Team, value: "a\u0000"}]`),
			want: "the value of a header must not hold control characters",
		},
		"a header is named once": {
			good: all(headers, `[{name: X-A, value: x}, {name: X-B, value: x}]`),
			bad:  all(headers, `[{name: X-A, value: x}, {name: x-a, value: x}]`),
			want: "headers must not name one header twice",
		},
	})
}

func TestRetryQueueAccept(t *testing.T) {
	const accept = "spec.accept"
	checkRules(t, minimalQueue, map[string]rule{
		"somebody is named, or it is open": {
			good: all(accept, "{insecure: false, tokenSecretRef: {name: producers}}", "{insecure: false, from: [{podSelector: {}}]}", "{insecure: true}",
				"{insecure: false, tokenSecretRef: {name: producers}, from: [{namespaceSelector: {}}]}"),
			bad:  all(accept, "{insecure: false}", "{insecure: null}"),
			want: "accept must say who may put jobs in",
		},
		"a Secret has a name that a Secret can have": {
			good: all(accept, "{insecure: false, tokenSecretRef: {name: a.b-c}}"),
			bad:  all(accept, "{insecure: false, tokenSecretRef: {name: Bad_Name}}", "{insecure: false, tokenSecretRef: {name: a-}}"),
			want: "name must be one that a Secret can have",
		},
		"open stands alone": {
			bad:  all(accept, "{insecure: true, tokenSecretRef: {name: producers}}", "{insecure: true, from: [{podSelector: {}}]}"),
			want: "insecure must not stand beside tokenSecretRef or from",
		},
		"a peer says who": {
			good: all(accept, "{insecure: false, from: [{podSelector: {}, namespaceSelector: {}}, {ipBlock: {cidr: 10.0.0.0/8}}]}"),
			bad:  all(accept, "{insecure: false, from: [{}]}", "{insecure: false, from: [{ipBlock: {cidr: 10.0.0.0/8}, podSelector: {}}]}"),
			want: "each peer of from must have podSelector, namespaceSelector or both, or else ipBlock alone",
		},
		"an address block is a network": {
			good: all(accept, `{insecure: false, from: [{ipBlock: {cidr: "2001:db8::/32"}}]}`),
			bad:  all(accept, "{insecure: false, from: [{ipBlock: {cidr: 10.0.0.1}}]}", "{insecure: false, from: [{ipBlock: {cidr: all}}]}"),
			want: "ipBlock.cidr must be a network",
		},
	})
}

func TestRetryQueueLimitsAndStorage(t *testing.T) {
	checkRules(t, minimalQueue, map[string]rule{
		"maxPayload is from 1 to 16Mi": {
			good: all("spec.limits.maxPayload", "1", "16Mi", "16777216"),
			bad:  all("spec.limits.maxPayload", "0", "16777217", `"-1"`),
			want: "maxPayload must be from 1 to 16Mi",
		},
		"maxBytes is at least maxPayload": {
			good: all("spec.limits", "{maxPayload: 1Mi, maxBytes: 1Mi}", "{maxPayload: 1048576, maxBytes: 1Mi}"),
			bad:  all("spec.limits", "{maxPayload: 1Mi, maxBytes: 1048575}", "{maxBytes: 1}"),
			want: "maxBytes must be at least maxPayload",
		},
		"maxBytes is less than the volume": {
			good: all("spec", "{limits: {maxBytes: 1G}, storage: {sqlite: {size: 1Gi}}}"),
			bad:  all("spec", "{limits: {maxBytes: 1Gi}}", "{storage: {sqlite: {size: 512Mi}}}", "{limits: {maxBytes: 1Gi}, storage: {sqlite: {size: 1024Mi}}}"),
			want: "limits.maxBytes must be less than storage.sqlite.size",
		},
		"maxPending is from 1": {
			good: all("spec.limits.maxPending", "1"),
			bad:  all("spec.limits.maxPending", "0"),
			want: "greater than or equal to 1",
		},
		"perWorkerConcurrency is at most 1024": {
			good: all("spec.limits.perWorkerConcurrency", "1", "1024"),
			bad:  all("spec.limits.perWorkerConcurrency", "1025"),
			want: "less than or equal to 1024",
		},
		"the store is one that exists": {
			good: all("spec.storage", "{type: SQLite}", "{type: SQLite, sqlite: {}}", "{sqlite: {size: 2Gi}}"),
			bad:  all("spec.storage", "{type: PostgreSQL}", `{type: ""}`),
			want: `supported values: "SQLite"`,
		},
		"the volume is at least 64Mi": {
			good: all("spec", "{limits: {maxBytes: 32Mi}, storage: {sqlite: {size: 64Mi}}}"),
			bad:  all("spec", "{limits: {maxBytes: 32Mi}, storage: {sqlite: {size: 63Mi}}}"),
			want: "size must be at least 64Mi",
		},
		"the access mode is for one writer": {
			good: all("spec.storage.sqlite.accessMode", "ReadWriteOnce", "ReadWriteOncePod"),
			bad:  all("spec.storage.sqlite.accessMode", "ReadWriteMany"),
			want: `supported values: "ReadWriteOncePod", "ReadWriteOnce"`,
		},
		"a claim that is adopted has a guarded name": {
			good: all("spec.storage.sqlite.existingClaim", "retryqueue-orders-data", "retryqueue-a-b-data"),
			bad:  all("spec.storage.sqlite.existingClaim", "orders", "retryqueue-orders", "retryqueue--data", "my-retryqueue-orders-data"),
			want: "existingClaim must be named retryqueue-NAME-data",
		},
	})
}

func TestRetryQueueRedrivePolicy(t *testing.T) {
	checkRules(t, minimalQueue, map[string]rule{
		"the span of maxRate is from 1ms to 24h": {
			good: all("spec.redrivePolicy.maxRate", "{jobs: 1, per: 1ms}", "{jobs: 1, per: 24h}"),
			bad:  all("spec.redrivePolicy.maxRate", "{jobs: 1, per: 0s}", "{jobs: 1, per: 25h}"),
			want: "per must be from 1ms to 24h",
		},
		"maxRate has jobs": {
			bad:  all("spec.redrivePolicy.maxRate", "{jobs: 0}"),
			want: "greater than or equal to 1",
		},
		"somebody approves": {
			good: all("spec.redrivePolicy.minApprovals", "1", "10"),
			bad:  all("spec.redrivePolicy.minApprovals", "0"),
			want: "greater than or equal to 1",
		},
		"approvalTTL is from 1s to 720h": {
			good: all("spec.redrivePolicy.approvalTTL", "1s", "720h"),
			bad:  all("spec.redrivePolicy.approvalTTL", "0s", "721h"),
			want: "approvalTTL must be from 1s to 720h",
		},
	})
}

func TestRetryQueueWorkers(t *testing.T) {
	const labels, annotations, sidecars = "spec.workers.template.labels", "spec.workers.template.annotations", "spec.workers.template.sidecars"
	checkRules(t, minimalQueue, map[string]rule{
		"SQLite has one worker at most": {
			good: all("spec.workers.replicas", "0", "1"),
			bad:  all("spec.workers.replicas", "2"),
			want: "workers.replicas must be 0 or 1 with storage.type SQLite",
		},
		"labels of ours are not theirs": {
			good: all(labels, "{team: payments, shop.example.com/tier: gold}"),
			bad:  all(labels, "{retryqueue.dev/queue: other}", "{app.kubernetes.io/name: x}", "{pod-template-hash: x}"),
			want: "labels must not use retryqueue.dev/*, app.kubernetes.io/* or pod-template-hash",
		},
		"the key of a label is valid": {
			bad:  all(labels, `{"a b": x}`, `{"/a": x}`, `{"Example.com/a": x}`),
			want: "labels must have valid keys",
		},
		"the value of a label is short": {
			good: all(labels, "{a: "+quoted("v", 63)+"}"),
			bad:  all(labels, "{a: "+quoted("v", 64)+"}"),
			want: "labels must have values of at most 63 characters",
		},
		"annotations of ours are not theirs": {
			good: all(annotations, `{prometheus.io/scrape: "true"}`),
			bad:  all(annotations, "{retryqueue.dev/config: x}"),
			want: "annotations must not use retryqueue.dev/*",
		},
		"the key of an annotation is valid": {
			bad:  all(annotations, `{"a b": x}`),
			want: "annotations must have valid keys",
		},
		"a sidecar is not the worker": {
			good: all(sidecars, "[{name: target, image: shop/orders}]"),
			bad:  all(sidecars, "[{name: worker, image: shop/orders}]"),
			want: "the name of a sidecar must not be worker",
		},
		"the name of a sidecar is a DNS label": {
			bad:  all(sidecars, "[{name: A_b, image: shop/orders}]"),
			want: "the name of a sidecar must be lower-case letters",
		},
	})
}

func TestRetryQueueName(t *testing.T) {
	checkRules(t, minimalQueue, map[string]rule{
		"a Service can be named after it": {
			good: all("metadata.name", "o", "orders-eu", quoted("a", 52)),
			bad:  all("metadata.name", "1orders", "orders.eu", quoted("a", 53)),
			want: "metadata.name must be at most 52 characters",
		},
	})
}

func TestRetryQueueChanges(t *testing.T) {
	const sqlite = "spec.storage.sqlite"
	checkChanges(t, minimalQueue, map[string]change{
		"a volume only grows": {
			from: under(sqlite, "{size: 2Gi}"),
			good: all(sqlite, "{size: 3Gi}", "{size: 2048Mi}"),
			bad:  all(sqlite, "{size: 2047Mi}", "{size: null}"),
			want: "size must not shrink",
		},
		"a volume does not shrink when its block is left out": {
			from: under(sqlite, "{size: 2Gi}"),
			bad:  all("spec.storage", "null"),
			want: "size must not shrink",
		},
		"a volume keeps its access mode": {
			from: under(sqlite, "{accessMode: ReadWriteOnce}"),
			bad:  all(sqlite, "{accessMode: ReadWriteOncePod}", "{accessMode: null}"),
			want: "accessMode must not change",
		},
		"a volume keeps its storage class": {
			from: under(sqlite, "{storageClassName: fast}"),
			bad:  all(sqlite, "{storageClassName: slow}", "{storageClassName: null}"),
			want: "storageClassName must not change",
		},
		"a volume does not get a storage class later": {
			bad:  all(sqlite, "{storageClassName: slow}"),
			want: "storageClassName must not change",
		},
		"a queue keeps the claim that it adopted": {
			from: under(sqlite, "{existingClaim: retryqueue-old-data}"),
			bad:  all(sqlite, "{existingClaim: retryqueue-other-data}", "{existingClaim: null}"),
			want: "existingClaim must not change",
		},
		"a queue adopts no claim later": {
			bad:  all(sqlite, "{existingClaim: retryqueue-old-data}"),
			want: "existingClaim must not change",
		},
		"the rest may change": {
			good: []string{"spec: {suspend: true, retryPolicy: {maxAttempts: 3}, workers: {replicas: 0}, deletionPolicy: Delete}"},
			bad:  all("spec.workers.replicas", "2"),
			want: "workers.replicas must be 0 or 1",
		},
	})
}

func TestRetryQueueScale(t *testing.T) {
	q := manifest(t, minimalQueue)
	q.SetNamespace(cluster.Namespace(t))
	if err := cluster.Client.Create(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	scale := func(n int32) error {
		s := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: n}}
		return cluster.Client.SubResource("scale").Update(t.Context(), q, client.WithSubResourceBody(s))
	}
	if err := scale(0); err != nil {
		t.Errorf("scaling to 0: %v", err)
	}
	wantRefusal(t, "scaling to 3", scale(3), "workers.replicas must be 0 or 1 with storage.type SQLite")
}

func TestRetryQueueDefaults(t *testing.T) {
	q := manifest(t, minimalQueue)
	q.SetNamespace(cluster.Namespace(t))
	if err := cluster.Client.Create(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(q), q); err != nil {
		t.Fatal(err)
	}
	want := manifest(t, minimalQueue, `
spec:
  suspend: false
  retryPolicy:
    maxAttempts: 8
    backoff: {base: 1s, cap: 30s, jitter: Full}
    deadline: 1h
    attemptTimeout: 10s
    retryAfterMax: 5m
  accept: {insecure: true}
  dedupeWindow: 24h
  limits: {maxPayload: 256Ki, maxPending: 1000000, maxBytes: 900Mi, perWorkerConcurrency: 64}
  storage: {type: SQLite, sqlite: {size: 1Gi, accessMode: ReadWriteOncePod}}
  deadLetter: {maxRedrives: 3}
  redrivePolicy: {maxRate: {jobs: 50, per: 1s}, minApprovals: 1, forbidSelfApproval: true, approvalTTL: 24h}
  deletionPolicy: Retain
  workers: {replicas: 1}
`)
	wantSameSpec(t, want, q)
	wantObserved(t, q, -1)
}

// A typed client that leaves fields zero gets the defaults, not zeroes.
func TestRetryQueueDefaultsOfTypedClient(t *testing.T) {
	q := &v1alpha1.RetryQueue{}
	q.Name, q.Namespace = "orders", cluster.Namespace(t)
	q.Spec.Delivery.HTTP = &v1alpha1.HTTPDelivery{URL: "http://orders.shop.svc/handle"}
	q.Spec.Accept.Insecure = true
	q.Spec.Limits.MaxPending = 5
	q.Spec.Storage.Type = v1alpha1.StorageSQLite
	if err := cluster.Client.Create(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	got := []string{
		q.Spec.DedupeWindow.Duration.String(), q.Spec.RetryPolicy.Backoff.Cap.Duration.String(), q.Spec.RetryPolicy.RetryAfterMax.Duration.String(),
		q.Spec.Limits.MaxBytes.String(), q.Spec.Storage.SQLite.Size.String(), q.Spec.RedrivePolicy.MaxRate.Per.Duration.String(),
	}
	if diff := cmp.Diff([]string{"24h0m0s", "30s", "5m0s", "900Mi", "1Gi", "1s"}, got); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

func wantObserved(t *testing.T, o *unstructured.Unstructured, want int64) {
	t.Helper()
	got, found, err := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	if err != nil || !found || got != want {
		t.Errorf("status.observedGeneration is %d (found %t, %v), want %d", got, found, err, want)
	}
}

func wantSameSpec(t *testing.T, want, got *unstructured.Unstructured) {
	t.Helper()
	if diff := cmp.Diff(want.Object["spec"], got.Object["spec"]); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

func TestAMistypedDurationIsToldInWords(t *testing.T) {
	ns := cluster.Namespace(t)
	for _, tc := range []struct{ base, patch string }{
		{minimalQueue, under("spec.retryPolicy", `{deadline: 1x, attemptTimeout: 2y, backoff: {base: 3z, cap: "4"}}`)},
		{minimalRedrive, under("spec.rate", "{jobs: 10, burst: 2, per: 5v}")},
	} {
		err := dryCreate(t, ns, manifest(t, tc.base, tc.patch))
		wantRefusal(t, tc.patch, err, notADuration)
		if err != nil && strings.Contains(err.Error(), "conversion") {
			t.Errorf("%s\nis refused with the words of a machine: %v", tc.patch, err)
		}
	}
}
