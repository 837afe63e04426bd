package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// pair is a certificate and its key.
type pair struct {
	cert            *x509.Certificate
	key             *ecdsa.PrivateKey
	certPEM, keyPEM []byte
}

// authority issues into a directory and keeps its first error.
type authority struct {
	dir, server         string
	cluster, frontProxy *pair
	err                 error
}

func newAuthority(dir, server string) (*authority, error) {
	a := &authority{dir: dir, server: server, err: os.MkdirAll(dir, 0o700)}
	a.cluster = a.issue("ca", nil, &x509.Certificate{Subject: pkix.Name{CommonName: "cluster-ca"}})
	a.frontProxy = a.issue("front-proxy-ca", nil, &x509.Certificate{Subject: pkix.Name{CommonName: "front-proxy-ca"}})
	return a, a.err
}

// issue writes NAME.crt and NAME.key, signed by parent, or by itself as an authority when parent is nil.
func (a *authority) issue(name string, parent *pair, t *x509.Certificate) *pair {
	p := &pair{}
	p.key, a.err = first(a.err, func() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) })
	t.SerialNumber, a.err = first(a.err, func() (*big.Int, error) { return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)) })
	if a.err != nil {
		return p
	}
	t.NotBefore, t.NotAfter = time.Now().Add(-time.Hour), time.Now().AddDate(10, 0, 0)
	issuer, signer := t, p.key
	if parent == nil {
		t.IsCA, t.BasicConstraintsValid = true, true
		t.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature
	} else {
		issuer, signer = parent.cert, parent.key
		t.KeyUsage = x509.KeyUsageDigitalSignature
	}
	der, err := x509.CreateCertificate(rand.Reader, t, issuer, p.key.Public(), signer)
	a.err = err
	p.cert, a.err = first(a.err, func() (*x509.Certificate, error) { return x509.ParseCertificate(der) })
	p.certPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	p.keyPEM = a.keyPEM(p.key)
	a.write(name+".crt", p.certPEM)
	a.write(name+".key", p.keyPEM)
	return p
}

// client issues a client certificate.
func (a *authority) client(name string, parent *pair, user string, groups ...string) *pair {
	return a.issue(name, parent, &x509.Certificate{Subject: pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

// user issues a client certificate and a kubeconfig that holds it.
func (a *authority) user(name, user string, groups ...string) {
	c := a.client(name, a.cluster, user, groups...)
	b64 := base64.StdEncoding.EncodeToString
	a.write(name+".kubeconfig", fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: retryqueue
contexts: [{name: retryqueue, context: {cluster: retryqueue, user: %[1]s}}]
clusters: [{name: retryqueue, cluster: {server: %[2]q, certificate-authority-data: %[3]s}}]
users: [{name: %[1]s, user: {client-certificate-data: %[4]s, client-key-data: %[5]s}}]
`, name, a.server, b64(a.cluster.certPEM), b64(c.certPEM), b64(c.keyPEM)))
}

// serviceAccountKey writes the key pair that signs service-account tokens.
func (a *authority) serviceAccountKey(name string) {
	key, err := first(a.err, func() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) })
	if a.err = err; err != nil {
		return
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	a.err = err
	a.write(name+".key", a.keyPEM(key))
	a.write(name+".pub", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}))
}

func (a *authority) keyPEM(key *ecdsa.PrivateKey) []byte {
	der, err := first(a.err, func() ([]byte, error) { return x509.MarshalECPrivateKey(key) })
	a.err = err
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

func (a *authority) write(name string, b []byte) {
	if a.err == nil {
		a.err = os.WriteFile(filepath.Join(a.dir, name), b, 0o600)
	}
}

// first calls f unless an error came before.
func first[T any](err error, f func() (T, error)) (T, error) {
	if err != nil {
		var none T
		return none, err
	}
	return f()
}
