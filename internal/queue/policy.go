package queue

import (
	"errors"
	"fmt"
)

// Jitter says how a delay is drawn from its window. There is no "none": synchronised retries are waves.
type Jitter string

const (
	// JitterFull draws the delay uniformly from [0, window].
	JitterFull Jitter = "Full"
	// JitterDecorrelated draws from [base, previous·3], capped; previous is stored with the job.
	JitterDecorrelated Jitter = "Decorrelated"
)

// MaxBackoffCap bounds Backoff.Cap, so that no arithmetic on delays can overflow.
const MaxBackoffCap = Millis(24 * 60 * 60 * 1000)

// SettleMargin is what a lease lasts beyond the attempt's timeout: time to claim (5 s), to settle (5 s
// statement timeout, 5 ms flush) and some slack.
const SettleMargin = Millis(15_000)

// Backoff is the exponential wait between attempts.
type Backoff struct {
	Base   Millis // window of the first retry; > 0
	Cap    Millis // largest window; >= Base, <= MaxBackoffCap
	Jitter Jitter
}

// Policy is everything the owner of a queue declares about retrying. MaxAttempts and Deadline are
// stamped on a job when it is accepted; the rest is read when it is needed.
type Policy struct {
	Backoff        Backoff
	MaxAttempts    int    // starts, the first included; >= 1
	Deadline       Millis // from first acceptance; no attempt starts at or after it
	AttemptTimeout Millis // hard limit of one attempt; > 0 and <= Deadline
	RetryAfterMax  Millis // bound on a target's Retry-After
	DedupeWindow   Millis // how long an id is remembered after its job has left
	MaxRedrives    int    // how often one job may be redriven; >= 0
	Retention      Millis // how long dead jobs are kept; 0 means until purged
	Limits         Limits
}

// Limits bound what a queue accepts. Each is inclusive.
type Limits struct {
	MaxPayload int64 // bytes of one payload
	MaxPending int64 // jobs pending or leased
	MaxBytes   int64 // payload and header bytes stored, dead jobs included
}

// Lease is how long a claim holds: the attempt's timeout and SettleMargin.
func (p Policy) Lease() Millis { return p.AttemptTimeout + SettleMargin }

// Validate says everything that is wrong with p, each with the field and the mend.
func (p Policy) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	errs = append(errs, p.Backoff.Validate())
	check(p.MaxAttempts >= 1, "maxAttempts must be at least 1, is %d", p.MaxAttempts)
	check(p.AttemptTimeout > 0, "attemptTimeout must be greater than 0, is %s", p.AttemptTimeout)
	check(p.Deadline >= p.AttemptTimeout, "deadline must be at least attemptTimeout (%s), is %s", p.AttemptTimeout, p.Deadline)
	check(p.RetryAfterMax >= 0, "retryAfterMax must not be negative, is %s", p.RetryAfterMax)
	check(p.DedupeWindow >= 0, "dedupeWindow must not be negative, is %s", p.DedupeWindow)
	check(p.MaxRedrives >= 0, "maxRedrives must not be negative, is %d", p.MaxRedrives)
	check(p.Retention >= 0, "retention must not be negative, is %s", p.Retention)
	check(p.Limits.MaxPayload > 0, "limits.maxPayload must be greater than 0, is %d", p.Limits.MaxPayload)
	check(p.Limits.MaxPending > 0, "limits.maxPending must be greater than 0, is %d", p.Limits.MaxPending)
	check(p.Limits.MaxBytes >= p.Limits.MaxPayload, "limits.maxBytes must be at least limits.maxPayload, is %d", p.Limits.MaxBytes)
	return errors.Join(errs...)
}

// Validate says what is wrong with b.
func (b Backoff) Validate() error {
	switch {
	case b.Base <= 0:
		return fmt.Errorf("backoff.base must be greater than 0, is %s", b.Base)
	case b.Cap < b.Base:
		return fmt.Errorf("backoff.cap must be at least backoff.base (%s), is %s", b.Base, b.Cap)
	case b.Cap > MaxBackoffCap:
		return fmt.Errorf("backoff.cap must be at most %s, is %s", MaxBackoffCap, b.Cap)
	case b.Jitter != JitterFull && b.Jitter != JitterDecorrelated:
		return fmt.Errorf("backoff.jitter must be %s or %s, is %q", JitterFull, JitterDecorrelated, b.Jitter)
	}
	return nil
}
