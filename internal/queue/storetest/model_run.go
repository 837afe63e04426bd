package storetest

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// machine drives a store and the model with the same random operations.
type machine struct {
	*env
	m      *model
	leases []queue.Lease // every lease ever handed out
	tokens map[int64]bool
	ids    []string
}

func runModel(t *testing.T, h Harness) {
	rapid.Check(t, func(rt *rapid.T) {
		e := newEnvIn(t, h)
		e.t = rt
		defer func() { _ = e.s.Close() }()
		e.policy.DedupeWindow, e.policy.Deadline, e.policy.MaxRedrives = 40_000, 90_000, 1
		if rapid.Bool().Draw(rt, "retention") {
			e.policy.Retention = 70_000
		}
		if rapid.Bool().Draw(rt, "decorrelated") {
			e.policy.Backoff.Jitter = queue.JitterDecorrelated
		}
		mc := &machine{env: e, m: newModel(e.policy), tokens: map[int64]bool{}, ids: names("j", 6)}
		mc.m.ratio = 0.5
		rt.Repeat(map[string]func(*rapid.T){
			"":        mc.compare,
			"accept":  mc.accept,
			"claim":   mc.claimSome,
			"claim2":  mc.claimSome,
			"settle":  mc.settleSome,
			"settle2": mc.settleSome,
			"reap":    mc.reapSome,
			"sweep":   mc.sweepSome,
			"pass":    mc.pass,
			"pass2":   mc.pass,
			"purge":   mc.purgeSome,
			"die":     mc.dieSome,
			"replay":  mc.replaySome,
			"plan":    mc.planSome,
			"permit":  mc.permitSome,
			"advance": mc.advanceSome,
			"cancel":  mc.cancelSome,
			"restart": func(*rapid.T) { mc.restart() },
		})
	})
}

func (mc *machine) accept(rt *rapid.T) {
	id, content := rapid.SampledFrom(mc.ids).Draw(rt, "id"), rapid.SampledFrom([]string{"x", "x", "x", "yy"}).Draw(rt, "content")
	nj := withPayload(id, content)
	nj.ContentType = ""
	nj.Delay = rapid.SampledFrom([]queue.Millis{0, 0, 500}).Draw(rt, "delay")
	nj.MaxAttempts = rapid.SampledFrom([]int{0, 1, 2}).Draw(rt, "maxAttempts")
	nj.Deadline = rapid.SampledFrom([]queue.Millis{0, 20_000}).Draw(rt, "deadline")
	known, conflict := mc.m.accept(nj, mc.now())
	got, err := mc.s.Accept(rt.Context(), mc.policy, []queue.NewJob{nj})
	var ce *queue.ConflictError
	switch {
	case conflict && !errors.As(err, &ce):
		rt.Fatalf("accepting %s: %v, want a conflict", id, err)
	case !conflict && err != nil:
		rt.Fatalf("accepting %s: %v", id, err)
	case !conflict && got[0].Known != known:
		rt.Fatalf("accepting %s: known %v, want %v", id, got[0].Known, known)
	}
}

func (mc *machine) claimSome(rt *rapid.T) {
	n := rapid.IntRange(0, 4).Draw(rt, "n")
	c := mc.claimBehind(n, "an obstacle")
	deaths := queue.Deaths{}
	live := 0
	for _, j := range mc.m.in(queue.Pending) {
		why, over := queue.Overdue(j.budget(), c.Now)
		switch {
		case j.job.AvailableAt > c.Now:
		case !over:
			live++
		default:
			if got := mc.job(j.job.ID); got.State == queue.Dead {
				mc.m.bury(j, why, got.LastError, c.Now)
				j.job.DeadSeq = got.DeadSeq
				deaths[why]++
			}
		}
	}
	mc.same("deaths", c.Deaths, deaths)
	if len(c.Leases) != min(n, live) && len(deaths) == 0 {
		rt.Fatalf("leased %d of %d, asked for %d", len(c.Leases), live, n)
	}
	last := queue.Time(0)
	for _, l := range c.Leases {
		j := mc.m.jobs[l.Job.ID]
		if j == nil || j.job.State != queue.Pending || j.job.AvailableAt > c.Now || j.job.AvailableAt < last {
			rt.Fatalf("leased %s out of turn", l.Job.ID)
		}
		if mc.tokens[l.Token] {
			rt.Fatalf("token %d was used before", l.Token)
		}
		last = j.job.AvailableAt
		mc.m.claim(j, l.Token, c.Now)
		mc.leases = append(mc.leases, l)
	}
	next := queue.Time(0)
	for _, l := range c.Leases {
		mc.tokens[l.Token] = true
	}
	for _, j := range mc.m.in(queue.Pending) {
		if _, over := queue.Overdue(j.budget(), c.Now); !over && j.job.AvailableAt < last {
			rt.Fatalf("%s was passed over", j.job.ID)
		}
		next = earliest(next, j.job.AvailableAt)
	}
	if c.NextAt != next {
		rt.Fatalf("next at %d, want %d", c.NextAt-Start, next-Start)
	}
}

// settleSome settles some of the leases ever handed out, one an id; most of them are stale.
func (mc *machine) settleSome(rt *rapid.T) {
	var ss []queue.Settlement
	var want []error
	deaths, now := queue.Deaths{}, mc.now()
	for _, id := range mc.ids {
		var mine []queue.Lease
		for _, l := range mc.leases {
			if l.Job.ID == id {
				mine = append(mine, l)
			}
		}
		if len(mine) == 0 || rapid.IntRange(0, 2).Draw(rt, "skip "+id) == 0 {
			continue
		}
		l := mine[len(mine)-1]
		if rapid.IntRange(0, 3).Draw(rt, "stale "+id) == 0 {
			l = mine[0]
		}
		r := rapid.SampledFrom([]queue.Result{succeeded(), permanent(422, "invalid"), retryable(503, "busy"), retryable(503, "busy"), later()}).Draw(rt, "result "+id)
		ss = append(ss, settlement(l, r))
		j := mc.m.jobs[id]
		if j == nil || j.lease.token != l.Token || j.job.State != queue.Leased {
			want = append(want, queue.ErrLeaseLost)
			continue
		}
		want = append(want, nil)
		mc.must(mc.m.settle(j, r, now, now))
		mc.died(j, deaths)
	}
	got := mc.trySettle(ss...)
	mc.wantErrs(got, want...)
	mc.same("deaths", got.Deaths, deaths)
}

func later() queue.Result {
	r := retryable(429, "slow down")
	r.RetryAfter = 3_000
	return r
}

// died counts j if it is dead.
func (mc *machine) died(j *modelJob, deaths queue.Deaths) {
	if j.job.State == queue.Dead {
		deaths[j.job.Reason]++
	}
}

func (mc *machine) reapSome(rt *rapid.T) {
	now, lost, deaths := mc.now(), 0, queue.Deaths{}
	for _, j := range mc.m.in(queue.Leased) {
		if j.lease.until >= now {
			continue
		}
		lost++
		mc.must(mc.m.settle(j, queue.Result{Outcome: queue.OutcomeRetryable, Failure: &queue.Failure{Kind: queue.KindWorkerLost}}, j.lease.until, now))
		mc.died(j, deaths)
	}
	got := mc.reap(100)
	mc.same("reaped", got, queue.Reaped{Lost: lost, Deaths: deaths})
}

func (mc *machine) sweepSome(*rapid.T) { mc.same("swept", mc.sweepAll(), mc.m.sweep(mc.now())) }

// pass lets time pass, and sweeps: an id past its window but not yet swept is neither known nor unknown.
func (mc *machine) pass(rt *rapid.T) {
	mc.clock.Advance(rapid.SampledFrom([]queue.Millis{1, 50, 100, 1_000, 5_000, 26_000, 41_000}).Draw(rt, "ms"))
	for mc.m.edge(mc.clock.Now()) {
		mc.clock.Advance(1)
	}
	mc.sweepSome(rt)
}

func (mc *machine) purgeSome(rt *rapid.T) {
	id := rapid.SampledFrom(mc.ids).Draw(rt, "id")
	want := 0
	if j := mc.m.jobs[id]; j != nil && j.job.State == queue.Dead && !j.purged {
		mc.m.drop(j, mc.now())
		want = 1
	}
	if got := mc.purge(ids(id)); got != want {
		rt.Fatalf("purged %d, want %d", got, want)
	}
}

// dieSome lets every job in hand die.
func (mc *machine) dieSome(*rapid.T) {
	now := mc.now()
	for _, j := range mc.m.in(queue.Leased) {
		r := permanent(422, "invalid")
		got := mc.trySettle(queue.Settlement{ID: j.job.ID, Token: j.lease.token, Result: r})
		mc.wantErrs(got, nil)
		mc.must(mc.m.settle(j, r, now, now))
		j.job.DeadSeq = mc.job(j.job.ID).DeadSeq
	}
}

// replaySome plans and permits a new redrive.
func (mc *machine) replaySome(rt *rapid.T) {
	uid := "n0"
	for i := 1; mc.m.redrives[uid] != nil; i++ {
		uid = fmt.Sprint("n", i)
	}
	mc.planOf(rt, uid)
	r := mc.m.redrives[uid]
	_, err := mc.s.PermitRedrive(rt.Context(), queue.RedrivePermit{UID: uid, Hash: r.hash, For: 4_000})
	mc.must(err)
	r.state, r.runUntil = queue.RedriveRunning, mc.now().Add(4_000)
	mc.advanceSome(rt)
}

func (mc *machine) uid(rt *rapid.T) string {
	return rapid.SampledFrom([]string{"n0", "n1", "n2"}).Draw(rt, "uid")
}

func (mc *machine) planSome(rt *rapid.T) { mc.planOf(rt, mc.uid(rt)) }

func (mc *machine) planOf(rt *rapid.T, uid string) {
	s := spec(uid, everything())
	s.Rate = queue.Rate{Jobs: 100, Per: 1000, Burst: 20}
	s.Budget, s.MaxRedrives = queue.RedriveBudget{MaxAttempts: 2, Deadline: 30_000}, mc.policy.MaxRedrives
	got := mc.plan(s)
	if r := mc.m.redrives[s.UID]; r != nil {
		if got.Summary.Hash != r.hash {
			rt.Fatalf("%s was planned again", s.UID)
		}
		return
	}
	r := &modelRedrive{spec: s, hash: got.Summary.Hash, state: queue.RedrivePlanned}
	for _, j := range mc.m.in(queue.Dead) {
		if j.job.Redrives < s.MaxRedrives {
			r.items = append(r.items, &modelItem{id: j.job.ID, deadSeq: j.job.DeadSeq})
		}
	}
	if got.Summary.Selected != int64(len(r.items)) {
		rt.Fatalf("%s selected %d, want %d", s.UID, got.Summary.Selected, len(r.items))
	}
	mc.m.redrives[s.UID] = r
}

func (mc *machine) permitSome(rt *rapid.T) {
	r := mc.m.redrives[mc.uid(rt)]
	if r == nil {
		return
	}
	d := rapid.SampledFrom([]queue.Millis{0, 4_000, 4_000, 60_000}).Draw(rt, "for")
	hash := rapid.SampledFrom([]string{r.hash, r.hash, r.hash, "another"}).Draw(rt, "hash")
	_, err := mc.s.PermitRedrive(rt.Context(), queue.RedrivePermit{UID: r.spec.UID, Hash: hash, For: d})
	switch {
	case r.state.Finished():
	case hash != r.hash:
		var re *queue.RedriveError
		if !errors.As(err, &re) || re.Reason != queue.RedriveHashMismatch {
			rt.Fatalf("permitting another hash: %v", err)
		}
		return
	case d > 0:
		r.state = queue.RedriveRunning
		fallthrough
	default:
		r.runUntil = mc.now().Add(d)
	}
	if hash == r.hash {
		mc.must(err)
	}
}

func (mc *machine) advanceSome(rt *rapid.T) {
	obstacle := rapid.SampledFrom([]queue.HeldReason{"", "", "", queue.HeldQueueSuspended}).Draw(rt, "obstacle")
	n := mc.advanceRedrives(obstacle)
	for _, j := range mc.m.in(queue.Dead) {
		got := mc.job(j.job.ID)
		if got.State != queue.Pending {
			continue
		}
		n--
		if obstacle != "" {
			rt.Fatalf("%s was released in spite of %s", got.ID, obstacle)
		}
		mc.must(mc.m.release(j, got, mc.now()))
	}
	if n != 0 {
		rt.Fatalf("the count of released jobs is off by %d", n)
	}
}

func (mc *machine) cancelSome(rt *rapid.T) {
	r := mc.m.redrives[mc.uid(rt)]
	if r == nil || rapid.IntRange(0, 3).Draw(rt, "rarely") != 0 {
		return
	}
	got := mc.cancel(r.spec.UID)
	if !r.state.Finished() && got.State != queue.RedriveComplete {
		r.state = queue.RedriveCancelled
	}
	if got.State != queue.RedriveComplete && got.State != r.state {
		rt.Fatalf("after cancel %s is %s, want %s", r.spec.UID, got.State, r.state)
	}
}
