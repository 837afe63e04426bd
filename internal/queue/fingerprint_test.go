package queue

import (
	"encoding/hex"
	"regexp"
	"testing"
)

func hexOf(b []byte) string { return hex.EncodeToString(b) }

func TestFingerprintGathersWhatHasOneCause(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		a, b string
		same bool
	}{
		"numbers":                       {"order 17 not found", "order 2,345.5 not found", true},
		"a number at the end":           {"took 31s", "took 4s.", true},
		"prefixed ids":                  {"customer cus_9s6XKzkNRiz8i3 is gone", "customer cus_1AbC is gone", true},
		"uuids":                         {"no 7f9c24e5-0f5a-4b8e-9c61-0a1b2c3d4e5f", "no 00000000-0000-4000-8000-ABCDEFABCDEF", true},
		"uuids without digits at first": {"no deadbeef-cafe-babe-feed-abcdefabcdef", "no 7f9c24e5-0f5a-4b8e-9c61-0a1b2c3d4e5f", true},
		"hexadecimal":                   {"hash deadbeefcafe", "hash 0xDEADBEEF00", true},
		"quoted strings":                {`field "name" must not be 'x y'`, `field "zip \" code" must not be ''`, true},
		"back quotes":                   {"column `a` is unknown", "column `b c` is unknown", true},
		"addresses":                     {"dial tcp 10.0.0.1:8080: connection refused", "dial tcp 192.168.17.4:80: connection refused", true},
		"IPv6 addresses":                {"dial tcp [2001:db8::1]:80: connection refused", "dial tcp [fe80::a%eth0]:8080: connection refused", true},
		"IPv6 against IPv4":             {"dial tcp [::1]:80: connection refused", "dial tcp 127.0.0.1:80: connection refused", true},
		"names of pods":                 {"pod orders-7d9f8b6c5-x2x4z left", "pod orders-66b5c9-zzzzz left", true},
		"times":                         {"at 2026-09-06T12:00:00.000Z", "at 2025-01-01T00:00:00Z", true},
		"case and spacing":              {"Connection  Refused\n", "connection refused", true},
		"other words":                   {"connection refused", "connection reset", false},
		"an apostrophe is no quote":     {"can't read, won't write", "can't read, won't run", false},
		"more words":                    {"order 17 not found", "order 17 not found in shop", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := func(m string) string { return Fingerprint(ReasonExhausted, &Failure{Kind: "K", Message: m}) }
			if same := of(tt.a) == of(tt.b); same != tt.same {
				t.Errorf("the same cause: %v, want %v: %q and %q", same, tt.same, normalizeError(tt.a), normalizeError(tt.b))
			}
		})
	}
}

func TestFingerprintTellsApart(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for name, got := range map[string]string{
		"one":             Fingerprint(ReasonExhausted, &Failure{Kind: "K", HTTPStatus: 500, Message: "m"}),
		"another reason":  Fingerprint(ReasonPermanent, &Failure{Kind: "K", HTTPStatus: 500, Message: "m"}),
		"another kind":    Fingerprint(ReasonExhausted, &Failure{Kind: "L", HTTPStatus: 500, Message: "m"}),
		"another status":  Fingerprint(ReasonExhausted, &Failure{Kind: "K", HTTPStatus: 503, Message: "m"}),
		"another message": Fingerprint(ReasonExhausted, &Failure{Kind: "K", HTTPStatus: 500, Message: "n"}),
		"no failure":      Fingerprint(ReasonExhausted, nil),
	} {
		if other, ok := seen[got]; ok {
			t.Errorf("%s and %s share %s", name, other, got)
		}
		seen[got] = name
	}
}

// Approvals and dashboards name fingerprints: they must not change with the program.
func TestFingerprintIsStable(t *testing.T) {
	t.Parallel()
	got := Fingerprint(ReasonExhausted, &Failure{Kind: "HTTPStatus", HTTPStatus: 503, Message: `order 17 of "a": busy`})
	if want := "822c1d43aac59422617f"; got != want {
		t.Errorf("Fingerprint = %s, want %s", got, want)
	}
}

func FuzzFingerprint(f *testing.F) {
	f.Add("order 17", "K")
	f.Add("\xff\"", "")
	form := regexp.MustCompile(`^[0-9a-f]{20}$`)
	f.Fuzz(func(t *testing.T, message, kind string) {
		got := Fingerprint(ReasonPermanent, &Failure{Kind: kind, Message: message})
		if !form.MatchString(got) || got != Fingerprint(ReasonPermanent, &Failure{Kind: kind, Message: message}) {
			t.Errorf("Fingerprint = %q", got)
		}
	})
}
