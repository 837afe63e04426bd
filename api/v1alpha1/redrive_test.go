package v1alpha1_test

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/retryqueue/retryqueue/config/crd"
)

func TestRedrive(t *testing.T) {
	checkRules(t, minimalRedrive, map[string]rule{
		"a reason is given": {
			bad:  all("spec.reason", `""`),
			want: "spec.reason",
		},
		"a reason is not blank": {
			good: all("spec.reason", "x"),
			bad:  all("spec.reason", `" "`, `"\n\t"`),
			want: "reason must say what the cause was and what was done about it",
		},
		"a reason cannot be left out": {
			bad:  all("spec.reason", "null"),
			want: "spec.reason: Required value",
		},
		"a queue is named": {
			bad:  all("spec.queueRef", "null"),
			want: "spec.queueRef: Required value",
		},
		"the name is one that a queue can have": {
			bad:  all("spec.queueRef.name", "Orders", "a.b"),
			want: "name must be one that a RetryQueue can have",
		},
		"limit is from 1": {
			good: all("spec.limit", "1", "1000000"),
			bad:  all("spec.limit", "0"),
			want: "greater than or equal to 1",
		},
		"limit is at most 1000000": {
			bad:  all("spec.limit", "1000001"),
			want: "less than or equal to 1000000",
		},
		"a rate is declared": {
			bad:  all("spec.rate", "null"),
			want: "spec.rate: Required value",
		},
		"the span of the rate is from 1ms to 24h": {
			good: all("spec.rate", "{jobs: 1, per: 1ms}", "{jobs: 1, per: 24h}"),
			bad:  all("spec.rate", "{jobs: 1, per: 0s}", "{jobs: 1, per: 25h}"),
			want: "per must be from 1ms to 24h",
		},
		"burst is at least what the rate gives in 0.1s, and one": {
			good: all("spec.rate", "{jobs: 20, burst: 3}", "{jobs: 1, per: 1m, burst: 2}", "{jobs: 600, per: 1m, burst: 2}", "{jobs: 100000, per: 1ms}"),
			bad:  all("spec.rate", "{jobs: 20, burst: 2}", "{jobs: 1, per: 1m, burst: 1}", "{jobs: 601, per: 1m, burst: 2}"),
			want: "burst must be at least what the rate gives in 0.1s, and one",
		},
		"diedAfter is before diedBefore": {
			good: all("spec.selector", `{diedAfter: "2026-09-06T12:00:00Z", diedBefore: "2026-09-06T12:00:00.000001Z"}`, `{diedAfter: "2026-09-06T12:00:00Z"}`),
			bad: all("spec.selector", `{diedAfter: "2026-09-06T12:00:00Z", diedBefore: "2026-09-06T12:00:00Z"}`,
				`{diedAfter: "2026-09-06T12:00:00Z", diedBefore: "2026-09-06T13:00:00+02:00"}`),
			want: "diedAfter must be earlier than diedBefore",
		},
		"a time is a time": {
			bad:  all("spec.selector", `{diedAfter: yesterday}`),
			want: "must be of type date-time",
		},
		"reasons exist": {
			good: all("spec.selector.reasons", "[Permanent, Exhausted, DeadlineExceeded]"),
			bad:  all("spec.selector.reasons", "[Unlucky]"),
			want: `supported values: "Permanent", "Exhausted", "DeadlineExceeded"`,
		},
		"an id is one that a job can have": {
			good: all("spec.selector", `{ids: ["order-1", "!a/b~"]}`),
			bad:  all("spec.selector", `{ids: ["a b"]}`, `{ids: ["ä"]}`, `{ids: [ok, "a\tb"]}`),
			want: "an id must be printable ASCII without spaces",
		},
		"a status is three digits or a class": {
			good: all("spec.selector", `{httpStatuses: ["503", "5xx"]}`),
			bad:  all("spec.selector", `{httpStatuses: ["abc"]}`, `{httpStatuses: ["5xx", "600"]}`),
			want: "a status must be three digits such as 503, or a class such as 5xx",
		},
		"lists of the selector are not empty": {
			bad:  all("spec.selector", "{reasons: []}", "{ids: []}", "{fingerprints: []}", "{httpStatuses: []}"),
			want: "should have at least 1 items",
		},
		"the deadline of the budget is greater than 0": {
			good: all("spec.budget.deadline", "1ms", "720h"),
			bad:  all("spec.budget.deadline", "0s", "721h"),
			want: "deadline must be from 1ms to 720h",
		},
		"the budget has attempts": {
			bad:  all("spec.budget.maxAttempts", "0"),
			want: "greater than or equal to 1",
		},
		"the timeout of the canary is from 1s to 24h": {
			good: all("spec.canary.timeout", "1s", "24h"),
			bad:  all("spec.canary.timeout", "0s", "25h"),
			want: "timeout must be from 1s to 24h",
		},
		"percentages are at most 100": {
			good: []string{"spec: {canary: {maxFailurePercent: 100}, abort: {maxFailurePercent: 0}}"},
			bad:  []string{"spec: {canary: {maxFailurePercent: 101}}", "spec: {abort: {maxFailurePercent: 101}}"},
			want: "less than or equal to 100",
		},
		"a canary may be switched off and is not negative": {
			good: all("spec.canary.jobs", "0"),
			bad:  all("spec.canary.jobs", "-1"),
			want: "greater than or equal to 0",
		},
		"an abort needs jobs to judge by": {
			good: all("spec.abort.minJobs", "1"),
			bad:  all("spec.abort.minJobs", "0"),
			want: "greater than or equal to 1",
		},
		"maxOutstanding is from 1": {
			good: all("spec.maxOutstanding", "1"),
			bad:  all("spec.maxOutstanding", "0"),
			want: "greater than or equal to 1",
		},
	})
}

func TestRedriveChanges(t *testing.T) {
	const fixed = "a Redrive must not change once made, only suspend and cancel"
	full := `
spec:
  requestedBy: bob
  selector: {ids: [b, a], reasons: [Exhausted]}
  budget: {maxAttempts: 3}
  canary: {jobs: 5}
  abort: {minJobs: 7}
  maxOutstanding: 9
`
	checkChanges(t, minimalRedrive, map[string]change{
		"what was said stays": {
			from: full,
			good: []string{"spec: {selector: {ids: [a, b]}}", "metadata: {labels: {a: b}}"},
			bad: []string{
				"spec: {queueRef: {name: other}}", "spec: {reason: other}", "spec: {limit: 501}", "spec: {rate: {jobs: 11}}", "spec: {requestedBy: eve}",
				"spec: {selector: {ids: [a]}}", "spec: {selector: null}", "spec: {budget: {maxAttempts: 4}}", "spec: {budget: null}",
				"spec: {canary: {jobs: 0}}", "spec: {canary: null}", "spec: {abort: {minJobs: 8}}", "spec: {abort: null}",
				"spec: {maxOutstanding: 10}", "spec: {maxOutstanding: null}", "spec: {requestedBy: null}",
			},
			want: fixed,
		},
		"what was not said stays unsaid": {
			bad: []string{
				"spec: {requestedBy: eve}", "spec: {selector: {}}", "spec: {budget: {}}", "spec: {canary: {}}", "spec: {abort: {}}",
				"spec: {maxOutstanding: 1}", "spec: {rate: {burst: 9}}",
			},
			want: fixed,
		},
		"suspend goes on and off, cancel on": {
			from: "spec: {suspend: true}",
			good: []string{"spec: {suspend: false}", "spec: {suspend: null}", "spec: {cancel: true}"},
			bad:  []string{"spec: {suspend: false, limit: 1}"},
			want: fixed,
		},
		"cancel is one way": {
			from: "spec: {cancel: true}",
			good: []string{"spec: {suspend: true}"},
			bad:  []string{"spec: {cancel: false}", "spec: {cancel: null}"},
			want: "cancel must stay true once set",
		},
	})
}

// A property that is added to RedriveSpec later must be added to the rule that fixes it.
func TestRedriveImmutabilityNamesEveryProperty(t *testing.T) {
	b, err := crd.Files.ReadFile("retryqueue.dev_redrives.yaml")
	if err != nil {
		t.Fatal(err)
	}
	def := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(b, def); err != nil {
		t.Fatal(err)
	}
	spec := def.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	var fixed string
	for _, v := range spec.XValidations {
		if strings.Contains(v.Message, "must not change once made") {
			fixed = v.Rule
		}
	}
	for name := range spec.Properties {
		named := strings.Contains(fixed, "self."+name+" == oldSelf."+name)
		if free := name == "suspend" || name == "cancel"; named == free {
			t.Errorf("spec.%s: named in the rule %t, may change %t", name, named, free)
		}
	}
}

func TestRedriveDefaults(t *testing.T) {
	r := manifest(t, minimalRedrive, "spec: {canary: {}, abort: {}}")
	r.SetNamespace(cluster.Namespace(t))
	if err := cluster.Client.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(r), r); err != nil {
		t.Fatal(err)
	}
	want := manifest(t, minimalRedrive, `
spec:
  rate: {per: 1s}
  canary: {jobs: 10, maxFailurePercent: 10}
  abort: {maxFailurePercent: 20, minJobs: 20}
  suspend: false
  cancel: false
`)
	wantSameSpec(t, want, r)
	wantObserved(t, r, -1)
}

func TestRedriveApproval(t *testing.T) {
	checkRules(t, minimalApproval, map[string]rule{
		"the Redrive is named for good": {
			bad:  []string{"spec: {redriveRef: {uid: null}}"},
			want: "spec.redriveRef.uid: Required value",
		},
		"the plan is named": {
			bad:  []string{"spec: {planHash: null}"},
			want: "spec.planHash: Required value",
		},
		"a plan is named by its whole hash": {
			good: all("spec.planHash", `"sha256:`+strings.Repeat("0a", 32)+`"`),
			bad:  all("spec.planHash", "abc", quoted("0", 64), `"sha256:`+strings.Repeat("0", 63)+`"`, `"sha256:`+strings.Repeat("0A", 32)+`"`),
			want: "planHash must be status.plan.hash of the Redrive: sha256: and 64 hexadecimal digits",
		},
		"to approve is the only decision": {
			good: []string{"spec: {decision: Approved}"},
			bad:  []string{"spec: {decision: Rejected}"},
			want: `supported values: "Approved"`,
		},
	})
	checkChanges(t, minimalApproval, map[string]change{
		"an approval never changes": {
			from: "spec: {message: seen}",
			good: []string{"metadata: {labels: {a: b}}"},
			bad: []string{
				"spec: {planHash: other}", "spec: {approver: bob}", "spec: {approver: null}", "spec: {message: null}",
				"spec: {redriveRef: {uid: other}}", "spec: {redriveRef: {name: other}}",
			},
			want: "a RedriveApproval must not change once made",
		},
	})
}
