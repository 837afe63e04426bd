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
	checkpointEvery = 16 << 20 // written since the last PASSIVE checkpoint, at most
	truncateAbove   = 64 << 20 // size of the file
	maxWAL          = 256 << 20

	acceptPercent = 90
	claimPercent  = 97

	pageSize = 4096
)

// space watches how much of the volume is used, and keeps a reserve on it. When the disk is full all the same, the
// reserve is given back: what runs ends with it, and then what waits is still claimed, in small steps, since nothing
// else makes room. Accepting waits until there is a reserve again.
type space struct {
	path     string
	limit    int64
	walLimit int64
	reserve  int64
	kept     int64 // of the reserve, on disk
	disk     func() int64
	freed    bool  // the reserve is gone: the disk was full
	written  int64 // bytes into the log since the last checkpoint
	refused  bool  // something was refused since; a checkpoint might mend that
	tried    queue.Time
}

// retryEvery is how often a shortage is looked into again.
const retryEvery = queue.Millis(1000)

func newSpace(o Options, w *writer) *space {
	sp := &space{path: o.Path, limit: o.SizeLimit, walLimit: o.hooks.walLimit, reserve: o.Reserve, disk: o.hooks.available}
	if sp.disk == nil {
		sp.disk = sp.available
	}
	if err := sp.refill(w); err != nil {
		sp.freed = true
		o.Log.Warn("no room for the reserve", "event", "reserve_missing", "bytes", o.Reserve, "error", err)
	}
	return sp
}

// available is what the disk has free. When it does not say, nothing.
func (sp *space) available() int64 {
	var st unix.Statfs_t
	if err := unix.Statfs(sp.path, &st); err != nil {
		return 0
	}
	return int64(st.Bavail) * st.Bsize
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
	if sp.freed && (k == kindAccept || sp.disk() < sp.reserve/2) {
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
	pages, err := t.w.number("pragma page_count")
	if err != nil {
		return 0, err
	}
	free, err := t.w.number("pragma freelist_count")
	if err != nil {
		return 0, err
	}
	return (pages-free)*pageSize + wal + sp.reserve, nil
}

func (w *writer) number(query string) (n int64, err error) {
	st, err := w.stmt(query)
	if err != nil {
		return 0, err
	}
	if err := st.QueryRow().Scan(&n); err != nil {
		return 0, fmt.Errorf("measuring the file: %w", err)
	}
	return n, nil
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
	sp.kept = 0
	err := os.Remove(reserveFile(sp.path))
	if first {
		s.log.Error("the disk is full: freed the reserve, so that running work can be settled", "event", "storage_full", "error", err)
	}
	return err == nil
}

// refill takes the reserve again, if there is room for it twice over. If there is not, but the file itself has that
// much free within, as after much was accepted and delivered, a smaller one does: half of what there is.
func (sp *space) refill(w *writer) error {
	info, err := os.Stat(reserveFile(sp.path))
	if err == nil {
		sp.kept = info.Size()
	}
	if sp.kept >= sp.reserve {
		sp.freed = false
		return nil
	}
	room := sp.disk() + sp.kept
	size := sp.reserve
	if room < 2*sp.reserve {
		within, err := w.number("pragma freelist_count")
		if err != nil {
			return err
		}
		size = max(room/2, sp.kept)
		if within*pageSize < sp.reserve || size < sp.reserve/4 {
			return queue.ErrStorageFull
		}
	}
	if size > sp.kept {
		if err := sp.take(size); err != nil {
			return err
		}
	}
	sp.freed = false
	return nil
}

// take makes the reserve's file size bytes long.
func (sp *space) take(size int64) error {
	f, err := os.OpenFile(reserveFile(sp.path), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := unix.Fallocate(int(f.Fd()), 0, 0, size); err != nil {
		sp.kept = 0
		return errors.Join(fmt.Errorf("reserving space: %w", err), f.Close(), os.Remove(f.Name()))
	}
	sp.kept = size
	return f.Close()
}

func reserveFile(path string) string { return path + ".reserve" }

// step is how much may be written into the log between two checkpoints: less than the reserve, since the file can
// need as much again when the log is copied into it; and little while there is no whole reserve.
func (sp *space) step() int64 {
	switch {
	case sp.reserve == 0:
		return checkpointEvery
	case sp.kept < sp.reserve:
		return min(checkpointEvery, sp.reserve/8)
	}
	return min(checkpointEvery, sp.reserve*3/4)
}

// checkpoint copies the log into the file after every checkpointEvery bytes, and cuts the log when it has grown.
// When work was refused it looks, now and then, whether that can be mended.
func (s *Store) checkpoint() {
	sp := s.space
	sp.written += s.write.pagesWritten() * pageSize
	now, _ := s.clock.read()
	if sp.written < sp.step() && !(sp.refused && now.Sub(sp.tried) >= retryEvery) {
		return
	}
	mode := "pragma wal_checkpoint(passive)"
	if sp.refused || sp.freed || sp.wal() > truncateAbove {
		mode = "pragma wal_checkpoint(truncate)"
	}
	again := now.Sub(sp.tried) < retryEvery
	sp.written, sp.refused, sp.tried = 0, false, now
	if err := s.write.checkpoint(mode); err != nil {
		s.log.Warn("checkpoint failed", "event", "checkpoint_failed", "error", err)
	}
	if sp.kept >= sp.reserve {
		return
	}
	if err := sp.refill(s.write); err != nil && sp.freed && !again {
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
