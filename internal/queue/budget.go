package queue

import "math"

// Cost is what a policy can cost and how long it waits, so that nobody has to guess. It speaks of one job in
// one budget that is never sent a Retry-After; MaxRequests counts its redrives too.
type Cost struct {
	// LongestWait is the most that one job can wait between its attempts: the sum of the windows after each
	// attempt but the last.
	LongestWait Millis
	// MeanWait is the mean of that wait over the jitter. Judge by it, not by LongestWait, whether a queue
	// rides out an outage. It is never overstated: see [meanDecorrelated].
	MeanWait Millis
	// ReachableAttempts is how many attempts start before the deadline when each takes its whole timeout and
	// each delay its whole window.
	ReachableAttempts int
	// BestAttempts is how many start when each fails at once and each delay is the shortest. Less than the
	// policy's MaxAttempts means that some attempts can never happen.
	BestAttempts int
	// MaxRequests is the most requests that one job can cause: MaxAttempts · (1 + MaxRedrives), since a
	// redrive's budget is at most the queue's.
	MaxRequests int64
}

// CostOf is the arithmetic of p, which must be valid.
func CostOf(p Policy) Cost {
	c := Cost{
		ReachableAttempts: reachable(p, p.AttemptTimeout, longestDelay),
		BestAttempts:      reachable(p, 0, shortestDelay),
		MaxRequests:       int64(p.MaxAttempts) * (1 + int64(p.MaxRedrives)),
	}
	var sum Millis
	for i, previous := 1, Millis(0); i < p.MaxAttempts; i++ {
		previous = longestDelay(p.Backoff, i, previous)
		sum += previous
	}
	c.LongestWait = sum
	switch p.Backoff.Jitter {
	case JitterDecorrelated:
		c.MeanWait = min(meanDecorrelated(p.Backoff, p.MaxAttempts-1), sum)
	default:
		c.MeanWait = sum / 2 // uniform over [0, window]
	}
	return c
}

// reachable counts the attempts that start before the deadline when each takes the given time.
func reachable(p Policy, takes Millis, delay func(Backoff, int, Millis) Millis) int {
	var start, previous Millis
	for n := 1; ; n++ {
		if n == p.MaxAttempts {
			return n
		}
		previous = delay(p.Backoff, n, previous)
		if start += takes + previous; start >= p.Deadline {
			return n
		}
	}
}

// longestDelay is the largest that [Delay] can draw after attempt.
func longestDelay(b Backoff, attempt int, previous Millis) Millis {
	if b.Jitter == JitterDecorrelated {
		return min(b.Cap, 3*min(max(previous, b.Base), b.Cap))
	}
	return Window(b, attempt)
}

// shortestDelay is the smallest that [Delay] can draw: nothing with full jitter, base with decorrelated.
func shortestDelay(b Backoff, _ int, _ Millis) Millis {
	if b.Jitter == JitterDecorrelated {
		return b.Base
	}
	return 0
}

// meanGrid is in how many points meanDecorrelated cuts [base, cap], evenly on a logarithmic scale.
const meanGrid = 512

// meanDecorrelated is the mean total of n decorrelated delays, from below and within a percent.
//
// With V(k, p) the mean total of k more delays after a delay p, V(k, p) = E[d + V(k-1, d)], where d =
// min(cap, U) and U is uniform over [base, 3p]. V is increasing and concave in p, so that the straight lines
// between the points of a grid, over which the expectation is exact, never lie above it.
func meanDecorrelated(b Backoff, n int) Millis {
	if b.Base == b.Cap {
		return Millis(n) * b.Cap
	}
	base, top := float64(b.Base), float64(b.Cap)
	scale := math.Log(top/base) / (meanGrid - 1)
	var g grid
	for i := range g.at {
		g.at[i] = base * math.Exp(float64(i)*scale)
	}
	g.at[meanGrid-1] = top
	for range n {
		var next [meanGrid]float64
		g.integrate()
		for i := range next {
			high := 3 * g.at[i]
			sum := g.integral[meanGrid-1] + (high-top)*(top+g.value[meanGrid-1])
			if high < top {
				sum = g.upTo(high, int(math.Log(high/base)/scale))
			}
			next[i] = sum / (high - base)
		}
		g.value = next
	}
	return Millis(g.value[0])
}

// grid holds V(k, p) at points p, and the integral of x + V(k, x) from the first point to each.
type grid struct{ at, value, integral [meanGrid]float64 }

func (g *grid) integrate() {
	for i := 1; i < meanGrid; i++ {
		g.integral[i] = g.upTo(g.at[i], i-1)
	}
}

// upTo is the integral up to x, which lies in the cell after point i.
func (g *grid) upTo(x float64, i int) float64 {
	i = min(max(i, 0), meanGrid-2)
	width := x - g.at[i]
	slope := (g.value[i+1] - g.value[i]) / (g.at[i+1] - g.at[i])
	left := g.at[i] + g.value[i]
	return g.integral[i] + width*(left+width*(1+slope)/2)
}
