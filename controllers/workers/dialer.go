// Package workers is how controllers reach the worker pods of a queue: the address of their admin API, and a
// client that speaks mutual TLS with them.
package workers

import (
	"context"
	"fmt"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
	"github.com/retryqueue/retryqueue/internal/workerapi"
)

// Dialer yields clients of a queue's admin API.
type Dialer interface {
	// For returns a client for the workers of rq, which needs its name, namespace and uid. It does not
	// connect: the client's calls fail when no worker is there. Clients are safe for concurrent use and
	// need not be closed; ask anew for every pass, since keys are renewed.
	For(ctx context.Context, rq *v1alpha1.RetryQueue) (workerapi.Admin, error)
}

// AdminPort is the port of a queue's Service for its admin API.
const AdminPort = 8443

// AdminURL is where the manager reaches the admin API of rq.
func AdminURL(rq *v1alpha1.RetryQueue) string {
	return fmt.Sprintf("https://retryqueue-%s.%s.svc:%d", rq.Name, rq.Namespace, AdminPort)
}
