package delivery

import (
	"net/http"
	"testing"
	"time"

	"github.com/retryqueue/retryqueue/internal/queue"
)

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	date := func(d time.Duration) string { return epoch.Add(d).Format(http.TimeFormat) }
	for name, tt := range map[string]struct {
		value, date string
		want        queue.Millis
	}{
		"none":                                   {},
		"seconds":                                {value: "120", want: 120_000},
		"no seconds":                             {value: "0"},
		"negative seconds":                       {value: "-5"},
		"seconds with space around":              {value: " 7 ", want: 7000},
		"a fraction is no whole number":          {value: "1.5"},
		"more seconds than fit":                  {value: "99999999999999999999999", want: maxRetryAfter},
		"more seconds than make sense":           {value: "9999999", want: maxRetryAfter},
		"a date counts from the answer's Date":   {value: date(time.Hour + 90*time.Second), date: date(time.Hour), want: 90_000},
		"a date counts from now without a Date":  {value: date(90 * time.Second), want: 90_000},
		"and from now when the Date is nonsense": {value: date(90 * time.Second), date: "yesterday", want: 90_000},
		"a date in the past":                     {value: date(-time.Hour), date: date(0)},
		"a date in a thousand years":             {value: "Fri, 31 Dec 9999 23:59:59 GMT", date: date(0), want: maxRetryAfter},
		"nonsense":                               {value: "soon"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := http.Header{}
			h.Set("Retry-After", tt.value)
			h.Set("Date", tt.date)
			if got := retryAfter(h, epoch); got != tt.want {
				t.Errorf("retryAfter = %s, want %s", got, tt.want)
			}
		})
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, v := range []string{"", "0", "-1", "120", "99999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994", "1e9", "\x00"} {
		f.Add(v, "Sun, 06 Nov 1994 08:49:37 GMT")
		f.Add(v, "")
	}
	f.Fuzz(func(t *testing.T, value, date string) {
		got := retryAfter(http.Header{"Retry-After": {value}, "Date": {date}}, epoch)
		if got < 0 || got > maxRetryAfter {
			t.Errorf("retryAfter(%q, %q) = %d, want within [0, %d]", value, date, got, maxRetryAfter)
		}
	})
}
