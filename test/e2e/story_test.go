// Package e2e runs RetryQueue on a real cluster. hack/e2e.sh brings one up and runs it.
package e2e

import (
	"os"
	"testing"

	"github.com/retryqueue/retryqueue/hack/demo/story"
)

// TestStory tells the whole story, from the manifest to the delivered request; each step asserts what it says.
func TestStory(t *testing.T) {
	kubeconfig := os.Getenv("E2E_KUBECONFIG")
	if kubeconfig == "" {
		t.Fatal("E2E_KUBECONFIG is not set: run `make test-e2e`, which brings up a cluster")
	}
	config := story.Config{Kubeconfig: kubeconfig, Manifests: "../../hack/demo/manifests", Out: t.Output()}
	if err := story.Run(t.Context(), config); err != nil {
		t.Fatal(err)
	}
}
