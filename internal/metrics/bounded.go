package metrics

import "sync"

// maxCauses bounds the values of the label cause: the kinds of failure are few, but rules have names.
const maxCauses = 64

// overflow is what further values are counted under.
const overflow = "other"

// bounded lets the first max different values through.
type bounded struct {
	mu   sync.Mutex
	max  int
	seen map[string]bool
}

func newBounded(most int) *bounded { return &bounded{max: most, seen: map[string]bool{}} }

func (b *bounded) value(v string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.seen[v] {
		return v
	}
	if len(b.seen) >= b.max {
		return overflow
	}
	b.seen[v] = true
	return v
}
