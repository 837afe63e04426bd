package sqlite

import (
	"context"
	"fmt"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// purgeBatch is how many jobs one transaction of a purge deletes: a purge of a million must not stop the queue.
const purgeBatch = 1000

// Purge implements [queue.Store]. It deletes what was dead when it began, in batches that are each atomic: when
// it fails midway, what is left is still dead, and the number says what is gone.
func (s *Store) Purge(ctx context.Context, p queue.Policy, selector queue.Selector) (int, error) {
	if selector.Empty() {
		return 0, &queue.InvalidError{Field: "selector", Detail: "must name at least one of reasons, httpStatuses, fingerprints, ids, diedAfter or diedBefore"}
	}
	sel, err := compile(selector)
	if err != nil {
		return 0, err
	}
	purged, after, end := 0, int64(0), int64(0)
	for {
		n, last := 0, int64(0)
		err := s.do(ctx, kindOther, purgeBatch, func(t *tx) (err error) { // may run twice: it must not move after itself
			if end == 0 {
				end = t.nextDead
			}
			n, last, err = t.purge(p, sel, after, end)
			return err
		})
		if err != nil {
			return purged, fmt.Errorf("purging dead jobs: %w", err)
		}
		purged, after = purged+n, last
		if n < purgeBatch {
			return purged, nil
		}
	}
}

func purgePage(sel selection) string {
	return `select j.seq, j.dead_seq, j.bytes from jobs j ` + sel.index() + `
		where ` + sel.where + ` and j.dead_seq > ? and j.dead_seq < ? order by j.dead_seq limit ?`
}

// purge deletes the next batch of what sel selects, and says where it ended.
func (t *tx) purge(p queue.Policy, sel selection, after, end int64) (n int, last int64, err error) {
	now, _ := t.s.clock.read()
	rows, err := t.w.conn.QueryContext(context.Background(), purgePage(sel), sel.with(after, end, purgeBatch)...)
	if err != nil {
		return 0, after, err
	}
	defer rows.Close()
	var seqs []int64
	var size int64
	for rows.Next() {
		var seq, bytes int64
		if err := rows.Scan(&seq, &after, &bytes); err != nil {
			return 0, after, err
		}
		seqs = append(seqs, seq)
		size += bytes
	}
	if err := rows.Err(); err != nil {
		return 0, after, err
	}
	rows.Close()
	return len(seqs), after, t.drop(p, seqs, size, now)
}
