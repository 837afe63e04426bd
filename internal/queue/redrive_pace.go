package queue

import (
	"fmt"
	"slices"
)

// Pace is what the pacing of a redrive remembers between two advances; it is stored in the transaction that
// releases. The zero value is that of a redrive that was never advanced.
//
// It is the generic cell rate algorithm (ITU-T I.371) in whole numbers, in units of ms·jobs so that nothing is
// rounded: one job costs Per units and a millisecond gives Jobs of them.
type Pace struct {
	// Slot is when the next job is due by the rate, in units: ms since 1970 times Jobs.
	Slot int64 `json:"slot"`
	// Last is the time of the latest advance.
	Last Time `json:"last"`
	// Starts tells how many items had been started by when, oldest first, over about the last second.
	Starts []StartMark `json:"starts,omitempty"`
}

// StartMark says that Count items had been claimed at least once at some time up to At.
type StartMark struct {
	At    Time  `json:"at"`
	Count int64 `json:"n"`
	// Late says that the advance after this mark came late: the process may have stood still, so that requests of
	// what had been claimed just before the mark went out only then.
	Late bool `json:"late,omitempty"`
}

// PaceInput is what one advance sees.
type PaceInput struct {
	Now            Time
	Released       int64      // items released so far, whatever became of them
	Unstarted      int64      // of these, not yet claimed once
	Outstanding    int64      // of these, unfinished
	MaxOutstanding int64      // bound on Outstanding
	Left           int64      // items that may still be released, the canary's only while it runs
	Gate           HeldReason // when not empty: release nothing
}

// Release is what one advance lets go.
type Release struct {
	// At is when each of the next items becomes available, in order of release: at or after Now and at most
	// AdvanceEvery later.
	At []Time
	// Held is what kept anything from being released, besides the rate; empty when something was.
	Held HeldReason
}

// maxPaceTime bounds Now so that units fit 63 bits with room to spare: the year 3237.
const maxPaceTime = Time(40_000_000_000_000)

// Advance says what may be released at in.Now, and the pace to remember. It is to be called about every
// AdvanceEvery, also with a Gate, so that the redrive gains no credit while it is held.
//
// Two bounds hold over every window of one second, whatever stalls, restarts or comes late: no more than
// rate + burst items become available, and no more than rate + burst are started. The second also holds for their
// requests, when the process stands still between a claim and its requests.
func (p Pace) Advance(r Rate, in PaceInput) (Pace, Release, error) {
	if err := r.Validate(); err != nil {
		return p, Release{}, err
	}
	if in.Now <= 0 || in.Now > maxPaceTime {
		return p, Release{}, fmt.Errorf("the store's clock says %d ms since 1970, which cannot be", in.Now)
	}
	if p.Last == 0 && in.Gate != "" {
		return p, Release{Held: in.Gate}, nil // never advanced: there is no credit to lose
	}
	p = p.late(in.Now).follow(r, in.Now).mark(in.Now, in.Released-in.Unstarted)
	now, per := int64(in.Now)*r.Jobs, int64(r.Per)
	p.Slot = max(p.Slot, now-(r.Burst-1)*per)
	due := max(0, floorDiv(now+int64(AdvanceEvery)*r.Jobs-p.Slot, per)+1)
	room, held := in.room(r)
	var out Release
	at := in.Now
	for i := range min(due, room, in.Left) {
		var ok bool
		if at, ok = p.earliest(r, in, max(at, Time((p.Slot+r.Jobs-1)/r.Jobs)), i); !ok {
			break
		}
		out.At = append(out.At, at)
		p.Slot += per
	}
	if room < min(due, in.Left) || in.Gate != "" {
		p.Slot = max(p.Slot, now) // held: no credit accrues
	}
	if len(out.At) == 0 && in.Left > 0 || in.Gate != "" {
		out.Held = held
	}
	return p, out, nil
}

// room is how many the gates let through, and which gate is shut if none.
func (in PaceInput) room(r Rate) (int64, HeldReason) {
	unstarted, outstanding := r.Burst-in.Unstarted, in.MaxOutstanding-in.Outstanding
	switch {
	case in.Gate != "":
		return 0, in.Gate
	case unstarted <= 0:
		return 0, HeldUnstarted
	case outstanding <= 0:
		return 0, HeldOutstanding
	}
	return min(unstarted, outstanding), ""
}

// earliest is when one more job may become available, at or after the given time, with before others released
// ahead of it in this advance; ok is false when that is beyond this advance.
//
// Whichever second its start falls into, what else can fall into that second is what was started in the second
// before it is available, what waits to be started, and these others. That steps down where a mark is passed.
func (p Pace) earliest(r Rate, in PaceInput, at Time, before int64) (t Time, ok bool) {
	most := second.jobs(r) + r.Burst
	others := in.Released + before
	next, _ := slices.BinarySearchFunc(p.Starts, at.Add(-second)+1, func(m StartMark, t Time) int { return int(m.At - t) })
	for ; ; next++ {
		gone := p.sent(next - 1) // surely more than a second before
		if others-gone+1 <= most {
			return at, true
		}
		if next == len(p.Starts) {
			return at, false
		}
		if at = p.Starts[next].At.Add(second); at > in.Now.Add(AdvanceEvery) {
			return at, false
		}
	}
}

const second = Millis(1000)

// jobs is what r gives in m, rounded down.
func (m Millis) jobs(r Rate) int64 { return int64(m) * r.Jobs / int64(r.Per) }

// markEvery is the least time between two marks, so that there are few whatever the caller does.
const markEvery = AdvanceEvery / 2

// lateAfter is how long after another an advance comes late. What a shorter stop holds up is not known.
const lateAfter = AdvanceEvery + AdvanceEvery/4

// late notes that nothing is known of the time since the latest advance, if that is long ago.
func (p Pace) late(now Time) Pace {
	if p.Last == 0 || now.Sub(p.Last) <= lateAfter {
		return p
	}
	p.Starts = slices.Clone(p.Starts)
	for i := range p.Starts {
		if p.Starts[i].At > p.Last.Add(-markEvery) {
			p.Starts[i].Late = true
		}
	}
	return p
}

// sent is how many requests had surely been sent by the mark i: all that were claimed by then or, if the process
// may have stood still since, all that were claimed by the mark before.
func (p Pace) sent(i int) int64 {
	if i >= 0 && p.Starts[i].Late {
		i--
	}
	if i < 0 {
		return 0
	}
	return p.Starts[i].Count
}

// mark remembers how many were started by now, and forgets what is too old to matter.
func (p Pace) mark(now Time, started int64) Pace {
	marks := slices.Clone(p.Starts)
	if n := len(marks); n == 0 || now.Sub(marks[n-1].At) >= markEvery {
		marks = append(marks, StartMark{At: now, Count: started})
	}
	old := func(i int) bool { return len(marks) > i && marks[i].At <= now.Add(-second) }
	for old(1) && !marks[1].Late || old(2) {
		marks = marks[1:]
	}
	p.Starts = marks
	return p
}

// follow moves the pace to now. A clock that went back takes everything along, so that the redrive does not
// wait for the old time to come again, and gives no credit.
func (p Pace) follow(r Rate, now Time) Pace {
	if back := p.Last.Sub(now); p.Last != 0 && back > 0 {
		p.Slot = max(p.Slot-int64(back)*r.Jobs, int64(now)*r.Jobs)
		p.Starts = slices.Clone(p.Starts)
		for i := range p.Starts {
			p.Starts[i].At = min(p.Starts[i].At, now)
		}
	}
	p.Last = now
	return p
}

// floorDiv is floor(a / b) for b > 0.
func floorDiv(a, b int64) int64 {
	if q := a / b; a%b >= 0 {
		return q
	}
	return a/b - 1
}
