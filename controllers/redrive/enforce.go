package redrive

import (
	"context"
	"time"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
)

const (
	// proofAge is how old a proof may be while a Redrive runs.
	proofAge = 30 * time.Second
	// proveAgain is how soon a failed proof is tried again.
	proveAgain = 10 * time.Second
)

// enforce holds everything while the admission policies that guard approvals are not proved to be in force. Before a
// first permission the proof is new, and approvals and Redrive must be younger than the policies.
func (p *pass) enforce(ctx context.Context) (*outcome, error) {
	maxAge := proofAge
	if !p.started() && !live(*p.plan) {
		maxAge = 0
	}
	proof := p.prover.prove(ctx, p.rd.Namespace, maxAge)
	if proof.fault != "" {
		out := stalled(v1alpha1.ReasonPolicyNotEnforced, "nothing is released while approvals are not guarded: "+proof.fault)
		out.after = proveAgain
		return out, nil
	}
	if p.started() {
		return nil, nil
	}
	if p.forbidsSelfApproval() && p.rd.CreationTimestamp.Time.Before(proof.requestersFrom) {
		return stalled(v1alpha1.ReasonRequesterUnknown,
			"this Redrive was made before the admission policy that vouches for spec.requestedBy was in force; make a new one"), nil
	}
	return p.recount(proof.approvalsFrom), nil
}
