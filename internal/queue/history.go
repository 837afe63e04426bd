package queue

import (
	"strings"
	"unicode/utf8"
)

// AppendHistory adds a to history and keeps at most [MaxHistory] entries: the first and the latest. The error's
// message is truncated. history itself is not changed.
func AppendHistory(history []Attempt, a Attempt) []Attempt {
	a.Error = TruncateFailure(a.Error)
	out := make([]Attempt, 0, min(len(history)+1, MaxHistory))
	if drop := len(history) + 1 - MaxHistory; drop > 0 {
		out = append(out, history[0])
		out = append(out, history[1+drop:]...)
	} else {
		out = append(out, history...)
	}
	return append(out, a)
}

// TruncateFailure is f with its message truncated; f itself is not changed. nil stays nil.
func TruncateFailure(f *Failure) *Failure {
	if f == nil {
		return nil
	}
	t := *f
	t.Message = TruncateMessage(f.Message)
	return &t
}

// TruncateMessage is the part of an error message that is kept: valid UTF-8 of at most [MaxErrorMessage]
// bytes, cut between two characters.
func TruncateMessage(m string) string {
	m = strings.ToValidUTF8(m, "\uFFFD")
	if len(m) <= MaxErrorMessage {
		return m
	}
	end := MaxErrorMessage
	for !utf8.RuneStart(m[end]) {
		end--
	}
	return m[:end]
}
