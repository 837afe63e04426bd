package queue

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCostOf(t *testing.T) {
	t.Parallel()
	full := func(base, most Millis) Backoff { return Backoff{Base: base, Cap: most, Jitter: JitterFull} }
	decorrelated := func(base, most Millis) Backoff { return Backoff{Base: base, Cap: most, Jitter: JitterDecorrelated} }
	tests := map[string]struct {
		policy Policy
		want   Cost
	}{
		"base 1s and cap 20s wait 51 s at most over seven attempts, and half of that on average": {
			policy: Policy{Backoff: full(1000, 20_000), MaxAttempts: 7, Deadline: 3_600_000, AttemptTimeout: 10_000, MaxRedrives: 3},
			want:   Cost{LongestWait: 51_000, MeanWait: 25_500, ReachableAttempts: 7, BestAttempts: 7, MaxRequests: 28},
		},
		"one attempt never waits": {
			policy: Policy{Backoff: full(1000, 20_000), MaxAttempts: 1, Deadline: 60_000, AttemptTimeout: 10_000},
			want:   Cost{ReachableAttempts: 1, BestAttempts: 1, MaxRequests: 1},
		},
		"an attempt that would start at the deadline does not start": {
			// starts at 0, 10+1 = 11, 21+2 = 23: the third is at the deadline
			policy: Policy{Backoff: full(1000, 20_000), MaxAttempts: 3, Deadline: 23_000, AttemptTimeout: 10_000},
			want:   Cost{LongestWait: 3000, MeanWait: 1500, ReachableAttempts: 2, BestAttempts: 3, MaxRequests: 3},
		},
		"an attempt that would start one millisecond before the deadline does": {
			policy: Policy{Backoff: full(1000, 20_000), MaxAttempts: 3, Deadline: 23_001, AttemptTimeout: 10_000},
			want:   Cost{LongestWait: 3000, MeanWait: 1500, ReachableAttempts: 3, BestAttempts: 3, MaxRequests: 3},
		},
		"decorrelated delays grow threefold and are at least base, so that some attempts may never happen": {
			// longest 3, 9, 27, 30; shortest 1 each: starts at 0, 1, 2 s
			policy: Policy{Backoff: decorrelated(1000, 30_000), MaxAttempts: 5, Deadline: 3000, AttemptTimeout: 1000, MaxRedrives: 1},
			want:   Cost{LongestWait: 69_000, MeanWait: -1, ReachableAttempts: 1, BestAttempts: 3, MaxRequests: 10},
		},
		"without room between base and cap, decorrelated delays do not vary": {
			policy: Policy{Backoff: decorrelated(1000, 1000), MaxAttempts: 4, Deadline: 60_000, AttemptTimeout: 1000},
			want:   Cost{LongestWait: 3000, MeanWait: 3000, ReachableAttempts: 4, BestAttempts: 4, MaxRequests: 4},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := CostOf(tt.policy)
			if tt.want.MeanWait < 0 { // held to a simulation below
				tt.want.MeanWait = got.MeanWait
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("CostOf (-want +got):\n%s", diff)
			}
		})
	}
}

// The arithmetic must agree with what Delay draws: never above the mean by more than noise, never far below.
func TestMeanWaitAgreesWithDrawnDelays(t *testing.T) {
	t.Parallel()
	tests := map[string]Policy{
		"full jitter":                  {Backoff: Backoff{Base: 1000, Cap: 20_000, Jitter: JitterFull}, MaxAttempts: 7},
		"decorrelated":                 {Backoff: Backoff{Base: 1000, Cap: 30_000, Jitter: JitterDecorrelated}, MaxAttempts: 8},
		"decorrelated with a wide cap": {Backoff: Backoff{Base: 1000, Cap: 3_600_000, Jitter: JitterDecorrelated}, MaxAttempts: 12},
		"decorrelated with a tight cap": {
			Backoff: Backoff{Base: 1000, Cap: 1500, Jitter: JitterDecorrelated}, MaxAttempts: 4,
		},
	}
	for name, p := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p.Deadline, p.AttemptTimeout = 1<<40, 1000
			got, mean := float64(CostOf(p).MeanWait), simulate(t, p, 100_000)
			if got > mean*1.01 || got < mean*0.97 {
				t.Errorf("MeanWait = %.0f ms, drawn delays have a mean of %.0f ms", got, mean)
			}
		})
	}
}

func simulate(t *testing.T, p Policy, runs int) float64 {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	var total float64
	for range runs {
		var previous Millis
		for attempt := 1; attempt < p.MaxAttempts; attempt++ {
			d, err := Delay(p.Backoff, attempt, previous, random.Float64())
			if err != nil {
				t.Fatal(err)
			}
			total += float64(d)
			previous = d
		}
	}
	return total / float64(runs)
}
