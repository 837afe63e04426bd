package queue

import (
	"encoding/json"
	"math"
	"testing"
	"time"
)

func TestTimeAddSaturates(t *testing.T) {
	t.Parallel()
	if got := Time(math.MaxInt64 - 1).Add(5); got != math.MaxInt64 {
		t.Errorf("got %d", got)
	}
	if got := Time(10).Add(-5); got != 5 {
		t.Errorf("got %d", got)
	}
	if got := Millis(math.MaxInt64).Std(); got < 290*365*24*time.Hour {
		t.Errorf("got %s", got)
	}
}

func FuzzTime(f *testing.F) {
	f.Add(`"2026-09-06T12:00:00.0009Z"`)
	f.Add(`"0000-01-01T00:00:00+23:59"`)
	f.Add(`5`)
	f.Fuzz(func(t *testing.T, s string) {
		var a, b Time
		if json.Unmarshal([]byte(s), &a) != nil || a.Std().Year() < 0 || a.Std().Year() > 9999 {
			return
		}
		again, err := json.Marshal(a)
		if err != nil || json.Unmarshal(again, &b) != nil || a != b {
			t.Errorf("%s is %d, written as %s, read as %d, %v", s, a, again, b, err)
		}
	})
}

func FuzzMillis(f *testing.F) {
	f.Add(`"1.5s"`)
	f.Add(`"-9223372036854775808ns"`)
	f.Fuzz(func(t *testing.T, s string) {
		var a, b Millis
		if json.Unmarshal([]byte(s), &a) != nil {
			return
		}
		again, err := json.Marshal(a)
		if err != nil || json.Unmarshal(again, &b) != nil || a != b {
			t.Errorf("%s is %d, written as %s, read as %d, %v", s, a, again, b, err)
		}
	})
}
