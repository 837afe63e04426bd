package workerapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/retryqueue/retryqueue/internal/queue"
)

func batch(lines ...string) request {
	return request{path: "/v1/jobs:batch", body: strings.Join(lines, "\n"), headers: map[string]string{"Content-Type": "application/x-ndjson"}}
}

func TestBatchAnswersOneResultALineInOrder(t *testing.T) {
	t.Parallel()
	a := newAPI(t, nil)
	a.send(request{path: "/v1/jobs", body: "x", headers: map[string]string{"Idempotency-Key": "known", "Content-Type": "text/plain"}})
	got := a.send(batch(
		`{"id":"b","payload":{"order": 1},"deadline":"10s","maxAttempts":2,"delay":"1s"}`,
		``,
		`{"id":"known","payload":"x","contentType":"text/plain"}`,
		`{"id":"a","payloadBase64":"/wA=","contentType":"application/octet-stream","headers":{"x-tenant":"shop","X-Many":["1","2"]}}`+"\r",
		`{"payload":""}`,
		`{"id":"b","payload":{"order": 1}}`,
		``,
	))
	if got.status != http.StatusAccepted || got.header.Get("Content-Type") != "application/x-ndjson" {
		t.Fatalf("status %d: %s", got.status, got.body)
	}
	var ids []string
	var statuses []int
	for line := range strings.Lines(got.body) {
		var r BatchResult
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		ids, statuses = append(ids, r.Job.ID), append(statuses, r.Status)
	}
	if diff := cmp.Diff([]int{202, 200, 202, 202, 200}, statuses); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
	if len(ids) != 5 || ids[0] != "b" || ids[1] != "known" || ids[2] != "a" || len(ids[3]) != 36 || ids[4] != "b" {
		t.Errorf("ids %q", ids)
	}
	b, bin := a.stored("b"), a.stored("a")
	if string(b.Payload) != `{"order": 1}` || b.ContentType != "application/json" || b.MaxAttempts != 2 ||
		b.Deadline.Sub(b.FirstReceivedAt) != 10_000 || b.AvailableAt.Sub(b.FirstReceivedAt) != 1000 {
		t.Errorf("b is %+v %q", b, b.Payload)
	}
	want := []queue.Header{{Name: "X-Many", Value: "1"}, {Name: "X-Many", Value: "2"}, {Name: "X-Tenant", Value: "shop"}}
	if diff := cmp.Diff(want, bin.Headers); diff != "" || string(bin.Payload) != "\xff\x00" {
		t.Errorf("a is %q, headers (-want +got):\n%s", bin.Payload, diff)
	}
	if a.results[ResultAccepted] != 4 || a.results[ResultKnown] != 2 {
		t.Errorf("counted %v", a.results)
	}
}

func TestBatchOfKnownIDsIsOK(t *testing.T) {
	t.Parallel()
	a := newAPI(t, nil)
	a.send(batch(`{"id":"a","payload":"x"}`))
	if got := a.send(batch(`{"id":"a","payload":"x"}`)); got.status != http.StatusOK {
		t.Errorf("status %d: %s", got.status, got.body)
	}
}

func TestBadBatchNamesTheLinesAndStoresNothing(t *testing.T) {
	t.Parallel()
	good := `{"id":"good","payload":"x"}`
	big := `{"id":"big","payload":"` + strings.Repeat("x", 1025) + `"}`
	for name, tc := range map[string]struct {
		lines  []string
		status int
		errors []LineProblem // Detail: what it must contain
	}{
		"not JSON":            {[]string{good, `{"id":`}, 422, []LineProblem{{2, "", "JSON object"}}},
		"an array":            {[]string{good, `[1]`}, 422, []LineProblem{{2, "", "JSON object"}}},
		"two on a line":       {[]string{good, `{"payload":"a"} {"payload":"b"}`}, 422, []LineProblem{{2, "", "one JSON object"}}},
		"misspelt field":      {[]string{good, `{"Id":"a","payload":"x"}`}, 422, []LineProblem{{2, "", "Id"}}},
		"repeated field":      {[]string{good, `{"id":"a","id":"b","payload":"x"}`}, 422, []LineProblem{{2, "", "id"}}},
		"not UTF-8":           {[]string{good, "{\"payload\":\"\xff\"}"}, 422, []LineProblem{{2, "", "payloadBase64"}}},
		"half a surrogate":    {[]string{`{"payload":"\ud800"}`}, 422, []LineProblem{{1, "payload", "surrogate"}}},
		"no payload":          {[]string{`{"id":"a"}`}, 422, []LineProblem{{1, "payload", "must have"}}},
		"null payload":        {[]string{`{"id":"a","payload":null}`}, 422, []LineProblem{{1, "payload", "must have"}}},
		"both payloads":       {[]string{`{"payload":"a","payloadBase64":"YQ=="}`}, 422, []LineProblem{{1, "payloadBase64", "not both"}}},
		"bad base64":          {[]string{`{"payloadBase64":"YQ"}`}, 422, []LineProblem{{1, "payloadBase64", "padding"}}},
		"empty id":            {[]string{`{"id":"","payload":"x"}`}, 422, []LineProblem{{1, "id", "leave it out"}}},
		"id of an event":      {[]string{`{"id":"` + EventID("s", "i") + `","payload":"x"}`}, 422, []LineProblem{{1, "id", "CloudEvents"}}},
		"id beyond ASCII":     {[]string{good, ``, `{"id":"ü","payload":"x"}`}, 422, []LineProblem{{3, "id", "ASCII"}}},
		"id not a string":     {[]string{`{"id":1,"payload":"x"}`}, 422, []LineProblem{{1, "id", "must be a string, not number"}}},
		"deadline a number":   {[]string{`{"deadline":5,"payload":"x"}`}, 422, []LineProblem{{1, "deadline", "must be a string, not number"}}},
		"attempts a fraction": {[]string{`{"maxAttempts":1.5,"payload":"x"}`}, 422, []LineProblem{{1, "maxAttempts", "must be a whole number"}}},
		"attempts too large":  {[]string{`{"maxAttempts":99999999999999999999,"payload":"x"}`}, 422, []LineProblem{{1, "maxAttempts", "within bounds"}}},
		"headers a list":      {[]string{`{"headers":[],"payload":"x"}`}, 422, []LineProblem{{1, "headers", "must be an object, not array"}}},
		"bad media type":      {[]string{`{"payload":"x","contentType":"x"}`}, 422, []LineProblem{{1, "contentType", "media type"}}},
		"bad deadline":        {[]string{`{"payload":"x","deadline":"5"}`}, 422, []LineProblem{{1, "deadline", "unit"}}},
		"wider deadline":      {[]string{`{"payload":"x","deadline":"2m"}`}, 422, []LineProblem{{1, "deadline", "1m0s"}}},
		"bad delay":           {[]string{`{"payload":"x","delay":"-5s"}`}, 422, []LineProblem{{1, "delay", "negative"}}},
		"bad attempts":        {[]string{`{"payload":"x","maxAttempts":0}`}, 422, []LineProblem{{1, "maxAttempts", "at least 1"}}},
		"wider attempts":      {[]string{`{"payload":"x","maxAttempts":6}`}, 422, []LineProblem{{1, "maxAttempts", "5"}}},
		"header not a string": {[]string{`{"payload":"x","headers":{"X-A":1}}`}, 422, []LineProblem{{1, "headers", "string"}}},
		"header empty list":   {[]string{`{"payload":"x","headers":{"X-A":[]}}`}, 422, []LineProblem{{1, "headers", "string"}}},
		"header null in list": {[]string{`{"payload":"x","headers":{"X-A":["1",null]}}`}, 422, []LineProblem{{1, "headers", "string"}}},
		"header surrogate":    {[]string{`{"payload":"x","headers":{"X-A":"\ud800"}}`}, 422, []LineProblem{{1, "headers", "surrogate"}}},
		"header bad name":     {[]string{`{"payload":"x","headers":{"X A":"1"}}`}, 422, []LineProblem{{1, "headers", "name"}}},
		"header injection":    {[]string{`{"payload":"x","headers":{"X-A":"1\r\nHost: x"}}`}, 422, []LineProblem{{1, "headers", "control"}}},
		"header twice":        {[]string{`{"payload":"x","headers":{"X-A":"1","x-a":"2"}}`}, 422, []LineProblem{{1, "headers", "once"}}},
		"header not kept":     {[]string{`{"payload":"x","headers":{"Authorization":"1"}}`}, 422, []LineProblem{{1, "headers", "Authorization"}}},
		"header of the type":  {[]string{`{"payload":"x","headers":{"content-type":"a/b"}}`}, 422, []LineProblem{{1, "headers", "contentType"}}},
		"two are wrong":       {[]string{`x`, good, `{"id":"ü","payload":"x"}`, `{}`}, 422, []LineProblem{{1, "", "JSON object"}, {4, "payload", "must have"}}},
		"conflict within":     {[]string{good, `{"id":"good","payload":"y"}`}, 422, []LineProblem{{2, "id", "already known"}}},
		"payload too large":   {[]string{good, ``, big}, 413, []LineProblem{{3, "payload", "too large"}}},
		"empty":               {nil, 400, nil},
		"blank lines only":    {[]string{"", " ", "\t"}, 400, nil},
		"too many lines":      {slicesRepeat(`{"payload":"x"}`, MaxBatchLines+1), 413, nil},
		"over the limit":      {slicesRepeat(`{"payload":"x"}`, 11), 429, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t, nil)
			got := a.send(batch(tc.lines...))
			p := got.problem(t)
			if got.status != tc.status || len(p.Errors) != len(tc.errors) {
				t.Fatalf("got %d %+v", got.status, p)
			}
			for i, want := range tc.errors {
				e := p.Errors[i]
				if e.Line != want.Line || e.Field != want.Field || !strings.Contains(e.Detail, want.Detail) {
					t.Errorf("got %+v, want %+v", e, want)
				}
			}
			if n := a.pending(); n != 0 || a.backend.woken != 0 {
				t.Errorf("%d jobs stored, woken %d times", n, a.backend.woken)
			}
		})
	}
}

func slicesRepeat(line string, n int) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = line
	}
	return lines
}

func TestBatchConflictWithStoredJobs(t *testing.T) {
	t.Parallel()
	a := newAPI(t, nil)
	a.send(batch(`{"id":"a","payload":"x"}`, `{"id":"b","payload":"x"}`))
	got := a.send(batch(`{"id":"new","payload":"x"}`, `{"id":"a","payload":"y"}`, ``, `{"id":"b","payload":"y"}`))
	p := got.problem(t)
	if got.status != 422 || len(p.Errors) != 2 || p.Errors[0].Line != 2 || p.Errors[1].Line != 4 {
		t.Errorf("got %d %+v", got.status, p)
	}
	if a.pending() != 2 {
		t.Errorf("%d jobs stored", a.pending())
	}
}

func TestBatchBodyIsBounded(t *testing.T) {
	t.Parallel()
	a := newAPI(t, nil)
	r := batch(strings.Repeat(" ", int(maxBatchBytes(1024))+1))
	if got := a.send(r); got.status != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d", got.status)
	}
	if least := int64(16<<20)*4/3 + 1024; maxBatchBytes(16<<20) < least {
		t.Errorf("the largest payload does not fit into a batch: %d < %d", maxBatchBytes(16<<20), least)
	}
}

func TestBatchHeaders(t *testing.T) {
	t.Parallel()
	for header, status := range map[string]int{
		"Idempotency-Key": 400, "RetryQueue-Deadline": 400, "RetryQueue-Max-Attempts": 400, "RetryQueue-Delay": 400, "RetryQueue-Dealine": 400, "Content-Encoding": 415,
	} {
		a := newAPI(t, nil)
		r := batch(`{"payload":"x"}`)
		r.headers[header] = "1"
		got := a.send(r)
		if p := got.problem(t); got.status != status || p.Field != header || a.pending() != 0 {
			t.Errorf("%s: got %d %+v", header, got.status, p)
		}
	}
}

func FuzzDecodeBatch(f *testing.F) {
	for _, seed := range []string{
		`{"id":"a","payload":{"order":1}}`, "{\"payload\":\"\"}\n\n{\"payloadBase64\":\"YQ==\"}\r\n", `{"payload":"\ud800"}`,
		`{"payload":"x","headers":{"X-A":["1","2"]},"deadline":"1s","delay":"1ms","maxAttempts":3}`, "\xff", `[]`, `{"payload":1e999}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		n := 0
		jobs, faults, err := decodeBatch(body, func() (string, error) { n++; return fmt.Sprint("made-", n), nil })
		if err != nil {
			if _, ok := errors.AsType[*ProblemError](err); !ok || jobs != nil || faults != nil {
				t.Fatalf("error %v beside %d jobs and %d faults", err, len(jobs), len(faults))
			}
			return
		}
		last := 0
		for _, j := range jobs {
			checkDecoded(t, j, last)
			last = j.line
		}
		for _, e := range faults {
			if e.Line < 1 || e.Detail == "" || !utf8.ValidString(e.Detail) {
				t.Fatalf("fault %+v", e)
			}
		}
	})
}

func checkDecoded(t *testing.T, j numbered, last int) {
	t.Helper()
	if j.line <= last {
		t.Fatalf("line %d after %d", j.line, last)
	}
	if j.job.ID == "" || eventID.MatchString(j.job.ID) || j.job.Delay < 0 || j.job.Deadline < 0 || j.job.MaxAttempts < 0 {
		t.Fatalf("job %+v", j.job)
	}
	for _, h := range j.job.Headers {
		if !Kept(h.Name) || strings.ContainsAny(h.Value, "\r\n\x00") || strings.ContainsAny(h.Name, "\r\n: ") {
			t.Fatalf("header %+v", h)
		}
	}
	if j.job.ContentSHA == ([32]byte{}) {
		t.Fatal("no content hash")
	}
}
