// Package pki is the small certificate authority between the manager and the workers, and what either side checks.
//
// The manager holds the [CA]. A worker has a server certificate whose only name is the URI of its queue
// ([ServerURI]); the manager mints client certificates named [ClientURI] in memory. Each side checks the chain
// and that exact URI, so a worker of one queue can pass for no other queue and for no manager. Host names mean
// nothing here: a Service's address is whatever the cluster says it is.
//
// A server certificate is a pure function of the CA, the queue's uid and the time's epoch: key, serial and
// signature are derived, not drawn. Issued again it has the same bytes. So the manager needs no memory and no
// permission to read Secrets: it applies what must be there, and where that is there already nothing is written.
// Whoever holds the CA's key could mint such a certificate anyway; TLS 1.3 keeps recorded traffic closed to them.
package pki
