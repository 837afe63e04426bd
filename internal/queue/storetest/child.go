package storetest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// Environment of a child process.
const (
	envRole   = "STORETEST_CHILD"
	envDir    = "STORETEST_DIR"
	envTarget = "STORETEST_TARGET"
	envEpoch  = "STORETEST_EPOCH"
)

// Main is the TestMain of a store's package: in a child process of [Crash] or [OneOwner] it does the child's
// work, otherwise it runs the tests and returns their exit code.
//
//	func TestMain(m *testing.M) { os.Exit(storetest.Main(m, harness)) }
func Main(m *testing.M, h Harness) int {
	run := map[string]func(Harness) error{"worker": childWorker, "owner": childOwner}[os.Getenv(envRole)]
	if run == nil {
		return m.Run()
	}
	if err := run(h); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		return 1
	}
	return 0
}

// child is the command of a child process of role on the data of dir.
func child(t testing.TB, role, dir string, env ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatalf("finding the test binary: %v", err)
	}
	cmd := exec.Command(self, "-test.run=^$")
	cmd.Env = append(os.Environ(), append(env, envRole+"="+role, envDir+"="+dir)...)
	cmd.Stderr = os.Stderr
	return cmd
}

// fastClock runs speed times as fast as the machine's, from one epoch in all processes, so that leases of
// dead workers run out soon.
type fastClock struct{ epoch, begun time.Time }

const speed = 20

func newFastClock() (fastClock, error) {
	var ms int64
	if _, err := fmt.Sscan(os.Getenv(envEpoch), &ms); err != nil {
		return fastClock{}, fmt.Errorf("reading %s: %w", envEpoch, err)
	}
	return fastClock{epoch: time.UnixMilli(ms), begun: time.Now()}, nil
}

func (c fastClock) Read() (queue.Time, queue.Millis) {
	now := time.Now()
	return queue.TimeOf(c.epoch).Add(speed * queue.MillisOf(now.Round(0).Sub(c.epoch))), speed * queue.MillisOf(now.Sub(c.begun))
}

// childOptions are those of the real processes.
func childOptions() (Options, error) {
	clock, err := newFastClock()
	return Options{Dir: os.Getenv(envDir), Queue: "shop/orders", Clock: clock, Ratio: rand.Float64}, err
}

// crashPolicy is what the children work by.
func crashPolicy() queue.Policy {
	p := testPolicy()
	p.Backoff = queue.Backoff{Base: 50, Cap: 400, Jitter: queue.JitterFull}
	p.MaxAttempts, p.Deadline, p.AttemptTimeout = 4, 24*3_600_000, 5_000
	return p
}

// childWorker runs the real worker, accepts what the target offers, and exits when all is done.
func childWorker(h Harness) error {
	o, err := childOptions()
	if err != nil {
		return err
	}
	s, err := h.Open(o)
	if err != nil {
		return fmt.Errorf("opening the store: %w", err)
	}
	c := &crashClient{s: s, p: crashPolicy(), target: os.Getenv(envTarget)}
	c.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	c.w, err = queue.NewWorker(queue.WorkerOptions{
		Store: s, Deliverer: c, Settings: queue.Settings{Policy: c.p, Concurrency: 16},
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.w.Run(ctx) }()
	err = c.feed(ctx)
	stop()
	return errors.Join(err, <-ended, s.Close())
}

// crashClient is the producer and the deliverer of a worker that is going to be killed.
type crashClient struct {
	s      queue.Store
	w      *queue.Worker
	p      queue.Policy
	target string
	client *http.Client
}

// feed keeps a small backlog until the target has nothing more to offer and everything is done.
func (c *crashClient) feed(ctx context.Context) error {
	for more := true; ; {
		st, err := c.s.Stats(ctx)
		if err != nil {
			return fmt.Errorf("counting: %w", err)
		}
		switch {
		case more && st.Pending < 50:
			if more, err = c.produce(ctx); err != nil {
				return err
			}
		case !more && st.Pending+st.Leased == 0:
			return nil
		default:
			time.Sleep(5 * time.Millisecond) // real work is being done meanwhile
		}
	}
}

// produce accepts the ids that the target offers and tells it which are stored.
func (c *crashClient) produce(ctx context.Context) (more bool, err error) {
	resp, err := c.client.Get(c.target + "/offer")
	if err != nil {
		return false, fmt.Errorf("asking for jobs: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	var ids []string
	if err := json.NewDecoder(resp.Body).Decode(&ids); err != nil {
		return false, fmt.Errorf("reading the offered jobs: %w", err)
	}
	if len(ids) == 0 {
		return false, nil
	}
	if _, err := c.s.Accept(ctx, c.p, newJobs(ids...)); err != nil {
		return false, fmt.Errorf("accepting: %w", err)
	}
	ack, err := c.client.Post(c.target+"/accepted", "text/plain", strings.NewReader(strings.Join(ids, "\n")))
	if err != nil {
		return false, fmt.Errorf("acknowledging: %w", err)
	}
	c.w.Wake()
	return true, ack.Body.Close()
}

// Deliver makes one request.
func (c *crashClient) Deliver(ctx context.Context, l queue.Lease) queue.Result {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.target+"/deliver/"+l.Job.ID, bytes.NewReader(l.Job.Payload))
	if err != nil {
		return permanent(0, err.Error())
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return queue.Result{Outcome: queue.OutcomeRetryable, Failure: &queue.Failure{Kind: "Connection", Message: err.Error()}}
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	switch {
	case resp.StatusCode < 300:
		return succeeded()
	case resp.StatusCode < 500:
		return permanent(resp.StatusCode, "refused")
	}
	return retryable(resp.StatusCode, "busy")
}

// childOwner opens the store, says so, and accepts every id that it reads on its standard input.
func childOwner(h Harness) error {
	o, err := childOptions()
	if err != nil {
		return err
	}
	fmt.Println("opening")
	s, err := h.Open(o)
	if err != nil {
		return fmt.Errorf("opening the store: %w", err)
	}
	fmt.Println("open")
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		got, err := s.Accept(context.Background(), crashPolicy(), newJobs(in.Text()))
		if err != nil {
			return fmt.Errorf("accepting: %w", err)
		}
		fmt.Println("accepted", in.Text(), got[0].Known)
	}
	return s.Close()
}
