package workers

import (
	"context"
	"fmt"
	"net"
	"net/http"
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

// Dialer is the Finder over mutual TLS. It keeps one set of connections a queue.
type Dialer struct {
	ca        CASource
	newClient func(url string, c *http.Client) workerapi.Admin
	clock     clock.PassiveClock

	mu    sync.Mutex
	peers map[types.UID]*link
}

var _ Finder = (*Dialer)(nil)

// CASource yields the CA in force.
type CASource interface {
	Current(ctx context.Context) (*pki.CA, error)
}

// link is what we have of one queue's workers.
type link struct {
	admin   workerapi.Admin
	http    *http.Client
	ca      string
	renewAt time.Time
}

// NewDialer makes a Dialer; newClient is the admin API's client.
func NewDialer(ca CASource, newClient func(url string, c *http.Client) workerapi.Admin, c clock.PassiveClock) *Dialer {
	return &Dialer{ca: ca, newClient: newClient, clock: c, peers: map[types.UID]*link{}}
}

// Admin implements Finder.
func (d *Dialer) Admin(ctx context.Context, rq *v1alpha1.RetryQueue) (workerapi.Admin, error) {
	if rq.UID == "" {
		return nil, fmt.Errorf("reaching the workers of %s/%s: it has no uid", rq.Namespace, rq.Name)
	}
	ca, err := d.ca.Current(ctx)
	if err != nil {
		return nil, fmt.Errorf("reaching the workers of %s/%s: %w", rq.Namespace, rq.Name, err)
	}
	now := d.clock.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.peers[rq.UID]; l != nil {
		if l.ca == ca.ID() && now.Before(l.renewAt) {
			return l.admin, nil
		}
		l.http.CloseIdleConnections()
	}
	config, err := ca.ClientConfig(string(rq.UID), d.clock.Now)
	if err != nil {
		return nil, fmt.Errorf("reaching the workers of %s/%s: %w", rq.Namespace, rq.Name, err)
	}
	hc := &http.Client{Transport: &http.Transport{
		TLSClientConfig:       config,
		DialContext:           (&net.Dialer{Timeout: 3 * time.Second}).DialContext,
		TLSHandshakeTimeout:   3 * time.Second,
		IdleConnTimeout:       90 * time.Second,
		MaxIdleConnsPerHost:   2,
		ForceAttemptHTTP2:     true,
		ResponseHeaderTimeout: time.Minute, // the plan of a large redrive
	}}
	l := &link{admin: d.newClient(AdminURL(rq), hc), http: hc, ca: ca.ID(), renewAt: pki.ClientRenewAt(now)}
	d.peers[rq.UID] = l
	return l.admin, nil
}

// Forget drops the connections to the workers of a queue that is gone.
func (d *Dialer) Forget(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.peers[uid]; l != nil {
		l.http.CloseIdleConnections()
		delete(d.peers, uid)
	}
}
