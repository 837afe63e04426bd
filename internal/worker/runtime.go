package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/retryqueue/retryqueue/internal/delivery"
	"github.com/retryqueue/retryqueue/internal/manifest"
	"github.com/retryqueue/retryqueue/internal/metrics"
	"github.com/retryqueue/retryqueue/internal/queue"
	"github.com/retryqueue/retryqueue/internal/workerapi"
)

// runtime is what a running worker works with. The configuration in force is swapped as a whole.
type runtime struct {
	o         Options
	log       *slog.Logger
	metrics   *metrics.Metrics
	deliverer *delivery.HTTP

	config   atomic.Pointer[manifest.Config]
	core     atomic.Pointer[core] // nil until the store is open, and after it is closed
	draining atomic.Bool
	fenced   atomic.Bool

	applying sync.Mutex // held while the configuration is changed
}

// core is the open store and the loop on it.
type core struct {
	store queue.Store
	loop  *queue.Worker
}

var _ workerapi.Backend = (*runtime)(nil)

// Store implements workerapi.Backend.
func (r *runtime) Store() (queue.Store, error) {
	if c := r.core.Load(); c != nil {
		return c.store, nil
	}
	return nil, workerapi.ErrNotReady
}

// Settings implements workerapi.Backend.
func (r *runtime) Settings() workerapi.Settings {
	c := r.config.Load()
	return workerapi.Settings{
		Policy:     c.Policy,
		NeedsToken: c.Accept.RequireToken && !c.Accept.Insecure,
		Config:     workerapi.ConfigStatus{QueueUID: c.UID, Generation: c.Generation, Suspended: c.Suspended},
	}
}

// Wake implements workerapi.Backend.
func (r *runtime) Wake() {
	if c := r.core.Load(); c != nil {
		c.loop.Wake()
	}
}

// PutConfig implements workerapi.Backend.
func (r *runtime) PutConfig(_ context.Context, data []byte) (workerapi.ConfigStatus, error) {
	next, err := r.o.parse(data)
	if err != nil {
		return workerapi.ConfigStatus{}, err
	}
	r.applying.Lock()
	defer r.applying.Unlock()
	now := r.config.Load()
	if err := succeeds(next, *now); err != nil {
		return workerapi.ConfigStatus{}, err
	}
	if err := r.apply(next); err != nil {
		return workerapi.ConfigStatus{}, &workerapi.ConfigError{Reason: workerapi.ConfigInvalid, Detail: err.Error()}
	}
	if next.StorageSize != now.StorageSize {
		r.log.Warn("config.storage_size_waits", "size", next.StorageSize, "until", "the worker starts again")
	}
	return r.Settings().Config, nil
}

// apply puts c in force; applying is held. An error changes nothing.
func (r *runtime) apply(c manifest.Config) error {
	if err := settings(c).Validate(); err != nil {
		return err
	}
	if err := r.deliverer.Configure(c.Delivery); err != nil {
		return err
	}
	r.config.Store(&c)
	if core := r.core.Load(); core != nil {
		if err := core.loop.SetSettings(settings(c)); err != nil {
			return err // not reached: they are valid
		}
	}
	r.metrics.Suspended(c.Suspended)
	r.log.Info("config.applied", "generation", c.Generation, "suspended", c.Suspended)
	return nil
}

// settings are what the loop needs of c.
func settings(c manifest.Config) queue.Settings {
	return queue.Settings{Policy: c.Policy, Concurrency: c.Concurrency, Suspended: c.Suspended}
}

// stats reads the store for a scrape.
func (r *runtime) stats(ctx context.Context) (queue.Stats, error) {
	store, err := r.Store()
	if err != nil {
		return queue.Stats{}, err
	}
	return store.Stats(ctx)
}

// alive says why the process is not alive, or "".
func (r *runtime) alive() string {
	if r.fenced.Load() {
		return "another process owns the store; this one must end"
	}
	return ""
}

// ready says why the worker is not ready, or "".
func (r *runtime) ready() string {
	switch {
	case r.alive() != "":
		return r.alive()
	case r.draining.Load():
		return "stopping"
	case r.core.Load() == nil:
		return "waiting for the store"
	}
	return ""
}

// refreshKeys reads the signing secrets again, and puts them in force when they have changed. Bad files change
// nothing: what was signed with goes on.
func (r *runtime) refreshKeys() error {
	r.applying.Lock()
	defer r.applying.Unlock()
	c := *r.config.Load()
	if !c.Delivery.Signed {
		return nil
	}
	keys, err := readSigningKeys(r.o.SigningKeys)
	if err != nil || sameKeys(keys, c.Delivery.SigningKeys) {
		return err
	}
	c.Delivery.SigningKeys = keys
	if err := r.apply(c); err != nil {
		return err
	}
	r.log.Info("signing.keys_changed", "keys", len(keys))
	return nil
}

// failed remembers what ended the core.
func (r *runtime) failed(err error) {
	if errors.Is(err, queue.ErrFenced) {
		r.fenced.Store(true)
	}
}
