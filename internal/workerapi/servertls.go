package workerapi

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/retryqueue/retryqueue/internal/pki"
)

// ServerFiles are the files of the admin API's mutual TLS, in PEM.
type ServerFiles struct{ Cert, Key, ClientCA string }

// ServerTLSOptions are the needs of ServerTLS.
type ServerTLSOptions struct {
	Files    ServerFiles
	QueueUID string
	Now      func() time.Time // for checking certificates
	Log      *slog.Logger
}

// ServerTLS is mutual TLS 1.3 for the admin API: none but the manager as it speaks to this queue is let in (see
// pki.ServerConfig). The files are read again at every handshake, so that a renewed certificate needs no restart;
// while they cannot be read or do not fit each other, the last good ones serve. It is an error when they are not
// good at the start.
func ServerTLS(o ServerTLSOptions) (*tls.Config, error) {
	if o.QueueUID == "" {
		return nil, errors.New("mutual TLS needs metadata.uid in the manifest: the certificates are checked against it")
	}
	s := &serverCerts{o: o}
	first, err := s.load()
	if err != nil {
		return nil, err
	}
	c := first.Clone()
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		current, err := s.load()
		if err != nil {
			o.Log.Error("certificate files not usable; the last good ones serve", "error", err)
		}
		return current, nil
	}
	return c, nil
}

type serverCerts struct {
	o ServerTLSOptions

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
	files := s.o.Files
	cert, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		return nil, fmt.Errorf("loading the admin API's certificate: %w", err)
	}
	pem, err := os.ReadFile(files.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("loading the admin API's client CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("loading the admin API's client CA: no certificate in %s", files.ClientCA)
	}
	c := pki.ServerConfig(cert, pool, s.o.QueueUID, s.o.Now)
	c.NextProtos = []string{"h2", "http/1.1"}
	c.SessionTicketsDisabled = true // every connection is checked against the files as they are now
	return c, nil
}
