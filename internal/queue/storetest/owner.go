package storetest

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"testing"
	"time"
)

// OneOwner is for stores that one process owns at a time: a second process waits until the first has let go,
// by closing or by dying, and then finds everything that it left.
//
// The package under test must hand its TestMain to [Main].
func OneOwner(t *testing.T, h Harness) {
	for how, let := range map[string]func(*owner) error{
		"closes":    func(o *owner) error { return o.in.Close() },
		"is killed": func(o *owner) error { return o.cmd.Process.Kill() },
	} {
		t.Run("the second process waits until the first "+how, func(t *testing.T) {
			data := dir(t)
			epoch := fmt.Sprint(envEpoch, "=", time.Now().UnixMilli())
			first := startOwner(t, data, epoch)
			first.want(t, "opening", "open")
			second := startOwner(t, data, epoch)
			second.want(t, "opening")
			// The first goes on writing for many times as long as it took to open, and the second is not heard of.
			n := 0
			for begun := time.Now(); n == 0 || time.Since(begun) < 1500*time.Millisecond; n++ {
				id := fmt.Sprint("j-", n)
				first.accept(t, id)
				first.want(t, fmt.Sprint("accepted ", id, " false"))
				select {
				case line := <-second.lines:
					t.Fatalf("the second says %q while the first owns the store", line)
				default:
				}
			}
			if err := let(first); err != nil {
				t.Fatal(err)
			}
			second.want(t, "open")
			last := fmt.Sprint("j-", n-1)
			second.accept(t, last)
			second.want(t, fmt.Sprint("accepted ", last, " true"))
		})
	}
}

// owner is a process that owns a store or waits for it.
type owner struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
}

func startOwner(t *testing.T, data, epoch string) *owner {
	t.Helper()
	cmd := child(t, "owner", data, epoch)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting a process: %v", err)
	}
	o := &owner{cmd: cmd, in: in, lines: make(chan string, 100)}
	go func() {
		defer close(o.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			o.lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		for range o.lines {
		}
		_ = cmd.Wait()
	})
	return o
}

func (o *owner) accept(t *testing.T, id string) {
	t.Helper()
	if _, err := fmt.Fprintln(o.in, id); err != nil {
		t.Fatalf("writing to the process: %v", err)
	}
}

// want reads one line for every want.
func (o *owner) want(t *testing.T, want ...string) {
	t.Helper()
	for _, w := range want {
		select {
		case got := <-o.lines:
			if got != w {
				t.Fatalf("the process says %q, want %q", got, w)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("the process does not say %q", w)
		}
	}
}
