package sqlite

import (
	"testing"

	"github.com/retryqueue/retryqueue/internal/queue"
	"github.com/retryqueue/retryqueue/internal/queue/storetest"
)

func TestLogicalClock(t *testing.T) {
	t.Parallel()
	const start = storetest.Start
	type step struct {
		advance, stepWall queue.Millis
		want              queue.Time
		jumped            bool
	}
	tests := map[string]struct {
		floor queue.Time
		steps []step
	}{
		"follows the wall clock": {steps: []step{{advance: 10, want: start + 10}, {advance: 5, want: start + 15}}},
		"starts from the latest time stored, and goes on from there while the wall clock is behind": {
			floor: start + 60_000, steps: []step{{want: start + 60_000}, {advance: 1000, want: start + 61_000}},
		},
		"goes on when the wall clock is set back": {
			steps: []step{{advance: 10, want: start + 10}, {stepWall: -240_000, want: start + 10}, {advance: 7, want: start + 17}},
		},
		"follows a wall clock that is set forward a little": {
			steps: []step{{stepWall: 300_000, want: start + 300_000}},
		},
		"does not follow a leap until it has stood for a minute": {
			steps: []step{
				{stepWall: 300_001, want: start, jumped: true},
				{advance: 59_999, want: start + 59_999, jumped: true},
				{advance: 1, want: start + 360_001},
			},
		},
		"forgets a leap that is taken back": {
			steps: []step{
				{stepWall: 3_600_000, want: start, jumped: true},
				{advance: 30_000, want: start + 30_000, jumped: true},
				{stepWall: -3_600_000, want: start + 30_000},
				{stepWall: 3_600_000, want: start + 30_000, jumped: true},
				{advance: 59_000, want: start + 89_000, jumped: true},
			},
		},
		"shows a monotonic clock that goes back": {
			steps: []step{{advance: 1000, want: start + 1000}, {advance: -400, want: start + 600}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := storetest.NewClock()
			c := newLogicalClock(source, tt.floor)
			for i, s := range tt.steps {
				source.Advance(s.advance)
				source.StepWall(s.stepWall)
				if now, jumped := c.read(); now != s.want || jumped != s.jumped {
					t.Errorf("step %d: start%+d, jumped %v; want start%+d, %v", i, now-start, jumped, s.want-start, s.jumped)
				}
			}
		})
	}
}
