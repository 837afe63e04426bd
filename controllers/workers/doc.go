// Package workers is how controllers reach the worker pods of a queue: the CA that both trust, the address of
// their admin API, and a client that speaks mutual TLS with them.
package workers
