package admission_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// eventually waits for what the API server learns by itself.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	NewWithT(t).Eventually(ok).WithTimeout(30*time.Second).WithPolling(50*time.Millisecond).Should(BeTrue(), what)
}
