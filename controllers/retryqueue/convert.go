package retryqueue

import (
	"encoding/json"
	"fmt"
)

// convert turns a part of a RetryQueue into its apply configuration, which has the same JSON.
func convert[T any](in any) (*T, error) {
	b, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("writing %T: %w", in, err)
	}
	out := new(T)
	if err := json.Unmarshal(b, out); err != nil {
		return nil, fmt.Errorf("reading %T: %w", out, err)
	}
	return out, nil
}
