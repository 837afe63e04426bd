package testenv_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
	"github.com/retryqueue/retryqueue/internal/testenv"
)

func TestStart(t *testing.T) {
	c := testenv.Start(t)

	t.Run("our kinds are served", func(t *testing.T) {
		if err := c.Client.List(t.Context(), &v1alpha1.RedriveList{}); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("a user may do what was granted and nothing else", func(t *testing.T) {
		mine, other := c.Namespace(t), c.Namespace(t)
		c.Grant(t, mine, "view", "alice")
		alice := c.As(t, "alice")
		if err := alice.List(t.Context(), &corev1.ConfigMapList{}, client.InNamespace(mine)); err != nil {
			t.Errorf("in her namespace: %v", err)
		}
		if err := alice.List(t.Context(), &corev1.ConfigMapList{}, client.InNamespace(other)); !apierrors.IsForbidden(err) {
			t.Errorf("in another namespace: %v, want Forbidden", err)
		}
	})
}

// TestStartWithoutAssets runs this test binary again without KUBEBUILDER_ASSETS.
func TestStartWithoutAssets(t *testing.T) {
	if os.Getenv("TESTENV_CHILD") != "" {
		testenv.Start(t)
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestStartWithoutAssets$")
	cmd.Env = []string{"TESTENV_CHILD=1", "HOME=" + os.Getenv("HOME")}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "run make test") {
		t.Fatalf("without assets: err %v, output:\n%s\nwant a failure that says run make test", err, out)
	}
}
