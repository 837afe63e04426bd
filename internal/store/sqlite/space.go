package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
	"modernc.org/sqlite"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// Bounds of the write-ahead log, and shares of the volume at which work stops. The order matters: what takes new
// work in stops first, and what ends work goes on.
const (
	checkpointEvery = 16 << 20 // written since the last PASSIVE checkpoint
	truncateAbove   = 64 << 20 // size of the file
	maxWAL          = 256 << 20

	acceptPercent = 90
	claimPercent  = 97

	pageSize = 4096
)

// space watches how much of the volume is used, and keeps a reserve on it.
type space struct {
	path     string
	limit    int64
	walLimit int64
	reserve  int64
	freed    bool  // the reserve is gone: the disk was full
	written  int64 // bytes into the log since the last checkpoint
	refused  bool  // something was refused since; a checkpoint might mend that
	tried    queue.Time
}

// retryEvery is how often a shortage is looked into again.
const retryEvery = queue.Millis(1000)

func newSpace(o Options) *space {
	sp := &space{path: o.Path, limit: o.SizeLimit, walLimit: o.hooks.walLimit, reserve: o.Reserve}
	if err := sp.refill(); err != nil {
		sp.freed = true
		o.Log.Warn("no room for the reserve", "event", "reserve_missing", "bytes", o.Reserve, "error", err)
	}
	return sp
}

// admit refuses work of k for which there is no room.
func (sp *space) admit(t *tx, k kind) error {
	if k == kindOther {
		return nil
	}
	err := sp.check(t, k)
	sp.refused = sp.refused || err != nil
	return err
}

func (sp *space) check(t *tx, k kind) error {
	wal := sp.wal()
	if k == kindAccept && wal > sp.walLimit {
		return fmt.Errorf("%w: the write-ahead log has %d MiB, because a long read or a slow disk keeps it from being emptied", queue.ErrStorageFull, wal>>20)
	}
	if sp.freed {
		return fmt.Errorf("%w: the disk was full; purge dead jobs or enlarge the volume", queue.ErrStorageFull)
	}
	if sp.limit <= 0 {
		return nil
	}
	used, err := sp.used(t, wal)
	if err != nil {
		return err
	}
	percent := int64(acceptPercent)
	if k == kindClaim {
		percent = claimPercent
	}
	if used*100 > sp.limit*percent {
		return fmt.Errorf("%w: %d of %d bytes are used; purge dead jobs or enlarge the volume", queue.ErrStorageFull, used, sp.limit)
	}
	return nil
}

// used is what the store takes of the volume; pages on the free list are there to be used again.
func (sp *space) used(t *tx, wal int64) (int64, error) {
	var pages, free int64
	for query, into := range map[string]*int64{"pragma page_count": &pages, "pragma freelist_count": &free} {
		st, err := t.w.stmt(query)
		if err != nil {
			return 0, err
		}
		if err := st.QueryRow().Scan(into); err != nil {
			return 0, fmt.Errorf("measuring the file: %w", err)
		}
	}
	return (pages-free)*pageSize + wal + sp.reserve, nil
}

// wal is the size of the write-ahead log's file.
func (sp *space) wal() int64 {
	info, err := os.Stat(sp.path + "-wal")
	if err != nil {
		return 0
	}
	return info.Size()
}

// free gives the reserve back to the disk, and says whether there was one.
func (sp *space) free(s *Store) bool {
	first := !sp.freed
	sp.freed = true
	sp.tried, _ = s.clock.read()
	err := os.Remove(sp.reserveFile())
	if first {
		s.log.Error("the disk is full: freed the reserve, so that running work can be settled", "event", "storage_full", "error", err)
	}
	return err == nil
}

// refill takes the reserve again, if there is room for it twice over.
func (sp *space) refill() error {
	if sp.reserve == 0 {
		sp.freed = false
		return nil
	}
	if info, err := os.Stat(sp.reserveFile()); err == nil && info.Size() == sp.reserve {
		return nil
	}
	var st unix.Statfs_t
	if err := unix.Statfs(sp.path, &st); err != nil {
		return fmt.Errorf("asking for free space: %w", err)
	}
	if int64(st.Bavail)*st.Bsize < 2*sp.reserve {
		return queue.ErrStorageFull
	}
	f, err := os.OpenFile(sp.reserveFile(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := unix.Fallocate(int(f.Fd()), 0, 0, sp.reserve); err != nil {
		return errors.Join(fmt.Errorf("reserving space: %w", err), f.Close(), os.Remove(f.Name()))
	}
	sp.freed = false
	return f.Close()
}

func (sp *space) reserveFile() string { return sp.path + ".reserve" }

// checkpoint copies the log into the file after every checkpointEvery bytes, and cuts the log when it has grown.
// When work was refused it looks, now and then, whether that can be mended.
func (s *Store) checkpoint() {
	sp := s.space
	sp.written += s.write.pagesWritten() * pageSize
	now, _ := s.clock.read()
	if sp.written < checkpointEvery && !(sp.refused && now.Sub(sp.tried) >= retryEvery) {
		return
	}
	mode := "pragma wal_checkpoint(passive)"
	if sp.refused || sp.wal() > truncateAbove {
		mode = "pragma wal_checkpoint(truncate)"
	}
	sp.written, sp.refused, sp.tried = 0, false, now
	if err := s.write.checkpoint(mode); err != nil {
		s.log.Warn("checkpoint failed", "event", "checkpoint_failed", "error", err)
	}
	if !sp.freed {
		return
	}
	if err := sp.refill(); err != nil {
		s.log.Warn("no room for the reserve", "event", "reserve_missing", "error", err)
	}
}

// checkpoint runs one, and does not wait long for readers that stand in its way. SQLite sets the busy timeout
// when it compiles the pragma, so none of these may be a cached statement.
func (w *writer) checkpoint(mode string) error {
	ctx := context.Background()
	if _, err := w.conn.ExecContext(ctx, "pragma busy_timeout = 50"); err != nil {
		return err
	}
	_, err := w.conn.ExecContext(ctx, mode)
	_, reset := w.conn.ExecContext(ctx, "pragma busy_timeout = 5000")
	return errors.Join(err, reset)
}

// pagesWritten is how many pages went into the log since the last call.
func (w *writer) pagesWritten() (n int64) {
	_ = w.conn.Raw(func(c any) error {
		current, _, err := c.(sqlite.DBStatus).Status(sqlite.DBStatusCacheWrite, true)
		n = int64(current)
		return err
	})
	return n
}
