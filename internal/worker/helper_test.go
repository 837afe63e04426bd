package worker

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const testUID = "6f1f6f0e-0000-4000-8000-000000000001"

// spec is the changeable part of a manifest for tests.
type spec struct {
	name, namespace, uid string
	generation           int
	url                  string
	suspend              bool
	accept               string // YAML in braces; {insecure: true} by default
	extra                string // more lines of spec
}

func (s spec) yaml() string {
	if s.name == "" {
		s.name = "orders"
	}
	if s.accept == "" {
		s.accept = "{insecure: true}"
	}
	meta := fmt.Sprintf("name: %s, generation: %d", s.name, s.generation)
	if s.namespace != "" {
		meta += ", namespace: " + s.namespace
	}
	if s.uid != "" {
		meta += ", uid: " + s.uid
	}
	return fmt.Sprintf(`apiVersion: retryqueue.dev/v1alpha1
kind: RetryQueue
metadata: {%s}
spec:
  suspend: %v
  retryPolicy: {maxAttempts: 4, backoff: {base: 20ms, cap: 200ms}, deadline: 2m, attemptTimeout: 2s}
  delivery: {http: {url: %q%s}}
  accept: %s
`, meta, s.suspend, s.url, s.extra, s.accept)
}

func (s spec) write(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "queue.yaml")
	must(t, os.WriteFile(path, []byte(s.yaml()), 0o600))
	return path
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// target is a service that takes jobs.
type target struct {
	*httptest.Server
	mu       sync.Mutex
	requests map[string]int // by Idempotency-Key
	last     *http.Request
	answer   func(key string, n int) int
}

// newTarget answers each request with answer's status; 200 when it is nil. n counts the requests of a key from 1.
func newTarget(t *testing.T, answer func(key string, n int) int) *target {
	t.Helper()
	s := &target{requests: map[string]int{}, answer: answer}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		key := r.Header.Get("Idempotency-Key")
		s.mu.Lock()
		s.requests[key]++
		n := s.requests[key]
		s.last = r
		s.mu.Unlock()
		if s.answer != nil {
			w.WriteHeader(s.answer(key, n))
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// keys is how many different jobs came.
func (s *target) keys() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}

func (s *target) header(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		return ""
	}
	return s.last.Header.Get(name)
}

// eventually waits until ok answers "", and fails with what it last said.
func eventually(t *testing.T, ok func() string) {
	t.Helper()
	deadline := time.NewTimer(60 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		missing := ok()
		if missing == "" {
			return
		}
		select {
		case <-deadline.C:
			t.Fatalf("not within 60 s: %s", missing)
		case <-tick.C:
		}
	}
}

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	res, err := http.Get(url) //nolint:noctx // bounded by the test
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	must(t, err)
	return res.StatusCode, string(b)
}

// post sends a job and returns the status, 0 when there was no answer.
func post(t *testing.T, base, key, token string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/v1/jobs", strings.NewReader(`{"order":"`+key+`"}`))
	must(t, err)
	req.Header.Set("Idempotency-Key", key)
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = res.Body.Close() }()
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(b)
}
