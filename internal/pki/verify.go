package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// ClientConfig is how the manager speaks to the workers of a queue: with a certificate of its own, to none but
// a worker of that queue. now tells the time for checking certificates.
func (c *CA) ClientConfig(queueUID string, now func() time.Time) (*tls.Config, error) {
	cert, err := c.Client(queueUID, now())
	if err != nil {
		return nil, err
	}
	check := peer{roots: c.Pool(), uri: ServerURI(queueUID), usage: x509.ExtKeyUsageServerAuth, now: now}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{cert},
		// The names of hosts are not checked, all else is, and the queue's URI: see VerifyConnection.
		InsecureSkipVerify: true,
		VerifyConnection:   check.verify,
	}, nil
}

// ServerConfig is how a worker takes the manager's calls: from none but the manager as it speaks to that queue.
func ServerConfig(cert tls.Certificate, roots *x509.CertPool, queueUID string, now func() time.Time) *tls.Config {
	check := peer{roots: roots, uri: ClientURI(queueUID), usage: x509.ExtKeyUsageClientAuth, now: now}
	return &tls.Config{
		MinVersion:       tls.VersionTLS13,
		Certificates:     []tls.Certificate{cert},
		ClientAuth:       tls.RequireAnyClientCert,
		VerifyConnection: check.verify,
	}
}

// peer is what the other side must be.
type peer struct {
	roots *x509.CertPool
	uri   string
	usage x509.ExtKeyUsage
	now   func() time.Time
}

func (p peer) verify(s tls.ConnectionState) error {
	if len(s.PeerCertificates) == 0 {
		return errors.New("the other side showed no certificate")
	}
	cert := s.PeerCertificates[0]
	opts := x509.VerifyOptions{Roots: p.roots, CurrentTime: p.now(), KeyUsages: []x509.ExtKeyUsage{p.usage}}
	if _, err := cert.Verify(opts); err != nil {
		return fmt.Errorf("checking the other side's certificate: %w", err)
	}
	if len(cert.URIs) != 1 || cert.URIs[0].String() != p.uri {
		return fmt.Errorf("the other side's certificate is for %v, not for %s", cert.URIs, p.uri)
	}
	return nil
}
