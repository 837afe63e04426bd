package workerapi

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/retryqueue/retryqueue/internal/pki"
)

// certDir holds a worker's files as the kubelet mounts them.
type certDir struct {
	t   *testing.T
	dir string
}

func (d certDir) write(name string, b []byte) {
	d.t.Helper()
	must(d.t, os.WriteFile(filepath.Join(d.dir, name), b, 0o600))
}

func (d certDir) issue(server, client *pki.CA, uid string) {
	d.t.Helper()
	cert, key, err := server.Server(uid, time.Now())
	must(d.t, err)
	d.write("tls.crt", cert)
	d.write("tls.key", key)
	d.write("ca.crt", client.CertPEM())
}

func (d certDir) files() ServerFiles {
	return ServerFiles{Cert: filepath.Join(d.dir, "tls.crt"), Key: filepath.Join(d.dir, "tls.key"), ClientCA: filepath.Join(d.dir, "ca.crt")}
}

func newCA(t *testing.T) *pki.CA {
	t.Helper()
	ca, err := pki.NewCA(time.Now())
	must(t, err)
	return ca
}

// serveTLS serves the admin API by mutual TLS and returns its URL.
func serveTLS(t *testing.T, files ServerFiles, uid string) string {
	t.Helper()
	config, err := ServerTLS(ServerTLSOptions{Files: files, QueueUID: uid, Now: time.Now, Log: quiet()})
	must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	b := &backend{store: openStore(t), settings: Settings{Policy: testPolicy()}}
	server := &http.Server{Handler: NewAdmin(AdminOptions{Backend: b, Log: quiet()}), ReadHeaderTimeout: time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(tls.NewListener(l, config)) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	return "https://" + l.Addr().String()
}

func statsBy(t *testing.T, url string, config *tls.Config) error {
	t.Helper()
	c, err := NewClient(ClientOptions{URL: url, TLS: config})
	must(t, err)
	defer c.Close()
	_, err = c.Stats(t.Context())
	return err
}

func clientConfig(t *testing.T, ca *pki.CA, uid string) *tls.Config {
	t.Helper()
	c, err := ca.ClientConfig(uid, time.Now)
	must(t, err)
	return c
}

func TestAdminTakesTheManagerOfItsQueueOnly(t *testing.T) {
	t.Parallel()
	ours, theirs := newCA(t), newCA(t)
	dir := certDir{t, t.TempDir()}
	dir.issue(ours, ours, testUID)
	url := serveTLS(t, dir.files(), testUID)

	// one that trusts the worker but shows something else than a manager's certificate
	showing := func(cert func() tls.Certificate) *tls.Config {
		c := clientConfig(t, ours, testUID)
		c.Certificates = nil
		if cert != nil {
			c.Certificates = []tls.Certificate{cert()}
		}
		return c
	}
	for name, tc := range map[string]struct {
		config *tls.Config
		ok     bool
	}{
		"the manager":            {clientConfig(t, ours, testUID), true},
		"no certificate":         {showing(nil), false},
		"manager of other queue": {showing(func() tls.Certificate { return clientConfig(t, ours, "other").Certificates[0] }), false},
		"manager of other CA":    {showing(func() tls.Certificate { return clientConfig(t, theirs, testUID).Certificates[0] }), false},
		"the worker's own key": {showing(func() tls.Certificate {
			pair, err := tls.LoadX509KeyPair(dir.files().Cert, dir.files().Key)
			must(t, err)
			return pair
		}), false},
		"TLS 1.2": {func() *tls.Config {
			c := clientConfig(t, ours, testUID)
			c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
			return c
		}(), false},
		"looking for another queue's worker": {clientConfig(t, ours, "other"), false},
		"trusting another CA":                {clientConfig(t, theirs, testUID), false},
	} {
		if err := statsBy(t, url, tc.config); (err == nil) != tc.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCertificatesAreReadAgain(t *testing.T) {
	t.Parallel()
	old, renewed := newCA(t), newCA(t)
	dir := certDir{t, t.TempDir()}
	dir.issue(old, old, testUID)
	url := serveTLS(t, dir.files(), testUID)
	must(t, statsBy(t, url, clientConfig(t, old, testUID)))

	dir.write("tls.key", []byte("half written"))
	if err := statsBy(t, url, clientConfig(t, old, testUID)); err != nil {
		t.Errorf("the last good certificate does not serve: %v", err)
	}
	dir.issue(renewed, renewed, testUID)
	if err := statsBy(t, url, clientConfig(t, renewed, testUID)); err != nil {
		t.Errorf("the renewed certificate does not serve: %v", err)
	}
	if err := statsBy(t, url, clientConfig(t, old, testUID)); err == nil {
		t.Error("the old authority is still let in")
	}
}

func TestServerTLSNeedsGoodFilesAtTheStart(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	for name, tc := range map[string]struct {
		spoil func(certDir)
		uid   string
	}{
		"no uid":         {func(certDir) {}, ""},
		"no certificate": {func(d certDir) { must(d.t, os.Remove(d.files().Cert)) }, testUID},
		"broken key":     {func(d certDir) { d.write("tls.key", []byte("x")) }, testUID},
		"no CA":          {func(d certDir) { d.write("ca.crt", nil) }, testUID},
	} {
		dir := certDir{t, t.TempDir()}
		dir.issue(ca, ca, testUID)
		tc.spoil(dir)
		if _, err := ServerTLS(ServerTLSOptions{Files: dir.files(), QueueUID: tc.uid, Now: time.Now, Log: quiet()}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
