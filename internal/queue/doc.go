// Package queue is the core of RetryQueue: what a job is, how long it waits between attempts, when it
// is given up and where it then goes. It knows no database, no HTTP and no Kubernetes.
//
// Read in this order:
//
//   - [Policy] and [Delay]: what the owner of a queue declares, and the law of backoff.
//   - [Job], [Result] and [Decide]: what happens to a job after an attempt, as one pure function.
//   - [Store]: the contract of a durable store. Package storetest is its executable specification.
//   - [Redrive]: the frozen plan by which dead jobs come back, and the rules of its pace.
//   - [Worker]: the loop that claims, delivers and settles.
//
// All instants are [Time], integer milliseconds on the clock of the store; all spans are [Millis].
package queue
