package workers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
	"github.com/retryqueue/retryqueue/internal/pki"
	"github.com/retryqueue/retryqueue/internal/workerapi"
)

// AdminPort is the port of a queue's Service for its admin API.
const AdminPort = 8443

// AdminURL is where the manager reaches the admin API of rq.
func AdminURL(rq *v1alpha1.RetryQueue) string {
	return fmt.Sprintf("https://retryqueue-%s.%s.svc:%d", rq.Name, rq.Namespace, AdminPort)
}

// Finder yields clients of a queue's admin API.
type Finder interface {
	// Admin returns a client for the workers of rq, which needs its name, namespace and uid. It does not
	// connect: the client's calls fail when no worker of exactly that RetryQueue is there. Clients are safe
	// for concurrent use and need not be closed; ask anew for every pass, since keys are renewed.
	Admin(ctx context.Context, rq *v1alpha1.RetryQueue) (workerapi.Admin, error)
}

// CASource yields the CA in force.
type CASource interface {
	Current(ctx context.Context) (*pki.CA, error)
}

// callTimeout bounds any call: the plan of a large redrive takes longest. Callers bound theirs by a context.
const callTimeout = time.Minute

// Dialer is the Finder over mutual TLS. It keeps one client a queue. Its fields must not change once in use.
type Dialer struct {
	CA    CASource
	Clock clock.PassiveClock
	// URL finds the admin API; AdminURL when nil.
	URL func(rq *v1alpha1.RetryQueue) string

	mu    sync.Mutex
	links map[types.UID]*link
}

var _ Finder = (*Dialer)(nil)

// link is what we have of one queue's workers.
type link struct {
	client  *workerapi.Client
	ca, url string
	renewAt time.Time
}

// Admin implements Finder.
func (d *Dialer) Admin(ctx context.Context, rq *v1alpha1.RetryQueue) (workerapi.Admin, error) {
	c, err := d.client(ctx, rq)
	if err != nil {
		return nil, fmt.Errorf("reaching the workers of %s/%s: %w", rq.Namespace, rq.Name, err)
	}
	return c, nil
}

func (d *Dialer) client(ctx context.Context, rq *v1alpha1.RetryQueue) (*workerapi.Client, error) {
	if rq.UID == "" {
		return nil, errors.New("the RetryQueue has no uid")
	}
	ca, err := d.CA.Current(ctx)
	if err != nil {
		return nil, err
	}
	url := AdminURL
	if d.URL != nil {
		url = d.URL
	}
	now := d.Clock.Now()
	want := link{ca: ca.ID(), url: url(rq), renewAt: pki.ClientRenewAt(now)}
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.links[rq.UID]; l != nil {
		if l.ca == want.ca && l.url == want.url && now.Before(l.renewAt) {
			return l.client, nil
		}
		l.client.Close()
	}
	config, err := ca.ClientConfig(string(rq.UID), d.Clock.Now)
	if err != nil {
		return nil, err
	}
	want.client, err = workerapi.NewClient(workerapi.ClientOptions{URL: want.url, TLS: config, Timeout: callTimeout})
	if err != nil {
		return nil, err
	}
	if d.links == nil {
		d.links = map[types.UID]*link{}
	}
	d.links[rq.UID] = &want
	return want.client, nil
}

// Forget drops the client of a queue that is gone.
func (d *Dialer) Forget(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.links[uid]; l != nil {
		l.client.Close()
		delete(d.links, uid)
	}
}
