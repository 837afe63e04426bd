// Command sqlite measures the SQLite store on this machine, with durable commits, and fails when a bound is
// missed. Each figure is the median of several rounds.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"time"

	"github.com/retryqueue/retryqueue/internal/queue"
	"github.com/retryqueue/retryqueue/internal/store/sqlite"
)

var (
	rounds  = flag.Int("rounds", 5, "rounds; the median counts")
	clients = flag.Int("clients", 4, "concurrent callers")
	backlog = flag.Int("backlog", 1_000_000, "jobs waiting, and jobs dead, in the large store")
	profile = flag.String("cpuprofile", "", "write a CPU profile of the throughput rounds to this file")
	dir     = flag.String("dir", "", "directory for the databases; default a new one, removed at the end")
)

// Bounds.
const (
	leastAccepted = 20_000 // jobs/s
	leastSettled  = 25_000 // jobs/s
	mostSlowdown  = 1.5    // of a claim, from a backlog of 1,000 to the large one
	mostRSS       = 150    // MiB
)

func main() {
	flag.Parse()
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	root := *dir
	if root == "" {
		var err error
		if root, err = os.MkdirTemp("", "retryqueue-bench-"); err != nil {
			return err
		}
		defer os.RemoveAll(root)
	}
	var r report
	fsyncs, err := fsyncRate(filepath.Join(root, "fsync"))
	if err != nil {
		return fmt.Errorf("measuring fsync: %w", err)
	}
	fmt.Printf("%s, %d CPUs, load average %s, %d fsync/s, %d callers, median of %d\n\n",
		runtime.Version(), runtime.NumCPU(), loadAverage(), fsyncs, *clients, *rounds)
	if err := throughput(ctx, root, &r); err != nil {
		return err
	}
	if err := flatness(ctx, root, &r); err != nil {
		return err
	}
	fmt.Print(r.table())
	return r.missed()
}

// throughput fills and empties a store.
func throughput(ctx context.Context, root string, r *report) error {
	const jobs = 40_000
	b, err := open(ctx, filepath.Join(root, "throughput.db"))
	if err != nil {
		return err
	}
	defer b.close()
	if *profile != "" {
		f, err := os.Create(*profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	var accepted, settled []float64
	for range *rounds {
		took, err := b.accept(ctx, jobs)
		if err != nil {
			return err
		}
		accepted = append(accepted, jobs/took.Seconds())
		if took, err = b.work(ctx, jobs, queue.Result{Outcome: queue.OutcomeSucceeded}); err != nil {
			return err
		}
		settled = append(settled, jobs/took.Seconds())
	}
	r.atLeast("accepted, batches of 100 (200-byte payloads)", "jobs/s", median(accepted), leastAccepted)
	r.atLeast("claimed and settled, batches of 100", "jobs/s", median(settled), leastSettled)
	return nil
}

// flatness compares the cost of a claim with a small and with a large backlog.
func flatness(ctx context.Context, root string, r *report) error {
	b, err := open(ctx, filepath.Join(root, "backlog.db"))
	if err != nil {
		return err
	}
	defer b.close()
	small, err := b.claimCost(ctx, 1_000)
	if err != nil {
		return err
	}
	if _, err := b.accept(ctx, *backlog); err != nil {
		return err
	}
	died := queue.Result{Outcome: queue.OutcomePermanent, Failure: &queue.Failure{Kind: "HTTPStatus", HTTPStatus: 422, Message: "invalid"}}
	if _, err := b.work(ctx, *backlog, died); err != nil {
		return err
	}
	large, err := b.claimCost(ctx, *backlog)
	if err != nil {
		return err
	}
	stats, err := b.store.Stats(ctx)
	if err != nil {
		return err
	}
	r.note("claim of 10 with 1,000 waiting", "ms", small)
	r.note(fmt.Sprintf("claim of 10 with %d waiting, %d dead", stats.Pending, stats.Dead), "ms", large)
	r.atMost("slowdown of a claim", "x", large/small, mostSlowdown)
	if err := b.redrive(ctx, r, stats.Dead); err != nil {
		return err
	}
	rss, err := rssMiB()
	if err != nil {
		return err
	}
	r.atMost(fmt.Sprintf("memory (RSS) with %d jobs stored", stats.Pending+stats.Leased+stats.Dead+stats.Succeeded), "MiB", rss, mostRSS)
	return nil
}

// bench is a store under load.
type bench struct {
	store *sqlite.Store
	next  int
}

var policy = queue.Policy{
	Backoff:     queue.Backoff{Base: 1000, Cap: 30_000, Jitter: queue.JitterFull},
	MaxAttempts: 8, Deadline: 24 * 3_600_000, AttemptTimeout: 10_000, RetryAfterMax: 300_000, DedupeWindow: 24 * 3_600_000, MaxRedrives: 3,
	Limits: queue.Limits{MaxPayload: 256 << 10, MaxPending: 10_000_000, MaxBytes: 1 << 40},
}

func open(ctx context.Context, path string) (*bench, error) {
	s, err := sqlite.Open(ctx, sqlite.Options{Path: path, Queue: "bench/bench", Log: slog.New(slog.DiscardHandler)})
	return &bench{store: s}, err
}

func (b *bench) close() { _ = b.store.Close() }

// accept stores n new jobs in batches of 100.
func (b *bench) accept(ctx context.Context, n int) (time.Duration, error) {
	first := b.next
	b.next += n
	return together(n/100, func(i int) error {
		batch := make([]queue.NewJob, 100)
		for k := range batch {
			batch[k] = newJob(first + i*100 + k)
		}
		_, err := b.store.Accept(ctx, policy, batch)
		return err
	})
}

// work claims and settles n jobs in batches of 100.
func (b *bench) work(ctx context.Context, n int, result queue.Result) (time.Duration, error) {
	return together(n/100, func(int) error {
		c, err := b.store.Claim(ctx, policy, queue.ClaimRequest{Max: 100})
		if err != nil {
			return err
		}
		ss := make([]queue.Settlement, len(c.Leases))
		for i, l := range c.Leases {
			ss[i] = queue.Settlement{ID: l.Job.ID, Token: l.Token, Result: result}
		}
		_, err = b.store.Settle(ctx, policy, ss)
		return err
	})
}

// redrive plans the replay of up to a million dead jobs, and groups them by cause.
func (b *bench) redrive(ctx context.Context, r *report, dead int64) error {
	begin := time.Now()
	_, err := b.store.PlanRedrive(ctx, queue.RedriveSpec{
		UID: "bench", Name: "bench", SpecDigest: "bench", QueueUID: "bench", Limit: queue.MaxRedriveLimit,
		Rate: queue.Rate{Jobs: 10, Per: 1000, Burst: 2}, Budget: queue.RedriveBudget{MaxAttempts: 3, Deadline: 3_600_000},
		Canary: queue.Canary{Jobs: 10, MaxFailurePercent: 10, Timeout: 120_000},
		Abort:  queue.Abort{MaxFailurePercent: 20, MinJobs: 20}, MaxOutstanding: 200, MaxRedrives: 3,
	})
	if err != nil {
		return err
	}
	r.note(fmt.Sprintf("plan of %d dead jobs", dead), "s", time.Since(begin).Seconds())
	begin = time.Now()
	if _, err := b.store.DeadGroups(ctx, queue.Selector{}, 20); err != nil {
		return err
	}
	r.note(fmt.Sprintf("groups of %d dead jobs", dead), "s", time.Since(begin).Seconds())
	return nil
}

// claimCost fills up to so many waiting jobs and returns the median cost of a claim of ten, in milliseconds.
func (b *bench) claimCost(ctx context.Context, waiting int) (float64, error) {
	const claims = 50
	if _, err := b.accept(ctx, waiting+claims*10**rounds); err != nil {
		return 0, err
	}
	var costs []float64
	for range claims * *rounds {
		begin := time.Now()
		c, err := b.store.Claim(ctx, policy, queue.ClaimRequest{Max: 10})
		if err != nil {
			return 0, err
		}
		if len(c.Leases) != 10 {
			return 0, fmt.Errorf("claimed %d of 10", len(c.Leases))
		}
		costs = append(costs, time.Since(begin).Seconds()*1000)
	}
	return median(costs), nil
}
