// Package metrics counts what a worker does, for Prometheus.
//
// Every series bears the labels queue and namespace; every other label has a small, closed set of values. What
// a store knows (jobs by state, ages) is read when it is scraped, at most once a second.
package metrics
