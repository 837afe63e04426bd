// Package story tells RetryQueue's whole story on a real cluster, step by step, and checks each step: it is
// the demo, and the end-to-end test.
package story

import (
	"context"
	"fmt"
	"io"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
)

const namespace = "shop"

// Config is what the story needs.
type Config struct {
	Kubeconfig string // empty takes kubectl's own
	Context    string // empty takes the current context
	Manifests  string // directory hack/demo/manifests
	Out        io.Writer
}

// Story is one telling.
type Story struct {
	Config
	rest   *rest.Config
	kube   kubernetes.Interface
	client client.Client
	step   int
	outage outage
}

// Run tells the story and returns the first thing that is not as told.
func Run(ctx context.Context, c Config) error {
	s := &Story{Config: c}
	began := time.Now()
	if err := s.connect(); err != nil {
		return err
	}
	for _, step := range []struct {
		title string
		run   func(context.Context) error
	}{
		{"Install: resources, roles, admission policies and the manager", s.install},
		{"Declare the queue: base 200ms, cap 2s, 4 attempts, deadline 2m", s.declare},
		{"Accept 500 orders while the service slows down, fails, and the worker is killed", s.ordersAndOutage},
		{"What became of them: nothing lost, no attempt given back, every death with its cause", s.examine},
		{"Ask for a redrive, and have it approved by somebody else", s.planAndApprove},
		{"Replay a canary of 10, then 20 jobs/s, through a restart of the manager", s.replay},
		{"Exactly once, and never again", s.once},
	} {
		s.step++
		s.say("\n%d. %s", s.step, step.title)
		started := time.Now()
		if err := step.run(ctx); err != nil {
			return fmt.Errorf("step %d (%s): %w", s.step, step.title, err)
		}
		s.say("   (%.0f s)", time.Since(started).Seconds())
	}
	s.say("\nEvery step went as told. (%.0f s)", time.Since(began).Seconds())
	return nil
}

func (s *Story) connect() error {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	if s.Kubeconfig != "" {
		rules.ExplicitPath = s.Kubeconfig
	}
	var err error
	s.rest, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: s.Context}).ClientConfig()
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	s.rest.QPS, s.rest.Burst = 100, 200
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	if s.kube, err = kubernetes.NewForConfig(s.rest); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if s.client, err = client.New(s.rest, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	return nil
}

func (s *Story) say(format string, args ...any) { fmt.Fprintf(s.Out, format+"\n", args...) }
