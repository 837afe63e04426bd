package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"
)

const (
	// caLifetime is how long a CA is valid.
	caLifetime = 10 * 365 * 24 * time.Hour
	// caRetire is when it must be replaced: earlier than any certificate it signed runs out.
	caRetire = 2 * 365 * 24 * time.Hour
	// skew is how far clocks of manager and workers may differ.
	skew = time.Hour

	pemCertificate = "CERTIFICATE"
	pemKey         = "EC PRIVATE KEY"
)

// CA signs the certificates of one installation. It is immutable and safe for concurrent use.
type CA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// NewCA makes a CA (ECDSA P-256, ten years) that is valid from now on.
func NewCA(now time.Time) (*CA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the CA's key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("drawing the CA's serial: %w", err)
	}
	t := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: "retryqueue"},
		NotBefore:             now.Add(-skew),
		NotAfter:              now.Add(caLifetime),
		KeyUsage:              x509.KeyUsageCertSign,
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("signing the CA: %w", err)
	}
	return newCA(der, key)
}

// ParseCA reads what Encode wrote. It errors when the two do not belong together or are no CA.
func ParseCA(certPEM, keyPEM []byte) (*CA, error) {
	cb, _ := pem.Decode(certPEM)
	kb, _ := pem.Decode(keyPEM)
	if cb == nil || cb.Type != pemCertificate || kb == nil || kb.Type != pemKey {
		return nil, errors.New("reading the CA: tls.crt and tls.key must hold one PEM block each")
	}
	key, err := x509.ParseECPrivateKey(kb.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading the CA's key: %w", err)
	}
	ca, err := newCA(cb.Bytes, key)
	if err != nil {
		return nil, err
	}
	if !ca.cert.IsCA || !key.PublicKey.Equal(ca.cert.PublicKey) {
		return nil, errors.New("reading the CA: tls.crt is not the CA certificate of tls.key")
	}
	return ca, nil
}

func newCA(der []byte, key *ecdsa.PrivateKey) (*CA, error) {
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading the CA's certificate: %w", err)
	}
	return &CA{cert: cert, key: key, pem: pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: der})}, nil
}

// Encode returns certificate and key in PEM.
func (c *CA) Encode() (certPEM, keyPEM []byte, err error) {
	der, err := x509.MarshalECPrivateKey(c.key)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the CA's key: %w", err)
	}
	return c.pem, pem.EncodeToMemory(&pem.Block{Type: pemKey, Bytes: der}), nil
}

// CertPEM is the public part.
func (c *CA) CertPEM() []byte { return c.pem }

// Pool holds this CA only.
func (c *CA) Pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(c.cert)
	return p
}

// ID tells CAs apart without telling their keys.
func (c *CA) ID() string {
	sum := sha256.Sum256(c.cert.Raw)
	return hex.EncodeToString(sum[:8])
}

// Retired says that the CA must be replaced: it is not valid yet, or could not outlive a certificate signed now.
func (c *CA) Retired(now time.Time) bool {
	return now.Before(c.cert.NotBefore) || now.Add(caRetire).After(c.cert.NotAfter)
}
