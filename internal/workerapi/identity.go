package workerapi

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
)

// WorkerURI is the URI SAN of the server certificate of a queue's workers.
func WorkerURI(queueUID string) string { return "retryqueue://" + queueUID + "/worker" }

// ManagerURI is the URI SAN of the client certificate by which the manager speaks to a queue's workers.
func ManagerURI(queueUID string) string { return "retryqueue://" + queueUID + "/manager" }

// checkURI demands that the peer's verified certificate bears exactly this URI.
func checkURI(state tls.ConnectionState, uri string) error {
	if len(state.VerifiedChains) == 0 && len(state.PeerCertificates) == 0 {
		return errors.New("the peer sent no certificate")
	}
	uris := state.PeerCertificates[0].URIs
	if len(uris) == 1 && uris[0].String() == uri {
		return nil
	}
	return fmt.Errorf("the peer's certificate must bear the URI %s alone, bears %v", uri, uris)
}

// ClientTLS is how an operator speaks to the workers of one queue: the server's chain must lead to roots and
// its certificate bear WorkerURI(queueUID). Host names are not looked at, since Services and port-forwards
// give a worker many. cert is asked at every handshake.
func ClientTLS(queueUID string, roots *x509.CertPool, cert func() (*tls.Certificate, error)) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		RootCAs:    roots,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return cert()
		},
		InsecureSkipVerify: true, //nolint:gosec // skips only the host name: VerifyConnection checks chain and URI
		VerifyConnection: func(state tls.ConnectionState) error {
			return verifyServer(state, roots, WorkerURI(queueUID))
		},
	}
}

// verifyServer does what crypto/tls would, with a URI in place of the host name.
func verifyServer(state tls.ConnectionState, roots *x509.CertPool, uri string) error {
	if roots == nil {
		return errors.New("no certificate authority to check the worker against")
	}
	if len(state.PeerCertificates) == 0 {
		return errors.New("the worker sent no certificate")
	}
	intermediates := x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		intermediates.AddCert(c)
	}
	_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: intermediates, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return fmt.Errorf("verifying the worker's certificate: %w", err)
	}
	return checkURI(state, uri)
}
