package sqlite

import (
	"context"
	"fmt"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// One statement is one snapshot: the counts, and the first entry of an index each.
const sqlStats = `select pending, leased, succeeded, dead, bytes,
	coalesce((select available_at from jobs where state = 0 order by available_at limit 1), 0),
	coalesce((select died_at from jobs where state = 3 order by dead_seq limit 1), 0),
	(select count(*) from (select 1 from jobs where state = 0 and available_at <= ? limit ?))
	from meta where one = 1`

// Stats implements [queue.Store].
func (s *Store) Stats(ctx context.Context) (queue.Stats, error) {
	now, _ := s.clock.read()
	stats := queue.Stats{Now: now}
	st, err := s.stmts.get(ctx, sqlStats)
	if err != nil {
		return stats, err
	}
	err = st.QueryRowContext(ctx, int64(now), queue.DueCountMax).Scan(&stats.Pending, &stats.Leased, &stats.Succeeded,
		&stats.Dead, &stats.Bytes, &stats.OldestPendingAt, &stats.OldestDeadAt, &stats.Due)
	if err != nil {
		return stats, fmt.Errorf("counting jobs: %w", err)
	}
	stats.NextDueAt = stats.OldestPendingAt
	return stats, nil
}
