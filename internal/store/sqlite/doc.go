// Package sqlite is the embedded [queue.Store]: one file, one queue, one process.
//
// # Shape
//
// All writes go through one goroutine. It takes what concurrent callers have asked for since it last looked and
// runs it in a single transaction, a savepoint per call, so that many callers share one fsync. A call that
// fails rolls back to its own savepoint; a COMMIT that fails fails every call in it. Reads have connections of
// their own and see the last commit.
//
// A job is one row of jobs for as long as its id is known, whatever its state; its payload and its history are
// in tables of their own, so that changing the row does not rewrite them. Every hot statement walks a partial
// index of just the rows that it wants, so that its cost does not grow with the others (see plan_test.go).
// Counts are kept in the one row of meta, which every writing transaction reads and writes anyway.
//
// # Ownership
//
// A process owns the file by a lock on a file beside it, held for life, and by an epoch inside the file that
// each owner raises and compares in every transaction: where locks do not hold, the older owner fails with
// [queue.ErrFenced] at its next write.
//
// # Time
//
// The store's clock goes on from the latest time that was ever written: see clock.go.
package sqlite
