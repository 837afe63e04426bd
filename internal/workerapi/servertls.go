package workerapi

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
)

// ServerFiles are the files of the admin API's mutual TLS, in PEM.
type ServerFiles struct{ Cert, Key, ClientCA string }

// ServerTLS is mutual TLS 1.3 for the admin API: clients must show a certificate that leads to ClientCA and
// bears ManagerURI(queueUID). The files are read again at every handshake, so that a renewed certificate needs
// no restart; while they cannot be read or do not fit each other, the last good ones serve. It is an error when
// they are not good at the start.
func ServerTLS(files ServerFiles, queueUID string, log *slog.Logger) (*tls.Config, error) {
	if queueUID == "" {
		return nil, errors.New("mutual TLS needs metadata.uid in the manifest: the certificates are checked against it")
	}
	s := &serverCerts{files: files, uri: ManagerURI(queueUID)}
	if _, err := s.load(); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ClientAuth: tls.RequireAndVerifyClientCert,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			c, err := s.load()
			if err != nil {
				log.Error("certificate files not usable; the last good ones serve", "error", err)
			}
			return c, nil
		},
	}, nil
}

type serverCerts struct {
	files ServerFiles
	uri   string

	mu   sync.Mutex
	good *tls.Config
}

// load reads the files and returns the newest good config, also beside an error.
func (s *serverCerts) load() (*tls.Config, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.read()
	if err != nil {
		return s.good, err
	}
	s.good = c
	return c, nil
}

func (s *serverCerts) read() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(s.files.Cert, s.files.Key)
	if err != nil {
		return nil, fmt.Errorf("loading the admin API's certificate: %w", err)
	}
	pem, err := os.ReadFile(s.files.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("loading the admin API's client CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("loading the admin API's client CA: no certificate in %s", s.files.ClientCA)
	}
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{cert},
		ClientAuth:             tls.RequireAndVerifyClientCert,
		ClientCAs:              pool,
		NextProtos:             []string{"h2", "http/1.1"},
		SessionTicketsDisabled: true, // a resumed session would skip a changed CA
		VerifyConnection:       func(state tls.ConnectionState) error { return checkURI(state, s.uri) },
	}, nil
}
