package queue

import "testing"

func TestCanaryVerdict(t *testing.T) {
	t.Parallel()
	c := Canary{Jobs: 10, MaxFailurePercent: 25, Timeout: 60_000} // two of ten may die
	tests := map[string]struct {
		count CanaryCount
		want  Verdict
	}{
		"nothing known yet":                       {CanaryCount{Jobs: 10}, VerdictHold},
		"as many dead as may be":                  {CanaryCount{Jobs: 10, Died: 2}, VerdictHold},
		"one dead too many":                       {CanaryCount{Jobs: 10, Died: 3}, VerdictFail},
		"one too few delivered":                   {CanaryCount{Jobs: 10, Delivered: 7}, VerdictHold},
		"enough delivered, whatever the rest":     {CanaryCount{Jobs: 10, Delivered: 8}, VerdictPass},
		"enough delivered at the timeout":         {CanaryCount{Jobs: 10, Delivered: 8, Waited: 60_000}, VerdictPass},
		"undecided just before the timeout":       {CanaryCount{Jobs: 10, Delivered: 7, Waited: 59_999}, VerdictHold},
		"undecided at the timeout":                {CanaryCount{Jobs: 10, Delivered: 7, Waited: 60_000}, VerdictInconclusive},
		"failed at the timeout":                   {CanaryCount{Jobs: 10, Died: 3, Waited: 60_000}, VerdictFail},
		"fewer selected than the canary asks for": {CanaryCount{Jobs: 4, Delivered: 3}, VerdictPass},
		"gone ones make it smaller":               {CanaryCount{Jobs: 10, Gone: 6, Delivered: 3}, VerdictPass},
		"and allow fewer deaths":                  {CanaryCount{Jobs: 10, Gone: 7, Died: 1}, VerdictFail},
		"all gone":                                {CanaryCount{Jobs: 10, Gone: 10}, VerdictPass},
	}
	for name, tt := range tests {
		if got := CanaryVerdict(c, tt.count); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
	if got := CanaryVerdict(Canary{}, CanaryCount{}); got != VerdictPass {
		t.Errorf("without a canary: %s", got)
	}
}

func TestAbortVerdict(t *testing.T) {
	t.Parallel()
	a := Abort{MaxFailurePercent: 20, MinJobs: 20}
	tests := map[string]struct {
		count AbortCount
		want  Verdict
	}{
		"nothing known yet":                        {AbortCount{}, VerdictPass},
		"all bad, but too few":                     {AbortCount{Died: 10, Failing: 9}, VerdictPass},
		"all failing":                              {AbortCount{Failing: 20}, VerdictHold},
		"dead and failing add up":                  {AbortCount{Died: 3, Failing: 2, Delivered: 15}, VerdictHold},
		"as many failing as may be":                {AbortCount{Failing: 4, Delivered: 16}, VerdictPass},
		"as many dead as may be":                   {AbortCount{Died: 4, Delivered: 16}, VerdictPass},
		"one dead too many":                        {AbortCount{Died: 5, Delivered: 15}, VerdictFail},
		"too many dead of too few finished":        {AbortCount{Died: 5, Delivered: 14, Failing: 1}, VerdictHold},
		"dead are a share of the finished ones":    {AbortCount{Died: 5, Delivered: 15, Failing: 80}, VerdictFail},
		"failing ones do not abort":                {AbortCount{Died: 4, Delivered: 16, Failing: 80}, VerdictHold},
		"the share is not rounded in their favour": {AbortCount{Died: 41, Delivered: 159}, VerdictFail},
	}
	for name, tt := range tests {
		if got := AbortVerdict(a, tt.count); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
	if got := AbortVerdict(Abort{MaxFailurePercent: 100, MinJobs: 1}, AbortCount{Died: 50}); got != VerdictPass {
		t.Errorf("with all deaths allowed: %s", got)
	}
	if a.Window() != 100 || (Abort{MinJobs: 500}).Window() != 500 {
		t.Errorf("windows of %d and %d", a.Window(), (Abort{MinJobs: 500}).Window())
	}
}
