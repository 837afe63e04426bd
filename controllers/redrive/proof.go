package redrive

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
)

var everything = metav1.LabelSelector{}

// proof is what is known of the admission policies in one namespace.
type proof struct {
	// fault says what is wrong and how to mend it; empty when everything is in force.
	fault string
	// approvalsFrom and requestersFrom are when admission began to check approvals, and who makes Redrives.
	approvalsFrom, requestersFrom time.Time
	// at is when it was proved.
	at time.Time
}

// prover proves that the admission policies are in force, from both ends: an approval that must be denied is
// denied by name, and the policies are those that we ship. Neither alone is enough: the first does not see a condition
// that lets one person through, the second does not see an API server that ignores policies.
type prover struct {
	client  client.Client
	live    client.Reader
	shipped shipped
	clock   clock.PassiveClock
	margin  time.Duration

	mu    sync.Mutex
	known map[string]proof // by namespace; only those without fault
}

// prove answers with a proof that was made anew, or that is younger than renewAt; 0 demands a new one. It errors
// when the API server could not be asked: then nothing is known, but a proof that is younger than proofLasts, if the
// caller takes an old one, still holds.
func (v *prover) prove(ctx context.Context, namespace string, renewAt time.Duration) (proof, error) {
	now := v.clock.Now()
	v.mu.Lock()
	known, ok := v.known[namespace]
	v.mu.Unlock()
	age := now.Sub(known.at)
	ok = ok && renewAt > 0 && age >= 0
	if ok && age < renewAt {
		return known, nil
	}
	p := proof{at: now}
	err := v.inspect(ctx, &p)
	if err == nil {
		err = v.probe(ctx, namespace)
	}
	if transient(err) {
		if ok && age < proofLasts {
			return known, nil
		}
		return proof{}, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if err != nil {
		delete(v.known, namespace)
		p.fault = err.Error()
		return p, nil
	}
	v.known[namespace] = p
	return p, nil
}

// Mends. To apply again does not undo a change: what somebody else added to a list stays.
const (
	mend        = "apply the shipped config/admission again"
	mendChanged = "put the one of the shipped config/admission in its place with kubectl replace"
)

// transient says that an error tells nothing about the policies: the API server was not reached, or was busy.
func transient(err error) bool {
	if err == nil {
		return false
	}
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		_, wrong := errors.AsType[*faultError](err)
		return !wrong
	}
	code := status.ErrStatus.Code
	return code == http.StatusTooManyRequests || code == http.StatusConflict || code >= http.StatusInternalServerError
}

// faultError is what is found to be wrong with the policies.
type faultError struct{ what string }

func (e *faultError) Error() string { return e.what }

func faultf(format string, args ...any) error { return &faultError{fmt.Sprintf(format, args...)} }

// tries is how often the API server is asked the same before it counts as not reached: a proof takes a score of
// calls, which would hardly ever all succeed while some of them fail.
var tries = wait.Backoff{Steps: 5, Duration: 20 * time.Millisecond, Factor: 2, Jitter: 0.5}

// probe makes an approval that must be denied. Nothing is stored.
func (v *prover) probe(ctx context.Context, namespace string) error {
	bad := &v1alpha1.RedriveApproval{
		ObjectMeta: metav1.ObjectMeta{Name: "retryqueue-policy-probe", Namespace: namespace},
		Spec: v1alpha1.RedriveApprovalSpec{
			RedriveRef: v1alpha1.RedriveRef{Name: "probe", UID: "probe"},
			PlanHash:   "sha256:" + strings.Repeat("0", 64), Decision: v1alpha1.DecisionApproved, Approver: "retryqueue:probe-must-be-denied",
		},
	}
	err := retry.OnError(tries, transient, func() error { return v.client.Create(ctx, bad.DeepCopy(), client.DryRunAll) })
	denied := fmt.Sprintf("ValidatingAdmissionPolicy '%s' with binding '%s' denied", approvalPolicy, approvalPolicy)
	switch {
	case err == nil:
		return faultf("an approval under a false name was not denied in this namespace: ValidatingAdmissionPolicy %s is not in force; %s", approvalPolicy, mend)
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), denied):
		return nil
	}
	return fmt.Errorf("trying whether a false approval is denied: %w; if something is missing, %s", err, mend)
}

// inspect compares every policy and binding with the shipped one.
func (v *prover) inspect(ctx context.Context, p *proof) error {
	for _, want := range v.shipped.policies {
		var got admissionv1.ValidatingAdmissionPolicy
		if err := v.read(ctx, want.Name, &got, "ValidatingAdmissionPolicy"); err != nil {
			return err
		}
		defaultPolicy(&got.Spec)
		if err := differ("ValidatingAdmissionPolicy", want.Name, &want.Spec, &got.Spec); err != nil {
			return err
		}
		p.noteAge(want.Name, got.CreationTimestamp.Add(v.margin))
	}
	for _, want := range v.shipped.bindings {
		var got admissionv1.ValidatingAdmissionPolicyBinding
		if err := v.read(ctx, want.Name, &got, "ValidatingAdmissionPolicyBinding"); err != nil {
			return err
		}
		defaultMatch(got.Spec.MatchResources)
		got.Spec.ValidationActions = weighed(got.Spec.ValidationActions)
		if err := differ("ValidatingAdmissionPolicyBinding", want.Name, &want.Spec, &got.Spec); err != nil {
			return err
		}
		p.noteAge(want.Spec.PolicyName, got.CreationTimestamp.Add(v.margin))
	}
	return nil
}

// weighed leaves out what a binding does besides denying: it takes nothing away from that.
func weighed(actions []admissionv1.ValidationAction) []admissionv1.ValidationAction {
	if slices.Contains(actions, admissionv1.Deny) {
		return []admissionv1.ValidationAction{admissionv1.Deny}
	}
	return actions
}

func (v *prover) read(ctx context.Context, name string, into client.Object, kind string) error {
	err := retry.OnError(tries, transient, func() error { return v.live.Get(ctx, client.ObjectKey{Name: name}, into) })
	switch {
	case apierrors.IsNotFound(err):
		return faultf("%s %s is not installed; %s", kind, name, mend)
	case err != nil:
		return fmt.Errorf("reading %s %s: %w", kind, name, err)
	case !into.GetDeletionTimestamp().IsZero():
		return faultf("%s %s is being deleted; %s", kind, name, mend)
	}
	return nil
}

// noteAge remembers when a policy that identities rest on came into force.
func (p *proof) noteAge(policy string, from time.Time) {
	switch policy {
	case approvalPolicy:
		p.approvalsFrom = later(p.approvalsFrom, from)
	case requesterPolicy:
		p.requestersFrom = later(p.requestersFrom, from)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// differ names the first field in which a spec is not the shipped one.
func differ(kind, name string, want, got any) error {
	w, err := runtime.DefaultUnstructuredConverter.ToUnstructured(want)
	if err != nil {
		return fmt.Errorf("comparing %s %s: %w", kind, name, err)
	}
	g, err := runtime.DefaultUnstructuredConverter.ToUnstructured(got)
	if err != nil {
		return fmt.Errorf("comparing %s %s: %w", kind, name, err)
	}
	if at, ok := firstDifference("spec", w, g); ok {
		return faultf("%s %s is not the shipped one: %s differs; %s", kind, name, at, mendChanged)
	}
	return nil
}

// firstDifference is the path of the first place where two JSON values differ.
func firstDifference(at string, want, got any) (string, bool) {
	if w, ok := want.(map[string]any); ok {
		if g, ok := got.(map[string]any); ok {
			keys := maps.Clone(w)
			maps.Copy(keys, g)
			for _, k := range slices.Sorted(maps.Keys(keys)) {
				if path, differs := firstDifference(at+"."+k, w[k], g[k]); differs {
					return path, true
				}
			}
			return "", false
		}
	}
	w, wok := want.([]any)
	g, gok := got.([]any)
	if wok && gok && len(w) == len(g) {
		for i := range w {
			if path, differs := firstDifference(fmt.Sprintf("%s[%d]", at, i), w[i], g[i]); differs {
				return path, true
			}
		}
		return "", false
	}
	return at, !reflect.DeepEqual(want, got)
}
