package storetest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"github.com/retryqueue/retryqueue/internal/queue"
)

func (s *reference) Stats(context.Context) (queue.Stats, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats(s.now()), nil
}

func (s *reference) stats(now queue.Time) queue.Stats {
	st := queue.Stats{Now: now}
	for _, j := range s.Jobs {
		if j.Purged {
			continue
		}
		st.Bytes += refBytes(j.Job.Payload, j.Job.Headers)
		switch j.Job.State {
		case queue.Pending:
			st.Pending++
			st.OldestPendingAt = earliest(st.OldestPendingAt, j.Job.AvailableAt)
			if j.Job.AvailableAt <= now {
				st.Due++
			}
		case queue.Leased:
			st.Leased++
		case queue.Succeeded:
			st.Succeeded++
		case queue.Dead:
			st.Dead++
			st.OldestDeadAt = earliest(st.OldestDeadAt, j.Job.DiedAt)
		}
	}
	st.NextDueAt = st.OldestPendingAt
	return st
}

// dead lists the selected dead jobs in order of death.
func (s *reference) dead(sel queue.Selector) ([]*refJob, error) {
	for _, h := range sel.HTTPStatuses {
		if !regexp.MustCompile(`^[1-5]([0-9][0-9]|xx)$`).MatchString(h) {
			return nil, &queue.InvalidError{Field: "httpStatuses", Detail: "is malformed"}
		}
	}
	var all []*refJob
	for _, j := range s.Jobs {
		if j.Job.State == queue.Dead && !j.Purged && refSelects(sel, j.Job) {
			all = append(all, j)
		}
	}
	slices.SortFunc(all, func(a, b *refJob) int { return cmp.Compare(a.Job.DeadSeq, b.Job.DeadSeq) })
	return all, nil
}

func refSelects(sel queue.Selector, j queue.Job) bool {
	status := fmt.Sprint(j.LastError.HTTPStatus)
	return (sel.DiedAfter == 0 || j.DiedAt >= sel.DiedAfter) && (sel.DiedBefore == 0 || j.DiedAt < sel.DiedBefore) &&
		(len(sel.Reasons) == 0 || slices.Contains(sel.Reasons, j.Reason)) &&
		(len(sel.Fingerprints) == 0 || slices.Contains(sel.Fingerprints, j.Fingerprint)) &&
		(len(sel.IDs) == 0 || slices.Contains(sel.IDs, j.ID)) &&
		(len(sel.HTTPStatuses) == 0 || slices.Contains(sel.HTTPStatuses, status) || slices.Contains(sel.HTTPStatuses, status[:1]+"xx"))
}

func (s *reference) DeadJobs(_ context.Context, q queue.DeadQuery) (queue.DeadPage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, err := s.dead(q.Selector)
	var page queue.DeadPage
	for _, j := range all {
		switch {
		case j.Job.DeadSeq <= q.After:
		case len(page.Jobs) == q.Limit:
			page.Next = page.Jobs[q.Limit-1].DeadSeq
			return page, err
		default:
			page.Jobs = append(page.Jobs, withoutContent(j.shown()))
		}
	}
	return page, err
}

func (s *reference) DeadGroups(_ context.Context, sel queue.Selector, limit int) ([]queue.DeadGroup, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, err := s.dead(sel)
	gs := refGroups(all)
	return gs[:min(limit, len(gs))], err
}

func refGroups(all []*refJob) []queue.DeadGroup {
	var gs []queue.DeadGroup
	for _, j := range all {
		i := slices.IndexFunc(gs, func(g queue.DeadGroup) bool { return g.Reason == j.Job.Reason && g.Fingerprint == j.Job.Fingerprint })
		if i < 0 {
			i = len(gs)
			gs = append(gs, queue.DeadGroup{Reason: j.Job.Reason, Fingerprint: j.Job.Fingerprint, FirstDiedAt: j.Job.DiedAt, SampleID: j.Job.ID, SampleError: j.Job.LastError})
		}
		gs[i].Count++
		gs[i].LastDiedAt = j.Job.DiedAt
	}
	slices.SortStableFunc(gs, func(a, b queue.DeadGroup) int { return cmp.Compare(b.Count, a.Count) })
	return gs
}

func (s *reference) Purge(_ context.Context, p queue.Policy, sel queue.Selector) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sel.Empty() {
		return 0, &queue.InvalidError{Field: "selector", Detail: "must not be empty"}
	}
	all, err := s.dead(sel)
	for _, j := range all {
		j.Purged, j.Forgotten = true, s.now().Add(p.DedupeWindow)
	}
	return len(all), err
}

func refHash(id string, r queue.RedriveSpec, items []*refItem) string {
	b, _ := json.Marshal([]any{id, r, items})
	return fmt.Sprintf("%x", sha256.Sum256(b))
}
