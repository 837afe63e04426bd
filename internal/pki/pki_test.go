package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"strings"
	"testing"
	"time"
)

var t0 = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)

func newTestCA(t *testing.T) *CA {
	t.Helper()
	ca, err := NewCA(t0)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func TestServerCertificatesAreAFunctionOfCAQueueAndEpoch(t *testing.T) {
	t.Parallel()
	ca := newTestCA(t)
	c, k, err := ca.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseCA(c, k)
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := ca.Server("uid-1", t0)
	if err != nil {
		t.Fatal(err)
	}
	same := func(ca *CA, uid string, at time.Time) bool {
		c, k, err := ca.Server(uid, at)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Equal(c, cert) && bytes.Equal(k, key)
	}
	_, start := serverPeriod("uid-1", t0)
	for name, tc := range map[string]struct {
		ca   *CA
		uid  string
		at   time.Time
		want bool
	}{
		"a CA read from its Secret issues the same bytes": {again, "uid-1", t0, true},
		"the last second of the epoch":                    {ca, "uid-1", start.Add(serverEpoch - time.Second), true},
		"the next epoch has another certificate":          {ca, "uid-1", start.Add(serverEpoch), false},
		"another queue has another certificate":           {ca, "uid-2", t0, false},
		"another CA has another certificate":              {newTestCA(t), "uid-1", t0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := same(tc.ca, tc.uid, tc.at); got != tc.want {
				t.Errorf("same = %t, want %t", got, tc.want)
			}
		})
	}
}

func TestServerCertificatesOverlapAndStayWithinTheCA(t *testing.T) {
	t.Parallel()
	ca := newTestCA(t)
	for at := t0; !ca.Retired(at); at = at.Add(7 * 24 * time.Hour) {
		c, _, err := ca.Server("uid", at)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := pem.Decode(c)
		cert, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if left := cert.NotAfter.Sub(at); left < serverLifetime/3 || left > serverLifetime {
			t.Fatalf("at %s the certificate lasts %s more", at, left)
		}
		if cert.NotBefore.After(at) || cert.NotAfter.After(ca.cert.NotAfter) {
			t.Fatalf("at %s: valid %s to %s, CA until %s", at, cert.NotBefore, cert.NotAfter, ca.cert.NotAfter)
		}
	}
	if !ca.Retired(t0.Add(9*365*24*time.Hour)) || !ca.Retired(t0.Add(-2*skew)) {
		t.Error("a CA is not retired when it should be")
	}
}

func TestOnlyTheRightPeersSpeak(t *testing.T) {
	t.Parallel()
	ca, other := newTestCA(t), newTestCA(t)
	at := func(d time.Duration) func() time.Time { return func() time.Time { return t0.Add(d) } }
	client := func(ca *CA, uid string) *tls.Config {
		c, err := ca.ClientConfig(uid, at(0))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	asServer := func() *tls.Config { // a worker that shows its own server certificate as a client
		c := client(ca, "uid")
		c.Certificates = []tls.Certificate{serverCert(t, ca, "uid")}
		return c
	}
	nobody := client(ca, "uid")
	nobody.Certificates = nil
	for name, tc := range map[string]struct {
		client *tls.Config
		server *tls.Config
		want   string
	}{
		"manager and worker of one queue":                  {client(ca, "uid"), ServerConfig(serverCert(t, ca, "uid"), ca.Pool(), "uid", at(0)), ""},
		"a manager that speaks for another queue":          {client(ca, "uid2"), ServerConfig(serverCert(t, ca, "uid2"), ca.Pool(), "uid", at(0)), "not for retryqueue://uid/manager"},
		"a worker of another queue":                        {client(ca, "uid"), ServerConfig(serverCert(t, ca, "uid2"), ca.Pool(), "uid", at(0)), "not for retryqueue://uid/worker"},
		"a client of another CA":                           {client(other, "uid"), ServerConfig(serverCert(t, other, "uid"), ca.Pool(), "uid", at(0)), "checking the other side"},
		"a worker of another CA":                           {client(ca, "uid"), ServerConfig(serverCert(t, other, "uid"), ca.Pool(), "uid", at(0)), "checking the other side"},
		"a worker's own certificate used as a client":      {asServer(), ServerConfig(serverCert(t, ca, "uid"), ca.Pool(), "uid", at(0)), "checking the other side"},
		"a client without certificate":                     {nobody, ServerConfig(serverCert(t, ca, "uid"), ca.Pool(), "uid", at(0)), "certificate"},
		"a client certificate of the day before yesterday": {client(ca, "uid"), ServerConfig(serverCert(t, ca, "uid"), ca.Pool(), "uid", at(48*time.Hour)), "checking the other side"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := handshake(t, tc.client, tc.server)
			if tc.want == "" && err != nil {
				t.Fatalf("refused: %v", err)
			}
			if tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Fatalf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
}

func TestParseCARefusesWhatIsNone(t *testing.T) {
	t.Parallel()
	ca, other := newTestCA(t), newTestCA(t)
	c, k, err := ca.Encode()
	if err != nil {
		t.Fatal(err)
	}
	_, k2, err := other.Encode()
	if err != nil {
		t.Fatal(err)
	}
	sc, sk, err := ca.Server("uid", t0)
	if err != nil {
		t.Fatal(err)
	}
	for name, in := range map[string][2][]byte{
		"nothing":              {nil, nil},
		"swapped":              {k, c},
		"another CA's key":     {c, k2},
		"a worker's key pair":  {sc, sk},
		"a cut certificate":    {c[:len(c)/2], k},
		"garbage in the block": {pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: []byte("x")}), k},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := ParseCA(in[0], in[1]); err == nil {
				t.Error("accepted")
			}
		})
	}
}

func serverCert(t *testing.T, ca *CA, uid string) tls.Certificate {
	t.Helper()
	c, k, err := ca.Server(uid, t0)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(c, k)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// handshake answers with the first refusal of either side.
func handshake(t *testing.T, client, server *tls.Config) error {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			defer c.Close()
			s := tls.Server(c, server)
			if err = s.HandshakeContext(t.Context()); err == nil {
				_, err = s.Write([]byte("ok"))
			}
		}
		done <- err
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s := tls.Client(c, client)
	if err = s.HandshakeContext(t.Context()); err == nil {
		_, err = s.Read(make([]byte, 2))
	}
	c.Close()
	serr := <-done
	// What one side refuses the other sees as an alert: tell the refusal.
	if serr != nil && (err == nil || strings.Contains(err.Error(), "remote error")) {
		return serr
	}
	return err
}
