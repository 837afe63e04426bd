package worker

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// binary is the program, built once.
var binary struct {
	once sync.Once
	dir  string
	err  error
}

func program(t *testing.T) string {
	t.Helper()
	binary.once.Do(func() {
		if binary.dir, binary.err = os.MkdirTemp("", "retryqueue-test"); binary.err != nil {
			return
		}
		out, err := exec.Command("go", "build", "-o", filepath.Join(binary.dir, "retryqueue"), "../../cmd/retryqueue").CombinedOutput()
		if err != nil {
			binary.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	must(t, binary.err)
	return filepath.Join(binary.dir, "retryqueue")
}

// process is a worker of its own.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	at   Addresses
	logs *buffer
	done chan struct{} // closed when the log has ended
}

var boundLine = regexp.MustCompile(`msg=listener\.bound .*listener=(\w+) address=(\S+)`)

// spawn starts `retryqueue worker` and waits until it listens.
func spawn(t *testing.T, manifest, data string) *process {
	t.Helper()
	p := &process{t: t, logs: &buffer{}, done: make(chan struct{})}
	p.cmd = exec.Command(program(t), "worker", "-f", manifest, "--data-dir", data,
		"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0")
	stderr, err := p.cmd.StderrPipe()
	must(t, err)
	must(t, p.cmd.Start())
	t.Cleanup(func() { _ = p.cmd.Process.Kill(); _ = p.wait() })
	addresses := make(chan [2]string, 3)
	go func() {
		defer close(p.done)
		defer close(addresses)
		lines := bufio.NewScanner(stderr)
		for n := 0; lines.Scan(); {
			_, _ = p.logs.Write(append(lines.Bytes(), '\n'))
			if m := boundLine.FindStringSubmatch(lines.Text()); m != nil && n < cap(addresses) {
				n++
				addresses <- [2]string{m[1], m[2]}
			}
		}
	}()
	for range 3 {
		a, ok := <-addresses
		if !ok {
			t.Fatalf("the worker ended: %s", p.logs)
		}
		*map[string]*string{"public": &p.at.Public, "admin": &p.at.Admin, "metrics": &p.at.Metrics}[a[0]] = "http://" + a[1]
	}
	return p
}

// wait returns how the process ended; it may be called again.
func (p *process) wait() error {
	<-p.done
	if p.cmd.ProcessState != nil {
		return nil
	}
	return p.cmd.Wait()
}

func (p *process) ready() string {
	if status, body := get(p.t, p.at.Metrics+"/readyz"); status != http.StatusOK {
		return body
	}
	return ""
}

func TestKilledWorkerLosesNothingItAccepted(t *testing.T) {
	t.Parallel()
	// 503 now and then, so that some jobs wait for a retry when the worker is killed
	target := newTarget(t, func(key string, n int) int {
		if n == 1 && strings.HasSuffix(key, "3") {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	dir := t.TempDir()
	manifest, data := spec{url: target.URL}.write(t, dir), filepath.Join(dir, "data")
	accepted := map[string]bool{}
	for round := range 3 {
		p := spawn(t, manifest, data)
		eventually(t, p.ready)
		var mu sync.Mutex
		var producers sync.WaitGroup
		killed := make(chan struct{})
		for producer := range 4 {
			producers.Go(func() {
				for i := 0; ; i++ {
					key := fmt.Sprintf("r%d-p%d-%d", round, producer, i)
					status, _ := post(t, p.at.Public, key, "")
					mu.Lock()
					if status == http.StatusAccepted {
						accepted[key] = true
					}
					n := len(accepted)
					mu.Unlock()
					if status == 0 {
						return
					}
					if n >= 60*(round+1) {
						select {
						case <-killed:
						default:
							_ = p.cmd.Process.Signal(syscall.SIGKILL)
						}
					}
				}
			})
		}
		producers.Wait()
		close(killed)
		_ = p.wait()
	}
	if len(accepted) < 100 {
		t.Fatalf("only %d jobs were accepted", len(accepted))
	}
	p := spawn(t, manifest, data)
	eventually(t, func() string {
		target.mu.Lock()
		defer target.mu.Unlock()
		for key := range accepted {
			if target.requests[key] == 0 {
				return "not delivered: " + key
			}
			if n := target.requests[key]; n > 4 {
				t.Fatalf("%s was tried %d times, 4 are allowed", key, n)
			}
		}
		return ""
	})
	must(t, p.cmd.Process.Signal(syscall.SIGTERM))
	if err := p.wait(); err != nil {
		t.Errorf("SIGTERM ends with %v: %s", err, p.logs)
	}
}

func TestTermDrains(t *testing.T) {
	t.Parallel()
	started, finish := make(chan struct{}), make(chan struct{})
	var once sync.Once
	release := sync.OnceFunc(func() { close(finish) })
	target := newTarget(t, func(key string, _ int) int {
		if key == "slow" {
			once.Do(func() { close(started) })
			<-finish
		}
		return http.StatusOK
	})
	dir := t.TempDir()
	manifest, data := spec{url: target.URL}.write(t, dir), filepath.Join(dir, "data")
	p := spawn(t, manifest, data)
	t.Cleanup(release)
	eventually(t, p.ready)
	if status, body := post(t, p.at.Public, "slow", ""); status != http.StatusAccepted {
		t.Fatalf("got %d %s", status, body)
	}
	<-started
	must(t, p.cmd.Process.Signal(syscall.SIGTERM))
	eventually(t, func() string {
		if missing := p.ready(); strings.Contains(missing, "stopping") {
			return ""
		}
		return "still ready while stopping"
	})
	if status, body := post(t, p.at.Public, "late", ""); status != http.StatusAccepted {
		t.Errorf("while draining, producers get %d %s", status, body)
	}
	release()
	if err := p.wait(); err != nil {
		t.Fatalf("ended with %v: %s", err, p.logs)
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if target.keys() != 1 {
		t.Error("a job was started while draining")
	}

	again := spawn(t, manifest, data)
	eventually(t, func() string { return waiting(target.keys() == 2) })
	target.mu.Lock()
	defer target.mu.Unlock()
	if n := target.requests["slow"]; n != 1 {
		t.Errorf("the attempt in flight was not settled: %d requests", n)
	}
	_ = again
}

func TestCommandLineMistakesAreNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good := spec{url: "http://target.example"}.write(t, dir)
	for name, tc := range map[string]struct {
		args []string
		says string
	}{
		"nothing given":     {nil, "--file"},
		"unknown flag":      {[]string{"--speed", "1"}, "--speed"},
		"stray argument":    {[]string{"queue.yaml"}, "queue.yaml"},
		"bad log format":    {[]string{"--log-format", "xml"}, "--log-format"},
		"bad log level":     {[]string{"--log-level", "loud"}, "--log-level"},
		"missing manifest":  {[]string{"-f", filepath.Join(dir, "none"), "--data-dir", dir}, "--file"},
		"plain, everywhere": {[]string{"-f", good, "--data-dir", dir, "--admin-listen", ":0"}, "--admin-listen"},
	} {
		out, err := exec.Command(program(t), append([]string{"worker"}, tc.args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), tc.says) || strings.Contains(string(out), "goroutine") {
			t.Errorf("%s: %v, %s", name, err, out)
		}
	}
}
