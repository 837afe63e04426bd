package queue

import (
	"encoding/hex"
	"regexp"
	"strings"
)

// variable finds, in this order, what differs between two failures of one cause: quoted strings, UUIDs,
// IP addresses (with a port), long hexadecimal numbers, and runs of letters and digits that hold a digit.
var variable = regexp.MustCompile(
	`"(?:[^"\\]|\\.)*"` +
		"|`[^`]*`" +
		`|\B'[^']*'\B` +
		`|(?i:\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b)` +
		`|\[[0-9a-fA-F:.]*:[0-9a-fA-F:.]*(?:%[\w.-]+)?\](?::\d+)?` +
		`|(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F]{0,4}(?:%\w+)?` +
		`|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b` +
		`|\b(?i:0x)?[0-9a-fA-F]{12,}\b` +
		`|[\pL_-]*\d[\pL\d_.,:+-]*`)

// fingerprintLength is in hexadecimal digits: 80 bits, so that causes do not meet by chance.
const fingerprintLength = 20

// Fingerprint names the cause of a death: equal for failures that differ only in ids, numbers, addresses and
// quoted values, so that 5,000 deaths read as 3 causes. It is a short string of hexadecimal digits, the same on
// every machine. f may be nil.
func Fingerprint(reason Reason, f *Failure) string {
	d := newDigest("fingerprint/1")
	d.text(string(reason))
	if f != nil {
		d.text(f.Kind)
		d.number(int64(f.HTTPStatus))
		d.text(normalizeError(f.Message))
	}
	sum := d.sum()
	return hex.EncodeToString(sum[:])[:fingerprintLength]
}

// normalizeError replaces what varies by "#", and runs of white space by one blank.
func normalizeError(message string) string {
	message = strings.ToLower(strings.ToValidUTF8(message, "?"))
	return strings.Join(strings.Fields(variable.ReplaceAllString(message, "#")), " ")
}
