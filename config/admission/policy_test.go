package admission_test

import "testing"

const redrivePolicy = "redrivepolicy.retryqueue.dev"

func TestRedrivePolicy(t *testing.T) {
	ns := cluster.Namespace(t)
	cluster.Grant(t, ns, "retryqueue-editor", "erin")
	cluster.Grant(t, ns, "retryqueue-admin", "ann")
	erin, ann := cluster.As(t, "erin"), cluster.As(t, "ann")
	const must = "erin must hold the verb set-redrive-policy on retryqueues.retryqueue.dev orders"

	for name, tc := range map[string]struct {
		spec string // added to the minimal manifest
		says string
	}{
		"the defaults, left out":              {},
		"the defaults, written otherwise":     {spec: `  redrivePolicy: {maxRate: {jobs: 50, per: 1000ms}, minApprovals: 1, forbidSelfApproval: true, approvalTTL: 24h0m0s}`},
		"a faster rate":                       {spec: `  redrivePolicy: {maxRate: {jobs: 51}}`, says: must},
		"self approval":                       {spec: `  redrivePolicy: {forbidSelfApproval: false}`, says: must},
		"more approvals (it is the verb's)":   {spec: `  redrivePolicy: {minApprovals: 2}`, says: must},
		"a longer time to live":               {spec: `  redrivePolicy: {approvalTTL: 25h}`, says: must},
		"a volume of a queue that is no more": {spec: `  storage: {sqlite: {existingClaim: retryqueue-old-data}}`, says: "to adopt a volume"},
	} {
		t.Run("creating with "+name, func(t *testing.T) {
			o := object(t, ns, queueManifest+tc.spec, "orders")
			wantAdmitted(t, dry(t, ann, o.DeepCopy()))
			if err := dry(t, erin, o); tc.says != "" {
				wantDenied(t, err, redrivePolicy, tc.says)
			} else {
				wantAdmitted(t, err)
			}
		})
	}

	q := object(t, ns, queueManifest+"  redrivePolicy: {minApprovals: 2}\n  storage: {sqlite: {existingClaim: retryqueue-old-data}}", "orders")
	create(t, ann, q)
	for name, tc := range map[string]struct{ patch, says string }{
		"something else":                 {patch: `{"spec":{"suspend":true}}`},
		"the same, written otherwise":    {patch: `{"spec":{"redrivePolicy":{"approvalTTL":"1440m","maxRate":{"per":"1000ms"}}}}`},
		"fewer approvals":                {patch: `{"spec":{"redrivePolicy":{"minApprovals":1}}}`, says: must},
		"the defaults by leaving it out": {patch: `{"spec":{"redrivePolicy":null}}`, says: must},
		"self approval":                  {patch: `{"spec":{"redrivePolicy":{"forbidSelfApproval":false}}}`, says: must},
	} {
		t.Run("changing to "+name, func(t *testing.T) {
			wantAdmitted(t, dryPatch(t, ann, q, tc.patch))
			if err := dryPatch(t, erin, q, tc.patch); tc.says != "" {
				wantDenied(t, err, redrivePolicy, tc.says)
			} else {
				wantAdmitted(t, err)
			}
		})
	}
}
