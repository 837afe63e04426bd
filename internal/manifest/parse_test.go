package manifest

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/retryqueue/retryqueue/internal/delivery"
	"github.com/retryqueue/retryqueue/internal/queue"
)

const minimal = `
apiVersion: retryqueue.dev/v1alpha1
kind: RetryQueue
metadata: {name: orders}
spec:
  delivery: {http: {url: "http://orders.shop.svc/handle"}}
  accept: {insecure: true}
`

// with returns the minimal manifest with the fields of a YAML object merged into it.
func with(t testing.TB, patch string) []byte {
	t.Helper()
	var base, over map[string]any
	for text, into := range map[string]*map[string]any{minimal: &base, patch: &over} {
		if err := yaml.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	merge(base, over)
	out, err := yaml.Marshal(base)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// merge is a JSON merge patch, except that it keeps a null for Parse to see.
func merge(base, over map[string]any) {
	for k, v := range over {
		if inner, ok := v.(map[string]any); ok {
			if had, ok := base[k].(map[string]any); ok {
				merge(had, inner)
				continue
			}
		}
		base[k] = v
	}
}

func TestParseFillsInTheDefaultsOfTheCRD(t *testing.T) {
	t.Parallel()
	rq, err := Parse([]byte(minimal))
	if err != nil {
		t.Fatal(err)
	}
	got, err := ToConfig(rq)
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		Name: "orders",
		Policy: queue.Policy{
			Backoff:     queue.Backoff{Base: 1000, Cap: 30_000, Jitter: queue.JitterFull},
			MaxAttempts: 8, Deadline: 3_600_000, AttemptTimeout: 10_000, RetryAfterMax: 300_000,
			DedupeWindow: 86_400_000, MaxRedrives: 3,
			Limits: queue.Limits{MaxPayload: 256 << 10, MaxPending: 1_000_000, MaxBytes: 900 << 20},
		},
		Concurrency: 64,
		Delivery:    delivery.Config{Queue: "orders", URL: "http://orders.shop.svc/handle", AttemptTimeout: 10_000},
		Accept:      Accept{Insecure: true},
		StorageSize: 1 << 30,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Config (-want +got):\n%s", diff)
	}
	if rq.Status.ObservedGeneration != -1 {
		t.Errorf("status.observedGeneration = %d, want -1 as the API server has it", rq.Status.ObservedGeneration)
	}
}

func TestToConfigCarriesEveryFieldOver(t *testing.T) {
	t.Parallel()
	rq, err := Parse(with(t, `
metadata: {namespace: shop, uid: u-1, generation: 7}
spec:
  suspend: true
  retryPolicy:
    maxAttempts: 4
    backoff: {base: 200ms, cap: 2s, jitter: Decorrelated}
    deadline: 2m
    attemptTimeout: 1500ms
    retryAfterMax: 0s
  failurePolicy:
    rules:
    - {name: done, onHTTPStatus: ["409"], action: Succeed}
    - {name: broken, onHTTPStatus: ["5xx"], onError: [TLS], action: Fail}
  delivery:
    http:
      headers: [{name: X-Shop, value: eu}]
      signingSecretRef: {name: orders-signing}
  accept: {insecure: false, tokenSecretRef: {name: producers}}
  dedupeWindow: 1h
  deadLetter: {maxRedrives: 0, retention: 720h}
  limits: {maxPayload: 1Ki, maxPending: 5, maxBytes: 1Mi, perWorkerConcurrency: 3}
  storage: {sqlite: {size: 2Gi}}
  workers: {template: {sidecars: [{name: target, image: example/target}]}}
status: {nonsense: true}
`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := ToConfig(rq)
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		Namespace: "shop", Name: "orders", UID: "u-1", Generation: 7, Suspended: true,
		Policy: queue.Policy{
			Backoff:     queue.Backoff{Base: 200, Cap: 2000, Jitter: queue.JitterDecorrelated},
			MaxAttempts: 4, Deadline: 120_000, AttemptTimeout: 1500,
			DedupeWindow: 3_600_000, Retention: 2_592_000_000,
			Limits: queue.Limits{MaxPayload: 1 << 10, MaxPending: 5, MaxBytes: 1 << 20},
		},
		Concurrency: 3,
		Delivery: delivery.Config{
			Queue: "shop/orders", URL: "http://orders.shop.svc/handle", AttemptTimeout: 1500,
			Headers: []queue.Header{{Name: "X-Shop", Value: "eu"}},
			Rules: []delivery.Rule{
				{Name: "done", Statuses: []string{"409"}, Action: delivery.ActionSucceed},
				{Name: "broken", Statuses: []string{"5xx"}, Errors: []string{"TLS"}, Action: delivery.ActionFail},
			},
			Signed:        true,
			AllowLoopback: true,
		},
		Accept:      Accept{RequireToken: true},
		StorageSize: 2 << 30,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Config (-want +got):\n%s", diff)
	}
}

func TestParseTakesJSON(t *testing.T) {
	t.Parallel()
	asJSON, err := yaml.YAMLToJSON([]byte(minimal))
	if err != nil {
		t.Fatal(err)
	}
	fromJSON, err := Parse(asJSON)
	if err != nil {
		t.Fatal(err)
	}
	fromYAML, err := Parse([]byte("# a comment\n---\n" + minimal + "---\n# nothing more\n"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fromYAML, fromJSON); diff != "" {
		t.Errorf("from JSON (-yaml +json):\n%s", diff)
	}
	again, err := json.Marshal(fromJSON)
	if err != nil {
		t.Fatal(err)
	}
	back, err := Parse(again)
	if err != nil {
		t.Fatalf("what Parse returns must be a manifest too: %v", err)
	}
	if diff := cmp.Diff(fromJSON, back); diff != "" {
		t.Errorf("once more (-want +got):\n%s", diff)
	}
}

func TestParseAccepts(t *testing.T) {
	t.Parallel()
	for name, patch := range map[string]string{
		"one attempt":                           `{spec: {retryPolicy: {maxAttempts: 1}}}`,
		"cap equal to base":                     `{spec: {retryPolicy: {backoff: {base: 5s, cap: 5s}}}}`,
		"deadline equal to attemptTimeout":      `{spec: {retryPolicy: {deadline: 10s, attemptTimeout: 10s}}}`,
		"an object's metadata as kubectl shows": `{metadata: {namespace: shop, uid: u, resourceVersion: "1", creationTimestamp: "2026-01-01T00:00:00Z", labels: {a: b}}}`,
		"a null where there is a default":       `{spec: {retryPolicy: null}}`,
		"https with a port and a query":         `{spec: {delivery: {http: {url: "https://orders.shop.svc:8443/h?x=1"}}}}`,
		"no worker":                             `{spec: {workers: {replicas: 0}}}`,
		"a name of 52 characters":               `{metadata: {name: ` + strings.Repeat("a", 52) + `}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rq, err := Parse(with(t, patch))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := ToConfig(rq); err != nil {
				t.Errorf("ToConfig: %v", err)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		patch       string
		field, says string
	}{
		"an unknown field":                 {`{spec: {retryPolicy: {maxAttempt: 3}}}`, "spec.retryPolicy.maxAttempt", "no field"},
		"an unknown field at the top":      {`{specs: {}}`, "specs", "no field"},
		"an unknown field of the metadata": {`{metadata: {nam: x}}`, "metadata.nam", "no field"},
		"an unknown field within a list":   {`{spec: {failurePolicy: {rules: [{name: a, action: Fail, onHTTPStatus: ["500"], when: now}]}}}`, "spec.failurePolicy.rules[0].when", "no field"},
		"another kind":                     {`{kind: Redrive}`, "kind", "must be RetryQueue"},
		"another version":                  {`{apiVersion: retryqueue.dev/v2}`, "apiVersion", "retryqueue.dev/v1alpha1"},
		"a kind that is no string":         {`{kind: 3}`, "kind", "string"},
		"no metadata":                      {`{metadata: null}`, "metadata", "must be an object"},
		"no name":                          {`{metadata: {name: null}}`, "metadata.name", "must be set"},
		"a name that no Service can bear":  {`{metadata: {name: 1orders}}`, "", "52 characters"},
		"a name that is too long":          {`{metadata: {name: ` + strings.Repeat("a", 53) + `}}`, "", "52 characters"},
		"a name that is no string":         {`{metadata: {name: 7}}`, "metadata", "cannot be read"},
		"a namespace that cannot be":       {`{metadata: {namespace: Shop}}`, "metadata.namespace", "lower"},
		"a spec that is no object":         {`{spec: []}`, "spec", "must be an object"},
		"no spec":                          {`{spec: null}`, "spec", "must be an object"},
		"no delivery":                      {`{spec: {delivery: null}}`, "spec.delivery", "must be set"},
		"no attempts":                      {`{spec: {retryPolicy: {maxAttempts: 0}}}`, "spec.retryPolicy.maxAttempts", "must be greater than or equal to 1 (is 0)"},
		"attempts as a string":             {`{spec: {retryPolicy: {maxAttempts: "3"}}}`, "spec.retryPolicy.maxAttempts", "integer"},
		"no jitter":                        {`{spec: {retryPolicy: {backoff: {jitter: None}}}}`, "spec.retryPolicy.backoff.jitter", `"Full", "Decorrelated" (is "None")`},
		"a base of nothing":                {`{spec: {retryPolicy: {backoff: {base: 0s}}}}`, "spec.retryPolicy.backoff.base", "must be from 1ms to 24h"},
		"a base that is no duration":       {`{spec: {retryPolicy: {backoff: {base: soon}}}}`, "spec.retryPolicy.backoff.base", "must be from 1ms to 24h"},
		"cap below base":                   {`{spec: {retryPolicy: {backoff: {base: 5s, cap: 1s}}}}`, "spec.retryPolicy.backoff", "raise cap or lower base"},
		"a deadline below attemptTimeout":  {`{spec: {retryPolicy: {deadline: 5s}}}`, "spec.retryPolicy", "raise deadline or lower attemptTimeout"},
		"a target without http":            {`{spec: {delivery: {http: {url: "ftp://x/y"}}}}`, "spec.delivery.http.url", "http or https"},
		"a target with a password":         {`{spec: {delivery: {http: {url: "http://a:b@x/y"}}}}`, "spec.delivery.http.url", "user information"},
		"a header of RetryQueue's own":     {`{spec: {delivery: {http: {headers: [{name: RetryQueue-Attempt, value: "1"}]}}}}`, "spec.delivery.http.headers[0].name", "remove it"},
		"a header twice":                   {`{spec: {delivery: {http: {headers: [{name: A, value: "1"}, {name: A, value: "2"}]}}}}`, "spec.delivery.http.headers[1]", "twice"},
		"nobody who may put jobs in":       {`{spec: {accept: {insecure: false}}}`, "spec.accept", "tokenSecretRef"},
		"two workers on SQLite":            {`{spec: {workers: {replicas: 2}}}`, "spec", "workers.replicas must be"},
		"a payload limit above all":        {`{spec: {limits: {maxPayload: 17Mi}}}`, "spec.limits.maxPayload", "16Mi"},
		"a rule that matches nothing":      {`{spec: {failurePolicy: {rules: [{name: a, action: Fail}]}}}`, "spec.failurePolicy.rules[0]", "onHTTPStatus or onError"},
		"a status that is none":            {`{spec: {failurePolicy: {rules: [{name: a, action: Fail, onHTTPStatus: ["600"]}]}}}`, "spec.failurePolicy.rules[0].onHTTPStatus[0]", "three digits"},
		"success without an answer":        {`{spec: {failurePolicy: {rules: [{name: a, action: Succeed, onError: [Timeout]}]}}}`, "spec.failurePolicy.rules[0]", "may not have arrived"},
		"a label that cannot be":           {`{metadata: {labels: {a: "not a label!"}}}`, "metadata.labels", "label"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse(with(t, tt.patch))
			wantProblem(t, err, tt.field, tt.says)
		})
	}
}

func TestParseRefusesWhatIsNoManifest(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ text, says string }{
		"nothing":                  {"", "is empty"},
		"only comments":            {"# later\n---\n# and later\n", "is empty"},
		"a scalar":                 {"hello", "one object"},
		"a list":                   {"[1, 2]", "one object"},
		"two documents":            {minimal + "---" + minimal, "one document"},
		"broken YAML":              {"a: [", "well-formed"},
		"a field twice":            {minimal + "kind: RetryQueue\n", "already set"},
		"a field twice in JSON":    {`{"kind": "RetryQueue", "kind": "RetryQueue"}`, "already set"},
		"more than can be mounted": {"a: " + strings.Repeat("x", MaxSize), "at most"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse([]byte(tt.text))
			wantProblem(t, err, "", tt.says)
		})
	}
}

func TestParseTellsEverythingAtOnce(t *testing.T) {
	t.Parallel()
	_, err := Parse(with(t, `{spec: {foo: 1, retryPolicy: {maxAttempts: 0}, limits: {maxPending: 0}}}`))
	for _, path := range []string{"spec.foo", "spec.retryPolicy.maxAttempts", "spec.limits.maxPending"} {
		wantProblem(t, err, path, "")
	}
}

func wantProblem(t *testing.T, err error, path, says string) {
	t.Helper()
	var e *InvalidError
	if !errors.As(err, &e) {
		t.Fatalf("error = %v, want an InvalidError at %q that says %q", err, path, says)
	}
	for _, p := range e.Problems {
		if p.Field == path && strings.Contains(p.Detail, says) {
			return
		}
	}
	t.Errorf("problems = %q, want one at %q that says %q", e.Problems, path, says)
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{minimal, "", "---\n---", "a: &a [*a]", "{}", `{"apiVersion":"retryqueue.dev/v1alpha1","kind":"RetryQueue","metadata":{"name":"a"},"spec":{"delivery":{"http":{"url":"http://x"}},"accept":{"insecure":true}}}`} {
		f.Add([]byte(seed))
	}
	for _, patch := range []string{
		`{spec: {limits: {maxBytes: 1e30}}}`, `{spec: {limits: {maxPayload: 0.5}}}`, `{spec: {retryPolicy: {deadline: 719h59m59.999s}}}`,
		`{spec: {failurePolicy: {rules: [{name: a, action: Fail, onHTTPStatus: ["5xx"]}]}}}`,
		`{spec: {workers: {template: {resources: {limits: {cpu: 1, memory: 1Gi}}, tolerations: [{key: a, tolerationSeconds: 3}]}}}}`,
	} {
		f.Add(with(f, patch))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		rq, err := Parse(data)
		if err != nil {
			var e *InvalidError
			if !errors.As(err, &e) || len(e.Problems) == 0 || e.Error() == "" {
				t.Fatalf("an error must say what is wrong with the manifest, is %#v", err)
			}
			return
		}
		if _, err := ToConfig(rq); err != nil {
			t.Errorf("what the CRD accepts must be fit to run: %v", err)
		}
	})
}
