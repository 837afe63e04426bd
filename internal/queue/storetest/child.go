package storetest

import (
	"bufio"
	"context"
	"encoding/json"
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

// childWorker accepts what the target offers, delivers what is due, and exits when all is done.
func childWorker(h Harness) error {
	o, err := childOptions()
	if err != nil {
		return err
	}
	s, err := h.Open(o)
	if err != nil {
		return fmt.Errorf("opening the store: %w", err)
	}
	w := &miniWorker{s: s, p: crashPolicy(), target: os.Getenv(envTarget)}
	w.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		done, err := w.once(context.Background())
		if err != nil {
			return err
		}
		if done {
			return s.Close()
		}
	}
}

// miniWorker is the least that a worker does: accept, reap, claim, deliver in parallel, settle.
type miniWorker struct {
	s      queue.Store
	p      queue.Policy
	target string
	client *http.Client
}

// once does one round and says whether nothing is left to do.
func (w *miniWorker) once(ctx context.Context) (done bool, err error) {
	more, err := w.produce(ctx)
	if err != nil {
		return false, err
	}
	if _, err := w.s.Reap(ctx, w.p, 100); err != nil {
		return false, fmt.Errorf("reaping: %w", err)
	}
	c, err := w.s.Claim(ctx, w.p, queue.ClaimRequest{Max: 16})
	if err != nil {
		return false, fmt.Errorf("claiming: %w", err)
	}
	ended := make(chan queue.Settlement)
	for _, l := range c.Leases {
		go func() { ended <- settlement(l, w.deliver(l)) }()
	}
	for range c.Leases {
		if _, err := w.s.Settle(ctx, w.p, []queue.Settlement{<-ended}); err != nil {
			return false, fmt.Errorf("settling: %w", err)
		}
	}
	st, err := w.s.Stats(ctx)
	if err != nil {
		return false, fmt.Errorf("counting: %w", err)
	}
	if len(c.Leases) == 0 {
		time.Sleep(2 * time.Millisecond) // nothing is due: do not spin
	}
	return !more && st.Pending+st.Leased == 0, nil
}

// produce accepts the ids that the target offers and tells it which are stored.
func (w *miniWorker) produce(ctx context.Context) (more bool, err error) {
	resp, err := w.client.Get(w.target + "/offer")
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
	if _, err := w.s.Accept(ctx, w.p, newJobs(ids...)); err != nil {
		return false, fmt.Errorf("accepting: %w", err)
	}
	ack, err := w.client.Post(w.target+"/accepted", "text/plain", strings.NewReader(strings.Join(ids, "\n")))
	if err != nil {
		return false, fmt.Errorf("acknowledging: %w", err)
	}
	return true, ack.Body.Close()
}

// deliver makes one request.
func (w *miniWorker) deliver(l queue.Lease) queue.Result {
	resp, err := w.client.Post(w.target+"/deliver/"+l.Job.ID, "text/plain", strings.NewReader(string(l.Job.Payload)))
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
