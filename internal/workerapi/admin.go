package workerapi

import (
	"context"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// Admin is what a worker offers to the operator. The client implements it over HTTP; its errors are those of
// queue.Store (ErrNotFound, *RedriveError, …) where the worker says so, else *ProblemError or a transport error.
type Admin interface {
	Stats(ctx context.Context) (Stats, error)
	Dead(ctx context.Context, q queue.DeadQuery) (queue.DeadPage, error)
	DeadGroups(ctx context.Context, s queue.Selector, limit int) ([]queue.DeadGroup, error)
	Purge(ctx context.Context, s queue.Selector) (int, error)
	PlanRedrive(ctx context.Context, r queue.RedriveSpec) (queue.Redrive, error)
	PermitRedrive(ctx context.Context, p queue.RedrivePermit) (queue.Redrive, error)
	CancelRedrive(ctx context.Context, uid string) (queue.Redrive, error)
	Redrive(ctx context.Context, uid string) (queue.Redrive, error)
	// PutConfig hands the worker a RetryQueue manifest (JSON). A manifest of another queue, or older than the
	// one in force, is refused; one that is invalid changes nothing.
	PutConfig(ctx context.Context, manifest []byte) (ConfigStatus, error)
}

// Stats is the answer of GET /admin/v1/stats.
type Stats struct {
	queue.Stats
	Config ConfigStatus `json:"config"`
}

// ConfigStatus says what a worker runs.
type ConfigStatus struct {
	QueueUID   string `json:"queueUID,omitempty"` // empty on a laptop
	Generation int64  `json:"generation"`
	Suspended  bool   `json:"suspended"`
}
