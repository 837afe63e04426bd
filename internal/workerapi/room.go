package workerapi

import (
	"context"
	"net/http"
	"time"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// Bounds of what producers can make the worker hold in memory, however many of them there are.
const (
	// bodyRoom is how many bytes of bodies are held at once, from before they are read until they are stored.
	bodyRoom = 32 << 20
	// roomWait is how long a request waits for room.
	roomWait = 5 * time.Second
	// bodyReadTimeout bounds the reading of a body: one that comes slowly must not keep the others out.
	bodyReadTimeout = 15 * time.Second
)

// sizing is the largest body of a request, and how often what is in it is held.
type sizing func(queue.Limits) (largest, copies int64)

func jobRoom(l queue.Limits) (largest, copies int64) { return l.MaxPayload, 1 }

// batchRoom: a batch is there as it came and as jobs.
func batchRoom(l queue.Limits) (largest, copies int64) { return maxBatchBytes(l.MaxPayload), 2 }

// withRoom lets next read a body once there is room for it. A body whose length is not told is taken for the largest.
// One that is too large is next's to refuse, which reads nothing of it then.
func (s *public) withRoom(size sizing, next handler) handler {
	return func(w http.ResponseWriter, r *http.Request, args []string) error {
		largest, copies := size(s.backend.Settings().Policy.Limits)
		if r.ContentLength > largest {
			return next(w, r, args)
		}
		bytes := largest
		if r.ContentLength >= 0 {
			bytes = r.ContentLength
		}
		bytes = min(bytes*copies, bodyRoom)
		ctx, cancel := context.WithTimeout(r.Context(), roomWait)
		defer cancel()
		if err := s.room.Acquire(ctx, bytes); err != nil {
			e := refuse(KindNotReady, "", "too much is being sent at once; send it again")
			e.Problem.retryAfter = storeRetryAfter
			return e
		}
		defer s.room.Release(bytes)
		// Not every writer has deadlines; the server's own bounds the read then.
		_ = http.NewResponseController(w).SetReadDeadline(s.now().Add(bodyReadTimeout))
		return next(w, r, args)
	}
}
