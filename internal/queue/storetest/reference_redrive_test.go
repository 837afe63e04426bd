package storetest

import (
	"cmp"
	"context"
	"slices"

	"github.com/retryqueue/retryqueue/internal/queue"
)

func (s *reference) PlanRedrive(_ context.Context, spec queue.RedriveSpec) (queue.Redrive, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.Redrives[spec.UID]; r != nil {
		return s.show(r), nil
	}
	for _, r := range s.Redrives {
		if r.R.Spec.Name == spec.Name && r.R.Spec.SpecDigest == spec.SpecDigest && r.R.StartedAt != 0 {
			return queue.Redrive{}, &queue.RedriveError{Reason: queue.RedriveAlreadyExecuted, Detail: "has run"}
		}
	}
	x := spec.Rate
	if spec.Validate() != nil || spec.UID == "" || spec.Limit < 1 || spec.Limit > 1_000_000 || x.Jobs < 1 || x.Jobs > 100_000 || x.Per < 1 || x.Per > 86_400_000 ||
		(x.Burst-1)*int64(x.Per) < x.Jobs*100 || spec.Budget.MaxAttempts < 1 || spec.Budget.Deadline < 1 || spec.MaxOutstanding < 1 {
		return queue.Redrive{}, &queue.RedriveError{Reason: queue.RedriveInvalid, Detail: "is invalid"}
	}
	all, err := s.dead(spec.Selector)
	if err != nil {
		return queue.Redrive{}, err
	}
	r := &refRedrive{Order: len(s.Redrives), Canary: spec.Canary.Timeout, R: queue.Redrive{UID: spec.UID, Spec: spec, State: queue.RedrivePlanned}}
	sum := queue.RedriveSummary{Matched: int64(len(all)), Skipped: map[string]int64{}, ByReason: map[queue.Reason]int64{}, PlannedAt: s.now()}
	var taken []*refJob
	for _, j := range all {
		switch {
		case j.Job.Redrives >= spec.MaxRedrives:
			sum.Skipped["RedriveLimit"]++
		case int64(len(taken)) == spec.Limit:
			sum.Skipped["Limit"]++
		default:
			taken = append(taken, j)
			sum.ByReason[j.Job.Reason]++
			r.Items = append(r.Items, &refItem{ID: j.Job.ID, DeadSeq: j.Job.DeadSeq})
			if len(sum.SampleIDs) < 20 {
				sum.SampleIDs = append(sum.SampleIDs, j.Job.ID)
			}
		}
	}
	sum.Selected = int64(len(taken))
	sum.ByFingerprint = refGroups(taken)
	sum.Estimated = queue.Millis(max(0, sum.Selected-x.Burst) * int64(x.Per) / x.Jobs)
	sum.Hash = refHash(s.ID, spec, r.Items)
	r.R.Summary = sum
	r.pickCanary(taken)
	s.Redrives[spec.UID] = r
	return s.show(r), nil
}

// pickCanary takes turns over the causes and puts its picks in front.
func (r *refRedrive) pickCanary(jobs []*refJob) {
	nth := map[string]int{}
	turn := make([]int, len(jobs))
	for i, j := range jobs {
		cause := string(j.Job.Reason) + j.Job.Fingerprint
		turn[i] = nth[cause]
		nth[cause]++
	}
	order := make([]int, len(jobs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(turn[a], turn[b]) })
	for k, i := range order {
		r.Items[i].Canary = int64(k) < r.R.Spec.Canary.Jobs
	}
	slices.SortStableFunc(r.Items, func(a, b *refItem) int {
		switch {
		case a.Canary == b.Canary:
			return 0
		case a.Canary:
			return -1
		}
		return 1
	})
}

func (s *reference) show(r *refRedrive) queue.Redrive {
	out := r.R
	out.Now = s.now()
	p := queue.RedriveProgress{}
	for _, it := range r.Items {
		switch it.State {
		case "":
			p.Remaining++
			continue
		case "gone":
			p.Gone++
			continue
		case "delivered":
			p.Delivered++
		case "died":
			p.DiedAgain++
		case "failing":
			p.Failing++
			p.Outstanding++
		default:
			p.Outstanding++
		}
		p.Released++
	}
	out.Progress = p
	return out
}

func (s *reference) find(uid string, f func(*refRedrive) error) (queue.Redrive, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.Redrives[uid]
	if r == nil {
		return queue.Redrive{}, queue.ErrNotFound
	}
	if err := f(r); err != nil {
		return queue.Redrive{}, err
	}
	return s.show(r), nil
}

func (s *reference) Redrive(_ context.Context, uid string) (queue.Redrive, error) {
	return s.find(uid, func(*refRedrive) error { return nil })
}

func (s *reference) PermitRedrive(_ context.Context, p queue.RedrivePermit) (queue.Redrive, error) {
	return s.find(p.UID, func(r *refRedrive) error {
		switch {
		case r.R.State.Finished():
			return nil
		case p.Hash != r.R.Summary.Hash:
			return &queue.RedriveError{Reason: queue.RedriveHashMismatch, Detail: "another plan"}
		case p.For < 0 || p.For > 60_000:
			return &queue.RedriveError{Reason: queue.RedriveInvalid, Detail: "for"}
		case p.For == 0:
			r.Canary = r.R.Spec.Canary.Timeout
		default:
			r.R.State = queue.RedriveRunning
		}
		r.R.RunUntil = s.now().Add(p.For)
		return nil
	})
}

func (s *reference) CancelRedrive(_ context.Context, uid string) (queue.Redrive, error) {
	return s.find(uid, func(r *refRedrive) error {
		if !r.R.State.Finished() {
			r.finish(queue.RedriveCancelled, s.now())
		}
		return nil
	})
}

func (r *refRedrive) finish(state queue.RedriveState, now queue.Time) {
	r.R.State, r.R.Held, r.R.FinishedAt = state, "", now
}

func (s *reference) AdvanceRedrives(_ context.Context, p queue.Policy, obstacle queue.HeldReason) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	total := 0
	var all []*refRedrive
	for _, r := range s.Redrives {
		if r.R.State == queue.RedriveRunning {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *refRedrive) int { return a.Order - b.Order })
	for _, r := range all {
		total += s.advance(p, r, obstacle, s.now())
	}
	return total, nil
}

// advance releases what r may release now.
func (s *reference) advance(p queue.Policy, r *refRedrive, obstacle queue.HeldReason, now queue.Time) int {
	for _, it := range r.Items {
		if j := s.Jobs[it.ID]; it.State == "" && (j == nil || j.Purged || j.Job.State != queue.Dead || j.Job.DeadSeq != it.DeadSeq) {
			it.State = "gone"
		}
	}
	prog := s.show(r).Progress
	passed := max(0, now.Sub(r.Last))
	since := r.Last
	r.Last = max(r.Last, now)
	if prog.Remaining+prog.Outstanding == 0 {
		r.finish(queue.RedriveComplete, now)
		return 0
	}
	in := queue.PaceInput{Now: now, Released: prog.Released, Outstanding: prog.Outstanding, MaxOutstanding: r.R.Spec.MaxOutstanding, Left: prog.Remaining}
	for _, it := range r.Items {
		if it.State == "released" && !it.Started {
			in.Unstarted++
		}
	}
	switch {
	case r.R.RunUntil <= now:
		in.Gate = queue.HeldNoPermission
	case obstacle != "":
		in.Gate = obstacle
	default:
		in.Left, in.Gate = r.judgeCanary(&prog, passed, since, now)
		if in.Gate == "" && !r.R.State.Finished() {
			in.Gate = r.judgeWindow(now)
		}
		if r.R.State.Finished() {
			return 0
		}
	}
	pace, out, err := r.Pace.Advance(r.R.Spec.Rate, in)
	if err != nil {
		panic(err)
	}
	r.Pace, r.R.Held, r.R.Message = pace, out.Held, ""
	switch {
	case out.Held == queue.HeldFailing:
		r.R.Message = "too many fail"
	case in.Left == 0 && prog.Remaining > 0 && in.Gate == "":
		r.R.Held = queue.HeldCanary
	}
	return s.release(r, r.R.Spec.Budget.Within(p), out.At, now)
}

func (s *reference) release(r *refRedrive, budget queue.RedriveBudget, at []queue.Time, now queue.Time) int {
	released := 0
	for _, it := range r.Items {
		if it.State != "" || released == len(at) {
			continue
		}
		j := s.Jobs[it.ID]
		job := &j.Job
		job.State, job.Reason, job.DiedAt, job.DeadSeq, job.Fingerprint = queue.Pending, "", 0, 0, ""
		job.Attempts, job.MaxAttempts, j.Previous = 0, budget.MaxAttempts, 0
		job.AvailableAt, job.Deadline = at[released], at[released].Add(budget.Deadline)
		job.Redrives, job.RedriveUID = job.Redrives+1, r.R.UID
		it.State = "released"
		released++
		if r.R.StartedAt == 0 {
			r.R.StartedAt = now
		}
	}
	return released
}

// judgeCanary says how many more the canary lets through, and whether it stops all.
func (r *refRedrive) judgeCanary(p *queue.RedriveProgress, passed queue.Millis, since, now queue.Time) (left int64, stop queue.HeldReason) {
	var jobs, died, delivered, waiting int64
	for _, it := range r.Items {
		if it.Canary && it.State != "gone" {
			jobs++
			switch it.State {
			case "died":
				died++
			case "delivered":
				delivered++
			case "":
				waiting++
			}
		}
	}
	allowed := jobs * r.R.Spec.Canary.MaxFailurePercent / 100
	switch {
	case died > allowed:
		r.R.Message = "the canary failed"
		r.finish(queue.RedriveAborted, now)
		return 0, ""
	case delivered >= jobs-allowed:
		return p.Remaining, ""
	}
	if since != 0 && r.R.Held == queue.HeldCanary {
		r.Canary -= passed
	}
	if r.Canary <= 0 {
		return 0, queue.HeldCanaryInconclusive
	}
	return waiting, ""
}

// judgeWindow looks at the latest released that have ended an attempt.
func (r *refRedrive) judgeWindow(now queue.Time) queue.HeldReason {
	var died, failing, delivered int64
	for _, it := range slices.Backward(r.Items) {
		if died+failing+delivered >= max(r.R.Spec.Abort.MinJobs, 100) {
			break
		}
		switch it.State {
		case "died":
			died++
		case "delivered":
			delivered++
		case "failing":
			failing++
		}
	}
	a := r.R.Spec.Abort
	switch {
	case died+delivered >= a.MinJobs && died*100 > a.MaxFailurePercent*(died+delivered):
		r.R.Message = "too many died again"
		r.finish(queue.RedriveAborted, now)
	case died+failing+delivered >= a.MinJobs && (died+failing)*100 > a.MaxFailurePercent*(died+failing+delivered):
		return queue.HeldFailing
	}
	return ""
}
