// Package storetest is the executable specification of queue.Store: every store must pass [Run].
//
// A store hands in a [Harness] that opens it with an injected clock and injected randomness; everything else
// is asked through the Store interface alone. One file holds the rules of one topic, each subtest is named by
// the rule that it checks, and model.go holds the same rules a second time, as a small model in memory that
// random histories are compared with. [Crash] and [Processes] run real processes.
package storetest
