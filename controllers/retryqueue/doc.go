// Package retryqueue reconciles RetryQueues: it makes the objects that run a queue, hands running workers the
// policy that its owner declares, and says in the status how the queue is.
//
// Read in this order:
//
//   - controller.go: one pass, as an ordered list of steps.
//   - name.go and the builders beside it (deployment.go, pod.go, service.go, …): a RetryQueue in, the object that
//     must be there out. They know no client and no clock.
//   - children.go and apply.go: how those objects come to be, are put right, and are never taken from others.
//   - worker.go: what a worker reports and what is pushed to it.
//   - status.go: what is told of all that, by the kstatus rules.
//
// Three things are decided here. A change of policy is pushed to the worker and changes no pod; only what a pod is
// made of restarts it. The Secret of a queue is applied and never read: its content is a function of the CA, the
// queue and the time (package pki), and since the manager may not watch Secrets it applies it again every half
// minute. And a PersistentVolumeClaim of another RetryQueue, even of the same name, is adopted only when
// spec.storage.sqlite.existingClaim names it.
package retryqueue
