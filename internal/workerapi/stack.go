package workerapi

import "runtime/debug"

// stack is the present goroutine's stack, bounded for the log.
func stack() string {
	s := debug.Stack()
	return string(s[:min(len(s), 8<<10)])
}
