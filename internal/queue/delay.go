package queue

import (
	"fmt"
	"math"
)

// Window is the largest delay after the given attempt (1 for the first): min(cap, base · 2^(attempt-1)),
// the "capped exponential backoff" of the AWS Architecture Blog's "Exponential Backoff And Jitter" (2015).
// It saturates at Cap instead of overflowing. b must be valid and attempt at least 1.
func Window(b Backoff, attempt int) Millis {
	w := b.Base
	for i := 1; i < attempt && w < b.Cap; i++ {
		w *= 2 // cannot overflow: w < Cap <= MaxBackoffCap
	}
	return min(w, b.Cap)
}

// Delay is the wait after the given failed attempt, from a ratio in [0, 1].
//
// Full jitter: floor(Window · ratio). Decorrelated jitter: min(cap, base + floor((3·previous - base) ·
// ratio)), with previous clamped to [base, cap] (0 means there was none); both are from the AWS
// Architecture Blog's "Exponential Backoff And Jitter" (2015).
//
// It refuses an invalid Backoff, attempt < 1 and a ratio that is NaN or outside [0, 1].
func Delay(b Backoff, attempt int, previous Millis, ratio float64) (Millis, error) {
	if err := b.Validate(); err != nil {
		return 0, err
	}
	if attempt < 1 {
		return 0, fmt.Errorf("attempt must be at least 1, is %d", attempt)
	}
	if math.IsNaN(ratio) || ratio < 0 || ratio > 1 {
		return 0, fmt.Errorf("ratio must be within [0, 1], is %v", ratio)
	}
	if b.Jitter == JitterDecorrelated {
		prev := min(max(previous, b.Base), b.Cap)
		return min(b.Cap, b.Base+scale(3*prev-b.Base, ratio)), nil
	}
	return scale(Window(b, attempt), ratio), nil
}

// scale is floor(m · ratio); exact because m is far below 2^53.
func scale(m Millis, ratio float64) Millis { return Millis(math.Floor(float64(m) * ratio)) }
