// Package delivery sends jobs to their target over HTTP and says what became of each: [HTTP] is the
// queue.Deliverer of the worker. One attempt is exactly one request on the wire.
//
// Read [Config] first, then [HTTP.Deliver]; classify.go holds the rules by which an answer becomes a
// queue.Result, guard.go which addresses are never dialled, sign.go the Standard Webhooks signature.
package delivery
