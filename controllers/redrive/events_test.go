package redrive

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestANoteIsNoLongerThanTheAPIServerTakes(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"short", strings.Repeat("x", 5000), strings.Repeat("€", 5000)} {
		if got := clipNote(s); len(got) > maxNote || !utf8.ValidString(got) || !strings.HasPrefix(s, got) || len(got) < min(len(s), maxNote-3) {
			t.Errorf("%d bytes became %d", len(s), len(got))
		}
	}
}
