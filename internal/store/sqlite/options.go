package sqlite

import (
	"cmp"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
)

// Options say which file to open, and whose it is.
type Options struct {
	// Path of the database file; its directory must exist. SQLite keeps PATH-wal and PATH-shm beside it, the
	// store PATH.lock and PATH.reserve.
	Path string
	// Queue is the file's one queue: namespace/name, or name. A file that belongs to another is refused.
	Queue string
	// Clock defaults to the machine's.
	Clock Clock
	// Ratio draws jitter: uniform in [0, 1], safe for concurrent use. It defaults to math/rand.
	Ratio func() float64
	// Log defaults to slog.Default.
	Log *slog.Logger
	// SizeLimit is the size of the volume in bytes. Accepting stops when 90 % of it is used, claiming at 97 %.
	// Zero means that only the disk's own end counts.
	SizeLimit int64
	// Reserve is kept back on disk, and freed when the disk is full so that what runs can be settled. Default
	// 16 MiB; negative for none.
	Reserve int64

	hooks hooks
}

// hooks let tests reach what a working machine does not do.
type hooks struct {
	unlocked     bool         // do not lock: as on a file system where locks do not hold
	beforeCommit func() error // its error is that of COMMIT
	walLimit     int64        // instead of maxWAL
	maxPages     int64        // end of the disk, in pages
	available    func() int64 // free bytes of the disk
}

const defaultReserve = 16 << 20

func (o Options) complete() (Options, error) {
	if o.Path == "" {
		return o, fmt.Errorf("path must name the database file")
	}
	if o.Queue == "" {
		return o, fmt.Errorf("queue must name the queue that the file belongs to")
	}
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return o, fmt.Errorf("resolving the database file's path: %w", err)
	}
	o.Path = path
	if o.Clock == nil {
		o.Clock = SystemClock()
	}
	if o.Ratio == nil {
		o.Ratio = rand.Float64
	}
	o.Log = cmp.Or(o.Log, slog.Default())
	o.Reserve = max(cmp.Or(o.Reserve, defaultReserve), 0)
	o.hooks.walLimit = cmp.Or(o.hooks.walLimit, maxWAL)
	return o, nil
}
