package storetest

import (
	"fmt"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// model holds the rules of a store in memory, as plainly as they can be said. Where the rules leave a choice
// (which of two jobs due at the same instant goes first, how many are released just now) the model takes the
// store's word and only checks that the choice was allowed.
type model struct {
	policy   queue.Policy
	jobs     map[string]*modelJob
	redrives map[string]*modelRedrive
	ratio    float64
}

// modelJob is everything remembered of an id.
type modelJob struct {
	job       queue.Job // as the store shows it, without content
	content   string
	size      int64
	forgotten queue.Time   // when a finished id is forgotten; 0 while it lives
	purged    bool         // dead and deleted: nothing but the id is left
	previous  queue.Millis // the delay drawn last in this budget
	lease     modelLease   // while leased
}

type modelLease struct {
	token   int64
	claimed queue.Time
	until   queue.Time
}

// modelRedrive is a frozen plan; items are never added.
type modelRedrive struct {
	spec     queue.RedriveSpec
	hash     string
	state    queue.RedriveState
	runUntil queue.Time
	items    []*modelItem
}

type modelItem struct {
	id       string
	deadSeq  int64
	released bool
	failing  bool
	end      queue.State // Succeeded or Dead once it is finished
}

func newModel(p queue.Policy) *model {
	return &model{policy: p, jobs: map[string]*modelJob{}, redrives: map[string]*modelRedrive{}}
}

// in lists the jobs in a state.
func (m *model) in(s queue.State) []*modelJob {
	var got []*modelJob
	for _, j := range m.jobs {
		if j.job.State == s && !j.purged {
			got = append(got, j)
		}
	}
	return got
}

func (j *modelJob) budget() queue.Budget {
	return queue.Budget{Attempts: j.job.Attempts, MaxAttempts: j.job.MaxAttempts, Deadline: j.job.Deadline, PreviousDelay: j.previous}
}

// accept predicts the answer to nj: known, conflict or new.
func (m *model) accept(nj queue.NewJob, now queue.Time) (known, conflict bool) {
	if j, ok := m.jobs[nj.ID]; ok {
		return j.content == string(nj.Payload), j.content != string(nj.Payload)
	}
	job := queue.Job{
		ID: nj.ID, State: queue.Pending, MaxAttempts: m.policy.MaxAttempts,
		AvailableAt: now.Add(nj.Delay), Deadline: now.Add(m.policy.Deadline), FirstReceivedAt: now,
	}
	if nj.MaxAttempts > 0 {
		job.MaxAttempts = nj.MaxAttempts
	}
	if nj.Deadline > 0 {
		job.Deadline = now.Add(nj.Deadline)
	}
	m.jobs[nj.ID] = &modelJob{job: job, content: string(nj.Payload), size: int64(len(nj.Payload))}
	return false, false
}

// claim takes the job under a lease.
func (m *model) claim(j *modelJob, token int64, now queue.Time) {
	j.job.State = queue.Leased
	j.job.Attempts++
	j.lease = modelLease{token: token, claimed: now, until: now.Add(m.policy.Lease())}
}

// bury lets a due job die that may not start any more.
func (m *model) bury(j *modelJob, why queue.Reason, obstacle *queue.Failure, now queue.Time) {
	if j.job.Attempts == 0 {
		j.job.LastError = obstacle
		j.job.History = append(j.job.History, queue.Attempt{
			Redrive: j.job.RedriveUID, EndedAt: now, Outcome: queue.OutcomeRetryable, Error: obstacle,
		})
	}
	m.die(j, why, now)
}

func (m *model) die(j *modelJob, why queue.Reason, now queue.Time) {
	j.job.State, j.job.Reason, j.job.DiedAt = queue.Dead, why, now
	m.item(j, func(it *modelItem) { it.end, it.failing = queue.Dead, false })
}

// item calls f for the unfinished item that released j, if there is one.
func (m *model) item(j *modelJob, f func(*modelItem)) {
	r := m.redrives[j.job.RedriveUID]
	if r == nil {
		return
	}
	for _, it := range r.items {
		if it.id == j.job.ID && it.released && it.end == "" {
			f(it)
		}
	}
}

// settle ends the attempt of j, which ended at ended, by the one decision.
func (m *model) settle(j *modelJob, r queue.Result, ended, now queue.Time) error {
	d, err := queue.Decide(m.policy, j.budget(), r, now, m.ratio)
	if err != nil {
		return err
	}
	started := j.lease.claimed
	j.lease = modelLease{}
	if r.Outcome == queue.OutcomeSucceeded {
		j.job.State, j.job.FinishedAt = queue.Succeeded, now
		j.forgotten = now.Add(m.policy.DedupeWindow)
		m.item(j, func(it *modelItem) { it.end, it.failing = queue.Succeeded, false })
		return nil
	}
	if j.job.FirstFailedAt == 0 {
		j.job.FirstFailedAt = ended
	}
	j.job.LastError = r.Failure
	j.job.History = append(j.job.History, queue.Attempt{
		Attempt: j.job.Attempts, Redrive: j.job.RedriveUID, StartedAt: started, EndedAt: ended, Outcome: r.Outcome, Error: r.Failure,
	})
	if d.State == queue.Dead {
		m.die(j, d.Reason, now)
		return nil
	}
	j.job.State, j.job.AvailableAt, j.previous = queue.Pending, d.AvailableAt, d.Delay
	m.item(j, func(it *modelItem) { it.failing = true })
	return nil
}

// drop deletes a dead job for good; its id is remembered.
func (m *model) drop(j *modelJob, now queue.Time) {
	j.purged, j.forgotten = true, now.Add(m.policy.DedupeWindow)
}

// sweep forgets ids and lets dead jobs expire, and says how many.
func (m *model) sweep(now queue.Time) queue.Swept {
	var s queue.Swept
	for id, j := range m.jobs {
		switch {
		case j.forgotten != 0 && j.forgotten < now:
			delete(m.jobs, id)
			s.Forgotten++
		case j.job.State == queue.Dead && !j.purged && m.policy.Retention > 0 && j.job.DiedAt.Add(m.policy.Retention) < now:
			m.drop(j, now)
			s.Expired++
		}
	}
	return s
}

// edge says that something ends at exactly now, where the rules do not say on which side now is.
func (m *model) edge(now queue.Time) bool {
	for _, j := range m.jobs {
		if j.forgotten == now || j.lease.until == now || j.job.DiedAt != 0 && j.job.DiedAt.Add(m.policy.Retention) == now {
			return true
		}
	}
	return false
}

// release checks that uid may release j, which the store shows as got, and does so.
func (m *model) release(j *modelJob, got queue.Job, now queue.Time) error {
	r := m.redrives[got.RedriveUID]
	switch {
	case r == nil:
		return fmt.Errorf("%s was released by %q, which is no redrive", got.ID, got.RedriveUID)
	case r.state != queue.RedriveRunning || r.runUntil <= now:
		return fmt.Errorf("%s was released by %s, which is %s and may run until %d, now is %d", got.ID, got.RedriveUID, r.state, r.runUntil, now)
	case got.AvailableAt < now || got.AvailableAt > now.Add(tick):
		return fmt.Errorf("%s was released for %d ms from now", got.ID, got.AvailableAt.Sub(now))
	}
	for _, it := range r.items {
		if it.id == got.ID && it.deadSeq == j.job.DeadSeq && !it.released {
			it.released = true
			job := &j.job
			job.State, job.Reason, job.DiedAt, job.DeadSeq = queue.Pending, "", 0, 0
			job.Attempts, job.MaxAttempts, j.previous = 0, r.spec.Budget.MaxAttempts, 0
			job.AvailableAt, job.Deadline = got.AvailableAt, got.AvailableAt.Add(r.spec.Budget.Deadline)
			job.Redrives, job.RedriveUID = job.Redrives+1, got.RedriveUID
			return nil
		}
	}
	return fmt.Errorf("%s (dead_seq %d) was released by %s without being in its plan", got.ID, j.job.DeadSeq, got.RedriveUID)
}

// progress counts the items of r; Gone and Remaining are told apart only when the store looks.
func (r *modelRedrive) progress() queue.RedriveProgress {
	var p queue.RedriveProgress
	for _, it := range r.items {
		switch {
		case !it.released:
			continue
		case it.end == queue.Succeeded:
			p.Delivered++
		case it.end == queue.Dead:
			p.DiedAgain++
		default:
			p.Outstanding++
			if it.failing {
				p.Failing++
			}
		}
		p.Released++
	}
	return p
}

// stats counts.
func (m *model) stats(now queue.Time) queue.Stats {
	s := queue.Stats{Now: now}
	for _, j := range m.jobs {
		if j.purged {
			continue
		}
		if j.job.State != queue.Succeeded {
			s.Bytes += j.size
		}
		switch j.job.State {
		case queue.Pending:
			s.Pending++
			if j.job.AvailableAt <= now {
				s.Due++
			}
			s.OldestPendingAt = earliest(s.OldestPendingAt, j.job.AvailableAt)
		case queue.Leased:
			s.Leased++
		case queue.Succeeded:
			s.Succeeded++
		case queue.Dead:
			s.Dead++
			s.OldestDeadAt = earliest(s.OldestDeadAt, j.job.DiedAt)
		}
	}
	return s
}

// earliest is the lesser of two instants, of which zero means none.
func earliest(a, b queue.Time) queue.Time {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
