package storetest

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// Start is the instant at which every manual clock starts.
const Start = queue.Time(1_788_696_000_000) // 2026-09-06T12:00:00Z

// Harness is how the suite gets at a store.
type Harness struct {
	// Open opens the store of o, new when o.Dir was never opened before; while another process owns the data
	// it waits. The suite closes what it opened.
	Open func(o Options) (queue.Store, error)
	// Copy copies the data of a closed store to a directory that does not exist yet. Nil copies the directory.
	Copy func(t testing.TB, from, to string)
}

// Options is what one store is opened with. Opening the same Options again, after Close, is a restart.
type Options struct {
	Dir   string // the store's own directory; a store elsewhere derives a unique name from it
	Queue string // the name of its one queue
	Clock Clock
	Ratio func() float64 // the draw of jitter, in [0, 1]; called once for every delay, safe for concurrent use
}

// Clock is what a store takes its time from.
type Clock interface {
	// Read returns the wall clock, and a monotonic one that starts anywhere, of one moment.
	Read() (wall queue.Time, mono queue.Millis)
}

// ManualClock is a wall clock and a monotonic one that stand still until they are moved.
type ManualClock struct {
	mu   sync.Mutex
	wall queue.Time
	mono queue.Millis
}

// NewClock returns a clock that stands at Start.
func NewClock() *ManualClock { return &ManualClock{wall: Start, mono: 1_000_000} }

// Now is the wall clock.
func (c *ManualClock) Now() queue.Time { wall, _ := c.Read(); return wall }

// Read returns both clocks, of one moment.
func (c *ManualClock) Read() (wall queue.Time, mono queue.Millis) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wall, c.mono
}

// Advance lets d pass on both clocks. A negative d puts both back: a broken machine.
func (c *ManualClock) Advance(d queue.Millis) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall, c.mono = c.wall.Add(d), c.mono+d
}

// StepWall sets the wall clock forward or back by d while the monotonic one stands.
func (c *ManualClock) StepWall(d queue.Millis) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall = c.wall.Add(d)
}

func (h Harness) copyData(t testing.TB, from, to string) {
	t.Helper()
	if h.Copy != nil {
		h.Copy(t, from, to)
		return
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatalf("copying the store's data: %v", err)
	}
}

// rules are the checks of one topic, keyed by the rule in words. Each gets a store of its own.
type rules map[string]func(t *testing.T, e *env)

// Run checks every rule against the store of h.
func Run(t *testing.T, h Harness) {
	topics := map[string]rules{
		"accept":      acceptRules,
		"limits":      limitRules,
		"claim":       claimRules,
		"settle":      settleRules,
		"delay":       delayRules,
		"reap":        reapRules,
		"dead":        deadRules,
		"purge":       purgeRules,
		"sweep":       sweepRules,
		"stats":       statsRules,
		"clock":       clockRules,
		"restart":     restartRules,
		"plan":        planRules,
		"run":         runRules,
		"pace":        paceRules,
		"canary":      canaryRules,
		"outcome":     outcomeRules,
		"concurrency": concurrencyRules,
	}
	for topic, rs := range topics {
		t.Run(topic, func(t *testing.T) {
			for sentence, check := range rs {
				t.Run(sentence, func(t *testing.T) {
					t.Parallel()
					check(t, newEnv(t, h))
				})
			}
		})
	}
	t.Run("model", func(t *testing.T) { runModel(t, h) })
}

func (h Harness) open(t testing.TB, o Options) queue.Store {
	t.Helper()
	s, err := h.Open(o)
	if err != nil {
		t.Fatalf("opening the store: %v", err)
	}
	return s
}

// dir returns a new directory name for a store's data below t.TempDir.
func dir(t testing.TB) string { return filepath.Join(t.TempDir(), "store") }
