package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/retryqueue/retryqueue/internal/queue"
)

const (
	sqlNewRedrive = `insert into redrives (uid, name, spec_digest, spec, summary, selected, canary, state) values (?, ?, ?, ?, '{}', ?, ?, ?) returning rid`

	sqlSetSummary = `update redrives set summary = ? where rid = ?`

	sqlMoveItem = `update redrive_items set pos = ? where rid = ? and pos = ?`

	sqlItems = `select i.dead_seq, j.id, j.content_sha from redrive_items i join jobs j on j.seq = i.job where i.rid = ? order by i.pos`

	maxSamples = 20
)

// matching reads what sel selects, in order of death.
func matching(sel selection) string {
	return `select j.dead_seq, j.died_at, j.reason, j.fingerprint, j.redrives from jobs j ` + sel.index() + `
		where ` + sel.where + ` order by j.dead_seq`
}

// freeze stores the first of what sel selects, in order of death, at positions behind those of the canary.
func freeze(sel selection) string {
	return `insert into redrive_items (rid, pos, job, dead_seq)
		select ?, ? + row_number() over (order by dead_seq), seq, dead_seq from
		(select j.dead_seq, j.seq from jobs j ` + sel.index() + ` where ` + sel.where + ` and j.redrives < ? order by j.dead_seq limit ?)`
}

// PlanRedrive implements [queue.Redriver].
func (s *Store) PlanRedrive(ctx context.Context, spec queue.RedriveSpec) (queue.Redrive, error) {
	var out queue.Redrive
	err := s.do(ctx, kindOther, 1000, func(t *tx) (err error) {
		out, err = t.planRedrive(spec)
		return err
	})
	if err != nil {
		return queue.Redrive{}, fmt.Errorf("planning: %w", err)
	}
	return out, nil
}

func (t *tx) planRedrive(spec queue.RedriveSpec) (queue.Redrive, error) {
	now, _ := t.s.clock.read()
	r, err := t.redrive(spec.UID)
	if !errors.Is(err, queue.ErrNotFound) {
		return shown(r, now), err
	}
	if err := spec.Validate(); err != nil {
		return queue.Redrive{}, &queue.RedriveError{Reason: queue.RedriveInvalid, Detail: err.Error()}
	}
	sel, err := compile(spec.Selector)
	if err != nil {
		return queue.Redrive{}, &queue.RedriveError{Reason: queue.RedriveInvalid, Detail: "selector." + err.Error()}
	}
	if err := t.once(spec); err != nil {
		return queue.Redrive{}, err
	}
	c, err := t.choose(spec, sel)
	if err != nil {
		return queue.Redrive{}, fmt.Errorf("selecting dead jobs: %w", err)
	}
	rid, err := t.freeze(spec, sel, c)
	if err != nil {
		return queue.Redrive{}, fmt.Errorf("freezing the items: %w", err)
	}
	if err := t.summarize(rid, spec, c, now); err != nil {
		return queue.Redrive{}, fmt.Errorf("summing up: %w", err)
	}
	t.s.plans.Store(rid, plan{uid: spec.UID, canary: int64(len(c.canary))})
	r, err = t.redrive(spec.UID)
	return shown(r, now), err
}

// choice is what a plan selects, by number in order of death from 1.
type choice struct {
	matched, selected, limited, overLimit int64
	causes                                map[cause]*queue.DeadGroup
	samples                               map[cause]int64 // dead_seq of a cause's first
	first                                 []int64         // dead_seq of the first maxSamples
	canary                                []int64         // in order of release
}

type cause struct {
	reason      int
	fingerprint string
}

// choose walks the dead jobs once.
func (t *tx) choose(spec queue.RedriveSpec, sel selection) (*choice, error) {
	rows, err := t.w.conn.QueryContext(context.Background(), matching(sel), sel.args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	c := &choice{causes: map[cause]*queue.DeadGroup{}, samples: map[cause]int64{}}
	var picks []pick
	for rows.Next() {
		var k cause
		var deadSeq int64
		var died queue.Time
		var redrives int
		if err := rows.Scan(&deadSeq, &died, &k.reason, &k.fingerprint, &redrives); err != nil {
			return nil, err
		}
		c.matched++
		switch {
		case redrives >= spec.MaxRedrives:
			c.limited++
			continue
		case c.selected == spec.Limit:
			c.overLimit++
			continue
		}
		c.selected++
		if len(c.first) < maxSamples {
			c.first = append(c.first, deadSeq)
		}
		turn := c.count(k, deadSeq, died)
		if turn <= spec.Canary.Jobs {
			picks = append(picks, pick{turn: turn, number: c.selected})
		}
	}
	c.canary = firstPicks(picks, spec.Canary.Jobs)
	return c, rows.Err()
}

// count adds a job to its cause and says the how manieth of it it is.
func (c *choice) count(k cause, deadSeq int64, died queue.Time) int64 {
	g := c.causes[k]
	if g == nil {
		g = &queue.DeadGroup{Reason: reasonName(k.reason), Fingerprint: k.fingerprint, FirstDiedAt: died}
		c.causes[k], c.samples[k] = g, deadSeq
	}
	g.Count++
	g.LastDiedAt = died
	return g.Count
}

// pick is a candidate for the canary: the turn is its number within its cause.
type pick struct{ turn, number int64 }

// firstPicks takes turns over the causes, in order of death within a turn.
func firstPicks(picks []pick, n int64) []int64 {
	slices.SortFunc(picks, func(a, b pick) int {
		return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(a.number, b.number))
	})
	picks = picks[:min(int64(len(picks)), n)]
	numbers := make([]int64, len(picks))
	for i, p := range picks {
		numbers[i] = p.number
	}
	return numbers
}

// freeze stores the redrive and its items.
func (t *tx) freeze(spec queue.RedriveSpec, sel selection, c *choice) (rid int64, err error) {
	text, err := json.Marshal(spec)
	if err != nil {
		return 0, err
	}
	front := int64(len(c.canary))
	rid, err = t.number(sqlNewRedrive, spec.UID, spec.Name, spec.SpecDigest, string(text), c.selected, front, string(queue.RedrivePlanned))
	if err != nil {
		return 0, err
	}
	t.dirty = true
	args := append([]any{rid, front}, sel.with(spec.MaxRedrives, c.selected)...)
	if _, err := t.w.conn.ExecContext(context.Background(), freeze(sel), args...); err != nil {
		return 0, err
	}
	for i, number := range c.canary {
		if _, err := t.exec(sqlMoveItem, i+1, rid, front+number); err != nil {
			return 0, err
		}
	}
	return rid, nil
}

// summarize writes what people and approvals need to know of the plan.
func (t *tx) summarize(rid int64, spec queue.RedriveSpec, c *choice, now queue.Time) error {
	sum := queue.RedriveSummary{
		Matched: c.matched, Selected: c.selected, PlannedAt: now, Estimated: spec.Rate.Estimate(c.selected),
		Skipped: map[string]int64{}, ByReason: map[queue.Reason]int64{},
	}
	for why, n := range map[string]int64{"RedriveLimit": c.limited, "Limit": c.overLimit} {
		if n > 0 {
			sum.Skipped[why] = n
		}
	}
	var err error
	if sum.Hash, err = t.planHash(rid, spec, c.selected); err != nil {
		return err
	}
	for _, deadSeq := range c.first {
		id, _, err := t.sample(deadSeq)
		if err != nil {
			return err
		}
		sum.SampleIDs = append(sum.SampleIDs, id)
	}
	for _, g := range c.causes {
		sum.ByReason[g.Reason] += g.Count
	}
	if sum.ByFingerprint, err = t.largest(c); err != nil {
		return err
	}
	text, err := json.Marshal(sum)
	if err != nil {
		return err
	}
	_, err = t.exec(sqlSetSummary, string(text), rid)
	return err
}

// largest are the most frequent causes, each with a sample.
func (t *tx) largest(c *choice) (groups []queue.DeadGroup, err error) {
	for _, g := range c.causes {
		groups = append(groups, *g)
	}
	slices.SortFunc(groups, func(a, b queue.DeadGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.FirstDiedAt, b.FirstDiedAt),
			cmp.Compare(a.Fingerprint, b.Fingerprint), cmp.Compare(a.Reason, b.Reason))
	})
	groups = groups[:min(len(groups), maxSamples)]
	for i := range groups {
		g := &groups[i]
		g.SampleID, g.SampleError, err = t.sample(c.samples[cause{reasonCode(g.Reason), g.Fingerprint}])
		if err != nil {
			return nil, err
		}
	}
	return groups, nil
}

// sample is the id and the last error of the job that died as number deadSeq.
func (t *tx) sample(deadSeq int64) (id string, last *queue.Failure, err error) {
	st, err := t.w.stmt(sqlSample)
	if err != nil {
		return "", nil, err
	}
	return scanSample(st.QueryRow(deadSeq))
}

// planHash digests the items in order of release.
func (t *tx) planHash(rid int64, spec queue.RedriveSpec, count int64) (string, error) {
	rows, err := t.w.query(sqlItems, rid)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	items := queue.NewItemsDigest()
	var id, sha sql.RawBytes
	for rows.Next() {
		var deadSeq int64
		if err := rows.Scan(&deadSeq, &id, &sha); err != nil {
			return "", err
		}
		items.Add(deadSeq, string(id), [32]byte(sha))
	}
	if err := rows.Err(); err != nil {
		return "", err
	}
	return queue.PlanHash(t.s.storeID, spec, items.Sum(), count), nil
}
