package redrive

import (
	"context"
	"fmt"
	"time"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
)

const (
	// proofAge is how old a proof is when it is made anew while a Redrive runs.
	proofAge = 30 * time.Second
	// proofLasts is how long a proof holds while the API server cannot be asked.
	proofLasts = time.Minute
	// proveAgain is how soon a failed proof is tried again.
	proveAgain = 10 * time.Second
)

// enforce holds everything while the admission policies that guard approvals are not proved to be in force. Before a
// first permission the proof is new, and approvals and Redrive must be younger than the policies.
func (p *pass) enforce(ctx context.Context) (*outcome, error) {
	renewAt := proofAge
	if !p.started() && !live(*p.plan) {
		renewAt = 0
	}
	proof, err := p.prover.prove(ctx, p.rd.Namespace, renewAt)
	if err != nil {
		return nil, fmt.Errorf("proving that approvals are guarded: %w", err)
	}
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
