package main

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// newJob is job number n: a random-looking id, and 200 bytes.
func newJob(n int) queue.NewJob {
	sum := sha256.Sum256([]byte(strconv.Itoa(n)))
	payload := []byte(fmt.Sprintf(`{"order":%d,"pad":"%s"}`, n, strings.Repeat("x", 200)))[:200]
	return queue.NewJob{ID: fmt.Sprintf("%x", sum[:16]), ContentType: "application/json", Payload: payload, ContentSHA: sum}
}

// together calls f for 0..n-1 from several goroutines.
func together(n int, f func(i int) error) (time.Duration, error) {
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, *clients)
	begin := time.Now()
	for c := range errs {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && errs[c] == nil; i = int(next.Add(1)) - 1 {
				errs[c] = f(i)
			}
		})
	}
	wg.Wait()
	return time.Since(begin), errors.Join(errs...)
}

func median[T cmp.Ordered](list []T) T {
	return slices.Sorted(slices.Values(list))[len(list)/2]
}

// fsyncRate is how many small appends a second this disk makes durable.
func fsyncRate(path string) (int, error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	block := make([]byte, 4096)
	n := 0
	for begin := time.Now(); time.Since(begin) < time.Second; n++ {
		if _, err := f.Write(block); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
	}
	return n, nil
}

func loadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(b))[:3], " ")
}

func rssMiB() (float64, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.Atoi(strings.Fields(rest)[0])
			return float64(kib) / 1024, err
		}
	}
	return 0, errors.New("no VmRSS in /proc/self/status")
}

// report is the table of figures.
type report struct{ rows []figure }

type figure struct {
	what, unit, bound string
	value             float64
	ok                bool
}

func (r *report) note(what, unit string, value float64) {
	r.rows = append(r.rows, figure{what: what, unit: unit, value: value, ok: true})
}

func (r *report) atLeast(what, unit string, value, bound float64) {
	r.rows = append(r.rows, figure{what, unit, fmt.Sprintf("at least %g", bound), value, value >= bound})
}

func (r *report) atMost(what, unit string, value, bound float64) {
	r.rows = append(r.rows, figure{what, unit, fmt.Sprintf("at most %g", bound), value, value <= bound})
}

func (r *report) table() string {
	var b strings.Builder
	b.WriteString("| what | measured | bound | |\n|---|---:|---|---|\n")
	for _, f := range r.rows {
		verdict := map[bool]string{true: "ok", false: "MISSED"}[f.ok]
		if f.bound == "" {
			verdict = ""
		}
		digits := 2
		if f.value >= 1000 {
			digits = 0
		}
		fmt.Fprintf(&b, "| %s | %.*f %s | %s | %s |\n", f.what, digits, f.value, f.unit, f.bound, verdict)
	}
	return b.String()
}

func (r *report) missed() error {
	var errs []error
	for _, f := range r.rows {
		if !f.ok {
			errs = append(errs, fmt.Errorf("%s: %.2f %s, wanted %s", f.what, f.value, f.unit, f.bound))
		}
	}
	return errors.Join(errs...)
}
