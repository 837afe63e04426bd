package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/retryqueue/retryqueue/internal/pki"
	"github.com/retryqueue/retryqueue/internal/queue"
	"github.com/retryqueue/retryqueue/internal/workerapi"
)

// running is a worker within the test's process.
type running struct {
	t     *testing.T
	at    Addresses
	admin *workerapi.Client
	logs  *buffer
	stop  context.CancelFunc
	ended chan error
}

type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// run starts a worker and waits until it listens. It is stopped at the end of the test if not before.
func run(t *testing.T, o Options) *running {
	t.Helper()
	r := &running{t: t, logs: &buffer{}, ended: make(chan error, 1)}
	bound := make(chan Addresses, 1)
	o.Log = slog.New(slog.NewTextHandler(r.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	o.Bound = func(a Addresses) { bound <- a }
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	go func() { r.ended <- Run(ctx, o) }()
	select {
	case r.at = <-bound:
	case err := <-r.ended:
		t.Fatalf("not started: %v", err)
	}
	var err error
	r.admin, err = workerapi.NewClient(workerapi.ClientOptions{URL: "http://" + r.at.Admin})
	must(t, err)
	t.Cleanup(func() { r.admin.Close(); _ = r.end() })
	return r
}

// end stops the worker and returns what Run did.
func (r *running) end() error {
	r.stop()
	err := <-r.ended
	r.ended <- err
	return err
}

func (r *running) ready() string {
	if status, body := get(r.t, "http://"+r.at.Metrics+"/readyz"); status != http.StatusOK {
		return body
	}
	return ""
}

func (r *running) metrics() string {
	r.t.Helper()
	_, body := get(r.t, "http://"+r.at.Metrics+"/metrics")
	return body
}

// options for a worker of spec in a directory of its own.
func options(t *testing.T, s spec) Options {
	t.Helper()
	dir := t.TempDir()
	o := goodOptions()
	o.Manifest, o.DataDir, o.Version = s.write(t, dir), filepath.Join(dir, "data"), "v1.2.3"
	return o
}

func TestWorkerDeliversRetriesAndBuries(t *testing.T) {
	t.Parallel()
	target := newTarget(t, func(key string, n int) int {
		switch {
		case key == "invalid":
			return http.StatusUnprocessableEntity
		case key == "hopeless" || key == "flaky" && n < 3:
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	r := run(t, options(t, spec{url: target.URL, namespace: "shop"}))
	eventually(t, r.ready)
	for _, key := range []string{"good", "flaky", "invalid", "hopeless"} {
		if status, body := post(t, "http://"+r.at.Public, key, ""); status != http.StatusAccepted {
			t.Fatalf("%s: %d %s", key, status, body)
		}
	}
	eventually(t, func() string {
		s, err := r.admin.Stats(t.Context())
		must(t, err)
		if s.Succeeded == 2 && s.Dead == 2 {
			return ""
		}
		return fmt.Sprintf("%+v", s)
	})
	want := map[string]int{"good": 1, "flaky": 3, "invalid": 1, "hopeless": 4}
	target.mu.Lock()
	if diff := cmp.Diff(want, target.requests); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	target.mu.Unlock()
	for key, reason := range map[string]queue.Reason{"invalid": queue.ReasonPermanent, "hopeless": queue.ReasonExhausted} {
		j, err := r.admin.Job(t.Context(), key)
		must(t, err)
		if j.Reason != reason || j.Queue != "shop/orders" || string(j.Payload) != `{"order":"`+key+`"}` || len(j.History) != want[key] {
			t.Errorf("%s: %+v", key, j)
		}
	}
	body := r.metrics()
	for _, line := range []string{
		`retryqueue_jobs{namespace="shop",queue="orders",state="Dead"} 2`,
		`retryqueue_jobs{namespace="shop",queue="orders",state="Pending"} 0`,
		`retryqueue_deaths_total{namespace="shop",queue="orders",reason="Permanent"} 1`,
		`retryqueue_deaths_total{namespace="shop",queue="orders",reason="Exhausted"} 1`,
		`retryqueue_deaths_total{namespace="shop",queue="orders",reason="DeadlineExceeded"} 0`,
		`retryqueue_accepts_total{namespace="shop",queue="orders",result="accepted"} 4`,
		`retryqueue_attempts_total{cause="",namespace="shop",outcome="Succeeded",queue="orders"} 2`,
		`retryqueue_attempts_total{cause="HTTP 5xx",namespace="shop",outcome="Retryable",queue="orders"} 6`,
		`retryqueue_attempts_total{cause="HTTP 4xx",namespace="shop",outcome="Permanent",queue="orders"} 1`,
		`retryqueue_delivery_duration_seconds_count{namespace="shop",outcome="Succeeded",queue="orders"} 2`,
		`version="v1.2.3"`,
	} {
		if !strings.Contains(body, line) {
			t.Errorf("no metric %s", line)
		}
	}
	if t.Failed() {
		t.Log(body)
	}
	if err := r.end(); err != nil {
		t.Errorf("ended with %v", err)
	}
	if logs := r.logs.String(); strings.Contains(logs, `"order"`) {
		t.Error("a payload is in the log")
	}
}

func TestPushedConfigIsInForceAtOnce(t *testing.T) {
	t.Parallel()
	first, second := newTarget(t, nil), newTarget(t, nil)
	s := spec{url: first.URL, uid: testUID, generation: 1, suspend: true}
	o := options(t, s)
	r := run(t, o)
	eventually(t, r.ready)
	post(t, "http://"+r.at.Public, "a", "")

	put := func(s spec) (workerapi.ConfigStatus, error) { return r.admin.PutConfig(t.Context(), []byte(s.yaml())) }
	next := s
	next.generation, next.suspend, next.url = 2, false, second.URL
	got, err := put(next)
	must(t, err)
	if want := (workerapi.ConfigStatus{QueueUID: testUID, Generation: 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	eventually(t, func() string { return waiting(second.keys() == 1) })
	if first.keys() != 0 {
		t.Error("the suspended queue delivered")
	}

	bad := map[string]struct {
		change func(*spec)
		reason string
		field  string
	}{
		"another name":      {func(s *spec) { s.name = "other" }, workerapi.ConfigOtherQueue, "metadata.name"},
		"another namespace": {func(s *spec) { s.namespace = "other" }, workerapi.ConfigOtherQueue, "metadata.namespace"},
		"another uid":       {func(s *spec) { s.uid = strings.Replace(testUID, "6", "7", 1) }, workerapi.ConfigOtherQueue, "metadata.uid"},
		"no uid":            {func(s *spec) { s.uid = "" }, workerapi.ConfigOtherQueue, "metadata.uid"},
		"an older one":      {func(s *spec) { s.generation = 1 }, workerapi.ConfigOlder, "metadata.generation"},
		"a bad URL":         {func(s *spec) { s.url = "ftp://x" }, workerapi.ConfigInvalid, "spec.delivery.http.url"},
		"unknown field":     {func(s *spec) { s.accept = "{insecure: true, speed: 1}" }, workerapi.ConfigInvalid, "spec.accept.speed"},
		"keys not mounted":  {func(s *spec) { s.extra = ", signingSecretRef: {name: x}" }, workerapi.ConfigInvalid, "spec.delivery.http.signingSecretRef"},
	}
	for name, tc := range bad {
		s := next
		s.suspend = true
		tc.change(&s)
		_, err := put(s)
		e, ok := errors.AsType[*workerapi.ConfigError](err)
		if !ok || e.Reason != tc.reason || !strings.HasPrefix(e.Field, tc.field) || e.Detail == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	stats, err := r.admin.Stats(t.Context())
	must(t, err)
	if stats.Config != got {
		t.Errorf("in force is %+v", stats.Config)
	}
	if _, err := put(next); err != nil {
		t.Errorf("the same again: %v", err)
	}
	next.generation, next.suspend = 3, true
	if got, err := put(next); err != nil || !got.Suspended {
		t.Errorf("suspending: %+v, %v", got, err)
	}
	if !strings.Contains(r.metrics(), `retryqueue_suspended{namespace="",queue="orders"} 1`) {
		t.Error("the metric does not say suspended")
	}
}

func waiting(done bool) string {
	if done {
		return ""
	}
	return "not yet"
}

func TestTokensAreDemandedByTheManifest(t *testing.T) {
	t.Parallel()
	target := newTarget(t, nil)
	o := options(t, spec{url: target.URL, accept: "{tokenSecretRef: {name: x}}"})
	o.ProducerTokens = t.TempDir()
	must(t, os.WriteFile(filepath.Join(o.ProducerTokens, "shop"), []byte("s3cr3t\n"), 0o600))
	r := run(t, o)
	eventually(t, r.ready)
	for token, want := range map[string]int{"": 401, "other": 401, "s3cr3t": 202} {
		if status, body := post(t, "http://"+r.at.Public, "a", token); status != want {
			t.Errorf("token %q: %d %s", token, status, body)
		}
	}
	if strings.Contains(r.logs.String(), "s3cr3t") {
		t.Error("a token is in the log")
	}
}

func TestNoTokenIsDemandedWhereTheNetworkDecides(t *testing.T) {
	t.Parallel()
	for _, accept := range []string{"{from: [{podSelector: {}}]}", "{insecure: true}"} {
		r := run(t, options(t, spec{url: "http://target.example", suspend: true, accept: accept}))
		eventually(t, r.ready)
		if status, body := post(t, "http://"+r.at.Public, "a", ""); status != http.StatusAccepted {
			t.Errorf("%s: %d %s", accept, status, body)
		}
	}
}

func TestSigningKeysComeFromFilesAndAreRenewed(t *testing.T) {
	t.Parallel()
	target := newTarget(t, nil)
	o := options(t, spec{url: target.URL, extra: ", signingSecretRef: {name: x}"})
	o.SigningKeys = t.TempDir()
	if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "signingSecretRef") {
		t.Errorf("without keys: %v", err)
	}
	key := func(c string) []byte { return []byte("whsec_" + strings.Repeat(c, 32) + "\n") }
	must(t, os.WriteFile(filepath.Join(o.SigningKeys, "one"), key("A"), 0o600))
	r, err := newRuntime(o)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(o.SigningKeys, "two"), key("B"), 0o600))
	must(t, r.refreshKeys())
	if n := len(r.config.Load().Delivery.SigningKeys); n != 2 {
		t.Errorf("%d keys after the rotation's start", n)
	}
	must(t, os.WriteFile(filepath.Join(o.SigningKeys, "two"), []byte("nonsense"), 0o600))
	if err := r.refreshKeys(); err == nil || strings.Contains(err.Error(), "nonsense") {
		t.Errorf("a broken key: %v", err)
	}
	if n := len(r.config.Load().Delivery.SigningKeys); n != 2 {
		t.Errorf("%d keys after a broken one", n)
	}

	live := run(t, func() Options { must(t, os.Remove(filepath.Join(o.SigningKeys, "two"))); return o }())
	eventually(t, live.ready)
	post(t, "http://"+live.at.Public, "a", "")
	eventually(t, func() string {
		if sig := target.header("Webhook-Signature"); !strings.HasPrefix(sig, "v1,") {
			return "signature " + sig
		}
		return ""
	})
}

func TestSecondWorkerWaitsForTheStore(t *testing.T) {
	t.Parallel()
	target := newTarget(t, nil)
	o := options(t, spec{url: target.URL})
	first := run(t, o)
	eventually(t, first.ready)
	second := run(t, o)
	if missing := second.ready(); !strings.Contains(missing, "waiting for the store") {
		t.Errorf("the second is ready: %q", missing)
	}
	if status, _ := get(t, "http://"+second.at.Metrics+"/healthz"); status != http.StatusOK {
		t.Errorf("the waiting one is not alive: %d", status)
	}
	if status, body := post(t, "http://"+second.at.Public, "a", ""); status != http.StatusServiceUnavailable || !strings.Contains(body, string(workerapi.KindNotReady)) {
		t.Errorf("the waiting one answers %d %s", status, body)
	}
	must(t, first.end())
	eventually(t, second.ready)
	if status, body := post(t, "http://"+second.at.Public, "a", ""); status != http.StatusAccepted {
		t.Errorf("the successor answers %d %s", status, body)
	}
	third := run(t, o)
	if err := third.end(); err != nil {
		t.Errorf("stopped while waiting: %v", err)
	}
}

func TestFencedWorkerEnds(t *testing.T) {
	t.Parallel()
	target := newTarget(t, nil)
	o := options(t, spec{url: target.URL})
	first := run(t, o)
	eventually(t, first.ready)
	// as where locks do not hold: the next process finds the file free
	must(t, os.Remove(filepath.Join(o.DataDir, "queue.db.lock")))
	second := run(t, o)
	eventually(t, second.ready)
	err := <-first.ended
	first.ended <- err
	if !errors.Is(err, queue.ErrFenced) {
		t.Errorf("the first ended with %v", err)
	}
	if status, body := post(t, "http://"+second.at.Public, "a", ""); status != http.StatusAccepted {
		t.Errorf("the second answers %d %s", status, body)
	}
}

func TestWorkerRefusesToStart(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*Options)
		says   string
	}{
		"no manifest":          {func(o *Options) { o.Manifest = "/nonexistent/q.yaml" }, "--file"},
		"broken manifest":      {func(o *Options) { must(t, os.WriteFile(o.Manifest, []byte("kind: Pod"), 0o600)) }, "kind"},
		"bad address":          {func(o *Options) { o.Listen = "203.0.113.1:1" }, "--listen"},
		"admin on any address": {func(o *Options) { o.AdminListen = ":0" }, "--admin-listen"},
		"missing certificates": {func(o *Options) { o.AdminTLS = workerapi.ServerFiles{Cert: "/x", Key: "/x", ClientCA: "/x"} }, "certificate"},
		"data of another queue": {func(o *Options) {
			r := run(t, *o)
			eventually(t, r.ready)
			must(t, r.end())
			o.Manifest = spec{name: "other", url: "http://h"}.write(t, t.TempDir())
		}, "orders"},
	} {
		o := options(t, spec{url: "http://target.example", uid: testUID})
		tc.change(&o)
		if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWorkerServesTheManagerByMutualTLS(t *testing.T) {
	t.Parallel()
	o := options(t, spec{url: "http://target.example", uid: testUID, suspend: true})
	ca, err := pki.NewCA(time.Now())
	must(t, err)
	cert, key, err := ca.Server(testUID, time.Now())
	must(t, err)
	dir := t.TempDir()
	o.AdminTLS = workerapi.ServerFiles{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"), ClientCA: filepath.Join(dir, "ca.crt")}
	for path, b := range map[string][]byte{o.AdminTLS.Cert: cert, o.AdminTLS.Key: key, o.AdminTLS.ClientCA: ca.CertPEM()} {
		must(t, os.WriteFile(path, b, 0o600))
	}
	r := run(t, o)
	eventually(t, r.ready)
	config, err := ca.ClientConfig(testUID, time.Now)
	must(t, err)
	c, err := workerapi.NewClient(workerapi.ClientOptions{URL: "https://" + r.at.Admin, TLS: config})
	must(t, err)
	defer c.Close()
	if s, err := c.Stats(t.Context()); err != nil || s.Config.QueueUID != testUID {
		t.Errorf("the manager: %+v, %v", s, err)
	}
	if _, err := r.admin.Stats(t.Context()); err == nil {
		t.Error("plain HTTP is answered")
	}
}
