package workerapi

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/retryqueue/retryqueue/internal/queue"
)

func TestEventsGoOnAsTheyCame(t *testing.T) {
	t.Parallel()
	const structured = `{"specversion":"1.0","id":"1","source":"/shop","type":"t","data":{"a":1},"time":"2026-01-02T03:04:05Z"}`
	id := EventID("/shop", "1")
	for name, tc := range map[string]struct {
		request
		headers []queue.Header
	}{
		"binary": {
			request{body: "data", headers: map[string]string{
				"ce-id": "1", "ce-source": "/shop", "ce-type": "t", "ce-specversion": "1.0", "ce-tenant": "x", "Content-Type": "text/plain",
			}},
			[]queue.Header{{Name: "Ce-Id", Value: "1"}, {Name: "Ce-Source", Value: "/shop"}, {Name: "Ce-Specversion", Value: "1.0"},
				{Name: "Ce-Tenant", Value: "x"}, {Name: "Ce-Type", Value: "t"}},
		},
		"structured": {request{body: structured, headers: map[string]string{"Content-Type": "application/cloudevents+json; charset=utf-8"}}, nil},
		"binary of version 0.3": {
			request{headers: map[string]string{"ce-id": "1", "ce-source": "/shop", "ce-type": "t", "ce-specversion": "0.3"}},
			[]queue.Header{{Name: "Ce-Id", Value: "1"}, {Name: "Ce-Source", Value: "/shop"}, {Name: "Ce-Specversion", Value: "0.3"}, {Name: "Ce-Type", Value: "t"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t, nil)
			tc.path = "/v1/jobs"
			got := a.send(tc.request)
			if got.status != http.StatusAccepted || got.job(t).ID != id {
				t.Fatalf("status %d: %s", got.status, got.body)
			}
			j := a.stored(id)
			if string(j.Payload) != tc.body || j.ContentType != tc.request.headers["Content-Type"] {
				t.Errorf("stored %q as %q", j.Payload, j.ContentType)
			}
			if diff := cmp.Diff(tc.headers, j.Headers); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
			if again := a.send(tc.request); again.status != http.StatusOK {
				t.Errorf("the same event again: %d %s", again.status, again.body)
			}
		})
	}
}

func TestEventsAreComparedByWhatTheyMean(t *testing.T) {
	t.Parallel()
	event := func(more ...string) request {
		h := map[string]string{"ce-id": "1", "ce-source": "/shop", "ce-type": "t", "ce-specversion": "1.0"}
		for i := 0; i < len(more); i += 2 {
			h[more[i]] = more[i+1]
		}
		return request{path: "/v1/jobs", body: "data", headers: h}
	}
	a := newAPI(t, nil)
	if got := a.send(event("ce-time", "2026-01-02T03:04:05Z")); got.status != http.StatusAccepted {
		t.Fatalf("status %d: %s", got.status, got.body)
	}
	for name, tc := range map[string]struct {
		r      request
		status int
	}{
		"sent again later":          {event("ce-time", "2026-01-02T03:04:06Z", "ce-traceparent", "00-x-y-01"), 200},
		"of another type":           {event("ce-type", "u"), 409},
		"of another source":         {event("ce-source", "/other"), 202},
		"with one attribute more":   {event("ce-tenant", "x"), 409},
		"the same id, not an event": {request{path: "/v1/jobs", headers: map[string]string{"Idempotency-Key": "1"}}, 202},
	} {
		if got := a.send(tc.r); got.status != tc.status {
			t.Errorf("%s: got %d, want %d: %s", name, got.status, tc.status, got.body)
		}
	}
}

func TestEventsThatCouldBeReadAsTwoAreRefused(t *testing.T) {
	t.Parallel()
	const rest = `"specversion":"1.0","type":"t"`
	for name, tc := range map[string]struct{ body, field string }{
		"an id twice":                   {`{"id":"1","id":"2","source":"s",` + rest + `}`, "body"},
		"two sorts of data":             {`{"id":"1","source":"s","data":1,"data_base64":"AA==",` + rest + `}`, "data_base64"},
		"an id that is not UTF-8":       {"{\"id\":\"\xff\",\"source\":\"s\"," + rest + "}", "body"},
		"half a surrogate in an id":     {`{"id":"\ud800","source":"s",` + rest + `}`, "id"},
		"half a surrogate in a source":  {`{"id":"1","source":"\udfff",` + rest + `}`, "source"},
		"a control character in an id":  {`{"id":"a\u0000b","source":"s",` + rest + `}`, "id"},
		"one of them, and the other no": {`{"id":"1","source":"s","data":null,"data_base64":"AA==","x":"1",` + rest + `}`, ""},
		"a member twice within data":    {`{"id":"1","source":"s","data":{"id":1,"id":2},` + rest + `}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t, nil)
			got := a.send(request{path: "/v1/jobs", body: tc.body, headers: map[string]string{"Content-Type": "application/cloudevents+json"}})
			if tc.field == "" {
				if got.status != http.StatusAccepted {
					t.Errorf("refused: %d %s", got.status, got.body)
				}
				return
			}
			if p := got.problem(t); got.status != http.StatusBadRequest || p.Field != tc.field || p.Detail == "" || a.pending() != 0 {
				t.Errorf("got %d %+v", got.status, p)
			}
		})
	}
}

func TestEventIDSeparatesSourceAndID(t *testing.T) {
	t.Parallel()
	if EventID("a", "bc") == EventID("ab", "c") {
		t.Error("source and id run into each other")
	}
	if got := EventID("/shop", "1"); !eventID.MatchString(got) {
		t.Errorf("EventID is %q", got)
	}
}
