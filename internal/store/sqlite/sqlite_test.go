package sqlite

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/retryqueue/retryqueue/internal/queue"
	"github.com/retryqueue/retryqueue/internal/queue/storetest"
)

var harness = storetest.Harness{Open: func(o storetest.Options) (queue.Store, error) {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	return Open(context.Background(), Options{
		Path: filepath.Join(o.Dir, "queue.db"), Queue: o.Queue, Clock: o.Clock, Ratio: o.Ratio,
		Log: slog.New(slog.DiscardHandler), Reserve: -1,
	})
}}

func TestMain(m *testing.M) { os.Exit(storetest.Main(m, harness)) }

func TestConformance(t *testing.T) { storetest.Run(t, harness) }

func TestOneOwner(t *testing.T) { storetest.OneOwner(t, harness) }

func TestCrash(t *testing.T) {
	storetest.Crash(t, harness, storetest.CrashOptions{Jobs: 2000, Kills: 50})
}
