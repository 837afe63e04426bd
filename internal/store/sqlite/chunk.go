package sqlite

import (
	"slices"
	"strings"
)

// Statements over many rows come in these sizes only, so that few of them are ever prepared. A list is cut into
// the largest that fit.
var chunkSizes = []int{100, 10, 1}

// chunks calls f for parts of list whose lengths are in chunkSizes.
func chunks[T any](list []T, f func([]T) error) error {
	for _, size := range chunkSizes {
		for len(list) >= size {
			if err := f(list[:size]); err != nil {
				return err
			}
			list = list[size:]
		}
	}
	return nil
}

// paddedSizes are the lengths of IN lists; shorter lists are filled up with NULL, which is in no list.
var paddedSizes = []int{1, 8, 100}

// padded calls f for parts of list, each with its arguments filled up to a length in paddedSizes.
func padded[T any](list []T, f func(part []T, args []any) error) error {
	largest := paddedSizes[len(paddedSizes)-1]
	for part := range slices.Chunk(list, largest) {
		size := paddedSizes[slices.IndexFunc(paddedSizes, func(n int) bool { return n >= len(part) })]
		args := make([]any, size)
		for i, v := range part {
			args[i] = v
		}
		if err := f(part, args); err != nil {
			return err
		}
	}
	return nil
}

// queries holds one statement for every length that its list may have.
type queries map[int]string

// perRow makes a statement that ends in n times row, for the n in chunkSizes.
func perRow(head, row, tail string) queries {
	q := queries{}
	for _, n := range chunkSizes {
		q[n] = head + strings.TrimSuffix(strings.Repeat(row+",", n), ",") + tail
	}
	return q
}

// inList makes a statement whose %s is a list of n parameters, for the n in paddedSizes.
func inList(format string) queries {
	q := queries{}
	for _, n := range paddedSizes {
		q[n] = strings.ReplaceAll(format, "%s", "("+strings.TrimSuffix(strings.Repeat("?,", n), ",")+")")
	}
	return q
}
