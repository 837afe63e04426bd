package delivery

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/retryqueue/retryqueue/internal/queue"
)

const (
	secret1 = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	secret2 = "whsec_" + "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
)

// verify is a receiver, written from the scheme and not from sign.go.
func verify(secret string, h http.Header, payload []byte) bool {
	key, _ := base64.StdEncoding.DecodeString(secret[len("whsec_"):])
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", h.Get("webhook-id"), h.Get("webhook-timestamp"), payload)
	want := base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for versioned := range strings.SplitSeq(h.Get("webhook-signature"), " ") {
		version, sig, _ := strings.Cut(versioned, ",")
		if version == "v1" && hmac.Equal([]byte(sig), []byte(want)) {
			return true
		}
	}
	return false
}

// The example that the libraries of the scheme test themselves with.
func TestSignatureOfThePublishedExample(t *testing.T) {
	t.Parallel()
	key, err := ParseSigningKey([]byte(secret1))
	if err != nil {
		t.Fatal(err)
	}
	got, err := signature([][]byte{key}, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("signature = %s, want %s", got, want)
	}
}

func TestRequestsAreSignedWithEveryKey(t *testing.T) {
	t.Parallel()
	var keys [][]byte
	for _, s := range []string{secret1, secret2 + "\n"} {
		key, err := ParseSigningKey([]byte(s))
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	type seen struct {
		header  http.Header
		payload []byte
	}
	got := make(chan seen, 1)
	s := server(t, func(_ http.ResponseWriter, r *http.Request) {
		payload, _ := io.ReadAll(r.Body)
		got <- seen{r.Header, payload}
	})
	d := deliverer(t, Config{URL: s.URL, SigningKeys: keys, Signed: true})
	for _, id := range []string{"order-1", "order.1614265330.body", " padded "} {
		lease := leaseOf("a.b")
		lease.Job.ID = id
		if r := deliver(t, d, lease); r.Outcome != queue.OutcomeSucceeded {
			t.Fatalf("result = %+v", r)
		}
		g := <-got
		for _, secret := range []string{secret1, secret2} {
			if !verify(secret, g.header, g.payload) {
				t.Errorf("id %q: the signature does not verify with %s: %v", id, secret, g.header)
			}
		}
		if verify(secret1, g.header, []byte("forged")) {
			t.Errorf("id %q: the signature verifies another body", id)
		}
		if wid := g.header.Get("Webhook-Id"); strings.Contains(wid, ".") || wid == "" {
			t.Errorf("webhook-id of %q is %q: a full stop makes the signed text ambiguous", id, wid)
		}
		if ts := g.header.Get("Webhook-Timestamp"); ts != fmt.Sprint(epoch.Unix()) {
			t.Errorf("webhook-timestamp = %s, want %d", ts, epoch.Unix())
		}
	}
	if webhookID("order-1") != "order-1" {
		t.Errorf("a plain id must be the webhook-id")
	}
}

func TestWhatCannotBeSignedIsNotSentAndUnknown(t *testing.T) {
	t.Parallel()
	s := server(t, func(http.ResponseWriter, *http.Request) { t.Error("an unsigned request was sent") })
	d := deliverer(t, Config{URL: s.URL, SigningKeys: [][]byte{[]byte("key")}, Signed: true})
	d.now = func() time.Time { return time.Time{} }
	wantFailure(t, deliver(t, d, leaseOf("x")), queue.OutcomeUnknown, KindUnsigned)
}

func TestParseSigningKeyRefuses(t *testing.T) {
	t.Parallel()
	for name, secret := range map[string]string{
		"nothing":          "",
		"no prefix":        secret1[6:],
		"no base64":        "whsec_!!!!",
		"base64 for URLs":  "whsec_" + strings.Repeat("-_", 16),
		"too short a key":  "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 23)),
		"too long a key":   "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 65)),
		"no padding":       "whsec_" + base64.RawStdEncoding.EncodeToString(make([]byte, 32)),
		"two keys at once": secret1 + " " + secret2,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := ParseSigningKey([]byte(secret))
			if err == nil {
				t.Fatal("it is taken")
			}
			if len(secret) > 10 && strings.Contains(err.Error(), secret[6:]) {
				t.Errorf("the error shows the secret: %v", err)
			}
		})
	}
}
