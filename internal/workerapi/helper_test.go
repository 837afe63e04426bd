package workerapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retryqueue/retryqueue/internal/queue"
)

func testPolicy() queue.Policy {
	return queue.Policy{
		Backoff:     queue.Backoff{Base: 100, Cap: 1000, Jitter: queue.JitterFull},
		MaxAttempts: 5, Deadline: 60_000, AttemptTimeout: 1000, RetryAfterMax: 5000,
		DedupeWindow: 60_000, MaxRedrives: 3,
		Limits: queue.Limits{MaxPayload: 1024, MaxPending: 10, MaxBytes: 1 << 20},
	}
}

// backend is a Backend for tests.
type backend struct {
	mu       sync.Mutex
	store    queue.Store
	settings Settings
	woken    int
	put      func([]byte) (ConfigStatus, error)
}

func (b *backend) Store() (queue.Store, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.store == nil {
		return nil, ErrNotReady
	}
	return b.store, nil
}

func (b *backend) Settings() Settings {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.settings
}

func (b *backend) Wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.woken++
}

func (b *backend) PutConfig(_ context.Context, manifest []byte) (ConfigStatus, error) {
	if b.put == nil {
		return ConfigStatus{}, errors.New("not expected")
	}
	return b.put(manifest)
}

// api is the public API over a store of its own.
type api struct {
	t       *testing.T
	backend *backend
	url     string
	results map[string]int
}

func newAPI(t *testing.T, change func(*PublicOptions, *backend)) *api {
	t.Helper()
	b := &backend{store: openStore(t), settings: Settings{Policy: testPolicy()}}
	a := &api{t: t, backend: b, results: map[string]int{}}
	var mu sync.Mutex
	o := PublicOptions{Backend: b, Log: quiet(), Now: time.Now, Observe: func(result string, n int) {
		mu.Lock()
		defer mu.Unlock()
		a.results[result] += n
	}}
	if change != nil {
		change(&o, b)
	}
	server := httptest.NewServer(NewPublic(o))
	t.Cleanup(server.Close)
	a.url = server.URL
	return a
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// request is what a test sends.
type request struct {
	method, path, body string
	headers            map[string]string
	raw                http.Header // added as they are
}

type answer struct {
	status int
	header http.Header
	body   string
}

func send(t *testing.T, base string, r request) answer {
	t.Helper()
	method := r.method
	if method == "" {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(t.Context(), method, base+r.path, strings.NewReader(r.body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range r.headers {
		req.Header.Set(name, value)
	}
	for name, values := range r.raw {
		req.Header[name] = values
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{status: res.StatusCode, header: res.Header, body: string(body)}
}

func (a *api) send(r request) answer { a.t.Helper(); return send(a.t, a.url, r) }

func (a answer) problem(t *testing.T) Problem {
	t.Helper()
	if got := a.header.Get("Content-Type"); got != ProblemMediaType {
		t.Fatalf("Content-Type %q with status %d, want a problem; body: %s", got, a.status, a.body)
	}
	var p Problem
	if err := json.Unmarshal([]byte(a.body), &p); err != nil {
		t.Fatal(err)
	}
	if p.Status != a.status || p.Title == "" || !strings.HasPrefix(p.Type, ProblemBase) {
		t.Fatalf("incomplete problem with status %d: %s", a.status, a.body)
	}
	if strings.Contains(a.body, "goroutine") || strings.Contains(a.body, ".go:") {
		t.Fatalf("problem shows a stack: %s", a.body)
	}
	return p
}

func (a answer) job(t *testing.T) JobView {
	t.Helper()
	var v JobView
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		t.Fatalf("status %d, body %s: %v", a.status, a.body, err)
	}
	return v
}

// stored is a job as the store has it.
func (a *api) stored(id string) queue.Job {
	a.t.Helper()
	j, err := a.backend.store.Job(a.t.Context(), id)
	if err != nil {
		a.t.Fatalf("reading job %q: %v", id, err)
	}
	return j
}

// pending is how many jobs are stored.
func (a *api) pending() int64 {
	a.t.Helper()
	s, err := a.backend.store.Stats(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	return s.Pending
}
