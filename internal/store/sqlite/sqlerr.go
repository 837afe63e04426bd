package sqlite

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// isFull says that the disk or the file is full.
func isFull(err error) bool {
	if errors.Is(err, syscall.ENOSPC) {
		return true
	}
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return false
	}
	// Some writes report a full disk as an input/output error.
	switch e.Code() {
	case sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE:
		return true
	}
	return e.Code()&0xff == sqlite3.SQLITE_FULL
}

// isNoTransaction says that there was nothing to roll back.
func isNoTransaction(err error) bool {
	return strings.Contains(err.Error(), "no transaction is active")
}

// classify gives errors of the database the names that callers know.
func classify(err error) error {
	if err != nil && isFull(err) && !errors.Is(err, queue.ErrStorageFull) {
		return fmt.Errorf("%w: %w", queue.ErrStorageFull, err)
	}
	return err
}
