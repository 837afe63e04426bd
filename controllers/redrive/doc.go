// Package redrive reconciles Redrive and RedriveApproval: it has the worker of a queue plan which dead jobs
// come back, waits for the approvals that the queue's owner asks for, and then gives the worker a short
// permission to run, again and again, for as long as everything holds. The worker keeps the pace; without
// this controller nothing is replayed.
//
// Read in this order:
//
//   - controller.go: one pass over a Redrive, as an ordered list of steps.
//   - queue.go, plan.go, finish.go, approval.go, enforce.go, turn.go, run.go: a step each. A step ends the
//     pass with an outcome, or lets it go on.
//   - outcome.go, status.go, events.go: what a pass came to, as conditions, one status write and events.
//   - proof.go, shipped.go: the proof that the admission policies which guard approvals are in force.
//   - delete.go: what a deletion waits for.
//
// Three rules hold everywhere. What decides a release is read from the worker's store and from the API in
// the same pass, never from the Redrive's status, which anybody may have edited. A pass that does not end with
// a permission takes back the one that may still hold. Every call to the worker may be repeated, so two
// controllers at once do no harm.
package redrive
