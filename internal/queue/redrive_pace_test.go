package queue

import (
	"encoding/json"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// replay is a redrive and its worker, in memory.
type replay struct {
	rate      Rate
	pace      Pace
	now       Time
	left      int64
	waiting   []Time // of released and unstarted items
	available []Time // of all released items
	starts    []Time // requests
	finished  int64
}

func newReplay(r Rate, items int64) *replay {
	return &replay{rate: r, now: 1_700_000_000_000, left: items}
}

type failer interface {
	Helper()
	Fatalf(string, ...any)
}

func (s *replay) advance(t failer, gate HeldReason) Release {
	t.Helper()
	stored, err := json.Marshal(s.pace) // every advance may be another process
	if err != nil {
		t.Fatalf("%v", err)
	}
	var pace Pace
	if err := json.Unmarshal(stored, &pace); err != nil {
		t.Fatalf("%v", err)
	}
	released := int64(len(s.available))
	next, out, err := pace.Advance(s.rate, PaceInput{
		Now: s.now, Released: released, Unstarted: int64(len(s.waiting)), Outstanding: released - s.finished,
		MaxOutstanding: math.MaxInt64, Left: s.left, Gate: gate,
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
	for i, at := range out.At {
		if at < s.now || at > s.now.Add(AdvanceEvery) {
			t.Fatalf("available %d ms from now", at-s.now)
		}
		if i > 0 && at < out.At[i-1] {
			t.Fatalf("not in order: %d after %d", at, out.At[i-1])
		}
	}
	s.pace, s.left = next, s.left-int64(len(out.At))
	s.waiting, s.available = append(s.waiting, out.At...), append(s.available, out.At...)
	return out
}

// work starts up to n of the items that are available.
func (s *replay) work(n int) {
	for n > 0 && len(s.waiting) > 0 && s.waiting[0] <= s.now {
		s.starts = append(s.starts, s.now)
		s.waiting = s.waiting[1:]
		s.finished++
		n--
	}
}

func wantPace(t failer, what string, r Rate, at []Time) {
	t.Helper()
	at = slices.Sorted(slices.Values(at))
	most := int(1000*r.Jobs/int64(r.Per) + r.Burst)
	for i, first := 0, 0; i < len(at); i++ {
		for at[i]-at[first] >= 1000 {
			first++
		}
		if i-first+1 > most {
			t.Fatalf("%d %s within a second, at most %d with %+v", i-first+1, what, most, r)
		}
	}
}

// The worst that can happen to a redrive is that its two sides stall out of step.
func TestPaceHoldsOverStallsHoldsAndRestarts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := Rate{Jobs: rapid.Int64Range(1, 200).Draw(t, "jobs"), Per: Millis(rapid.SampledFrom([]int64{100, 700, 1000, 3000}).Draw(t, "per"))}
		r.Burst = r.LeastBurst() + rapid.SampledFrom([]int64{0, 0, 1, 7, 50}).Draw(t, "more")
		s := newReplay(r, 5000)
		gate := HeldReason("")
		callerAway, workerAway, slow := Millis(0), Millis(0), 1000
		for range rapid.IntRange(20, 150).Draw(t, "steps") {
			switch rapid.IntRange(0, 13).Draw(t, "event") {
			case 0:
				callerAway = Millis(rapid.IntRange(0, 5000).Draw(t, "caller away"))
			case 1:
				workerAway = Millis(rapid.IntRange(0, 5000).Draw(t, "worker away"))
			case 2:
				gate = rapid.SampledFrom([]HeldReason{"", HeldNoPermission, HeldQueueSuspended}).Draw(t, "gate")
			case 3:
				slow = rapid.IntRange(1, 20).Draw(t, "slow")
			case 4: // it all stands still after a claim and before its requests
				claimed := len(s.starts)
				s.now = s.now.Add(Millis(rapid.IntRange(0, 100).Draw(t, "before")))
				if workerAway <= 0 {
					s.work(slow)
				}
				if callerAway <= 0 && rapid.Bool().Draw(t, "an advance between") {
					s.advance(t, gate)
				}
				s.now = s.now.Add(Millis(rapid.IntRange(int(lateAfter)+1, 5000).Draw(t, "still")))
				for i := range s.starts[claimed:] {
					s.starts[claimed+i] = s.now
				}
			}
			step := Millis(rapid.IntRange(0, 150).Draw(t, "step"))
			s.now = s.now.Add(step)
			if workerAway -= step; workerAway <= 0 && rapid.Bool().Draw(t, "worker first") {
				s.work(slow)
			}
			if callerAway -= step; callerAway <= 0 {
				out := s.advance(t, gate)
				if gate != "" && (len(out.At) > 0 || out.Held != gate) {
					t.Fatalf("released %d, held %q behind %q", len(out.At), out.Held, gate)
				}
			}
			if workerAway <= 0 {
				s.work(slow)
			}
		}
		wantPace(t, "become available", r, s.available)
		wantPace(t, "are started", r, s.starts)
	})
}

// A bound is easily kept by releasing nothing.
func TestPaceReachesTheRate(t *testing.T) {
	t.Parallel()
	for _, r := range []Rate{
		{Jobs: 10, Per: 1000}, {Jobs: 20, Per: 1000}, {Jobs: 50, Per: 1000}, {Jobs: 100, Per: 1000}, {Jobs: 1000, Per: 1000},
		{Jobs: 7, Per: 3000}, {Jobs: 1, Per: 700}, {Jobs: 1, Per: 60_000}, {Jobs: 3, Per: 1000}, {Jobs: 10_000, Per: 1000},
	} {
		r.Burst = r.LeastBurst()
		for jitter := Time(0); jitter <= 4; jitter++ {
			const seconds = 60
			s := newReplay(r, math.MaxInt64)
			begun := s.now
			for i := Time(0); s.now < begun+seconds*1000; i++ { // late by a little, on a steady beat
				s.now = begun + i*100 + (i*7)%(jitter+1)
				s.advance(t, "")
				for range 10 {
					s.work(math.MaxInt)
					s.now += 10
				}
			}
			wantPace(t, "are started", r, s.starts)
			want := float64(r.Jobs) / float64(r.Per) * seconds * 1000
			if got := float64(len(s.starts)); got < want*.99-1 || got > want*1.01+float64(r.Burst) {
				t.Errorf("%+v, jitter %d ms: started %.0f, the rate gives %.0f", r, jitter, got, want)
			}
			if r.Jobs > 1000 {
				break
			}
		}
	}
}

func TestPaceGates(t *testing.T) {
	t.Parallel()
	r := Rate{Jobs: 10, Per: 1000, Burst: 5}
	const now = Time(1_700_000_000_000)
	tests := map[string]struct {
		in   PaceInput
		n    int
		held HeldReason
	}{
		"the first advance gives the burst":             {PaceInput{MaxOutstanding: 100, Left: 100}, 5, ""},
		"no more than is left":                          {PaceInput{MaxOutstanding: 100, Left: 2}, 2, ""},
		"nothing left is no hold":                       {PaceInput{MaxOutstanding: 100}, 0, ""},
		"no more than may be outstanding":               {PaceInput{Released: 7, Outstanding: 7, MaxOutstanding: 9, Left: 100}, 2, ""},
		"nothing with as many outstanding as there may": {PaceInput{Released: 9, Outstanding: 9, MaxOutstanding: 9, Left: 100}, 0, HeldOutstanding},
		"no more unstarted than the burst":              {PaceInput{Released: 3, Unstarted: 3, Outstanding: 3, MaxOutstanding: 9, Left: 100}, 2, ""},
		"nothing with the burst unstarted":              {PaceInput{Released: 5, Unstarted: 5, Outstanding: 5, MaxOutstanding: 9, Left: 100}, 0, HeldUnstarted},
		"nothing behind a gate":                         {PaceInput{MaxOutstanding: 9, Left: 100, Gate: HeldCanary}, 0, HeldCanary},
	}
	for name, tt := range tests {
		tt.in.Now = now
		_, out, err := Pace{}.Advance(r, tt.in)
		if err != nil || len(out.At) != tt.n || out.Held != tt.held {
			t.Errorf("%s: released %d, held %q, %v; want %d, %q", name, len(out.At), out.Held, err, tt.n, tt.held)
		}
	}
}

func TestPaceSpreadsJobsOverTheirSlots(t *testing.T) {
	t.Parallel()
	s := newReplay(Rate{Jobs: 30, Per: 1000, Burst: 4}, 100)
	s.advance(t, "")
	s.work(4)
	s.now += 100
	out := s.advance(t, "")
	var after []Time
	for _, at := range out.At {
		after = append(after, at-s.now)
	}
	// Slots go on every 33 1/3 ms from the first advance, of which the burst took the one at 0.
	if !slices.Equal(after, []Time{0, 0, 0, 34}) {
		t.Errorf("available after %v ms", after)
	}
}

func TestPaceGivesNoCreditForTimeHeld(t *testing.T) {
	t.Parallel()
	s := newReplay(Rate{Jobs: 10, Per: 1000, Burst: 5}, 100)
	s.advance(t, "")
	s.work(5)
	for range 100 {
		s.now += 100
		s.advance(t, HeldQueueSuspended)
	}
	s.now += 100
	if out := s.advance(t, ""); len(out.At) != 3 { // one for the 100 ms since, one now, one for the next 100 ms
		t.Errorf("released %d after ten seconds of hold", len(out.At))
	}
}

func TestPaceStartsWithTheBurstWhateverHeldItBefore(t *testing.T) {
	t.Parallel()
	s := newReplay(Rate{Jobs: 10, Per: 1000, Burst: 5}, 100)
	s.advance(t, HeldQueueSuspended)
	s.now += 100
	if out := s.advance(t, ""); len(out.At) != 5 {
		t.Errorf("released %d at first", len(out.At))
	}
}

func TestPaceFollowsAClockThatGoesBack(t *testing.T) {
	t.Parallel()
	s := newReplay(Rate{Jobs: 10, Per: 1000, Burst: 5}, 1000)
	s.advance(t, "")
	s.work(5)
	for range 30 {
		s.now += 100
		s.advance(t, "")
		s.work(5)
	}
	s.now -= 3_600_000
	s.waiting = nil // what waited for its slot has to wait for the clock; it is not what is looked at here
	started := len(s.available)
	if out := s.advance(t, ""); len(out.At) > 2 {
		t.Errorf("released %d at once when the clock went back", len(out.At))
	}
	for range 30 {
		s.now += 100
		s.work(10)
		s.advance(t, "")
	}
	if n := len(s.available) - started; n < 25 || n > 35 {
		t.Errorf("released %d in three seconds at 10/s", n)
	}
}

func TestPaceRefuses(t *testing.T) {
	t.Parallel()
	good := Rate{Jobs: 10, Per: 1000, Burst: 5}
	for name, tt := range map[string]struct {
		rate Rate
		now  Time
	}{
		"a rate of nothing":      {Rate{Per: 1000, Burst: 5}, 1},
		"a burst that is no one": {Rate{Jobs: 10, Per: 1000}, 1},
		"no time":                {good, 0},
		"time before 1970":       {good, -1},
		"time without end":       {good, math.MaxInt64},
	} {
		if _, out, err := (Pace{}).Advance(tt.rate, PaceInput{Now: tt.now, Left: 1, MaxOutstanding: 1}); err == nil {
			t.Errorf("%s: released %d", name, len(out.At))
		}
	}
}

func TestPaceDoesNotOverflow(t *testing.T) {
	t.Parallel()
	for _, r := range []Rate{
		{Jobs: MaxRateJobs, Per: MaxRatePer, Burst: maxBurst}, {Jobs: MaxRateJobs, Per: MaxRatePer, Burst: 2}, {Jobs: 1, Per: 1, Burst: 101},
	} {
		in := PaceInput{Now: maxPaceTime, Left: 10, MaxOutstanding: math.MaxInt64}
		p, out, err := Pace{}.Advance(r, in)
		if err != nil || len(out.At) == 0 || out.At[0] != maxPaceTime || p.Slot <= 0 {
			t.Errorf("%+v: %+v, %v, %v", r, p, out.At, err)
		}
	}
}

// What was claimed when the process stopped is sent when it goes on, whatever the store knew by then.
func TestPaceHoldsWhenRequestsComeLate(t *testing.T) {
	t.Parallel()
	for _, still := range []Millis{126, 250, 400, 990, 10_000} {
		r := Rate{Jobs: 20, Per: 1000}
		r.Burst = r.LeastBurst()
		s := newReplay(r, math.MaxInt64)
		for range 20 {
			for i := range 200 {
				s.now += 10
				s.work(math.MaxInt)
				if i%10 == 9 {
					s.advance(t, "")
				}
			}
			claimed := len(s.starts)
			for len(s.starts) == claimed { // up to a claim, and an advance that sees it
				s.now++
				s.work(math.MaxInt)
			}
			s.advance(t, "")
			s.now = s.now.Add(still)
			for i := range s.starts[claimed:] {
				s.starts[claimed+i] = s.now
			}
			s.advance(t, "")
		}
		wantPace(t, "are sent", r, s.starts)
	}
}
