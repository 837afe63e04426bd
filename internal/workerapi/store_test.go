package workerapi

import (
	"path/filepath"
	"testing"

	"github.com/retryqueue/retryqueue/internal/queue"
	"github.com/retryqueue/retryqueue/internal/store/sqlite"
)

// openStore opens a store of the test's own.
func openStore(t *testing.T) queue.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Options{
		Path: filepath.Join(t.TempDir(), "queue.db"), Queue: "shop/orders", Log: quiet(), Reserve: -1,
	})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}
