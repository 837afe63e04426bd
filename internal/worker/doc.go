// Package worker is one worker process: it reads a RetryQueue manifest, opens the queue's store, serves the
// public, the admin and the metrics listener, runs the core's loop, and drains when told to stop.
//
// Read [Run] first: it is the life of the process. What is in force (policy, delivery, limits) hangs on one
// runtime, which the admin API swaps as a whole.
package worker
