package workerapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/retryqueue/retryqueue/internal/queue"
)

func TestAcceptedJobIsStoredAsItCame(t *testing.T) {
	t.Parallel()
	a := newAPI(t, nil)
	got := a.send(request{path: "/v1/jobs", body: "{\"order\":\t1}\n", headers: map[string]string{
		"Idempotency-Key": "order/1", "Content-Type": "application/json; charset=utf-8", "X-Tenant": "shop",
		"RetryQueue-Deadline": "30s", "RetryQueue-Max-Attempts": "2", "RetryQueue-Delay": "1.5s",
		"Authorization": "Bearer secret", "Cookie": "a=b", "Traceparent": "00-1-2-03", "Content-Encoding": "identity",
	}})
	if got.status != http.StatusAccepted {
		t.Fatalf("status %d: %s", got.status, got.body)
	}
	if loc := got.header.Get("Location"); loc != "/v1/jobs/order%2F1" {
		t.Errorf("Location %q", loc)
	}
	v := got.job(t)
	if v.State != queue.Pending || v.MaxAttempts != 2 || v.Deadline.Sub(v.FirstReceivedAt) != 30_000 || v.AvailableAt.Sub(v.FirstReceivedAt) != 1500 {
		t.Errorf("job %+v", v)
	}
	if v.Payload != nil || v.PayloadBase64 != nil || v.Headers != nil {
		t.Errorf("the public API shows the content: %s", got.body)
	}
	j := a.stored(v.ID)
	if string(j.Payload) != "{\"order\":\t1}\n" || j.ContentType != "application/json; charset=utf-8" {
		t.Errorf("stored %q as %q", j.Payload, j.ContentType)
	}
	want := []queue.Header{{Name: "Content-Encoding", Value: "identity"}, {Name: "Traceparent", Value: "00-1-2-03"}, {Name: "X-Tenant", Value: "shop"}}
	if diff := cmp.Diff(want, j.Headers); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	if a.backend.woken != 1 || a.results[ResultAccepted] != 1 {
		t.Errorf("woken %d times, counted %v", a.backend.woken, a.results)
	}
	seen := a.send(request{method: http.MethodGet, path: got.header.Get("Location")})
	if diff := cmp.Diff(v, seen.job(t)); seen.status != http.StatusOK || diff != "" {
		t.Errorf("GET answers %d (-POST +GET):\n%s", seen.status, diff)
	}
}

func TestSameIDAgain(t *testing.T) {
	t.Parallel()
	a := newAPI(t, nil)
	key := map[string]string{"Idempotency-Key": "a", "Content-Type": "text/plain", "RetryQueue-Max-Attempts": "2"}
	first := a.send(request{path: "/v1/jobs", body: "x", headers: key})
	key["RetryQueue-Max-Attempts"] = "5"
	again := a.send(request{path: "/v1/jobs", body: "x", headers: key})
	if again.status != http.StatusOK {
		t.Fatalf("known id: status %d: %s", again.status, again.body)
	}
	if diff := cmp.Diff(first.job(t), again.job(t)); diff != "" {
		t.Errorf("the stored job changed:\n%s", diff)
	}
	for name, r := range map[string]request{
		"another payload":    {path: "/v1/jobs", body: "y", headers: key},
		"another media type": {path: "/v1/jobs", body: "x", headers: map[string]string{"Idempotency-Key": "a", "Content-Type": "text/html"}},
	} {
		got := a.send(r)
		if p := got.problem(t); got.status != http.StatusConflict || p.Kind() != KindContentConflict {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if a.backend.woken != 1 || a.results[ResultKnown] != 1 || a.results[ResultConflict] != 2 {
		t.Errorf("woken %d, counted %v", a.backend.woken, a.results)
	}
}

func TestIDsAreMadeAndMayBeOdd(t *testing.T) {
	t.Parallel()
	a := newAPI(t, nil)
	one, two := a.send(request{path: "/v1/jobs"}).job(t), a.send(request{path: "/v1/jobs"}).job(t)
	if len(one.ID) != 36 || one.ID[14] != '7' || one.ID >= two.ID {
		t.Errorf("ids %q, %q are not UUIDs of version 7", one.ID, two.ID)
	}
	for _, id := range []string{"..", ".", "a/b", "/", "//", "a%2Fb", "?x=1", "#", "a+b", `"q"`, "plan", ":batch", "%"} {
		got := a.send(request{path: "/v1/jobs", headers: map[string]string{"Idempotency-Key": id}})
		if got.status != http.StatusAccepted {
			t.Errorf("id %q: status %d: %s", id, got.status, got.body)
			continue
		}
		seen := a.send(request{method: http.MethodGet, path: "/v1/jobs/" + escapeID(id)})
		if seen.status != http.StatusOK || seen.job(t).ID != id {
			t.Errorf("id %q: GET answers %d %s", id, seen.status, seen.body)
		}
		if _, err := a.backend.store.Job(t.Context(), id); err != nil {
			t.Errorf("id %q: %v", id, err)
		}
		a.backend.settings.Policy.Limits.MaxPending++
	}
}

func TestBadRequestsNameTheFieldAndStoreNothing(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 300)
	key := func(more ...string) map[string]string {
		h := map[string]string{"Idempotency-Key": "k", "Content-Type": "text/plain"}
		for i := 0; i < len(more); i += 2 {
			h[more[i]] = more[i+1]
		}
		return h
	}
	for name, tc := range map[string]struct {
		request
		status int
		field  string
		says   string
	}{
		"empty key":                   {request{headers: key("Idempotency-Key", "")}, 400, "Idempotency-Key", "leave it out"},
		"long key":                    {request{headers: key("Idempotency-Key", long)}, 400, "Idempotency-Key", "256"},
		"key with a space":            {request{headers: key("Idempotency-Key", "a b")}, 400, "Idempotency-Key", "spaces"},
		"key beyond ASCII":            {request{headers: key("Idempotency-Key", "ü")}, 400, "Idempotency-Key", "ASCII"},
		"key of an event's form":      {request{headers: key("Idempotency-Key", EventID("s", "i"))}, 400, "Idempotency-Key", "CloudEvents"},
		"two keys":                    {request{raw: http.Header{"Idempotency-Key": {"a", "b"}}}, 400, "Idempotency-Key", "once"},
		"deadline without unit":       {request{headers: key("RetryQueue-Deadline", "5")}, 400, "RetryQueue-Deadline", "unit"},
		"negative deadline":           {request{headers: key("RetryQueue-Deadline", "-5m")}, 400, "RetryQueue-Deadline", "negative"},
		"deadline of nothing":         {request{headers: key("RetryQueue-Deadline", "0s")}, 400, "RetryQueue-Deadline", "1ms"},
		"empty deadline":              {request{headers: key("RetryQueue-Deadline", "")}, 400, "RetryQueue-Deadline", "unit"},
		"huge deadline":               {request{headers: key("RetryQueue-Deadline", "9999999999h")}, 400, "RetryQueue-Deadline", "duration"},
		"wider deadline":              {request{headers: key("RetryQueue-Deadline", "2m")}, 400, "RetryQueue-Deadline", "1m0s"},
		"attempts not a number":       {request{headers: key("RetryQueue-Max-Attempts", "many")}, 400, "RetryQueue-Max-Attempts", "whole number"},
		"attempts of zero":            {request{headers: key("RetryQueue-Max-Attempts", "0")}, 400, "RetryQueue-Max-Attempts", "at least 1"},
		"attempts beyond int":         {request{headers: key("RetryQueue-Max-Attempts", "99999999999999999999")}, 400, "RetryQueue-Max-Attempts", "whole number"},
		"wider attempts":              {request{headers: key("RetryQueue-Max-Attempts", "6")}, 400, "RetryQueue-Max-Attempts", "5"},
		"two attempts":                {request{raw: http.Header{headerMaxAttempts: {"1", "2"}}}, 400, "RetryQueue-Max-Attempts", "once"},
		"negative delay":              {request{headers: key("RetryQueue-Delay", "-1s")}, 400, "RetryQueue-Delay", "negative"},
		"delay that reaches deadline": {request{headers: key("RetryQueue-Delay", "60s")}, 400, "RetryQueue-Delay", "deadline"},
		"misspelt header":             {request{headers: key("RetryQueue-MaxAttempts", "3")}, 400, "RetryQueue-Maxattempts", "RetryQueue-Max-Attempts"},
		"bad media type":              {request{headers: key("Content-Type", "nonsense")}, 400, "Content-Type", "media type"},
		"long media type":             {request{headers: key("Content-Type", "a/"+long)}, 400, "Content-Type", "256"},
		"two media types":             {request{raw: http.Header{"Content-Type": {"a/b", "c/d"}}}, 400, "Content-Type", "once"},
		"query parameter":             {request{path: "/v1/jobs?delay=3s", headers: key()}, 400, "delay", "remove"},
		"broken query":                {request{path: "/v1/jobs?%zz", headers: key()}, 400, "query", "escape"},
		"payload too large":           {request{body: strings.Repeat("x", 1025), headers: key()}, 413, "body", "1024"},
		"too many headers":            {request{headers: key(), raw: http.Header{"X-A": make([]string, 65)}}, 400, "headers", "64"},
		"too large headers":           {request{headers: key("X-A", strings.Repeat("x", 17<<10))}, 400, "headers", "16384"},
		"event with a key":            {request{headers: key("ce-id", "1", "ce-source", "s", "ce-type", "t", "ce-specversion", "1.0")}, 400, "Idempotency-Key", "CloudEvent"},
		"ce-id alone with a key":      {request{headers: key("ce-id", "1")}, 400, "Idempotency-Key", "CloudEvent"},
		"event without specversion":   {request{headers: map[string]string{"ce-id": "1", "ce-source": "s", "ce-type": "t"}}, 400, "ce-specversion", "1.0"},
		"event of another version":    {request{headers: map[string]string{"ce-id": "1", "ce-source": "s", "ce-type": "t", "ce-specversion": "9"}}, 400, "ce-*", "CloudEvent"},
		"event without id":            {request{headers: map[string]string{"ce-source": "s", "ce-type": "t", "ce-specversion": "1.0"}}, 400, "ce-*", "id"},
		"event without source":        {request{headers: map[string]string{"ce-id": "1", "ce-type": "t", "ce-specversion": "1.0"}}, 400, "ce-*", "source"},
		"event without type":          {request{headers: map[string]string{"ce-id": "1", "ce-source": "s", "ce-specversion": "1.0"}}, 400, "ce-*", "type"},
		"event with a bad time":       {request{headers: map[string]string{"ce-id": "1", "ce-source": "s", "ce-type": "t", "ce-specversion": "1.0", "ce-time": "noon"}}, 400, "ce-*", ""},
		"attribute without name":      {request{raw: http.Header{"Ce-": {"x"}, "Ce-Specversion": {"1.0"}}}, 400, "Ce-", "letters"},
		"attribute with odd name":     {request{raw: http.Header{"Ce-A_b": {"x"}, "Ce-Specversion": {"1.0"}}}, 400, "Ce-A_b", "letters"},
		"attribute twice":             {request{raw: http.Header{"Ce-Id": {"x", "y"}, "Ce-Specversion": {"1.0"}}}, 400, "ce-id", "once"},
		"structured, not JSON":        {request{body: "{", headers: map[string]string{"Content-Type": "application/cloudevents+json"}}, 400, "body", "CloudEvent"},
		"structured, incomplete":      {request{body: `{"specversion":"1.0","id":"1"}`, headers: map[string]string{"Content-Type": "application/cloudevents+json"}}, 400, "body", "complete"},
		"structured, empty":           {request{headers: map[string]string{"Content-Type": "application/cloudevents+json"}}, 400, "body", "CloudEvent"},
		"structured and binary":       {request{body: "{}", headers: map[string]string{"Content-Type": "application/cloudevents+json", "ce-id": "1"}}, 400, "Content-Type", "not both"},
		"structured with a key":       {request{body: "{}", headers: map[string]string{"Content-Type": "application/cloudevents+json", "Idempotency-Key": "k"}}, 400, "Idempotency-Key", "CloudEvent"},
		"structured and compressed":   {request{body: "{}", headers: map[string]string{"Content-Type": "application/cloudevents+json", "Content-Encoding": "gzip"}}, 415, "Content-Encoding", "without"},
		"structured, another format":  {request{body: "{}", headers: map[string]string{"Content-Type": "application/cloudevents+avro"}}, 415, "Content-Type", "cloudevents+json"},
		"batch of events":             {request{body: "[]", headers: map[string]string{"Content-Type": "application/cloudevents-batch+json"}}, 415, "Content-Type", "one event"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t, nil)
			if tc.path == "" {
				tc.path = "/v1/jobs"
			}
			got := a.send(tc.request)
			p := got.problem(t)
			if got.status != tc.status || p.Field != tc.field || !strings.Contains(p.Detail, tc.says) {
				t.Errorf("got %d %q %q; want %d %q … %q", got.status, p.Field, p.Detail, tc.status, tc.field, tc.says)
			}
			if n := a.pending(); n != 0 || a.backend.woken != 0 {
				t.Errorf("%d jobs stored, woken %d times", n, a.backend.woken)
			}
			if a.results[ResultInvalid]+a.results[ResultTooLarge] != 1 {
				t.Errorf("counted %v", a.results)
			}
		})
	}
}

func TestUnknownRoutesAndMethods(t *testing.T) {
	t.Parallel()
	a := newAPI(t, nil)
	for name, tc := range map[string]struct {
		request
		status int
		kind   Kind
		allow  string
	}{
		"root":              {request{path: "/"}, 404, KindUnknownRoute, ""},
		"trailing slash":    {request{path: "/v1/jobs/"}, 404, KindUnknownRoute, ""},
		"too deep":          {request{path: "/v1/jobs/a/b"}, 404, KindUnknownRoute, ""},
		"not clean":         {request{path: "/v1//jobs"}, 404, KindUnknownRoute, ""},
		"admin":             {request{method: "GET", path: "/admin/v1/stats"}, 404, KindUnknownRoute, ""},
		"GET of the list":   {request{method: "GET", path: "/v1/jobs"}, 405, KindMethodNotAllowed, "POST"},
		"DELETE of a job":   {request{method: "DELETE", path: "/v1/jobs/a"}, 405, KindMethodNotAllowed, "GET"},
		"odd method":        {request{method: "BREW", path: "/v1/jobs"}, 405, KindMethodNotAllowed, "POST"},
		"unknown job":       {request{method: "GET", path: "/v1/jobs/nobody"}, 404, KindNotFound, ""},
		"over-long id":      {request{method: "GET", path: "/v1/jobs/" + strings.Repeat("x", 1000)}, 404, KindNotFound, ""},
		"id beyond UTF-8":   {request{method: "GET", path: "/v1/jobs/%ff%00"}, 404, KindNotFound, ""},
		"GET with a query":  {request{method: "GET", path: "/v1/jobs/a?full=1"}, 400, KindInvalidRequest, ""},
		"batch, not NDJSON": {request{path: "/v1/jobs:batch", body: "{}"}, 415, KindUnsupportedMedia, ""},
	} {
		got := a.send(tc.request)
		p := got.problem(t)
		if got.status != tc.status || p.Kind() != tc.kind || got.header.Get("Allow") != tc.allow {
			t.Errorf("%s: got %d %q allow %q: %s", name, got.status, p.Kind(), got.header.Get("Allow"), p.Detail)
		}
	}
}

func TestLimitsAreAnsweredClearly(t *testing.T) {
	t.Parallel()
	a := newAPI(t, func(_ *PublicOptions, b *backend) { b.settings.Policy.Limits.MaxPending = 1 })
	if got := a.send(request{path: "/v1/jobs", headers: map[string]string{"Idempotency-Key": "a"}}); got.status != http.StatusAccepted {
		t.Fatalf("status %d", got.status)
	}
	got := a.send(request{path: "/v1/jobs", headers: map[string]string{"Idempotency-Key": "b"}})
	p := got.problem(t)
	if got.status != http.StatusTooManyRequests || p.Field != "maxPending" || got.header.Get("Retry-After") < "1" {
		t.Errorf("got %d %+v, Retry-After %q", got.status, p, got.header.Get("Retry-After"))
	}
	if again := a.send(request{path: "/v1/jobs", headers: map[string]string{"Idempotency-Key": "a"}}); again.status != http.StatusOK {
		t.Errorf("a known id is answered %d at the limit", again.status)
	}
	if a.results[ResultLimited] != 1 || a.pending() != 1 {
		t.Errorf("counted %v, %d stored", a.results, a.pending())
	}
}

// broken is a store that accepts nothing: it answers err, or panics without one.
type broken struct {
	queue.Store
	err error
}

func (b broken) Accept(context.Context, queue.Policy, []queue.NewJob) ([]queue.Accepted, error) {
	if b.err == nil {
		panic("a secret: s3cr3t")
	}
	return nil, b.err
}

func TestTroubleOfTheStoreIsToldWithoutItsInside(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		store  queue.Store
		status int
		kind   Kind
	}{
		"no store":      {nil, 503, KindNotReady},
		"full":          {broken{err: queue.ErrStorageFull}, 503, KindStorageFull},
		"fenced":        {broken{err: queue.ErrFenced}, 503, KindFenced},
		"some error":    {broken{err: errors.New("disk /var/lib/s3cr3t broke")}, 503, KindStoreUnavailable},
		"a panic of it": {broken{}, 500, KindInternal},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t, func(_ *PublicOptions, b *backend) { b.store = tc.store })
			got := a.send(request{path: "/v1/jobs"})
			p := got.problem(t)
			if got.status != tc.status || p.Kind() != tc.kind || strings.Contains(got.body, "s3cr3t") {
				t.Errorf("got %d %s", got.status, got.body)
			}
			if tc.status == 503 && got.header.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
		})
	}
}
