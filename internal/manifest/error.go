package manifest

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Problem is one thing that is wrong with a resource.
type Problem struct {
	Field  string // its path, such as spec.retryPolicy.backoff.base; empty for the document as a whole
	Detail string // what is wrong, and how to mend it
}

func (p Problem) String() string {
	if p.Field == "" {
		return p.Detail
	}
	return p.Field + ": " + p.Detail
}

// InvalidError lists everything that is wrong with a resource; it is never empty.
type InvalidError struct{ Problems []Problem }

func (e *InvalidError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "; ")
}

func invalid(path, format string, args ...any) error {
	return &InvalidError{Problems: []Problem{{Field: path, Detail: fmt.Sprintf(format, args...)}}}
}

// problems collects what is wrong.
type problems []Problem

func (p *problems) add(path, format string, args ...any) {
	*p = append(*p, Problem{Field: path, Detail: fmt.Sprintf(format, args...)})
}

// err is nil when nothing is wrong. A problem found twice is told once.
func (p problems) err() error {
	if len(p) == 0 {
		return nil
	}
	var unique []Problem
	seen := map[Problem]bool{}
	for _, one := range p {
		if !seen[one] {
			seen[one] = true
			unique = append(unique, one)
		}
	}
	return &InvalidError{Problems: unique}
}

func (p *problems) addFieldErrors(errs field.ErrorList) {
	for _, e := range errs {
		*p = append(*p, Problem{Field: pathOf(e.Field), Detail: detailOf(e)})
	}
}

// pathOf drops the mark that field paths use for the document itself.
func pathOf(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, "<nil>"), ".")
}

// detailOf is what a field error says, with the value where it is short.
func detailOf(e *field.Error) string {
	switch e.Type {
	case field.ErrorTypeRequired:
		if e.Detail == "" {
			return "must be set"
		}
		return e.Detail
	case field.ErrorTypeDuplicate:
		return "must not be there twice" + valueOf(e.BadValue)
	case field.ErrorTypeNotSupported:
		return e.Detail + valueOf(e.BadValue)
	}
	detail := e.Detail
	// The schema library speaks of "spec.x in body should be …".
	if _, after, found := strings.Cut(detail, " in body "); found {
		detail = after
	}
	if after, found := strings.CutPrefix(detail, "should "); found {
		detail = "must " + after
	}
	return detail + valueOf(e.BadValue)
}

// valueOf names a scalar value; objects would only bury the message.
func valueOf(v any) string {
	switch v := v.(type) {
	case string:
		if len(v) > 0 && len(v) <= 64 {
			return fmt.Sprintf(" (is %q)", v)
		}
	case bool, int, int32, int64, float64:
		return fmt.Sprintf(" (is %v)", v)
	}
	return ""
}
