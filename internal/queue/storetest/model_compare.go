package storetest

import (
	"fmt"
	"slices"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// compare checks that store and model say the same of every job, redrive and count.
func (mc *machine) compare(rt *rapid.T) {
	for _, id := range mc.ids {
		j := mc.m.jobs[id]
		if j == nil || j.purged {
			mc.wantUnknown(id)
			continue
		}
		mc.compareJob(j)
	}
	want := mc.m.stats(mc.now())
	got := mc.stats()
	got.NextDueAt = 0
	mc.same("stats", got, want)
	var dead []string
	all := mc.m.in(queue.Dead)
	slices.SortFunc(all, func(a, b *modelJob) int { return int(a.job.DeadSeq - b.job.DeadSeq) })
	for _, j := range all {
		dead = append(dead, j.job.ID)
	}
	mc.same("dead jobs", mc.deadIDs(queue.Selector{}), dead)
	for uid, r := range mc.m.redrives {
		mc.compareRedrive(rt, uid, r)
	}
}

// compareJob compares what is promised of a job in its state, and learns the order of deaths.
func (mc *machine) compareJob(j *modelJob) {
	mc.t.Helper()
	got, want := mc.job(j.job.ID), j.job
	if want.State == queue.Succeeded {
		if got.State != want.State || got.FinishedAt != want.FinishedAt {
			mc.t.Errorf("%s is %s, finished %d, want %s, %d", want.ID, got.State, got.FinishedAt, want.State, want.FinishedAt)
		}
		return
	}
	if string(got.Payload) != j.content {
		mc.t.Errorf("%s has payload %q", want.ID, got.Payload)
	}
	if got.State == queue.Dead && want.DeadSeq == 0 {
		j.job.DeadSeq = got.DeadSeq
	}
	want.DeadSeq = j.job.DeadSeq
	got.Queue, got.Fingerprint = "", ""
	if got.State != queue.Pending {
		got.AvailableAt, want.AvailableAt = 0, 0
	}
	ignore := cmpopts.IgnoreFields(queue.Job{}, "Payload", "Headers", "ContentType", "FirstFailedAt")
	text := cmp.Transformer("kind", func(f *queue.Failure) string {
		if f == nil {
			return ""
		}
		return fmt.Sprint(f.Kind, f.HTTPStatus)
	})
	if d := cmp.Diff(want, got, ignore, text, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(queue.Attempt{}, "Outcome")); d != "" {
		mc.t.Errorf("job %s (-model +store):\n%s", want.ID, d)
	}
}

func (mc *machine) compareRedrive(rt *rapid.T, uid string, r *modelRedrive) {
	got := mc.redrive(uid)
	p := got.Progress
	p.Gone, p.Remaining = 0, 0
	mc.same("progress of "+uid, p, r.progress())
	switch {
	case got.State == queue.RedriveComplete && got.Progress.Remaining == 0 && got.Progress.Outstanding == 0 && r.state != queue.RedriveCancelled:
		r.state = queue.RedriveComplete
	case got.State != r.state:
		rt.Fatalf("%s is %s, want %s", uid, got.State, r.state)
	}
}
