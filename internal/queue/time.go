package queue

import (
	"encoding/json"
	"fmt"
	"time"
)

// Time is an instant on the store's clock: milliseconds since the Unix epoch. Zero means "not set".
// In JSON it is RFC 3339 in UTC with milliseconds.
type Time int64

// TimeOf rounds t down to the millisecond.
func TimeOf(t time.Time) Time { return Time(t.UnixMilli()) }

// Add returns t moved by d, and stays at the last representable instant instead of overflowing.
func (t Time) Add(d Millis) Time {
	if d > 0 && t > maxTime-Time(d) {
		return maxTime
	}
	return t + Time(d)
}

// Sub returns the span from u to t.
func (t Time) Sub(u Time) Millis { return Millis(t - u) }

// Std returns t as a time.Time in UTC.
func (t Time) Std() time.Time { return time.UnixMilli(int64(t)).UTC() }

func (t Time) String() string { return t.Std().Format(timeLayout) }

// MarshalJSON writes RFC 3339 with milliseconds.
func (t Time) MarshalJSON() ([]byte, error) { return json.Marshal(t.String()) }

// UnmarshalJSON reads RFC 3339 and rounds down to the millisecond.
func (t *Time) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("a time must be an RFC 3339 string: %w", err)
	}
	p, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return fmt.Errorf("a time must be RFC 3339, such as 2026-09-06T12:00:00.000Z: %w", err)
	}
	*t = TimeOf(p)
	return nil
}

const (
	timeLayout = "2006-01-02T15:04:05.000Z07:00"
	maxTime    = Time(1<<63 - 1)
)

// Millis is a span in milliseconds. In JSON it is a Go duration string such as "1.5s".
type Millis int64

// MillisOf rounds d down to the millisecond.
func MillisOf(d time.Duration) Millis { return Millis(d.Milliseconds()) }

// Std returns m as a time.Duration, saturated at its largest value (about 292 years).
func (m Millis) Std() time.Duration {
	const most = Millis(1<<63-1) / Millis(time.Millisecond)
	return time.Duration(min(m, most)) * time.Millisecond
}

func (m Millis) String() string { return m.Std().String() }

// MarshalJSON writes a Go duration string.
func (m Millis) MarshalJSON() ([]byte, error) { return json.Marshal(m.String()) }

// UnmarshalJSON reads a Go duration string.
func (m *Millis) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("a duration must be a string such as \"30s\": %w", err)
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("a duration must be a number with a unit, such as \"30s\": %w", err)
	}
	*m = MillisOf(d)
	return nil
}
