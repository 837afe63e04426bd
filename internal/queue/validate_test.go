package queue

import (
	"errors"
	"strings"
	"testing"
)

func TestValidateNewJob(t *testing.T) {
	t.Parallel()
	many := func(n int) (h []Header) {
		for range n {
			h = append(h, Header{Name: "X", Value: "1"})
		}
		return h
	}
	header := func(name, value string) func(*NewJob) {
		return func(j *NewJob) { j.Headers = []Header{{Name: name, Value: value}} }
	}
	id := func(s string) func(*NewJob) { return func(j *NewJob) { j.ID = s } }
	tests := map[string]struct {
		change func(*NewJob)
		field  string // "" when it is taken
	}{
		"a plain job":                        {func(*NewJob) {}, ""},
		"no id":                              {id(""), "id"},
		"the longest id":                     {id(strings.Repeat("x", MaxIDLength)), ""},
		"a longer id":                        {id(strings.Repeat("x", MaxIDLength+1)), "id"},
		"the ends of printable ASCII":        {id("!~"), ""},
		"a space in an id":                   {id("a b"), "id"},
		"a control character in an id":       {id("a\x7f"), "id"},
		"an id beyond ASCII":                 {id("ä"), "id"},
		"as many headers as there may be":    {func(j *NewJob) { j.Headers = many(MaxHeaders) }, ""},
		"one header more":                    {func(j *NewJob) { j.Headers = many(MaxHeaders + 1) }, "headers"},
		"as many header bytes as may be":     {header("X", strings.Repeat("x", MaxHeaderBytes-1)), ""},
		"one header byte more":               {header("X", strings.Repeat("x", MaxHeaderBytes)), "headers"},
		"a header without a name":            {header("", "x"), "headers"},
		"a header name with a colon":         {header("X:", "x"), "headers"},
		"a header name with every mark":      {header("aZ0!#$%&'*+-.^_`|~", "x"), ""},
		"a line break in a header":           {header("X", "a\r\nb"), "headers"},
		"a tab and UTF-8 in a header":        {header("X", "a\tä"), ""},
		"Latin-1 in a header":                {header("X", "caf\xe9"), "headers"},
		"UTF-8 in a media type":              {func(j *NewJob) { j.ContentType = `text/plain; x="ä"` }, ""},
		"Latin-1 in a media type":            {func(j *NewJob) { j.ContentType = "text/plain; x=\"\xe9\"" }, "contentType"},
		"a line break in a media type":       {func(j *NewJob) { j.ContentType = "text/plain;\n x=y" }, "contentType"},
		"the policy's attempts":              {func(j *NewJob) { j.MaxAttempts = 3 }, ""},
		"more attempts than the policy's":    {func(j *NewJob) { j.MaxAttempts = 4 }, "maxAttempts"},
		"negative attempts":                  {func(j *NewJob) { j.MaxAttempts = -1 }, "maxAttempts"},
		"the policy's deadline":              {func(j *NewJob) { j.Deadline = 3_600_000 }, ""},
		"a later deadline than the policy's": {func(j *NewJob) { j.Deadline = 3_600_001 }, "deadline"},
		"a negative deadline":                {func(j *NewJob) { j.Deadline = -1 }, "deadline"},
		"a negative delay":                   {func(j *NewJob) { j.Delay = -1 }, "delay"},
		"a delay just before the deadline":   {func(j *NewJob) { j.Delay = 3_599_999 }, ""},
		"a delay that reaches the deadline":  {func(j *NewJob) { j.Delay = 3_600_000 }, "delay"},
		"a delay that reaches its own one":   {func(j *NewJob) { j.Deadline, j.Delay = 500, 500 }, "delay"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := NewJob{ID: "a", ContentType: "text/plain", Payload: []byte("x")}
			tt.change(&j)
			err := ValidateNewJob(testPolicy(), j)
			var invalid *InvalidError
			switch {
			case tt.field == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.field != "" && (!errors.As(err, &invalid) || invalid.Field != tt.field || invalid.Detail == ""):
				t.Errorf("error %v, want one about %s", err, tt.field)
			}
		})
	}
}

func TestValidateNewJobBoundsThePayload(t *testing.T) {
	t.Parallel()
	j := NewJob{ID: "a", Payload: make([]byte, 1000)}
	if err := ValidateNewJob(testPolicy(), j); err != nil {
		t.Errorf("a payload of maxPayload is refused: %v", err)
	}
	j.Payload = make([]byte, 1001)
	var limit *LimitError
	if err := ValidateNewJob(testPolicy(), j); !errors.As(err, &limit) || limit.Limit != "maxPayload" || limit.Max != 1000 || limit.RetryAfter != 0 {
		t.Errorf("error %v (%+v), want maxPayload", err, limit)
	}
}

func TestEffectiveBudget(t *testing.T) {
	t.Parallel()
	if n, d := EffectiveBudget(testPolicy(), NewJob{}); n != 3 || d != 3_600_000 {
		t.Errorf("the policy's budget is %d, %s", n, d)
	}
	if n, d := EffectiveBudget(testPolicy(), NewJob{MaxAttempts: 2, Deadline: 7}); n != 2 || d != 7 {
		t.Errorf("the shortened budget is %d, %s", n, d)
	}
}

func FuzzValidateNewJob(f *testing.F) {
	f.Add("a", "X", "1", int64(0))
	f.Add("\x00", "", "\n", int64(-1))
	f.Fuzz(func(t *testing.T, id, name, value string, delay int64) {
		j := NewJob{ID: id, Headers: []Header{{name, value}}, Delay: Millis(delay)}
		if ValidateNewJob(testPolicy(), j) != nil {
			return
		}
		if id == "" || len(id) > MaxIDLength || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
			t.Errorf("id %q was taken", id)
		}
		if name == "" || strings.ContainsAny(name+value, "\r\n\x00") || strings.ContainsAny(name, " :") {
			t.Errorf("header %q: %q was taken", name, value)
		}
		if delay < 0 || delay >= int64(testPolicy().Deadline) {
			t.Errorf("delay %d was taken", delay)
		}
	})
}
