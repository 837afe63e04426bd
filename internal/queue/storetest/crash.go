package storetest

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// CrashOptions size a crash test.
type CrashOptions struct {
	Jobs  int // that flow; at least 40 for every kill
	Kills int // of the worker, at random points
}

// crashLimit is many times what a crash test takes.
const crashLimit = 3 * time.Minute

// Crash kills a worker process with SIGKILL at random points while jobs flow to a target that fails now and
// then. The target keeps a log of its own, against which the store is checked at the end: nothing accepted is
// lost, no job starts more often than its budget, and every job ends Succeeded or Dead with its cause.
//
// The package under test must hand its TestMain to [Main].
func Crash(t *testing.T, h Harness, o CrashOptions) {
	data := dir(t)
	epoch := fmt.Sprint(envEpoch, "=", time.Now().UnixMilli())
	target := newCrashTarget(o.Jobs)
	server := httptest.NewServer(target)
	defer server.Close()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	kills := 0
	for begun := time.Now(); ; {
		if time.Since(begun) > crashLimit {
			t.Fatalf("not done after %s and %d kills", crashLimit, kills)
		}
		cmd := child(t, "worker", data, envTarget+"="+server.URL, epoch)
		if err := cmd.Start(); err != nil {
			t.Fatalf("starting the worker: %v", err)
		}
		if kills < o.Kills {
			wait := time.Duration(rng.IntN(4000)) * time.Microsecond
			target.after(3+rng.IntN(50), func() { time.AfterFunc(wait, func() { _ = cmd.Process.Kill() }) })
		}
		limit := time.AfterFunc(crashLimit, func() { _ = cmd.Process.Kill() })
		killed := wasKilled(t, cmd)
		limit.Stop()
		if !killed {
			break
		}
		kills++
	}
	if kills != o.Kills {
		t.Errorf("killed %d times, want %d: the jobs were done too soon", kills, o.Kills)
	}
	target.check(t, h, data, epoch)
}

// wasKilled waits for cmd and says whether it was killed; any other failure ends the test.
func wasKilled(t *testing.T, cmd *exec.Cmd) bool {
	t.Helper()
	err := cmd.Wait()
	if err == nil {
		return false
	}
	if cmd.ProcessState.ExitCode() != -1 {
		t.Fatalf("running the worker: %v", err)
	}
	return true
}

// crashTarget is producer, target and witness. Its log is independent of the store.
type crashTarget struct {
	mu       sync.Mutex
	all      []string
	accepted map[string]bool
	starts   map[string]int
	answers  map[string][]int
	left     int // requests until fire runs
	fire     func()
}

func newCrashTarget(n int) *crashTarget {
	return &crashTarget{all: names("job", n), accepted: map[string]bool{}, starts: map[string]int{}, answers: map[string][]int{}}
}

// after runs f, once, at the nth request from now.
func (c *crashTarget) after(n int, f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left, c.fire = n, f
}

func (c *crashTarget) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/offer":
		_ = json.NewEncoder(w).Encode(c.offer())
	case r.URL.Path == "/accepted":
		body, _ := io.ReadAll(r.Body)
		c.mu.Lock()
		for _, id := range strings.Fields(string(body)) {
			c.accepted[id] = true
		}
		c.mu.Unlock()
	default:
		w.WriteHeader(c.deliver(strings.TrimPrefix(r.URL.Path, "/deliver/")))
	}
}

// offer names some jobs that nobody has acknowledged yet.
func (c *crashTarget) offer() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	ids := []string{}
	for _, id := range c.all {
		if !c.accepted[id] && len(ids) < 25 {
			ids = append(ids, id)
		}
	}
	return ids
}

// deliver logs a start and answers: of ten jobs one is invalid, one is never done, three fail at first.
func (c *crashTarget) deliver(id string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.starts[id]++
	status := http.StatusOK
	switch kind := int(id[len(id)-1] - '0'); {
	case c.starts[id] > crashPolicy().MaxAttempts: // too often already: let it end, the check will tell
	case kind == 0:
		status = http.StatusUnprocessableEntity
	case kind == 1, kind <= 4 && c.starts[id] < kind:
		status = http.StatusServiceUnavailable
	}
	c.answers[id] = append(c.answers[id], status)
	if c.left--; c.left == 0 && c.fire != nil {
		c.fire()
	}
	return status
}

func (c *crashTarget) check(t *testing.T, h Harness, data, epoch string) {
	t.Helper()
	c.mu.Lock() // no request is left, but the race detector does not know
	defer c.mu.Unlock()
	t.Setenv(envEpoch, strings.TrimPrefix(epoch, envEpoch+"="))
	clock, err := newFastClock()
	if err != nil {
		t.Fatal(err)
	}
	s := h.open(t, Options{Dir: data, Queue: "shop/orders", Clock: clock, Ratio: rand.Float64})
	defer func() { _ = s.Close() }()
	if len(c.accepted) != len(c.all) {
		t.Errorf("%d of %d jobs were accepted", len(c.accepted), len(c.all))
	}
	max, done, lost := crashPolicy().MaxAttempts, 0, 0
	for id := range c.accepted {
		j, err := s.Job(t.Context(), id)
		if err != nil {
			t.Errorf("%s was accepted and is lost: %v", id, err)
			continue
		}
		if n := c.starts[id]; n > max {
			t.Errorf("%s was started %d times, its budget is %d", id, n, max)
		}
		switch j.State {
		case queue.Succeeded:
			done++
			if n := len(c.answers[id]); n == 0 || c.answers[id][n-1] != http.StatusOK {
				t.Errorf("%s succeeded, the target answered %v", id, c.answers[id])
			}
		case queue.Dead:
			lost += countLost(j)
			c.checkDeath(t, j)
		default:
			t.Errorf("%s is %s at the end", id, j.State)
		}
	}
	t.Logf("%d succeeded, %d dead, %d lost attempts among the dead", done, len(c.accepted)-done, lost)
	if done < len(c.all)/2 {
		t.Errorf("only %d of %d jobs succeeded", done, len(c.all))
	}
}

func countLost(j queue.Job) int {
	n := 0
	for _, a := range j.History {
		if a.Error != nil && a.Error.Kind == queue.KindWorkerLost {
			n++
		}
	}
	return n
}

func (c *crashTarget) checkDeath(t *testing.T, j queue.Job) {
	t.Helper()
	switch {
	case j.LastError == nil || j.Reason == "" || j.DiedAt == 0:
		t.Errorf("%s is dead without a cause: %+v", j.ID, j)
	case j.Attempts < c.starts[j.ID] || j.Attempts > j.MaxAttempts:
		t.Errorf("%s counts %d attempts, the target saw %d, the budget is %d", j.ID, j.Attempts, c.starts[j.ID], j.MaxAttempts)
	case len(j.History) != j.Attempts:
		t.Errorf("%s has %d attempts and %d entries of history", j.ID, j.Attempts, len(j.History))
	case j.Reason == queue.ReasonPermanent && j.LastError.HTTPStatus != http.StatusUnprocessableEntity:
		t.Errorf("%s died Permanent of %+v", j.ID, j.LastError)
	case j.Reason == queue.ReasonExhausted && j.Attempts != j.MaxAttempts:
		t.Errorf("%s died Exhausted after %d of %d attempts", j.ID, j.Attempts, j.MaxAttempts)
	case j.Reason == queue.ReasonDeadlineExceeded:
		t.Errorf("%s died of a deadline of a day", j.ID)
	}
}
