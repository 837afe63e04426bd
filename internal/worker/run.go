package worker

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/retryqueue/retryqueue/internal/delivery"
	"github.com/retryqueue/retryqueue/internal/metrics"
	"github.com/retryqueue/retryqueue/internal/queue"
	"github.com/retryqueue/retryqueue/internal/store/sqlite"
	"github.com/retryqueue/retryqueue/internal/workerapi"
)

// keysEvery is how often the signing secrets are looked at; the kubelet renews mounted Secrets within a minute or so.
const keysEvery = 5 * time.Second

// Run runs one worker until ctx is done, then drains it: nothing new is claimed, attempts in flight and requests
// under way finish, the store is closed. It returns nil after a drain, and an error when the worker could not
// start or cannot go on; queue.ErrFenced among them means that another process has taken the store over.
//
// The listeners answer from the start: until the store is this process's, requests get 503 and /readyz says why.
func Run(ctx context.Context, o Options) error {
	if err := o.validate(); err != nil {
		return err
	}
	r, err := newRuntime(o)
	if err != nil {
		return err
	}
	defer r.deliverer.Close()
	l, err := r.bind()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	l.serve(r, stop)
	if o.Bound != nil {
		o.Bound(Addresses{Public: l.public.addr(), Admin: l.admin.addr(), Metrics: l.metrics.addr()})
	}
	err = r.work(ctx, stop, l)
	return errors.Join(err, l.shutdown())
}

// newRuntime reads the manifest.
func newRuntime(o Options) (*runtime, error) {
	data, err := os.ReadFile(o.Manifest)
	if err != nil {
		return nil, fmt.Errorf("reading the manifest (--file): %w", err)
	}
	c, err := o.parse(data)
	if err != nil {
		return nil, fmt.Errorf("reading the manifest %s: %w", o.Manifest, err)
	}
	r := &runtime{o: o, log: o.Log.With("queue", c.QueueName())}
	r.metrics = metrics.New(metrics.Options{
		Queue: c.Name, Namespace: c.Namespace, Version: o.Version, AcceptResults: workerapi.Results(), Stats: r.stats, Now: o.Now,
	})
	if r.deliverer, err = delivery.New(c.Delivery, o.Now); err != nil {
		return nil, fmt.Errorf("reading the manifest %s: %w", o.Manifest, err)
	}
	r.config.Store(&c)
	r.metrics.Suspended(c.Suspended)
	return r, nil
}

// work opens the store and runs the core on it until ctx is done or something breaks.
func (r *runtime) work(ctx context.Context, stop context.CancelCauseFunc, l listeners) error {
	store, err := r.open(ctx)
	if err != nil {
		if ctx.Err() != nil { // told to stop while waiting
			return cause(ctx)
		}
		return err
	}
	loop, err := r.start(store)
	if err != nil {
		return errors.Join(err, store.Close())
	}
	defer context.AfterFunc(ctx, r.drain)()
	r.log.Info("worker.ready", "generation", r.config.Load().Generation)
	ended := make(chan error, 1)
	go func() { ended <- loop.Run(ctx) }() // drains by itself when ctx is done
	err = r.wait(ctx, ended)
	stop(err)
	r.failed(err)
	// Producers are served until here, since what they send needs no worker to be kept. Now nobody asks any more.
	err = errors.Join(err, l.public.shutdown(), l.admin.shutdown())
	r.core.Store(nil)
	err = errors.Join(err, store.Close())
	r.log.Info("worker.stopped")
	return err
}

// drain says that the loop has been told to stop.
func (r *runtime) drain() {
	r.draining.Store(true)
	r.log.Info("worker.draining")
}

// start puts the core in place, with the configuration of this moment.
func (r *runtime) start(store queue.Store) (*queue.Worker, error) {
	r.applying.Lock()
	defer r.applying.Unlock()
	loop, err := queue.NewWorker(queue.WorkerOptions{
		Store: store, Deliverer: r.deliverer, Settings: settings(*r.config.Load()), Observer: r.metrics, Log: r.log,
	})
	if err != nil {
		return nil, fmt.Errorf("starting the loop: %w", err)
	}
	r.core.Store(&core{store: store, loop: loop})
	return loop, nil
}

// wait keeps the keys fresh until the loop has ended.
func (r *runtime) wait(ctx context.Context, ended <-chan error) error {
	ticker := time.NewTicker(keysEvery)
	defer ticker.Stop()
	for {
		select {
		case err := <-ended:
			return cmp.Or(err, cause(ctx))
		case <-ticker.C:
			if err := r.refreshKeys(); err != nil {
				r.log.Error("signing.keys_not_usable", "error", err, "effect", "the last good ones are used")
			}
		}
	}
}

// cause is why ctx ended, but for being told to.
func cause(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func (r *runtime) open(ctx context.Context) (queue.Store, error) {
	if err := os.MkdirAll(r.o.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("making --data-dir: %w", err)
	}
	c := r.config.Load()
	return sqlite.Open(ctx, sqlite.Options{
		Path: filepath.Join(r.o.DataDir, "queue.db"), Queue: c.QueueName(), SizeLimit: c.StorageSize, Log: r.log,
	})
}

// listeners are the three addresses of a worker.
type listeners struct{ public, admin, metrics *listener }

func (r *runtime) bind() (l listeners, err error) {
	var config *tls.Config
	if r.o.mutualTLS() {
		config, err = workerapi.ServerTLS(workerapi.ServerTLSOptions{
			Files: r.o.AdminTLS, QueueUID: r.config.Load().UID, Now: r.o.Now, Log: r.log,
		})
		if err != nil {
			return l, err
		}
	}
	l.public, err = bind("public", r.o.Listen, nil)
	if err == nil {
		l.admin, err = bind("admin", r.o.AdminListen, config)
	}
	if err == nil {
		l.metrics, err = bind("metrics", r.o.MetricsListen, nil)
	}
	if err != nil {
		return l, errors.Join(err, l.shutdown())
	}
	return l, nil
}

func (l listeners) serve(r *runtime, stop context.CancelCauseFunc) {
	o := r.o
	public := workerapi.PublicOptions{
		Backend: r, Log: r.log, Observe: r.metrics.Accepted, Now: o.Now,
		Tokens: &workerapi.Tokens{Path: o.ProducerTokens, Now: o.Now, Log: r.log.With("tokens", "producers", "flag", "--producer-tokens")},
	}
	if r.Settings().NeedsToken {
		public.Tokens.Check()
	}
	admin := workerapi.AdminOptions{Backend: r, Log: r.log, LocalOnly: !o.mutualTLS()}
	if o.AdminTokenFile != "" {
		admin.Tokens = &workerapi.Tokens{Path: o.AdminTokenFile, Now: o.Now, Log: r.log.With("tokens", "admin", "flag", "--admin-token-file")}
		admin.Tokens.Check()
	}
	l.metrics.serve(health(r.metrics.Gatherer(), r.alive, r.ready), r.log, stop)
	l.admin.serve(workerapi.NewAdmin(admin), r.log, stop)
	l.public.serve(workerapi.NewPublic(public), r.log, stop)
	for _, one := range []*listener{l.public, l.admin, l.metrics} {
		r.log.Info("listener.bound", "listener", one.name, "address", one.addr())
	}
}

// shutdown ends the listeners, the probes last.
func (l listeners) shutdown() error {
	var errs []error
	for _, one := range []*listener{l.public, l.admin, l.metrics} {
		if one != nil {
			errs = append(errs, one.shutdown())
		}
	}
	return errors.Join(errs...)
}
