package sqlite

import (
	"errors"
	"testing"

	"github.com/retryqueue/retryqueue/internal/queue"
)

func TestALimitSaysWhenRoomMayHaveBeenMade(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		fill func(t *testing.T, s *Store) // with one job
		want queue.Millis
	}{
		"while an attempt runs, within its timeout": {
			fill: func(t *testing.T, s *Store) {
				mustAccept(t, s, newJobs("a", 1, 10)...)
				mustClaim(t, s, 1)
			},
			want: 10_000,
		},
		"with a job due, within the timeout of its attempt": {
			fill: func(t *testing.T, s *Store) { mustAccept(t, s, newJobs("a", 1, 10)...) },
			want: 10_000,
		},
		"with nothing due, when the next falls due": {
			fill: func(t *testing.T, s *Store) {
				jobs := newJobs("a", 1, 10)
				jobs[0].Delay = 25_000
				mustAccept(t, s, jobs...)
			},
			want: 25_000,
		},
		"with everything dead, as late as it is ever said": {
			fill: func(t *testing.T, s *Store) {
				mustAccept(t, s, newJobs("a", 1, 10)...)
				mustSettle(t, s, permanent, mustClaim(t, s, 1).Leases...)
			},
			want: maxRetryAfter,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mustOpen(t, testOptions(t))
			tt.fill(t, s)
			p := testPolicy
			p.Limits.MaxPayload, p.Limits.MaxBytes = 10, 10
			_, err := s.Accept(t.Context(), p, newJobs("b", 1, 10))
			if limit, ok := errors.AsType[*queue.LimitError](err); !ok || limit.Limit != "maxBytes" || limit.RetryAfter != tt.want {
				t.Errorf("%v (%+v), want to be told to wait %s", err, limit, tt.want)
			}
		})
	}
}
