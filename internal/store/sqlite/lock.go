package sqlite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockPoll is how often a waiting process looks whether the owner has gone.
const lockPoll = 100 * time.Millisecond

// fileLock is an exclusive lock on a file, held until close or the death of the process. It is an open file
// description lock: unlike POSIX record locks it is not dropped when some other code closes the same file.
type fileLock struct{ f *os.File }

// acquireLock waits until nobody else holds the lock on path, or ctx ends. It logs once that it waits.
func acquireLock(ctx context.Context, path string, log *slog.Logger) (*fileLock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock file: %w", err)
	}
	ticker := time.NewTicker(lockPoll)
	defer ticker.Stop()
	for logged := false; ; logged = true {
		l := unix.Flock_t{Type: unix.F_WRLCK, Whence: 0}
		err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &l)
		if err == nil {
			return &fileLock{f: f}, nil
		}
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EINTR) {
			return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), f.Close())
		}
		if !logged {
			log.Info("waiting for the process that owns the store", "event", "store_waiting", "lock", path)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("waiting for the process that holds %s: %w", path, ctx.Err()), f.Close())
		}
	}
}

func (l *fileLock) close() error {
	if l == nil {
		return nil
	}
	return l.f.Close()
}
