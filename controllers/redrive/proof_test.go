package redrive

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/onsi/gomega"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
	"github.com/retryqueue/retryqueue/config/admission"
	"github.com/retryqueue/retryqueue/internal/testenv"
)

func policyNamed(name string) *admissionv1.ValidatingAdmissionPolicy {
	return &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func bindingNamed(name string) *admissionv1.ValidatingAdmissionPolicyBinding {
	return &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// tampering is a change to what guards approvals.
type tampering struct {
	object client.Object
	change func(client.Object) // nil deletes
	want   string              // a part of the message
}

func inPolicy(change func(*admissionv1.ValidatingAdmissionPolicySpec)) func(client.Object) {
	return func(o client.Object) { change(&o.(*admissionv1.ValidatingAdmissionPolicy).Spec) }
}

func inBinding(change func(*admissionv1.ValidatingAdmissionPolicyBindingSpec)) func(client.Object) {
	return func(o client.Object) { change(&o.(*admissionv1.ValidatingAdmissionPolicyBinding).Spec) }
}

// elsewhere matches no namespace of the tests.
var elsewhere = &metav1.LabelSelector{MatchLabels: map[string]string{"no": "such"}}

var tamperings = map[string]tampering{
	"the policy is removed":  {policyNamed(approvalPolicy), nil, "is not installed"},
	"its binding is removed": {bindingNamed(approvalPolicy), nil, "is not installed"},
	"its binding only audits": {
		bindingNamed(approvalPolicy),
		inBinding(func(s *admissionv1.ValidatingAdmissionPolicyBindingSpec) {
			s.ValidationActions = []admissionv1.ValidationAction{admissionv1.Audit}
		}), "spec.validationActions",
	},
	"its binding leaves the namespace out": {
		bindingNamed(approvalPolicy),
		inBinding(func(s *admissionv1.ValidatingAdmissionPolicyBindingSpec) {
			s.MatchResources = &admissionv1.MatchResources{NamespaceSelector: elsewhere}
		}), "spec.matchResources",
	},
	"it lets one person through": {
		policyNamed(approvalPolicy),
		inPolicy(func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			s.MatchConditions = []admissionv1.MatchCondition{{Name: "not-bob", Expression: "request.userInfo.username != 'bob'"}}
		}), "spec.matchConditions",
	},
	"it does not look at the verb": {
		policyNamed(approvalPolicy),
		inPolicy(func(s *admissionv1.ValidatingAdmissionPolicySpec) { s.Validations = s.Validations[:2] }), "spec.validations",
	},
	"it fails open": {
		policyNamed(approvalPolicy),
		inPolicy(func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			ignore := admissionv1.Ignore
			s.FailurePolicy = &ignore
		}), "spec.failurePolicy",
	},
	"nobody vouches for requesters": {policyNamed(requesterPolicy), nil, requesterPolicy + " is not installed"},
	"anybody may say who made a Redrive": {
		policyNamed(requesterPolicy),
		inPolicy(func(s *admissionv1.ValidatingAdmissionPolicySpec) { s.Validations[0].Expression = "true" }),
		"spec.validations[0].expression",
	},
}

// TestNothingRunsWhileApprovalsAreNotGuarded changes the policies of the whole API server, so it and its parts do not
// run beside other tests.
func TestNothingRunsWhileApprovalsAreNotGuarded(t *testing.T) {
	for name, tt := range tamperings {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 3)
			b.start()
			rd := b.redrive("inc-42")
			b.await(rd, v1alpha1.ReasonAwaitingApproval)
			restore := tamper(t, tt)
			defer restore()
			b.approve(alice, rd)
			got := b.await(rd, v1alpha1.ReasonPolicyNotEnforced)
			how := mendChanged
			if tt.change == nil {
				how = mend
			}
			for _, want := range []string{tt.want, how} {
				if !strings.Contains(ready(got), want) {
					t.Errorf("message %q does not say %q", ready(got), want)
				}
			}
			if c := conditionsOf(got); c["Stalled"] != "True AdmissionPolicyNotEnforced" || c["Approved"] != "False AdmissionPolicyNotEnforced" {
				t.Errorf("conditions: %v", c)
			}
			b.w.tick(succeeded)
			if b.permitted(rd) || b.released(rd) != 0 {
				t.Error("it runs, and approvals are not guarded")
			}
			restore()
			b.touch(rd)
			b.awaitWhile(rd, v1alpha1.ReasonComplete, b.w.delivering())
		})
	}
}

func TestARunningRedriveStopsWhenThePolicyGoes(t *testing.T) {
	b := newBench(t, 50)
	clock := clocktesting.NewFakePassiveClock(time.Now())
	b.start(func(o *Options) { o.Clock = clock })
	rd := b.redrive("inc-42")
	b.await(rd, v1alpha1.ReasonAwaitingApproval)
	b.approve(alice, rd)
	b.await(rd, v1alpha1.ReasonReleasing)
	b.w.tick(succeeded)
	restore := tamper(t, tamperings["it lets one person through"])
	defer restore()
	clock.SetTime(clock.Now().Add(proofAge))
	b.await(rd, v1alpha1.ReasonPolicyNotEnforced)
	if b.permitted(rd) {
		t.Error("permitted, and approvals are not guarded")
	}
	restore()
	b.touch(rd)
	b.awaitWhile(rd, v1alpha1.ReasonComplete, b.w.delivering())
}

func TestNothingIsProvedWithoutTheListOfTrustedApprovers(t *testing.T) {
	list := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: testenv.ManagerNamespace, Name: "retryqueue-trusted-approvers"}}
	v := newProver(t)
	restore := tamper(t, tampering{object: list})
	defer restore()
	NewWithT(t).Eventually(func() string { return faultOf(t, v) }, patience, 50*time.Millisecond).
		Should(ContainSubstring("no params found"))
}

func TestAPolicyMadeAnewDoesNotVouchForWhatIsOlder(t *testing.T) {
	b := newBench(t, 3)
	b.start(func(o *Options) { o.policyMargin = time.Millisecond })
	rd := b.redrive("inc-42")
	b.await(rd, v1alpha1.ReasonAwaitingApproval)
	tamper(t, tamperings["nobody vouches for requesters"])()
	b.approve(alice, rd)
	b.await(rd, v1alpha1.ReasonRequesterUnknown)
	if b.permitted(rd) {
		t.Error("permitted, and nobody knows who made it")
	}
}

// A binding that was set to audit and then applied again does both.
func TestABindingMayAuditBesidesDenying(t *testing.T) {
	restore := tamper(t, tampering{object: bindingNamed(approvalPolicy), change: inBinding(func(s *admissionv1.ValidatingAdmissionPolicyBindingSpec) {
		s.ValidationActions = []admissionv1.ValidationAction{admissionv1.Audit, admissionv1.Deny}
	})})
	defer restore()
	v := newProver(t)
	NewWithT(t).Eventually(func() string { return faultOf(t, v) }, patience, 50*time.Millisecond).Should(BeEmpty())
}

// tamper changes or deletes an object; the answer puts it back and waits until it works again.
func tamper(t *testing.T, what tampering) (restore func()) {
	t.Helper()
	ctx, c := t.Context(), cluster.Client
	obj := what.object.DeepCopyObject().(client.Object)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("tampering with %s: %v", obj.GetName(), err)
		}
	}
	must(c.Get(ctx, client.ObjectKeyFromObject(obj), obj))
	before := obj.DeepCopyObject().(client.Object)
	if what.change == nil {
		must(c.Delete(ctx, obj))
	} else {
		what.change(obj)
		must(c.Update(ctx, obj))
	}
	once := false
	return func() {
		t.Helper()
		if once {
			return
		}
		once = true
		if what.change == nil {
			before.SetResourceVersion("")
			before.SetUID("")
			must(c.Create(ctx, before))
		} else {
			must(c.Get(ctx, client.ObjectKeyFromObject(obj), obj))
			before.SetResourceVersion(obj.GetResourceVersion())
			must(c.Update(ctx, before))
		}
		awaitGuards(t)
	}
}

// newProver proves with all rights.
func newProver(t *testing.T) *prover {
	t.Helper()
	policies, err := readShipped(admission.Files, shippedNamespace)
	if err != nil {
		t.Fatal(err)
	}
	return &prover{
		client: cluster.Client, live: cluster.Client, shipped: policies,
		clock: clocktesting.NewFakePassiveClock(time.Now()), known: map[string]proof{},
	}
}

func faultOf(t *testing.T, v *prover) string {
	t.Helper()
	p, err := v.prove(t.Context(), "default", 0)
	if err != nil {
		return err.Error()
	}
	return p.fault
}

// awaitGuards waits until the API server denies what it must.
func awaitGuards(t *testing.T) {
	t.Helper()
	v := newProver(t)
	forged := &v1alpha1.Redrive{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "forged"}}
	forged.Spec = v1alpha1.RedriveSpec{
		QueueRef: v1alpha1.QueueRef{Name: "q"}, RequestedBy: "nobody", Reason: "r", Limit: 1, Rate: &v1alpha1.RedriveRate{Jobs: 1},
	}
	NewWithT(t).Eventually(func() string {
		if err := cluster.Client.Create(t.Context(), forged.DeepCopy(), client.DryRunAll); !apierrors.IsForbidden(err) {
			return "a forged requester was admitted"
		}
		return faultOf(t, v)
	}, patience, 50*time.Millisecond).Should(BeEmpty())
}

func TestShippedPoliciesAreThoseOfTheAPIServer(t *testing.T) {
	awaitGuards(t)
}

func TestReadShipped(t *testing.T) {
	t.Parallel()
	all, err := readShipped(admission.Files, "elsewhere")
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, b := range all.bindings {
		if b.Name == approvalPolicy {
			found = b.Spec.ParamRef.Namespace == "elsewhere"
		}
	}
	if !found {
		t.Error("the binding does not look for its ConfigMap in the manager's namespace")
	}
	for name, files := range map[string]fs.FS{
		"no policy":  fstest.MapFS{},
		"not YAML":   fstest.MapFS{"a.yaml": {Data: []byte("{")}},
		"no binding": fstest.MapFS{"a.yaml": {Data: []byte("apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: " + approvalPolicy + "}\n")}},
	} {
		if _, err := readShipped(files, shippedNamespace); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestFirstDifference(t *testing.T) {
	type m = map[string]any
	base := func() m { return m{"a": m{"b": []any{"x", m{"c": int64(1)}}}, "z": "z"} }
	tests := map[string]struct {
		change func(m)
		want   string
	}{
		"nothing":               {func(m) {}, ""},
		"a value":               {func(v m) { v["z"] = "y" }, "spec.z"},
		"a field more":          {func(v m) { v["k"] = "k" }, "spec.k"},
		"a field less":          {func(v m) { delete(v, "z") }, "spec.z"},
		"an element":            {func(v m) { v["a"].(m)["b"].([]any)[1].(m)["c"] = int64(2) }, "spec.a.b[1].c"},
		"an element more":       {func(v m) { v["a"].(m)["b"] = append(v["a"].(m)["b"].([]any), "y") }, "spec.a.b"},
		"another kind of value": {func(v m) { v["a"] = "a" }, "spec.a"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := base()
			tt.change(got)
			path, differs := firstDifference("spec", base(), got)
			if differs != (tt.want != "") || differs && path != tt.want {
				t.Errorf("got %q %t, want %q", path, differs, tt.want)
			}
		})
	}
}

// TestAServerThatCannotBeAskedProvesNothing: it is no fault of the policies, and only a young proof still holds.
func TestAServerThatCannotBeAskedProvesNothing(t *testing.T) {
	v := newProver(t)
	clock := clocktesting.NewFakePassiveClock(time.Now())
	v.clock = clock
	if p, err := v.prove(t.Context(), "default", 0); err != nil || p.fault != "" {
		t.Fatalf("%+v, %v", p, err)
	}
	c, err := client.NewWithWatch(cluster.ConfigAs(testenv.ManagerUser), client.Options{Scheme: cluster.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	v.live = (&faults{hit: func(bool) (error, bool) { return apierrors.NewInternalError(errDown), false }}).wrap(c)
	for sentence, tt := range map[string]struct {
		later   time.Duration
		renewAt time.Duration
		holds   bool
	}{
		"a young one holds":                  {proofAge, proofAge, true},
		"not when a new one is asked for":    {proofAge, 0, false},
		"an old one does not":                {proofLasts, proofAge, false},
		"nor one from before the clock went": {-time.Second, proofAge, false},
	} {
		start := clock.Now()
		clock.SetTime(start.Add(tt.later))
		if p, err := v.prove(t.Context(), "default", tt.renewAt); (err == nil) != tt.holds || p.fault != "" {
			t.Errorf("%s: %+v, %v", sentence, p, err)
		}
		clock.SetTime(start)
	}
}
