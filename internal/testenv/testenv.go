package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
)

// Namespace and service account of the manager, as the shipped manifests have them.
const (
	ManagerNamespace = "retryqueue-system"
	ManagerUser      = "system:serviceaccount:" + ManagerNamespace + ":retryqueue-manager"
)

// startTimeout is generous: the machine may be building Kubernetes at the same time.
const startTimeout = 2 * time.Minute

// Cluster is a running API server. Its fields must not be changed.
type Cluster struct {
	Config *rest.Config    // of a member of system:masters
	Scheme *runtime.Scheme // client-go's kinds and ours
	Client client.Client   // of Config, reading directly

	env    *envtest.Environment
	serial atomic.Int64
}

type options struct{ manifests []string }

// Option adds to what Start installs.
type Option func(*options)

// WithManifests applies every manifest of a directory, given from the root of the module, and its
// subdirectories. It waits until the admission policies among them are in force.
func WithManifests(dir string) Option {
	return func(o *options) { o.manifests = append(o.manifests, dir) }
}

// WithAdmission installs config/admission.
func WithAdmission() Option { return WithManifests("config/admission") }

// WithRBAC installs config/rbac.
func WithRBAC() Option { return WithManifests("config/rbac") }

// Start starts an API server for one test and stops it afterwards.
func Start(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	c, err := start(opts)
	if err != nil {
		t.Fatalf("starting the API server: %v", err)
	}
	t.Cleanup(func() {
		if err := c.env.Stop(); err != nil {
			t.Errorf("stopping the API server: %v", err)
		}
	})
	return c
}

// Run is the body of a TestMain: it starts one API server, sets *c, runs the tests and stops it. The answer
// is the exit code.
func Run(m *testing.M, c **Cluster, opts ...Option) int {
	cluster, err := start(opts)
	if err != nil {
		fmt.Fprintf(os.Stderr, "starting the API server: %v\n", err)
		return 1
	}
	*c = cluster
	code := m.Run()
	if err := cluster.env.Stop(); err != nil {
		fmt.Fprintf(os.Stderr, "stopping the API server: %v\n", err)
		return max(code, 1)
	}
	return code
}

func start(opts []Option) (*Cluster, error) {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		return nil, errors.New("KUBEBUILDER_ASSETS is not set: run make test, which builds kube-apiserver and etcd first")
	}
	for _, bin := range []string{"kube-apiserver", "etcd"} {
		if _, err := os.Stat(filepath.Join(assets, bin)); err != nil {
			return nil, fmt.Errorf("KUBEBUILDER_ASSETS=%s lacks %s: run make test, which builds it first", assets, bin)
		}
	}
	root, err := ModuleRoot()
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("building the scheme: %w", err)
	}
	existing := false
	c := &Cluster{Scheme: scheme, env: &envtest.Environment{
		UseExistingCluster:       &existing,
		Scheme:                   scheme,
		BinaryAssetsDirectory:    assets,
		ControlPlaneStartTimeout: startTimeout,
		ControlPlaneStopTimeout:  startTimeout,
		CRDInstallOptions:        envtest.CRDInstallOptions{MaxTime: startTimeout},
		CRDDirectoryPaths:        []string{filepath.Join(root, "config", "crd")},
		ErrorIfCRDPathMissing:    true,
	}}
	if err := c.up(root, o.manifests); err != nil {
		return nil, errors.Join(err, c.env.Stop())
	}
	return c, nil
}

func (c *Cluster) up(root string, manifests []string) error {
	var err error
	if c.Config, err = c.env.Start(); err != nil {
		return err
	}
	c.Config.QPS, c.Config.Burst = 1000, 1000
	if c.Client, err = client.New(c.Config, client.Options{Scheme: c.Scheme}); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	for _, dir := range manifests {
		if err := c.install(filepath.Join(root, dir)); err != nil {
			return fmt.Errorf("installing %s: %w", dir, err)
		}
	}
	return c.settle(context.Background())
}

// settle returns once what was installed is in force.
func (c *Cluster) settle(ctx context.Context) error {
	if err := c.aggregate(ctx); err != nil {
		return err
	}
	if err := c.awaitRBAC(ctx, ""); err != nil {
		return err
	}
	return c.awaitAdmission(ctx)
}

// ModuleRoot is the directory that holds go.mod, at or above the working directory.
func ModuleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the module: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("finding the module: no go.mod at or above the working directory")
		}
		dir = parent
	}
}
