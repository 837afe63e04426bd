// Package workerapi is the worker's HTTP interface: the public API for producers, the admin API for the
// operator, and the one client of the admin API that the controllers and the command line share.
package workerapi
