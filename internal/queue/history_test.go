package queue

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestAppendHistoryKeepsTheFirstAndTheLatest(t *testing.T) {
	t.Parallel()
	var h []Attempt
	for n := 1; n <= MaxHistory+10; n++ {
		before := slices.Clone(h)
		next := AppendHistory(h, Attempt{Attempt: n})
		if diff := cmp.Diff(before, h); diff != "" {
			t.Fatalf("the history handed in was changed:\n%s", diff)
		}
		h = next
		if n == MaxHistory && h[1].Attempt != 2 {
			t.Error("an attempt was dropped too early")
		}
	}
	var got, want []int
	for _, a := range h {
		got = append(got, a.Attempt)
	}
	want = append(want, 1)
	for n := 12; n <= MaxHistory+10; n++ {
		want = append(want, n)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("attempts kept (-want +got):\n%s", diff)
	}
	if again := AppendHistory(h, Attempt{Attempt: 61}); len(h) != MaxHistory || len(again) != MaxHistory {
		t.Errorf("%d entries, then %d", len(h), len(again))
	}
}

func TestAppendHistoryTruncatesACopy(t *testing.T) {
	t.Parallel()
	f := &Failure{Kind: "K", Message: strings.Repeat("x", MaxErrorMessage+1)}
	h := AppendHistory(nil, Attempt{Error: f})
	if len(h[0].Error.Message) != MaxErrorMessage || len(f.Message) != MaxErrorMessage+1 {
		t.Errorf("kept %d bytes, original has %d", len(h[0].Error.Message), len(f.Message))
	}
	if AppendHistory(nil, Attempt{})[0].Error != nil {
		t.Error("no error became one")
	}
}

func FuzzTruncateMessage(f *testing.F) {
	f.Add("x" + strings.Repeat("ä", MaxErrorMessage))
	f.Add(strings.Repeat("\xff", MaxErrorMessage))
	f.Add(strings.Repeat("x", MaxErrorMessage))
	f.Fuzz(func(t *testing.T, m string) {
		got := TruncateMessage(m)
		if !utf8.ValidString(got) || len(got) > MaxErrorMessage {
			t.Fatalf("%d bytes, valid %v", len(got), utf8.ValidString(got))
		}
		whole := strings.ToValidUTF8(m, "\uFFFD")
		if !strings.HasPrefix(whole, got) || (len(got) < MaxErrorMessage-3 && got != whole) {
			t.Fatalf("%d bytes of %d are kept", len(got), len(whole))
		}
	})
}
