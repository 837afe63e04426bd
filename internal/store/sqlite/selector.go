package sqlite

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/retryqueue/retryqueue/internal/queue"
)

var statusPattern = regexp.MustCompile(`^[1-5]([0-9][0-9]|xx)$`)

// selection is a selector as a condition on dead jobs (table j), with its arguments. Listing, grouping, purging
// and planning all go through it.
type selection struct {
	where string
	args  []any
	byID  bool
}

// index names the index to walk, so that a plan does not depend on what SQLite guesses about the data.
func (s selection) index() string {
	if s.byID {
		return "indexed by jobs_id"
	}
	return "indexed by jobs_dead"
}

// with is the arguments of a statement that ends in more.
func (s selection) with(more ...any) []any {
	return append(s.args[:len(s.args):len(s.args)], more...)
}

// compile makes the condition. Values are always arguments.
func compile(s queue.Selector) (selection, error) {
	sel := selection{where: "j.state = 3"}
	add := func(cond string, args ...any) {
		sel.where += " and " + cond
		sel.args = append(sel.args, args...)
	}
	if s.DiedAfter != 0 {
		add("j.died_at >= ?", int64(s.DiedAfter))
	}
	if s.DiedBefore != 0 {
		add("j.died_at < ?", int64(s.DiedBefore))
	}
	if len(s.Reasons) > 0 {
		codes := make([]any, len(s.Reasons))
		for i, r := range s.Reasons {
			code := reasonCode(r)
			if code == 0 {
				return sel, &queue.InvalidError{Field: "reasons", Detail: fmt.Sprintf("must be Permanent, Exhausted or DeadlineExceeded, not %q", r)}
			}
			codes[i] = code
		}
		add("j.reason in "+marks(len(codes)), codes...)
	}
	if len(s.HTTPStatuses) > 0 {
		cond, args, err := statusCondition(s.HTTPStatuses)
		if err != nil {
			return sel, err
		}
		add(cond, args...)
	}
	if len(s.Fingerprints) > 0 {
		add("j.fingerprint in "+marks(len(s.Fingerprints)), anys(s.Fingerprints)...)
	}
	if len(s.IDs) > 0 {
		add("j.id in "+marks(len(s.IDs)), anys(s.IDs)...)
		sel.byID = true
	}
	return sel, nil
}

// statusCondition compiles "503" and "5xx".
func statusCondition(statuses []string) (string, []any, error) {
	var conds []string
	var args, numbers []any
	for _, status := range slices.Compact(slices.Sorted(slices.Values(statuses))) {
		if !statusPattern.MatchString(status) {
			return "", nil, &queue.InvalidError{Field: "httpStatuses", Detail: fmt.Sprintf(`must be a status such as "503" or a class such as "5xx", not %q`, status)}
		}
		if class, ok := strings.CutSuffix(status, "xx"); ok {
			low, _ := strconv.Atoi(class + "00")
			conds = append(conds, "j.http_status between ? and ?")
			args = append(args, low, low+99)
			continue
		}
		number, _ := strconv.Atoi(status)
		numbers = append(numbers, number)
	}
	if len(numbers) > 0 { // one list: a chain of or may not be long
		conds = append(conds, "j.http_status in "+marks(len(numbers)))
		args = append(args, numbers...)
	}
	return "(" + strings.Join(conds, " or ") + ")", args, nil
}

func marks(n int) string { return "(" + strings.TrimSuffix(strings.Repeat("?,", n), ",") + ")" }

func anys[T any](list []T) []any {
	out := make([]any, len(list))
	for i, v := range list {
		out[i] = v
	}
	return out
}
