package delivery

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The Standard Webhooks scheme, https://www.standardwebhooks.com: HMAC-SHA256 over "id.timestamp.body".
const (
	signingPrefix = "whsec_"
	minSigningKey = 24 // bytes; the bounds are the scheme's
	maxSigningKey = 64
)

// ParseSigningKey reads a Standard Webhooks secret: "whsec_" and the base64 of 24 to 64 bytes. Space around
// it is ignored, since files end in a line feed. The error never holds the secret.
func ParseSigningKey(secret []byte) ([]byte, error) {
	encoded, ok := strings.CutPrefix(strings.TrimSpace(string(secret)), signingPrefix)
	if !ok {
		return nil, fmt.Errorf("a signing secret must begin with %s, followed by base64", signingPrefix)
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("a signing secret must be %s and standard base64 with padding", signingPrefix)
	}
	if len(key) < minSigningKey || len(key) > maxSigningKey {
		return nil, fmt.Errorf("a signing secret must hold %d to %d bytes, holds %d; make one with: echo %s$(head -c 32 /dev/urandom | base64)",
			minSigningKey, maxSigningKey, len(key), signingPrefix)
	}
	return key, nil
}

// webhookID is the job's id, the same at every attempt. The scheme joins id, timestamp and body with full
// stops, so an id that holds one could be taken for another id and body; and a receiver trims spaces. Such an
// id goes out as its digest.
func webhookID(jobID string) string {
	if jobID != "" && !strings.Contains(jobID, ".") && strings.TrimSpace(jobID) == jobID {
		return jobID
	}
	sum := sha256.Sum256([]byte(jobID))
	return "rq-" + base64.RawURLEncoding.EncodeToString(sum[:])
}

// signature is the value of webhook-signature: one "v1,<base64>" a key, parted by spaces, so that keys can be
// rotated.
func signature(keys [][]byte, id string, at time.Time, body []byte) (string, error) {
	if len(keys) == 0 {
		return "", errors.New("there is no signing key")
	}
	if at.Unix() <= 0 {
		return "", errors.New("the clock is not set")
	}
	all := make([]string, len(keys))
	for i, key := range keys {
		if len(key) == 0 {
			return "", errors.New("a signing key is empty")
		}
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
		mac.Write(body)
		all[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return strings.Join(all, " "), nil
}
