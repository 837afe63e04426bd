package workerapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/retryqueue/retryqueue/internal/queue"
)

const testUID = "6f1f6f0e-0000-4000-8000-000000000001"

// operator is the admin API over a store of its own, and a client of it.
type operator struct {
	t       *testing.T
	backend *backend
	url     string
	client  *Client
}

func newOperator(t *testing.T, change func(*AdminOptions)) *operator {
	t.Helper()
	b := &backend{store: openStore(t), settings: Settings{
		Policy: testPolicy(), Config: ConfigStatus{QueueUID: testUID, Generation: 3, Suspended: true},
	}}
	o := AdminOptions{Backend: b, Log: quiet()}
	if change != nil {
		change(&o)
	}
	server := httptest.NewServer(NewAdmin(o))
	t.Cleanup(server.Close)
	c, err := NewClient(ClientOptions{URL: server.URL})
	must(t, err)
	t.Cleanup(c.Close)
	return &operator{t: t, backend: b, url: server.URL, client: c}
}

// kill makes jobs and lets each die at its first attempt, with this status.
func (o *operator) kill(status int, ids ...string) {
	o.t.Helper()
	p := o.backend.settings.Policy
	ctx := o.t.Context()
	for _, id := range ids {
		_, err := o.backend.store.Accept(ctx, p, []queue.NewJob{{
			ID: id, ContentType: "text/plain", Payload: []byte("payload of " + id), Headers: []queue.Header{{Name: "X-A", Value: "1"}},
			ContentSHA: queue.ContentSHA("text/plain", []byte("payload of "+id), nil),
		}})
		must(o.t, err)
		claimed, err := o.backend.store.Claim(ctx, p, queue.ClaimRequest{Max: 1})
		must(o.t, err)
		if len(claimed.Leases) != 1 {
			o.t.Fatalf("claimed %d jobs", len(claimed.Leases))
		}
		l := claimed.Leases[0]
		settled, err := o.backend.store.Settle(ctx, p, []queue.Settlement{{ID: l.Job.ID, Token: l.Token, Result: queue.Result{
			Outcome: queue.OutcomePermanent, Failure: &queue.Failure{Kind: "HTTPStatus", HTTPStatus: status, Message: "no"},
		}}})
		must(o.t, errors.Join(append(settled.Errs, err)...))
	}
}

func redriveSpec(uid string) queue.RedriveSpec {
	return queue.RedriveSpec{
		UID: uid, Name: "again-" + uid, SpecDigest: "digest-" + uid, QueueUID: testUID,
		Selector: queue.Selector{Reasons: []queue.Reason{queue.ReasonPermanent}}, Limit: 10,
		Rate: queue.Rate{Jobs: 10, Per: 1000, Burst: 2}, Budget: queue.RedriveBudget{MaxAttempts: 2, Deadline: 10_000},
		Abort: queue.Abort{MaxFailurePercent: 50, MinJobs: 10}, MaxOutstanding: 10, MaxRedrives: 3, TargetDigest: "target",
	}
}

func TestClientSpeaksForTheStore(t *testing.T) {
	t.Parallel()
	o := newOperator(t, nil)
	o.kill(422, "a", "b/..?")
	o.kill(503, "c")
	ctx, c := t.Context(), o.client

	stats, err := c.Stats(ctx)
	must(t, err)
	if stats.Dead != 3 || stats.OldestDeadAt == 0 || stats.Config != o.backend.settings.Config {
		t.Errorf("stats %+v", stats)
	}
	page, err := c.Dead(ctx, queue.DeadQuery{Limit: 2})
	must(t, err)
	rest, err := c.Dead(ctx, queue.DeadQuery{Limit: 2, After: page.Next})
	must(t, err)
	if ids := idsOf(append(page.Jobs, rest.Jobs...)); page.Next == 0 || rest.Next != 0 || !cmp.Equal(ids, []string{"a", "b/..?", "c"}) {
		t.Errorf("dead %q, next %d then %d", ids, page.Next, rest.Next)
	}
	from, to := page.Jobs[1].DiedAt, page.Jobs[1].DiedAt+1
	for name, tc := range map[string]struct {
		s    queue.Selector
		want int
	}{
		"status": {queue.Selector{HTTPStatuses: []string{"422"}}, 2}, "class": {queue.Selector{HTTPStatuses: []string{"5xx", "422"}}, 3},
		"reason": {queue.Selector{Reasons: []queue.Reason{queue.ReasonExhausted}}, 0}, "ids": {queue.Selector{IDs: []string{"b/..?", "c", "z"}}, 2},
		"fingerprint": {queue.Selector{Fingerprints: []string{page.Jobs[0].Fingerprint}}, 2}, "after": {queue.Selector{DiedAfter: to + 1_000_000}, 0},
		"before": {queue.Selector{DiedBefore: page.Jobs[0].DiedAt}, 0}, "within": {queue.Selector{DiedAfter: from, DiedBefore: to, IDs: []string{"b/..?"}}, 1},
	} {
		p, err := c.Dead(ctx, queue.DeadQuery{Selector: tc.s, Limit: 10})
		must(t, err)
		if len(p.Jobs) != tc.want {
			t.Errorf("%s selects %d, want %d", name, len(p.Jobs), tc.want)
		}
	}
	groups, err := c.DeadGroups(ctx, queue.Selector{}, 10)
	must(t, err)
	if len(groups) != 2 || groups[0].Count != 2 {
		t.Errorf("groups %+v", groups)
	}
	job, err := c.Job(ctx, "b/..?")
	must(t, err)
	if string(job.Payload) != "payload of b/..?" || len(job.Headers) != 1 || len(job.History) != 1 || job.Reason != queue.ReasonPermanent {
		t.Errorf("job %+v %q", job, job.Payload)
	}
	stored, err := o.backend.store.Job(ctx, "b/..?")
	must(t, err)
	if diff := cmp.Diff(stored, job); diff != "" {
		t.Errorf("job (-stored +shown):\n%s", diff)
	}
	if n, err := c.Purge(ctx, queue.Selector{IDs: []string{"a"}}); err != nil || n != 1 {
		t.Errorf("purged %d, %v", n, err)
	}
	if _, err := c.Job(ctx, "a"); err == nil {
		if j, _ := c.Job(ctx, "a"); j.State == queue.Dead {
			t.Error("a purged job is still dead")
		}
	} else if !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("purged job: %v", err)
	}
}

func idsOf(jobs []queue.Job) []string {
	ids := make([]string, len(jobs))
	for i, j := range jobs {
		ids[i] = j.ID
	}
	return ids
}

func TestBinaryPayloadIsShownExactly(t *testing.T) {
	t.Parallel()
	o := newOperator(t, nil)
	payload := []byte{0xff, 0, 'a'}
	_, err := o.backend.store.Accept(t.Context(), testPolicy(), []queue.NewJob{{ID: "a", Payload: payload, ContentSHA: [32]byte{1}}})
	must(t, err)
	job, err := o.client.Job(t.Context(), "a")
	must(t, err)
	if !bytes.Equal(job.Payload, payload) {
		t.Errorf("payload %q", job.Payload)
	}
	got := send(t, o.url, request{method: "GET", path: "/admin/v1/jobs/a"})
	if !strings.Contains(got.body, `"payloadBase64":"/wBh"`) || strings.Contains(got.body, `"payload":`) {
		t.Errorf("body %s", got.body)
	}
}

func TestRedriveOverTheClient(t *testing.T) {
	t.Parallel()
	o := newOperator(t, nil)
	o.kill(503, "a", "b")
	ctx, c := t.Context(), o.client
	if _, err := c.Redrive(ctx, "r1"); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("unknown redrive: %v", err)
	}
	planned, err := c.PlanRedrive(ctx, redriveSpec("r1"))
	must(t, err)
	if planned.Summary.Selected != 2 || planned.Summary.Hash == "" || planned.State != queue.RedrivePlanned {
		t.Errorf("planned %+v", planned)
	}
	if diff := cmp.Diff(redriveSpec("r1"), planned.Spec); diff != "" {
		t.Errorf("spec (-sent +frozen):\n%s", diff)
	}
	_, err = c.PermitRedrive(ctx, queue.RedrivePermit{UID: "r1", Hash: "another", For: 1000})
	if e, ok := errors.AsType[*queue.RedriveError](err); !ok || e.Reason != queue.RedriveHashMismatch || e.Detail == "" {
		t.Errorf("another hash: %v", err)
	}
	running, err := c.PermitRedrive(ctx, queue.RedrivePermit{UID: "r1", Hash: planned.Summary.Hash, For: 60_000})
	must(t, err)
	if running.State != queue.RedriveRunning || running.RunUntil.Sub(running.Now) != 60_000 {
		t.Errorf("running %+v", running)
	}
	cancelled, err := c.CancelRedrive(ctx, "r1")
	must(t, err)
	seen, err := c.Redrive(ctx, "r1")
	must(t, err)
	if cancelled.State != queue.RedriveCancelled || seen.State != queue.RedriveCancelled {
		t.Errorf("cancelled %s, then %s", cancelled.State, seen.State)
	}
	bad := redriveSpec("r2")
	bad.Limit = 0
	_, err = c.PlanRedrive(ctx, bad)
	if e, ok := errors.AsType[*queue.RedriveError](err); !ok || e.Reason != queue.RedriveInvalid {
		t.Errorf("limit of 0: %v", err)
	}
}

func TestClientMapsProblemsBack(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		handler http.HandlerFunc
		check   func(error) bool
	}{
		"a route that is not there": {func(w http.ResponseWriter, _ *http.Request) { writeProblem(w, problem(KindUnknownRoute, "x")) },
			func(err error) bool { return !errors.Is(err, queue.ErrNotFound) }},
		"a plain 404": {http.NotFound, func(err error) bool {
			e, ok := errors.AsType[*ProblemError](err)
			return ok && e.Problem.Status == 404 && !errors.Is(err, queue.ErrNotFound)
		}},
		"fenced": {func(w http.ResponseWriter, _ *http.Request) { writeProblem(w, troubleOf(queue.ErrFenced)) },
			func(err error) bool { return errors.Is(err, queue.ErrFenced) }},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
			func(err error) bool { return err != nil && strings.Contains(err.Error(), "302") }},
		"an answer that is no JSON": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
			func(err error) bool { return err != nil }},
		"an answer cut off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("{"))
		}, func(err error) bool { return err != nil }},
		"a panic": {(&router{log: quiet(), routes: []route{{"GET", "/admin/v1/stats", func(http.ResponseWriter, *http.Request, []string) error {
			panic("x")
		}}}}).ServeHTTP, func(err error) bool {
			e, ok := errors.AsType[*ProblemError](err)
			return ok && e.Problem.Kind() == KindInternal
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { calls++; tc.handler(w, r) }))
			t.Cleanup(server.Close)
			c, err := NewClient(ClientOptions{URL: server.URL})
			must(t, err)
			defer c.Close()
			if _, err = c.Stats(t.Context()); !tc.check(err) {
				t.Errorf("got %v", err)
			}
			if calls != 1 {
				t.Errorf("%d calls", calls)
			}
		})
	}
}

func TestClientGivesUpInTime(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hold }))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(hold) })
	c, err := NewClient(ClientOptions{URL: server.URL, Timeout: 20 * time.Millisecond})
	must(t, err)
	defer c.Close()
	if _, err := c.Stats(t.Context()); err == nil {
		t.Error("no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Stats(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestClientRefusesUnsafeURLs(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]ClientOptions{
		"no scheme": {URL: "localhost:1"}, "another scheme": {URL: "ftp://h"}, "https without certificates": {URL: "https://h"},
		"a token in the open": {URL: "http://worker.example", Token: "t"},
	} {
		if _, err := NewClient(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestBadAdminRequestsNameTheFieldAndChangeNothing(t *testing.T) {
	t.Parallel()
	o := newOperator(t, nil)
	o.kill(503, "a")
	spec := func(uid, queueUID string) string {
		return fmt.Sprintf(`{"uid":%q,"queueUID":%q,"limit":1}`, uid, queueUID)
	}
	for name, tc := range map[string]struct {
		request
		status int
		field  string
		says   string
	}{
		"unknown parameter":       {request{method: "GET", path: "/admin/v1/dead?reasons=Permanent"}, 400, "reasons", "reason"},
		"stats with a parameter":  {request{method: "GET", path: "/admin/v1/stats?x=1"}, 400, "x", "no query"},
		"limit of zero":           {request{method: "GET", path: "/admin/v1/dead?limit=0"}, 400, "limit", "1000"},
		"limit too large":         {request{method: "GET", path: "/admin/v1/dead?limit=1001"}, 400, "limit", "1000"},
		"limit twice":             {request{method: "GET", path: "/admin/v1/dead?limit=1&limit=2"}, 400, "limit", "once"},
		"bad after":               {request{method: "GET", path: "/admin/v1/dead?after=x"}, 400, "after", "whole number"},
		"bad reason":              {request{method: "GET", path: "/admin/v1/dead?reason=exhausted"}, 400, "reason", "Exhausted"},
		"bad status":              {request{method: "GET", path: "/admin/v1/dead?httpStatus=5x"}, 400, "httpStatus", "5xx"},
		"bad time":                {request{method: "GET", path: "/admin/v1/dead?diedAfter=yesterday"}, 400, "diedAfter", "write + as %2B"},
		"bad query":               {request{method: "GET", path: "/admin/v1/dead?a;b"}, 400, "query", "characters with %XX"},
		"times in reverse":        {request{method: "GET", path: "/admin/v1/dead?diedAfter=2026-01-02T00:00:00Z&diedBefore=2026-01-01T00:00:00Z"}, 400, "diedBefore", "after"},
		"bad fingerprint":         {request{method: "GET", path: "/admin/v1/dead?fingerprint="}, 400, "fingerprint", "fingerprint"},
		"bad id":                  {request{method: "GET", path: "/admin/v1/dead?id="}, 400, "id", "256"},
		"after of groups":         {request{method: "GET", path: "/admin/v1/dead/groups?after=1"}, 400, "after", "limit"},
		"purge of everything":     {request{method: "DELETE", path: "/admin/v1/dead"}, 400, "selector", "at least one"},
		"purge with a limit":      {request{method: "DELETE", path: "/admin/v1/dead?limit=1"}, 400, "limit", "no such"},
		"purge, misspelt":         {request{method: "DELETE", path: "/admin/v1/dead?Reason=Permanent"}, 400, "Reason", "reason"},
		"plan without body":       {request{path: "/admin/v1/redrives/r/plan"}, 400, "body", "JSON"},
		"plan of unknown field":   {request{path: "/admin/v1/redrives/r/plan", body: `{"uid":"r","speed":1}`}, 400, "body", "speed"},
		"plan of a wrong type":    {request{path: "/admin/v1/redrives/r/plan", body: `{"uid":"r","rate":{"jobs":"10"}}`}, 400, "rate.jobs", "must be a whole number within bounds, not string"},
		"plan that is a list":     {request{path: "/admin/v1/redrives/r/plan", body: `[]`}, 400, "body", "must be one JSON object"},
		"plan of another uid":     {request{path: "/admin/v1/redrives/r/plan", body: spec("q", testUID)}, 400, "uid", "path"},
		"plan for another queue":  {request{path: "/admin/v1/redrives/r/plan", body: spec("r", "other")}, 400, "queueUID", testUID},
		"plan that is not valid":  {request{path: "/admin/v1/redrives/r/plan", body: spec("r", testUID)}, 422, "", ""},
		"run of another uid":      {request{method: "PUT", path: "/admin/v1/redrives/r/run", body: `{"uid":"q","hash":"h","for":"1s"}`}, 400, "uid", "path"},
		"run for too long":        {request{method: "PUT", path: "/admin/v1/redrives/r/run", body: `{"uid":"r","hash":"h","for":"61s"}`}, 400, "for", "60s"},
		"run for less than none":  {request{method: "PUT", path: "/admin/v1/redrives/r/run", body: `{"uid":"r","hash":"h","for":"-1s"}`}, 400, "for", "60s"},
		"run with a number":       {request{method: "PUT", path: "/admin/v1/redrives/r/run", body: `{"uid":"r","hash":"h","for":60}`}, 400, "body", "duration"},
		"run of an unknown uid":   {request{method: "PUT", path: "/admin/v1/redrives/r/run", body: `{"uid":"r","hash":"h","for":"1s"}`}, 404, "", ""},
		"cancel with a body":      {request{path: "/admin/v1/redrives/r/cancel", body: "{}"}, 400, "body", "remove"},
		"cancel of unknown uid":   {request{path: "/admin/v1/redrives/r/cancel"}, 404, "", ""},
		"job that is not there":   {request{method: "GET", path: "/admin/v1/jobs/z"}, 404, "", ""},
		"producers' route":        {request{path: "/v1/jobs"}, 404, "", "/admin/v1/stats"},
		"wrong method":            {request{path: "/admin/v1/dead"}, 405, "", "GET or DELETE"},
		"manifest that is larger": {request{method: "PUT", path: "/admin/v1/config", body: strings.Repeat("x", maxAdminBody+1)}, 413, "body", "bytes"},
	} {
		got := send(t, o.url, tc.request)
		p := got.problem(t)
		if got.status != tc.status || p.Field != tc.field || !strings.Contains(p.Detail, tc.says) {
			t.Errorf("%s: got %d %q %q; want %d %q … %q", name, got.status, p.Field, p.Detail, tc.status, tc.field, tc.says)
		}
	}
	stats, err := o.client.Stats(t.Context())
	must(t, err)
	if stats.Dead != 1 {
		t.Errorf("%d dead", stats.Dead)
	}
}

func TestPutConfigOverTheClient(t *testing.T) {
	t.Parallel()
	o := newOperator(t, nil)
	want := ConfigStatus{QueueUID: testUID, Generation: 4}
	o.backend.put = func(manifest []byte) (ConfigStatus, error) {
		if string(manifest) != `{"not":"checked here"` {
			return ConfigStatus{}, &ConfigError{Reason: ConfigInvalid, Field: "spec.x", Detail: "must be y"}
		}
		return want, nil
	}
	got, err := o.client.PutConfig(t.Context(), []byte(`{"not":"checked here"`))
	if err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	_, err = o.client.PutConfig(t.Context(), []byte("x"))
	e, ok := errors.AsType[*ConfigError](err)
	if !ok || *e != (ConfigError{Reason: ConfigInvalid, Field: "spec.x", Detail: "must be y"}) {
		t.Errorf("got %v", err)
	}
}

func TestAdminTokens(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(file, []byte("t\n"), 0o600))
	o := newOperator(t, func(o *AdminOptions) {
		o.Tokens = &Tokens{Path: file, Now: func() time.Time { return time.Unix(1, 0) }, Log: quiet()}
	})
	if got := send(t, o.url, request{method: "GET", path: "/admin/v1/stats"}); got.status != 401 || got.problem(t).Field != "Authorization" {
		t.Errorf("without token: %d", got.status)
	}
	c, err := NewClient(ClientOptions{URL: o.url, Token: "t"})
	must(t, err)
	defer c.Close()
	if _, err := c.Stats(t.Context()); err != nil {
		t.Errorf("with the token: %v", err)
	}
}

func TestLocalAdminAnswersNoWebPage(t *testing.T) {
	t.Parallel()
	o := newOperator(t, func(o *AdminOptions) { o.LocalOnly = true })
	for name, tc := range map[string]struct {
		host   string
		header http.Header
		status int
	}{
		"the command line":       {"", nil, 200},
		"by name":                {"localhost:8443", nil, 200},
		"by IPv6":                {"[::1]:8443", nil, 200},
		"a name bound to us":     {"evil.example", nil, 403},
		"a page elsewhere":       {"", http.Header{"Origin": {"https://evil.example"}}, 403},
		"a page on this machine": {"", http.Header{"Origin": {"http://localhost:3000"}}, 403},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, o.url+"/admin/v1/stats", nil)
		must(t, err)
		req.Host = tc.host
		req.Header = tc.header
		res, err := http.DefaultClient.Do(req)
		must(t, err)
		_ = res.Body.Close()
		if res.StatusCode != tc.status {
			t.Errorf("%s: status %d, want %d", name, res.StatusCode, tc.status)
		}
	}
}
