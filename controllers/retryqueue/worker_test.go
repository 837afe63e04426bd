package retryqueue

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
	"github.com/retryqueue/retryqueue/internal/manifest"
	"github.com/retryqueue/retryqueue/internal/queue"
	"github.com/retryqueue/retryqueue/internal/workerapi"
)

// kubelet stands in for a node: it runs the worker's real admin API, with mutual TLS, from what the controller made.
type kubelet struct {
	mu      sync.Mutex
	workers map[string]*fakeWorker
}

// fakeWorker is the worker behind its admin API: real configuration, made up numbers.
type fakeWorker struct {
	dir    string
	server *httptest.Server

	mu     sync.Mutex
	config manifest.Config
	stats  queue.Stats
	refuse error
	asked  int
	pushed int
}

func (k *kubelet) url(rq *v1alpha1.RetryQueue) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if w := k.workers[rq.Namespace+"/"+rq.Name]; w != nil {
		return w.server.URL
	}
	return "https://127.0.0.1:1"
}

// run starts the worker of a queue from its ConfigMap and Secret, and says so in the Deployment's status. Again
// is a restart.
func (k *kubelet) run(t *testing.T, rq *v1alpha1.RetryQueue) *fakeWorker {
	t.Helper()
	g := NewWithT(t)
	ns := rq.Namespace
	g.Eventually(func() bool { // the objects are those of this generation
		var now v1alpha1.RetryQueue
		err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(rq), &now)
		return err == nil && now.Status.ObservedGeneration == now.Generation
	}).WithTimeout(wait).Should(BeTrue())
	var d appsv1.Deployment
	var cm corev1.ConfigMap
	var s corev1.Secret
	g.Eventually(func() error {
		for name, o := range map[string]client.Object{childName(rq): &d, secretName(rq): &s} {
			if err := cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, o); err != nil {
				return err
			}
		}
		return cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: childName(rq)}, &cm)
	}).WithTimeout(wait).Should(Succeed())
	w := newFakeWorker(t, string(rq.UID), cm.Data[manifestKey], &s)
	k.mu.Lock()
	k.workers[ns+"/"+rq.Name] = w
	k.mu.Unlock()
	setDeployment(t, &d, 1)
	return w
}

func setDeployment(t *testing.T, d *appsv1.Deployment, n int32) {
	t.Helper()
	NewWithT(t).Eventually(func() error {
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
			return err
		}
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n}
		return cluster.Client.Status().Update(t.Context(), d)
	}).WithTimeout(wait).Should(Succeed())
}

func newFakeWorker(t *testing.T, uid, m string, s *corev1.Secret) *fakeWorker {
	t.Helper()
	w := &fakeWorker{dir: t.TempDir()}
	if _, err := w.PutConfig(t.Context(), []byte(m)); err != nil {
		t.Fatalf("the worker does not start from its ConfigMap: %v", err)
	}
	w.pushed = 0
	w.mount(t, s)
	file := func(name string) string { return filepath.Join(w.dir, name) }
	config, err := workerapi.ServerTLS(workerapi.ServerTLSOptions{
		Files:    workerapi.ServerFiles{Cert: file("tls.crt"), Key: file("tls.key"), ClientCA: file("ca.crt")},
		QueueUID: uid, Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatalf("the worker does not start from its Secret: %v", err)
	}
	w.server = httptest.NewUnstartedServer(workerapi.NewAdmin(workerapi.AdminOptions{Backend: w, Log: slog.New(slog.DiscardHandler)}))
	w.server.Listener = tls.NewListener(w.server.Listener, config)
	w.server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	w.server.Start()
	w.server.URL = "https://" + w.server.Listener.Addr().String()
	t.Cleanup(w.server.Close)
	return w
}

// mount writes the files of a Secret, as the kubelet does when it changes.
func (w *fakeWorker) mount(t *testing.T, s *corev1.Secret) {
	t.Helper()
	for name, b := range s.Data {
		if err := os.WriteFile(filepath.Join(w.dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *fakeWorker) set(f func(*fakeWorker)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(w)
}

func (w *fakeWorker) generation() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.config.Generation
}

func (w *fakeWorker) Store() (queue.Store, error) { return statsOnly{w: w}, nil }
func (w *fakeWorker) Wake()                       {}

func (w *fakeWorker) Settings() workerapi.Settings {
	w.mu.Lock()
	defer w.mu.Unlock()
	return workerapi.Settings{Policy: w.config.Policy, Config: w.status()}
}

func (w *fakeWorker) status() workerapi.ConfigStatus {
	return workerapi.ConfigStatus{QueueUID: w.config.UID, Generation: w.config.Generation, Suspended: w.config.Suspended}
}

func (w *fakeWorker) PutConfig(_ context.Context, m []byte) (workerapi.ConfigStatus, error) {
	rq, err := manifest.Parse(m)
	if err != nil {
		return workerapi.ConfigStatus{}, &workerapi.ConfigError{Reason: workerapi.ConfigInvalid, Field: "spec", Detail: err.Error()}
	}
	c, err := manifest.ToConfig(rq)
	if err != nil {
		return workerapi.ConfigStatus{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse != nil {
		return workerapi.ConfigStatus{}, w.refuse
	}
	w.config = c
	w.pushed++
	return w.status(), nil
}

// statsOnly is a store that can be asked for numbers.
type statsOnly struct {
	queue.Store
	w *fakeWorker
}

func (s statsOnly) Stats(context.Context) (queue.Stats, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.w.asked++
	return s.w.stats, nil
}
