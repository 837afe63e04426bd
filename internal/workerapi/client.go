package workerapi

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// DefaultClientTimeout bounds one call of a Client.
const DefaultClientTimeout = 10 * time.Second

// maxAnswer bounds what a Client reads of an answer: 1,000 dead jobs with their histories fit.
const maxAnswer = 64 << 20

// ClientOptions make a Client.
type ClientOptions struct {
	// URL is the base of the admin API, such as https://retryqueue-orders.shop.svc:8443.
	URL string
	// TLS is required with https; see pki.CA.ClientConfig. Its server check is what the client relies on.
	TLS *tls.Config
	// Token, when not empty, is sent as a bearer token. It is refused over plain HTTP to other than loopback.
	Token string
	// Timeout of one call; DefaultClientTimeout when zero.
	Timeout time.Duration
}

// Client is the admin API of one worker over HTTP. It is safe for concurrent use, never tries again by itself,
// and follows no redirect.
type Client struct {
	base  string
	token string
	http  *http.Client
}

var _ Admin = (*Client)(nil)

// NewClient does not connect.
func NewClient(o ClientOptions) (*Client, error) {
	u, err := url.Parse(o.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("the worker's URL must be http or https with a host, is %q", o.URL)
	case u.Scheme == "https" && o.TLS == nil:
		return nil, fmt.Errorf("the worker's URL %q is https: certificates are needed", o.URL)
	case u.Scheme == "http" && o.Token != "" && !IsLoopback(u.Hostname()):
		return nil, fmt.Errorf("the worker's URL %q is plain HTTP: a token is sent to loopback only", o.URL)
	}
	transport := &http.Transport{
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		TLSClientConfig:       o.TLS,
		TLSHandshakeTimeout:   5 * time.Second,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          4,
		IdleConnTimeout:       30 * time.Second,
		ResponseHeaderTimeout: cmp.Or(o.Timeout, DefaultClientTimeout),
	}
	return &Client{base: strings.TrimSuffix(o.URL, "/"), token: o.Token, http: &http.Client{
		Transport:     transport,
		Timeout:       cmp.Or(o.Timeout, DefaultClientTimeout),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Close closes idle connections. The client stays usable.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Stats implements Admin.
func (c *Client) Stats(ctx context.Context) (s Stats, err error) {
	return s, c.call(ctx, call{http.MethodGet, "/admin/v1/stats", nil, &s})
}

// Job returns one job with headers and payload, or queue.ErrNotFound.
func (c *Client) Job(ctx context.Context, id string) (queue.Job, error) {
	var v JobView
	err := c.call(ctx, call{http.MethodGet, "/admin/v1/jobs/" + escapeID(id), nil, &v})
	return v.job(), err
}

// Dead implements Admin.
func (c *Client) Dead(ctx context.Context, q queue.DeadQuery) (p queue.DeadPage, err error) {
	values := selectorValues(q.Selector)
	if q.Limit != 0 {
		values.Set("limit", strconv.Itoa(q.Limit))
	}
	if q.After != 0 {
		values.Set("after", strconv.FormatInt(q.After, 10))
	}
	return p, c.call(ctx, call{http.MethodGet, "/admin/v1/dead?" + values.Encode(), nil, &p})
}

// DeadGroups implements Admin.
func (c *Client) DeadGroups(ctx context.Context, s queue.Selector, limit int) ([]queue.DeadGroup, error) {
	values := selectorValues(s)
	if limit != 0 {
		values.Set("limit", strconv.Itoa(limit))
	}
	var g DeadGroups
	err := c.call(ctx, call{http.MethodGet, "/admin/v1/dead/groups?" + values.Encode(), nil, &g})
	return g.Groups, err
}

// Purge implements Admin.
func (c *Client) Purge(ctx context.Context, s queue.Selector) (int, error) {
	var p Purged
	err := c.call(ctx, call{http.MethodDelete, "/admin/v1/dead?" + selectorValues(s).Encode(), nil, &p})
	return p.Purged, err
}

// PlanRedrive implements Admin.
func (c *Client) PlanRedrive(ctx context.Context, r queue.RedriveSpec) (out queue.Redrive, err error) {
	return out, c.call(ctx, call{http.MethodPost, "/admin/v1/redrives/" + escapeID(r.UID) + "/plan", r, &out})
}

// PermitRedrive implements Admin.
func (c *Client) PermitRedrive(ctx context.Context, p queue.RedrivePermit) (out queue.Redrive, err error) {
	return out, c.call(ctx, call{http.MethodPut, "/admin/v1/redrives/" + escapeID(p.UID) + "/run", p, &out})
}

// CancelRedrive implements Admin.
func (c *Client) CancelRedrive(ctx context.Context, uid string) (out queue.Redrive, err error) {
	return out, c.call(ctx, call{http.MethodPost, "/admin/v1/redrives/" + escapeID(uid) + "/cancel", nil, &out})
}

// Redrive implements Admin.
func (c *Client) Redrive(ctx context.Context, uid string) (out queue.Redrive, err error) {
	return out, c.call(ctx, call{http.MethodGet, "/admin/v1/redrives/" + escapeID(uid), nil, &out})
}

// PutConfig implements Admin.
func (c *Client) PutConfig(ctx context.Context, manifest []byte) (s ConfigStatus, err error) {
	return s, c.call(ctx, call{http.MethodPut, "/admin/v1/config", json.RawMessage(manifest), &s})
}

// escapeID escapes an id for one segment of a path; dots too, so that no proxy takes ".." for a step up.
func escapeID(id string) string { return strings.ReplaceAll(url.PathEscape(id), ".", "%2E") }

func selectorValues(s queue.Selector) url.Values {
	v := url.Values{}
	for _, r := range s.Reasons {
		v.Add("reason", string(r))
	}
	for name, all := range map[string][]string{"httpStatus": s.HTTPStatuses, "fingerprint": s.Fingerprints, "id": s.IDs} {
		for _, one := range all {
			v.Add(name, one)
		}
	}
	if s.DiedAfter != 0 {
		v.Set("diedAfter", s.DiedAfter.String())
	}
	if s.DiedBefore != 0 {
		v.Set("diedBefore", s.DiedBefore.String())
	}
	return v
}

type call struct {
	method, path string
	body, into   any
}

func (c *Client) call(ctx context.Context, o call) error {
	request, err := c.request(ctx, o)
	if err != nil {
		return err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("calling the worker: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("reading the worker's answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return answered(response, body)
	}
	if err := json.Unmarshal(body, o.into); err != nil {
		return fmt.Errorf("reading the worker's answer: %w", err)
	}
	return nil
}

func (c *Client) request(ctx context.Context, o call) (*http.Request, error) {
	var body io.Reader
	if raw, ok := o.body.(json.RawMessage); ok {
		body = bytes.NewReader(raw) // as it is: the worker says what is wrong with it
	} else if o.body != nil {
		b, err := json.Marshal(o.body)
		if err != nil {
			return nil, fmt.Errorf("encoding the request: %w", err)
		}
		body = bytes.NewReader(b)
	}
	request, err := http.NewRequestWithContext(ctx, o.method, c.base+o.path, body)
	if err != nil {
		return nil, fmt.Errorf("making the request: %w", err)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	return request, nil
}

// answered is what a status other than 200 means.
func answered(response *http.Response, body []byte) error {
	var p Problem
	media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if media != ProblemMediaType || json.Unmarshal(body, &p) != nil || p.Title == "" {
		p = Problem{Title: "the worker answered " + response.Status}
	}
	p.Status = response.StatusCode
	return &ProblemError{Problem: p}
}
