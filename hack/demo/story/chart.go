package story

import (
	"slices"
	"strings"
	"time"

	"github.com/retryqueue/retryqueue/hack/demo/shop"
)

const bin = 250 * time.Millisecond

func since(arrivals []shop.Arrival, from time.Time) []shop.Arrival {
	i := slices.IndexFunc(arrivals, func(a shop.Arrival) bool { return !a.At.Before(from) })
	if i < 0 {
		return nil
	}
	return arrivals[i:]
}

// chart prints arrivals per 250 ms as bars; empty stretches of a second and more are folded.
func (s *Story) chart(arrivals []shop.Arrival) {
	if len(arrivals) == 0 {
		return
	}
	first := arrivals[0].At
	counts := make([]int, arrivals[len(arrivals)-1].At.Sub(first)/bin+1)
	for _, a := range arrivals {
		counts[max(0, a.At.Sub(first)/bin)]++
	}
	scale := max(1, (slices.Max(counts)+59)/60)
	for i := 0; i < len(counts); i++ {
		empty := 0
		for i+empty < len(counts) && counts[i+empty] == 0 {
			empty++
		}
		if empty >= 4 {
			s.say("     %6.2fs … nothing for %.2f s", (time.Duration(i) * bin).Seconds(), (time.Duration(empty) * bin).Seconds())
			i += empty - 1
			continue
		}
		s.say("     %6.2fs %4d %s", (time.Duration(i) * bin).Seconds(), counts[i], strings.Repeat("#", (counts[i]+scale-1)/scale))
	}
}

// peak is the largest number of arrivals within any half-open window of the given length.
func peak(arrivals []shop.Arrival, window time.Duration) int {
	at := make([]time.Time, len(arrivals))
	for i, a := range arrivals {
		at[i] = a.At
	}
	slices.SortFunc(at, time.Time.Compare)
	most, from := 0, 0
	for to := range at {
		for at[to].Sub(at[from]) >= window {
			from++
		}
		most = max(most, to-from+1)
	}
	return most
}
