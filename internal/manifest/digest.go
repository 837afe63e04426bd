package manifest

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
)

// specDigest identifies what a Redrive asks for: the same digest under the same name runs once. What may
// change afterwards (suspend, cancel) and who asked are no part of it.
func specDigest(spec v1alpha1.RedriveSpec) (string, error) {
	s := spec.DeepCopy()
	s.Suspend, s.Cancel, s.RequestedBy = false, false, ""
	data, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("digesting the spec: %w", err)
	}
	return digest("redrive-spec/v1", string(data)), nil
}

// targetDigest identifies where jobs go: the URL and the configured headers, in any order.
func targetDigest(h *v1alpha1.HTTPDelivery) string {
	headers := slices.Clone(h.Headers)
	for i := range headers {
		headers[i].Name = strings.ToLower(headers[i].Name)
	}
	slices.SortFunc(headers, func(a, b v1alpha1.HTTPHeader) int {
		return strings.Compare(a.Name+"\x00"+a.Value, b.Name+"\x00"+b.Value)
	})
	parts := []string{"delivery-target/v1", h.URL}
	for _, header := range headers {
		parts = append(parts, header.Name, header.Value)
	}
	return digest(parts...)
}

// digest is sha256 over the parts, each after its length so that no two lists of parts look alike.
func digest(parts ...string) string {
	sum := sha256.New()
	for _, p := range parts {
		sum.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p))))
		sum.Write([]byte(p))
	}
	return hex.EncodeToString(sum.Sum(nil))
}
