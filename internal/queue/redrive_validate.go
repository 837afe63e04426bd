package queue

import (
	"errors"
	"fmt"
	"strings"
)

// Bounds of a redrive.
const (
	MaxRedriveLimit = 1_000_000
	MaxRateJobs     = 100_000
	MaxRatePer      = Millis(24 * 60 * 60 * 1000)
	MaxPermit       = Millis(60_000)
	// MaxSelectorValues bounds each list of a selector.
	MaxSelectorValues = 1000
	maxRedriveKey     = 253 // the length of a name in Kubernetes
	// AdvanceEvery is how often a running redrive is advanced.
	AdvanceEvery = Millis(100)
)

// Validate says everything that is wrong with s, each with the field and the mend.
func (s RedriveSpec) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(isKey(s.UID), "uid must be 1 to %d printable ASCII characters without spaces", maxRedriveKey)
	check(isKey(s.Name), "name must be 1 to %d printable ASCII characters without spaces", maxRedriveKey)
	check(s.Limit >= 1 && s.Limit <= MaxRedriveLimit, "limit must be from 1 to %d, is %d", MaxRedriveLimit, s.Limit)
	errs = append(errs, s.Rate.Validate())
	check(s.Budget.MaxAttempts >= 1, "budget.maxAttempts must be at least 1, is %d", s.Budget.MaxAttempts)
	check(s.Budget.Deadline > 0, "budget.deadline must be greater than 0, is %s", s.Budget.Deadline)
	check(s.Canary.Jobs >= 0, "canary.jobs must not be negative, is %d; 0 means no canary", s.Canary.Jobs)
	check(isPercent(s.Canary.MaxFailurePercent), "canary.maxFailurePercent must be from 0 to 100, is %d", s.Canary.MaxFailurePercent)
	check(s.Canary.Jobs == 0 || s.Canary.Timeout > 0, "canary.timeout must be greater than 0, is %s", s.Canary.Timeout)
	check(isPercent(s.Abort.MaxFailurePercent), "abort.maxFailurePercent must be from 0 to 100, is %d", s.Abort.MaxFailurePercent)
	check(s.Abort.MinJobs >= 1, "abort.minJobs must be at least 1, is %d", s.Abort.MinJobs)
	check(s.MaxOutstanding >= 1, "maxOutstanding must be at least 1, is %d", s.MaxOutstanding)
	check(s.MaxRedrives >= 1, "maxRedrives must be at least 1 for a redrive, is %d; raise the queue's deadLetter.maxRedrives", s.MaxRedrives)
	after, before := s.Selector.DiedAfter, s.Selector.DiedBefore
	check(after == 0 || before == 0 || after < before, "selector.diedAfter must be before selector.diedBefore; swap or widen them")
	for _, list := range []struct {
		name string
		n    int
	}{
		{"reasons", len(s.Selector.Reasons)}, {"httpStatuses", len(s.Selector.HTTPStatuses)},
		{"fingerprints", len(s.Selector.Fingerprints)}, {"ids", len(s.Selector.IDs)},
	} {
		check(list.n <= MaxSelectorValues, "selector.%s must be at most %d, are %d; make several redrives", list.name, MaxSelectorValues, list.n)
	}
	return errors.Join(errs...)
}

// isKey says whether s is short and can be a header's value.
func isKey(s string) bool {
	return s != "" && len(s) <= maxRedriveKey && strings.IndexFunc(s, func(r rune) bool { return r < 0x21 || r > 0x7e }) < 0
}

func isPercent(n int64) bool { return n >= 0 && n <= 100 }

// Validate says what is wrong with r.
func (r Rate) Validate() error {
	switch {
	case r.Jobs < 1 || r.Jobs > MaxRateJobs:
		return fmt.Errorf("rate.jobs must be from 1 to %d, is %d", MaxRateJobs, r.Jobs)
	case r.Per < 1 || r.Per > MaxRatePer:
		return fmt.Errorf("rate.per must be from 1ms to %s, is %s", MaxRatePer, r.Per)
	case r.Burst < r.LeastBurst() || r.Burst > maxBurst:
		return fmt.Errorf("rate.burst must be from %d (what the rate gives in %s, and one) to %d, is %d",
			r.LeastBurst(), AdvanceEvery, maxBurst, r.Burst)
	}
	return nil
}

// maxBurst is what the fastest rate gives in AdvanceEvery, and one.
const maxBurst = MaxRateJobs*int64(AdvanceEvery) + 1

// LeastBurst is the smallest burst with which the rate can be reached: what it gives between two advances, and
// one. Jobs and Per must be valid.
func (r Rate) LeastBurst() int64 {
	per := int64(r.Per)
	return (r.Jobs*int64(AdvanceEvery)+per-1)/per + 1
}

// Estimate is how long n jobs take at r, if nothing holds them: the burst goes at once. r must be valid.
func (r Rate) Estimate(n int64) Millis {
	rest := max(n-r.Burst, 0)
	return Millis((rest*int64(r.Per) + r.Jobs - 1) / r.Jobs)
}
