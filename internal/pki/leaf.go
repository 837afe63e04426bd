package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/url"
	"time"
)

const (
	// serverLifetime is how long a worker's certificate is valid.
	serverLifetime = 365 * 24 * time.Hour
	// serverEpoch is how often it is renewed: at two thirds of its life.
	serverEpoch = serverLifetime * 2 / 3
	// clientLifetime is how long a manager's certificate is valid. It lives in memory only.
	clientLifetime = 24 * time.Hour
)

// ServerURI names the workers of a queue.
func ServerURI(queueUID string) string { return "retryqueue://" + queueUID + "/worker" }

// ClientURI names the manager as it speaks to the workers of a queue.
func ClientURI(queueUID string) string { return "retryqueue://" + queueUID + "/manager" }

// Server is the certificate and key of a queue's workers, in PEM. It is the same for the same CA, uid and
// epoch, and another one from Epoch(uid, now) + 1 on.
func (c *CA) Server(queueUID string, now time.Time) (certPEM, keyPEM []byte, err error) {
	epoch, start := serverPeriod(queueUID, now)
	info := fmt.Sprintf("retryqueue worker %s %d", queueUID, epoch)
	key, serial, err := c.derive(info)
	if err != nil {
		return nil, nil, err
	}
	der, err := c.sign(nil, leaf{
		uri: ServerURI(queueUID), serial: serial, usage: x509.ExtKeyUsageServerAuth,
		from: start.Add(-skew), until: start.Add(serverLifetime), key: key,
	})
	if err != nil {
		return nil, nil, err
	}
	kd, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding a worker's key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: pemKey, Bytes: kd}), nil
}

// Client mints a certificate for the manager to speak to the workers of a queue, valid for a day.
func (c *CA) Client(queueUID string, now time.Time) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("making a client's key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("drawing a serial: %w", err)
	}
	der, err := c.sign(rand.Reader, leaf{
		uri: ClientURI(queueUID), serial: serial, usage: x509.ExtKeyUsageClientAuth,
		from: now.Add(-skew), until: now.Add(clientLifetime), key: key,
	})
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// ClientRenewAt is when a client certificate minted at t should be minted anew.
func ClientRenewAt(t time.Time) time.Time { return t.Add(clientLifetime / 2) }

type leaf struct {
	uri         string
	serial      *big.Int
	usage       x509.ExtKeyUsage
	from, until time.Time
	key         *ecdsa.PrivateKey
}

// sign signs l. Without random the signature is the deterministic one of RFC 6979.
func (c *CA) sign(random io.Reader, l leaf) ([]byte, error) {
	u, err := url.Parse(l.uri)
	if err != nil {
		return nil, fmt.Errorf("naming a certificate: %w", err)
	}
	t := &x509.Certificate{
		SerialNumber: l.serial,
		Subject:      pkix.Name{CommonName: "retryqueue"},
		NotBefore:    l.from,
		NotAfter:     l.until,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{l.usage},
		URIs:         []*url.URL{u},
	}
	der, err := x509.CreateCertificate(random, t, c.cert, &l.key.PublicKey, c.key)
	if err != nil {
		return nil, fmt.Errorf("signing %s: %w", l.uri, err)
	}
	return der, nil
}

// derive makes a key and a serial from the CA's key. A 32-byte string is a valid scalar of P-256 but for one
// in four billion: then the next one is taken.
func (c *CA) derive(info string) (*ecdsa.PrivateKey, *big.Int, error) {
	secret, err := c.key.Bytes()
	if err != nil {
		return nil, nil, fmt.Errorf("reading the CA's key: %w", err)
	}
	for try := range 8 {
		b, err := hkdf.Key(sha256.New, secret, nil, fmt.Sprintf("%s %d", info, try), 32+15)
		if err != nil {
			return nil, nil, fmt.Errorf("deriving a key: %w", err)
		}
		key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), b[:32])
		if err == nil {
			return key, new(big.Int).SetBytes(append([]byte{1}, b[32:]...)), nil
		}
	}
	return nil, nil, fmt.Errorf("deriving a key: none found for %q", info)
}

// serverPeriod is the epoch of a queue's certificates and its start. Queues change theirs at different times,
// so that not all workers get a new one at once.
func serverPeriod(queueUID string, now time.Time) (int64, time.Time) {
	sum := sha256.Sum256([]byte(queueUID))
	length := int64(serverEpoch / time.Second)
	offset := int64(binary.BigEndian.Uint32(sum[:4])) % length
	epoch := (now.Unix() - offset) / length
	return epoch, time.Unix(epoch*length+offset, 0).UTC()
}
