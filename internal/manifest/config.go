package manifest

import (
	"cmp"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
	"github.com/retryqueue/retryqueue/internal/delivery"
	"github.com/retryqueue/retryqueue/internal/queue"
)

// Config is what a worker needs to know of its RetryQueue.
type Config struct {
	Namespace  string // empty on a laptop
	Name       string
	UID        string // empty on a laptop
	Generation int64
	Suspended  bool
	Policy     queue.Policy
	// Concurrency is how many jobs one worker has in flight.
	Concurrency int
	// Delivery is complete but for its SigningKeys, which come from files: where it says Signed, add them.
	Delivery delivery.Config
	Accept   Accept
	// StorageSize is the size of the volume, in bytes.
	StorageSize int64
}

// Accept says who may put jobs in.
type Accept struct {
	// RequireToken: a bearer token of the producers' Secret is needed.
	RequireToken bool
	// Insecure: anyone who reaches the worker may.
	Insecure bool
}

// QueueName is namespace/name, or name where there is no namespace.
func (c Config) QueueName() string {
	if c.Namespace == "" {
		return c.Name
	}
	return c.Namespace + "/" + c.Name
}

// ToConfig converts a RetryQueue that has its defaults, as [Parse] and the API server return it. The error
// names the fields that cannot be.
func ToConfig(rq *v1alpha1.RetryQueue) (Config, error) {
	spec := &rq.Spec
	if spec.Delivery.HTTP == nil {
		return Config{}, invalid("spec.delivery.http", "must be set")
	}
	c := Config{
		Namespace:   rq.Namespace,
		Name:        rq.Name,
		UID:         string(rq.UID),
		Generation:  rq.Generation,
		Suspended:   spec.Suspend,
		Policy:      ToPolicy(rq),
		Concurrency: int(spec.Limits.PerWorkerConcurrency),
		Accept:      Accept{RequireToken: spec.Accept.TokenSecretRef != nil, Insecure: spec.Accept.Insecure},
		StorageSize: storageSize(spec.Storage),
	}
	c.Delivery = toDelivery(c.QueueName(), spec)
	var p problems
	if err := c.Policy.Validate(); err != nil {
		p.add("spec", "%v", err)
	}
	unsigned := c.Delivery
	unsigned.Signed = false // its keys are not known here
	if err := unsigned.Validate(); err != nil {
		p.add("spec", "%v", err)
	}
	if c.Concurrency < 1 {
		p.add("spec.limits.perWorkerConcurrency", "must be at least 1 (is %d)", c.Concurrency)
	}
	if err := p.err(); err != nil {
		return Config{}, err
	}
	return c, nil
}

// ToPolicy is the part of a RetryQueue that the core decides by. It is not validated.
func ToPolicy(rq *v1alpha1.RetryQueue) queue.Policy {
	spec, retry := &rq.Spec, &rq.Spec.RetryPolicy
	p := queue.Policy{
		Backoff: queue.Backoff{
			Base:   queue.MillisOf(retry.Backoff.Base.Duration),
			Cap:    queue.MillisOf(retry.Backoff.Cap.Duration),
			Jitter: queue.Jitter(retry.Backoff.Jitter),
		},
		MaxAttempts:    int(retry.MaxAttempts),
		Deadline:       queue.MillisOf(retry.Deadline.Duration),
		AttemptTimeout: queue.MillisOf(retry.AttemptTimeout.Duration),
		RetryAfterMax:  queue.MillisOf(retry.RetryAfterMax.Duration),
		DedupeWindow:   queue.MillisOf(spec.DedupeWindow.Duration),
		MaxRedrives:    maxRedrives(rq),
		Limits: queue.Limits{
			MaxPayload: spec.Limits.MaxPayload.Value(),
			MaxPending: spec.Limits.MaxPending,
			MaxBytes:   spec.Limits.MaxBytes.Value(),
		},
	}
	if spec.DeadLetter.Retention != nil {
		p.Retention = queue.MillisOf(spec.DeadLetter.Retention.Duration)
	}
	return p
}

const defaultMaxRedrives = 3

func maxRedrives(rq *v1alpha1.RetryQueue) int {
	if n := rq.Spec.DeadLetter.MaxRedrives; n != nil {
		return int(*n)
	}
	return defaultMaxRedrives
}

var defaultStorageSize = resource.MustParse("1Gi")

func storageSize(s v1alpha1.Storage) int64 {
	if s.SQLite == nil {
		return defaultStorageSize.Value()
	}
	return cmp.Or(s.SQLite.Size.Value(), defaultStorageSize.Value())
}

func toDelivery(name string, spec *v1alpha1.RetryQueueSpec) delivery.Config {
	d := delivery.Config{
		Queue:          name,
		URL:            spec.Delivery.HTTP.URL,
		AttemptTimeout: queue.MillisOf(spec.RetryPolicy.AttemptTimeout.Duration),
		Signed:         spec.Delivery.HTTP.SigningSecretRef != nil,
		AllowLoopback:  spec.Workers.Template != nil && len(spec.Workers.Template.Sidecars) > 0,
	}
	for _, h := range spec.Delivery.HTTP.Headers {
		d.Headers = append(d.Headers, queue.Header{Name: h.Name, Value: h.Value})
	}
	if spec.FailurePolicy == nil {
		return d
	}
	for _, r := range spec.FailurePolicy.Rules {
		rule := delivery.Rule{Name: r.Name, Statuses: r.OnHTTPStatus, Action: delivery.Action(r.Action)}
		for _, e := range r.OnError {
			rule.Errors = append(rule.Errors, string(e))
		}
		d.Rules = append(d.Rules, rule)
	}
	return d
}
