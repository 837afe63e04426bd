package delivery

import (
	"errors"
	"fmt"
	"net/url"
	"slices"

	"golang.org/x/net/http/httpguts"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// Config is where jobs go and what the answers mean. It can be swapped while jobs are in flight; each
// attempt sees one Config.
type Config struct {
	// Queue is namespace/name, or name: the header RetryQueue-Queue.
	Queue string
	// URL is http or https, with a host and without user information or fragment.
	URL string
	// Headers are added to every request. They replace headers of the job, and cannot name those that
	// RetryQueue or the connection sets.
	Headers []queue.Header
	// Rules are tried in order before the defaults; see [Rule].
	Rules []Rule
	// AttemptTimeout bounds an attempt as a whole: name lookup, connecting, TLS, sending and the answer's body.
	AttemptTimeout queue.Millis
	// SigningKeys sign every request by the Standard Webhooks scheme; see [ParseSigningKey]. None: unsigned.
	SigningKeys [][]byte
	// Signed says that nothing may go out unsigned: then there must be a signing key.
	Signed bool
	// AllowLoopback permits targets on this machine: on a laptop, or where the target runs beside the worker.
	AllowLoopback bool
}

// Validate says everything that is wrong with c, each with the field and the mend.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	u, err := url.Parse(c.URL)
	switch {
	case err != nil:
		check(false, "delivery.http.url must be a URL: %w", withoutURL(err))
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		check(false, "delivery.http.url must be http or https with a host, such as http://orders.shop.svc/handle")
	default:
		check(u.User == nil, "delivery.http.url must not hold user information; remove what stands before the @")
		check(u.Fragment == "", "delivery.http.url must not hold a fragment; remove the # and what follows")
	}
	check(c.AttemptTimeout > 0, "attemptTimeout must be greater than 0, is %s", c.AttemptTimeout)
	check(httpguts.ValidHeaderFieldValue(c.Queue), "the queue's name must be fit for a header, is %q", c.Queue)
	for _, h := range c.Headers {
		check(httpguts.ValidHeaderFieldName(h.Name) && !reserved(h.Name),
			"delivery.http.headers: %q must be a header name that neither RetryQueue nor the connection sets; remove it", h.Name)
		check(httpguts.ValidHeaderFieldValue(h.Value), "delivery.http.headers: the value of %q must hold no control characters; remove them", h.Name)
	}
	for _, r := range c.Rules {
		errs = append(errs, r.validate())
	}
	check(!c.Signed || len(c.SigningKeys) > 0, "delivery.http.signingSecretRef must name a Secret with at least one key; add one")
	for i, key := range c.SigningKeys {
		check(len(key) > 0, "signing key %d must not be empty", i)
	}
	return errors.Join(errs...)
}

// withoutURL drops the URL from an error of net/url: it may hold a password.
func withoutURL(err error) error {
	var e *url.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// Action is what a matching rule makes of an attempt.
type Action string

// The actions of a rule.
const (
	ActionSucceed Action = "Succeed"
	ActionRetry   Action = "Retry"
	ActionFail    Action = "Fail" // dead at once
)

// Rule maps answers and transport errors to an action. It matches if any of Statuses or Errors does.
type Rule struct {
	Name     string
	Statuses []string // "409", or a class: "5xx"
	Errors   []string // KindTimeout, KindConnection or KindTLS
	Action   Action
}

func (r Rule) validate() error {
	if !slices.Contains([]Action{ActionSucceed, ActionRetry, ActionFail}, r.Action) {
		return fmt.Errorf("failurePolicy.rules: the action of %q must be Succeed, Retry or Fail, is %q", r.Name, r.Action)
	}
	if r.Action == ActionSucceed && len(r.Errors) > 0 {
		return fmt.Errorf("failurePolicy.rules: %q must not call an attempt without an answer a success; use Retry or Fail", r.Name)
	}
	for _, s := range r.Statuses {
		if !isStatus(s) {
			return fmt.Errorf("failurePolicy.rules: onHTTPStatus of %q must be a status or a class, such as 409 or 5xx, is %q", r.Name, s)
		}
	}
	for _, e := range r.Errors {
		if !slices.Contains([]string{KindTimeout, KindConnection, KindTLS}, e) {
			return fmt.Errorf("failurePolicy.rules: onError of %q must be Timeout, Connection or TLS, is %q", r.Name, e)
		}
	}
	return nil
}

func isStatus(s string) bool {
	digit := func(c byte) bool { return c >= '0' && c <= '9' }
	return len(s) == 3 && s[0] >= '1' && s[0] <= '5' && (s[1:] == "xx" || digit(s[1]) && digit(s[2]))
}
