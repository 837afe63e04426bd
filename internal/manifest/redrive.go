package manifest

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
	"github.com/retryqueue/retryqueue/internal/queue"
)

// Defaults of a Redrive that the CRD cannot give, since parts of them depend on the queue.
const (
	defaultCanaryJobs    = 10
	defaultCanaryPercent = 10
	defaultAbortPercent  = 20
	defaultAbortMinJobs  = 20
	minCanaryTimeout     = queue.Millis(2 * 60 * 1000)
	maxOutstandingBound  = 1_000_000
)

// RedriveSpec is what a Redrive of a queue asks the store to freeze, with every default resolved. It refuses
// what the queue does not allow; the error is an [*InvalidError] that names the fields and the mend.
func RedriveSpec(rd *v1alpha1.Redrive, rq *v1alpha1.RetryQueue) (queue.RedriveSpec, error) {
	r := redriveResolver{rd: &rd.Spec, policy: ToPolicy(rq), rq: &rq.Spec}
	spec := queue.RedriveSpec{
		UID:         string(rd.UID),
		Name:        rd.Name,
		QueueUID:    string(rq.UID),
		Selector:    r.selector(),
		Limit:       rd.Spec.Limit,
		Rate:        r.rate(),
		Budget:      r.budget(),
		Canary:      r.canary(),
		Abort:       r.abort(),
		MaxRedrives: r.policy.MaxRedrives,
	}
	if spec.Limit < 1 || spec.Limit > queue.MaxRedriveLimit {
		r.add("spec.limit", "must be from 1 to %d (is %d)", queue.MaxRedriveLimit, spec.Limit)
	}
	if r.policy.MaxRedrives < 1 {
		r.add("spec.queueRef", "RetryQueue %s allows no redrives; raise its deadLetter.maxRedrives first", rq.Name)
	}
	if rq.Spec.Delivery.HTTP == nil {
		r.add("spec.queueRef", "RetryQueue %s has no delivery.http; set it first", rq.Name)
	}
	if err := r.err(); err != nil {
		return queue.RedriveSpec{}, err
	}
	spec.MaxOutstanding = r.maxOutstanding(spec.Rate)
	spec.TargetDigest = targetDigest(rq.Spec.Delivery.HTTP)
	if err := spec.Validate(); err != nil { // the store's own bounds
		return queue.RedriveSpec{}, invalid("spec", "%v", err)
	}
	var err error
	if spec.SpecDigest, err = specDigest(rd.Spec); err != nil {
		return queue.RedriveSpec{}, err
	}
	return spec, nil
}

// redriveResolver fills in and checks the parts of a Redrive.
type redriveResolver struct {
	problems
	rd     *v1alpha1.RedriveSpec
	rq     *v1alpha1.RetryQueueSpec
	policy queue.Policy
}

func (r *redriveResolver) selector() queue.Selector {
	s := r.rd.Selector
	if s == nil {
		return queue.Selector{}
	}
	out := queue.Selector{
		DiedAfter:    r.instant("spec.selector.diedAfter", s.DiedAfter),
		DiedBefore:   r.instant("spec.selector.diedBefore", s.DiedBefore),
		HTTPStatuses: s.HTTPStatuses,
		Fingerprints: s.Fingerprints,
		IDs:          s.IDs,
	}
	for _, reason := range s.Reasons {
		out.Reasons = append(out.Reasons, queue.Reason(reason))
	}
	if out.DiedAfter != 0 && out.DiedBefore != 0 && out.DiedAfter >= out.DiedBefore {
		r.add("spec.selector", "diedAfter must be earlier than diedBefore by a millisecond at least; swap or widen them")
	}
	return out
}

// instant rounds up to the millisecond: a death is recorded in whole milliseconds, and for those both
// "at or after t" and "before t" mean the same with t rounded up. The zero instant would mean "unset" and
// so widen the selection; it is refused.
func (r *redriveResolver) instant(path string, t *metav1.MicroTime) queue.Time {
	if t == nil {
		return 0
	}
	ms := queue.TimeOf(t.Add(time.Millisecond - time.Nanosecond))
	if ms <= 0 {
		r.add(path, "must be after 1970; leave it out to set no bound")
	}
	return ms
}

func (r *redriveResolver) rate() queue.Rate {
	if r.rd.Rate == nil {
		r.add("spec.rate", "must be set, such as {jobs: 10, per: 1s}")
		return queue.Rate{}
	}
	per := cmp.Or(r.rd.Rate.Per.Duration, time.Second)
	if per < time.Millisecond || per > 24*time.Hour || per%time.Millisecond != 0 {
		r.add("spec.rate.per", "must be whole milliseconds from 1ms to 24h (is %s)", per)
		return queue.Rate{}
	}
	rate := queue.Rate{Jobs: r.rd.Rate.Jobs, Per: queue.MillisOf(per)}
	if rate.Jobs < 1 || rate.Jobs > queue.MaxRateJobs {
		r.add("spec.rate.jobs", "must be from 1 to %d (is %d)", queue.MaxRateJobs, rate.Jobs)
		return queue.Rate{}
	}
	least := rate.LeastBurst()
	rate.Burst = least
	if r.rd.Rate.Burst != nil {
		rate.Burst = *r.rd.Rate.Burst
	}
	if rate.Burst < least {
		r.add("spec.rate.burst", "must be at least what the rate gives in 0.1s, and one: %d (is %d); raise it or leave it out", least, rate.Burst)
	}
	r.checkMaxRate(rate)
	return rate
}

// checkMaxRate holds the rate to the queue's, and the burst to what the queue allows in one span: else a
// slow rate with a large burst would let everything out at once.
func (r *redriveResolver) checkMaxRate(rate queue.Rate) {
	most := r.rq.RedrivePolicy.MaxRate
	if most.Jobs < 1 {
		r.add("spec.queueRef", "the RetryQueue has no redrivePolicy.maxRate; set it first")
		return
	}
	per := cmp.Or(most.Per.Duration, time.Second)
	mostPer := max(queue.MillisOf(per+time.Millisecond-1), 1) // rounded up: never faster than declared
	if rate.Jobs*int64(mostPer) > most.Jobs*int64(rate.Per) {
		r.add("spec.rate", "%d per %s is faster than the RetryQueue's redrivePolicy.maxRate, %d per %s; lower it",
			rate.Jobs, rate.Per, most.Jobs, per)
	}
	if bound := max(most.Jobs, queue.Rate{Jobs: most.Jobs, Per: mostPer}.LeastBurst()); r.rd.Rate.Burst != nil && rate.Burst > bound {
		r.add("spec.rate.burst", "must be at most %d, what the RetryQueue's redrivePolicy.maxRate allows in %s (is %d); lower it",
			bound, per, rate.Burst)
	}
}

func (r *redriveResolver) budget() queue.RedriveBudget {
	b := queue.RedriveBudget{MaxAttempts: r.policy.MaxAttempts, Deadline: r.policy.Deadline}
	if r.rd.Budget == nil {
		return b
	}
	if n := r.rd.Budget.MaxAttempts; n != nil {
		b.MaxAttempts = int(*n)
	}
	if d := r.rd.Budget.Deadline; d != nil {
		b.Deadline = queue.MillisOf(d.Duration)
	}
	if b.MaxAttempts < 1 || b.MaxAttempts > r.policy.MaxAttempts {
		r.add("spec.budget.maxAttempts", "must be from 1 to the RetryQueue's retryPolicy.maxAttempts, %d (is %d); change it or leave it out",
			r.policy.MaxAttempts, b.MaxAttempts)
	}
	if b.Deadline < r.policy.AttemptTimeout || b.Deadline > r.policy.Deadline {
		r.add("spec.budget.deadline", "must be from the RetryQueue's retryPolicy.attemptTimeout, %s, to its deadline, %s (is %s); change it or leave it out",
			r.policy.AttemptTimeout, r.policy.Deadline, b.Deadline)
	}
	return b
}

func (r *redriveResolver) canary() queue.Canary {
	c := queue.Canary{
		Jobs:              defaultCanaryJobs,
		MaxFailurePercent: defaultCanaryPercent,
		Timeout:           max(minCanaryTimeout, 4*r.policy.AttemptTimeout),
	}
	if given := r.rd.Canary; given != nil {
		c.Jobs = valueOr(given.Jobs, c.Jobs)
		c.MaxFailurePercent = valueOr(given.MaxFailurePercent, c.MaxFailurePercent)
		if given.Timeout != nil {
			c.Timeout = queue.MillisOf(given.Timeout.Duration)
		}
	}
	if c.Jobs < 0 {
		r.add("spec.canary.jobs", "must not be negative (is %d); 0 means no canary", c.Jobs)
	}
	r.percent("spec.canary.maxFailurePercent", c.MaxFailurePercent)
	if c.Timeout < 1 {
		r.add("spec.canary.timeout", "must be greater than 0 (is %s)", c.Timeout)
	}
	return c
}

func (r *redriveResolver) abort() queue.Abort {
	a := queue.Abort{MaxFailurePercent: defaultAbortPercent, MinJobs: defaultAbortMinJobs}
	if given := r.rd.Abort; given != nil {
		a.MaxFailurePercent = valueOr(given.MaxFailurePercent, a.MaxFailurePercent)
		a.MinJobs = valueOr(given.MinJobs, a.MinJobs)
	}
	r.percent("spec.abort.maxFailurePercent", a.MaxFailurePercent)
	if a.MinJobs < 1 {
		r.add("spec.abort.minJobs", "must be at least 1 (is %d)", a.MinJobs)
	}
	return a
}

func (r *redriveResolver) percent(path string, n int64) {
	if n < 0 || n > 100 {
		r.add(path, "must be from 0 to 100 (is %d)", n)
	}
}

// maxOutstanding is by default twice what the rate releases in one attemptTimeout, at least the burst: enough
// for the pace to hold while every attempt takes its whole time, and no more.
func (r *redriveResolver) maxOutstanding(rate queue.Rate) int64 {
	if n := r.rd.MaxOutstanding; n != nil {
		return max(*n, 1)
	}
	inFlight := (2*rate.Jobs*int64(r.policy.AttemptTimeout) + int64(rate.Per) - 1) / int64(rate.Per)
	return min(max(rate.Burst, inFlight, 1), maxOutstandingBound)
}

func valueOr(p *int64, otherwise int64) int64 {
	if p == nil {
		return otherwise
	}
	return *p
}
