package redrive

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/google/go-cmp/cmp"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
)

var planned = time.Date(2026, 9, 6, 12, 0, 0, 0, time.UTC)

// approval is one that counts; change makes another of it.
func approval(approver string, change ...func(*v1alpha1.RedriveApproval)) v1alpha1.RedriveApproval {
	a := v1alpha1.RedriveApproval{
		ObjectMeta: metav1.ObjectMeta{Name: "by-" + approver, CreationTimestamp: metav1.NewTime(planned.Add(time.Minute))},
		Spec: v1alpha1.RedriveApprovalSpec{
			RedriveRef: v1alpha1.RedriveRef{Name: "inc-42", UID: "uid-1"}, PlanHash: "hash-1",
			Decision: v1alpha1.DecisionApproved, Approver: approver,
		},
	}
	for _, c := range change {
		c(&a)
	}
	return a
}

func at(t time.Time) func(*v1alpha1.RedriveApproval) {
	return func(a *v1alpha1.RedriveApproval) { a.CreationTimestamp = metav1.NewTime(t) }
}

func named(name string) func(*v1alpha1.RedriveApproval) {
	return func(a *v1alpha1.RedriveApproval) { a.Name = name }
}

func TestCount(t *testing.T) {
	base := requirement{
		redrive: v1alpha1.RedriveRef{Name: "inc-42", UID: "uid-1"}, hash: "hash-1", requester: "bob", min: 1,
		plannedAt: planned, now: planned.Add(time.Hour), ttl: 24 * time.Hour,
	}
	two := func(r *requirement) { r.min = 2 }
	tests := map[string]struct {
		require   func(*requirement)
		approvals []v1alpha1.RedriveApproval
		counted   []string
		enough    bool
		refused   string // a part of the only refusal
	}{
		"no approval is not enough": {},
		"one that names uid and hash, by another than the requester, counts": {
			approvals: []v1alpha1.RedriveApproval{approval("alice")}, counted: []string{"alice"}, enough: true,
		},
		"one is not enough for two": {
			require: two, approvals: []v1alpha1.RedriveApproval{approval("alice")}, counted: []string{"alice"},
		},
		"two by one approver count once": {
			require:   two,
			approvals: []v1alpha1.RedriveApproval{approval("alice"), approval("alice", named("again"))},
			counted:   []string{"alice"},
		},
		"two approvers are two, the older first": {
			require:   two,
			approvals: []v1alpha1.RedriveApproval{approval("alice"), approval("carol", at(planned.Add(time.Second)))},
			counted:   []string{"carol", "alice"}, enough: true,
		},
		"the requester does not count": {
			approvals: []v1alpha1.RedriveApproval{approval("bob")}, refused: "is by the one who made the Redrive",
		},
		"the requester counts where self approval is allowed": {
			require:   func(r *requirement) { r.requester = "" },
			approvals: []v1alpha1.RedriveApproval{approval("bob")}, counted: []string{"bob"}, enough: true,
		},
		"one of another Redrive is not looked at": {
			approvals: []v1alpha1.RedriveApproval{approval("alice", func(a *v1alpha1.RedriveApproval) { a.Spec.RedriveRef.Name = "inc-43" })},
		},
		"one of an earlier Redrive of the name does not count": {
			approvals: []v1alpha1.RedriveApproval{approval("alice", func(a *v1alpha1.RedriveApproval) { a.Spec.RedriveRef.UID = "uid-0" })},
			refused:   "spec.redriveRef.uid",
		},
		"one of another plan does not count": {
			approvals: []v1alpha1.RedriveApproval{approval("alice", func(a *v1alpha1.RedriveApproval) { a.Spec.PlanHash = "hash-2" })},
			refused:   "spec.planHash",
		},
		"one that decides nothing does not count": {
			approvals: []v1alpha1.RedriveApproval{approval("alice", func(a *v1alpha1.RedriveApproval) { a.Spec.Decision = "" })},
			refused:   "spec.decision",
		},
		"one by nobody does not count": {
			approvals: []v1alpha1.RedriveApproval{approval("")}, refused: "spec.approver",
		},
		"one that is being deleted does not count": {
			approvals: []v1alpha1.RedriveApproval{approval("alice", func(a *v1alpha1.RedriveApproval) {
				now := metav1.NewTime(planned)
				a.DeletionTimestamp = &now
			})},
			refused: "is being deleted",
		},
		"one older than the plan does not count": {
			approvals: []v1alpha1.RedriveApproval{approval("alice", at(planned.Add(-31*time.Second)))}, refused: "is older than the plan",
		},
		"clocks may differ a little": {
			approvals: []v1alpha1.RedriveApproval{approval("alice", at(planned.Add(-30*time.Second)))},
			counted:   []string{"alice"}, enough: true,
		},
		"one does not count at its time to live": {
			require:   func(r *requirement) { r.now, r.ttl = planned.Add(2*time.Minute), time.Minute },
			approvals: []v1alpha1.RedriveApproval{approval("alice")}, refused: "approvalTTL",
		},
		"one counts until its time to live": {
			require:   func(r *requirement) { r.now, r.ttl = planned.Add(2*time.Minute-time.Millisecond), time.Minute },
			approvals: []v1alpha1.RedriveApproval{approval("alice")}, counted: []string{"alice"}, enough: true,
		},
		"one from before the admission policy does not count": {
			require:   func(r *requirement) { r.guardedFrom = planned.Add(time.Minute + time.Second) },
			approvals: []v1alpha1.RedriveApproval{approval("alice")}, refused: "admission policy",
		},
		"one from when the policy was in force counts": {
			require:   func(r *requirement) { r.guardedFrom = planned.Add(time.Minute) },
			approvals: []v1alpha1.RedriveApproval{approval("alice")}, counted: []string{"alice"}, enough: true,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := base
			if tt.require != nil {
				tt.require(&r)
			}
			got := count(r, tt.approvals)
			var counted []string
			for _, c := range got.counted {
				counted = append(counted, c.Approver)
			}
			if diff := cmp.Diff(tt.counted, counted); diff != "" {
				t.Errorf("counted (-want +got):\n%s", diff)
			}
			if got.enough() != tt.enough {
				t.Errorf("enough: got %t, want %t", got.enough(), tt.enough)
			}
			all := strings.Join(got.refused, ";")
			if (tt.refused == "") != (all == "") || !strings.Contains(all, tt.refused) {
				t.Errorf("refused: got %q, want %q", all, tt.refused)
			}
		})
	}
}

func TestCountDoesNotDependOnOrder(t *testing.T) {
	t.Parallel()
	all := []v1alpha1.RedriveApproval{approval("alice"), approval("carol"), approval("bob"), approval("alice", named("a-first"))}
	r := requirement{
		redrive: v1alpha1.RedriveRef{Name: "inc-42", UID: "uid-1"}, hash: "hash-1", requester: "bob", min: 2,
		plannedAt: planned, now: planned.Add(time.Hour), ttl: time.Hour * 24,
	}
	want := count(r, all)
	slices.Reverse(all)
	got := count(r, all)
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(tally{})); diff != "" {
		t.Errorf("counting in another order (-want +got):\n%s", diff)
	}
	if len(got.counted) != 2 || len(got.refused) != 1 {
		t.Errorf("got %+v", got)
	}
}

func TestAwaitingNamesWhatDoesNotCount(t *testing.T) {
	t.Parallel()
	got := awaiting(tally{min: 2, refused: []string{"a x", "b x", "c x", "d x"}})
	if want := "0 of 2 approvals"; !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q first", got, want)
	}
	if want := "Not counted: a x; b x; c x, and 1 more"; !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want %q last", got, want)
	}
}
