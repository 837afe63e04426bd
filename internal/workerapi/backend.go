package workerapi

import (
	"context"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// Backend is the worker behind its HTTP interfaces.
type Backend interface {
	// Store is the open store, or an error while there is none.
	Store() (queue.Store, error)
	// Settings are those in force now.
	Settings() Settings
	// Wake tells the worker loop that something may be due.
	Wake()
	// PutConfig puts a manifest in force, or refuses it with a *ConfigError.
	PutConfig(ctx context.Context, manifest []byte) (ConfigStatus, error)
}

// Settings are what the HTTP interfaces need of a queue's configuration.
type Settings struct {
	Policy queue.Policy
	// NeedsToken says that producers must show one of the mounted tokens.
	NeedsToken bool
	Config     ConfigStatus
}

// ErrNotReady is what Backend.Store answers before the store is open and after it was closed.
var ErrNotReady error = notReady()

func notReady() *ProblemError {
	e := refuse(KindNotReady, "", "the worker waits for its store, or is stopping; send it again")
	e.Problem.retryAfter = storeRetryAfter
	return e
}
