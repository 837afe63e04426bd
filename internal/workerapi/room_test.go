package workerapi

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// watchedBody counts itself among the bodies that are held, from its first read on.
type watchedBody struct {
	io.Reader
	first sync.Once
	held  *atomic.Int64
}

func (b *watchedBody) Read(p []byte) (int, error) {
	b.first.Do(func() { b.held.Add(1) })
	return b.Reader.Read(p)
}

func (b *watchedBody) Close() error { return nil }

func TestOnlySoMuchIsHeldOfWhatProducersSend(t *testing.T) {
	t.Parallel()
	const size = 12 << 20 // two of these fit
	b := &backend{store: openStore(t), settings: Settings{Policy: testPolicy()}}
	b.settings.Policy.Limits.MaxPayload, b.settings.Policy.Limits.MaxBytes = size, 100*size
	h := newPublic(PublicOptions{Backend: b, Now: time.Now}).handler(quiet())
	var held atomic.Int64
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			body := &watchedBody{Reader: strings.NewReader(strings.Repeat("x", size)), held: &held}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/jobs", body)
			if i%2 == 0 {
				r.ContentLength = size
			}
			r.Header.Set("Idempotency-Key", "not valid") // is found out only after the body was read
			w := httptest.NewRecorder()
			h.ServeHTTP(&leaving{ResponseWriter: w, held: &held, t: t}, r)
			if w.Code != http.StatusBadRequest {
				t.Errorf("status %d: %s", w.Code, w.Body)
			}
		})
	}
	all.Wait()
}

// leaving takes a body out of the count when its answer is begun, while its room is still taken.
type leaving struct {
	http.ResponseWriter
	held *atomic.Int64
	t    *testing.T
}

func (l *leaving) WriteHeader(status int) {
	if n := l.held.Add(-1) + 1; n > 2 {
		l.t.Errorf("%d bodies were held at once", n)
	}
	l.ResponseWriter.WriteHeader(status)
}

func TestWithoutRoomARequestIsToldToComeAgain(t *testing.T) {
	t.Parallel()
	b := &backend{store: openStore(t), settings: Settings{Policy: testPolicy()}}
	s := newPublic(PublicOptions{Backend: b, Now: time.Now})
	h := s.handler(quiet())
	if !s.room.TryAcquire(bodyRoom) {
		t.Fatal("there is no room")
	}
	try := func(path, media, body string) int {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(body))
		r.Header.Set("Content-Type", media)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if (w.Code == http.StatusServiceUnavailable) != (w.Header().Get("Retry-After") != "") {
			t.Errorf("%s: status %d with Retry-After %q", path, w.Code, w.Header().Get("Retry-After"))
		}
		return w.Code
	}
	line := `{"payload":"x"}`
	for path, media := range map[string]string{"/v1/jobs": "application/json", "/v1/jobs:batch": "application/x-ndjson"} {
		if got := try(path, media, line); got != http.StatusServiceUnavailable {
			t.Errorf("%s: status %d", path, got)
		}
	}
	if got := try("/v1/jobs", "text/plain", strings.Repeat("x", int(b.settings.Policy.Limits.MaxPayload)+1)); got != http.StatusRequestEntityTooLarge {
		t.Errorf("what can never be taken waited for room: status %d", got)
	}
	s.room.Release(bodyRoom)
	if !s.room.TryAcquire(bodyRoom) {
		t.Error("room was not given back")
	}
}
