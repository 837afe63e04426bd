package queue

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func TestDelay(t *testing.T) {
	t.Parallel()
	full := func(base, most Millis) Backoff { return Backoff{Base: base, Cap: most, Jitter: JitterFull} }
	decorrelated := func(base, most Millis) Backoff { return Backoff{Base: base, Cap: most, Jitter: JitterDecorrelated} }
	tests := map[string]struct {
		backoff  Backoff
		attempt  int
		previous Millis
		ratio    float64
		want     Millis
	}{
		"half of the first window":                               {full(100, 1000), 1, 0, .5, 50},
		"half of the second window":                              {full(100, 1000), 2, 0, .5, 100},
		"half of the third window":                               {full(100, 1000), 3, 0, .5, 200},
		"half of the cap where the window is cut":                {full(100, 250), 3, 0, .5, 125},
		"the window never exceeds the cap":                       {full(100, 1000), 5, 0, 1, 1000},
		"nothing is a possible delay":                            {full(100, 1000), 5, 0, 0, 0},
		"a fraction is rounded down":                             {full(3, 1000), 1, 0, .5, 1},
		"the last attempt there can be":                          {full(1, MaxBackoffCap), math.MaxInt, 0, 1, MaxBackoffCap},
		"previous does not matter with full jitter":              {full(100, 1000), 1, 900, .5, 50},
		"decorrelated starts between base and 3 · base: least":   {decorrelated(100, 10_000), 1, 0, 0, 100},
		"decorrelated starts between base and 3 · base: most":    {decorrelated(100, 10_000), 1, 0, 1, 300},
		"decorrelated goes on from the previous delay":           {decorrelated(100, 10_000), 2, 200, .5, 350},
		"decorrelated stays within the cap":                      {decorrelated(100, 10_000), 9, 9_000, 1, 10_000},
		"decorrelated takes a previous above the cap as the cap": {decorrelated(100, 1000), 9, 90_000, .5, 1000},
		"decorrelated takes a previous below base as base":       {decorrelated(100, 1000), 9, 1, 1, 300},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Delay(tt.backoff, tt.attempt, tt.previous, tt.ratio)
			if err != nil || got != tt.want {
				t.Errorf("Delay = %d, %v, want %d", got, err, tt.want)
			}
		})
	}
}

func TestDelayRefuses(t *testing.T) {
	t.Parallel()
	good := Backoff{Base: 100, Cap: 1000, Jitter: JitterFull}
	with := func(f func(*Backoff)) Backoff { b := good; f(&b); return b }
	tests := map[string]struct {
		backoff Backoff
		attempt int
		ratio   float64
	}{
		"not a number":              {good, 1, math.NaN()},
		"infinity":                  {good, 1, math.Inf(1)},
		"negative infinity":         {good, 1, math.Inf(-1)},
		"a ratio below 0":           {good, 1, -1e-9},
		"a ratio above 1":           {good, 1, math.Nextafter(1, 2)},
		"attempt 0":                 {good, 0, .5},
		"a negative attempt":        {good, -1, .5},
		"no base":                   {with(func(b *Backoff) { b.Base = 0 }), 1, .5},
		"a negative base":           {with(func(b *Backoff) { b.Base = -1 }), 1, .5},
		"a cap below base":          {with(func(b *Backoff) { b.Cap = 99 }), 1, .5},
		"a cap beyond its bound":    {with(func(b *Backoff) { b.Cap = MaxBackoffCap + 1 }), 1, .5},
		"no jitter":                 {with(func(b *Backoff) { b.Jitter = "" }), 1, .5},
		"a jitter that is not ours": {with(func(b *Backoff) { b.Jitter = "None" }), 1, .5},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := Delay(tt.backoff, tt.attempt, 0, tt.ratio); err == nil {
				t.Errorf("Delay = %d, want an error", got)
			}
		})
	}
}

func anyBackoff(t *rapid.T) Backoff {
	base := Millis(rapid.Int64Range(1, int64(MaxBackoffCap)).Draw(t, "base"))
	return Backoff{
		Base: base, Cap: Millis(rapid.Int64Range(int64(base), int64(MaxBackoffCap)).Draw(t, "cap")),
		Jitter: rapid.SampledFrom([]Jitter{JitterFull, JitterDecorrelated}).Draw(t, "jitter"),
	}
}

func TestDelayHoldsItsFormula(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := anyBackoff(t)
		attempt := rapid.OneOf(rapid.IntRange(1, 70), rapid.IntRange(1, math.MaxInt)).Draw(t, "attempt")
		previous := Millis(rapid.Int64().Draw(t, "previous"))
		ratio := rapid.Float64Range(0, 1).Draw(t, "ratio")
		got, err := Delay(b, attempt, previous, ratio)
		if err != nil {
			t.Fatal(err)
		}
		if b.Jitter == JitterDecorrelated {
			high := min(b.Cap, 3*min(max(previous, b.Base), b.Cap))
			if got < b.Base || got > high {
				t.Fatalf("Delay = %d, not within [%d, %d]", got, b.Base, high)
			}
			return
		}
		window := new(big.Int).Lsh(big.NewInt(int64(b.Base)), uint(min(attempt-1, 64)))
		if most := big.NewInt(int64(b.Cap)); window.Cmp(most) > 0 {
			window = most
		}
		if w := Window(b, attempt); int64(w) != window.Int64() || w > Window(b, attempt+min(1, math.MaxInt-attempt)) {
			t.Fatalf("Window = %d, want %d, and the next no smaller", w, window)
		}
		if want := Millis(math.Floor(float64(window.Int64()) * ratio)); got != want || got < 0 || got > b.Cap {
			t.Fatalf("Delay = %d, want %d", got, want)
		}
	})
}
