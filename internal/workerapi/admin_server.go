package workerapi

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"

	strictjson "sigs.k8s.io/json"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// maxAdminBody bounds a body of the admin API; a manifest is at most about 1 MiB in a cluster.
const maxAdminBody = 2 << 20

// AdminOptions make the admin API.
type AdminOptions struct {
	Backend Backend
	// Tokens, when not nil, must be shown as a bearer token.
	Tokens *Tokens
	// LocalOnly answers only requests addressed to a loopback name and not made by a web page of another
	// origin: for a plain listener on loopback, which every browser on that machine reaches as well.
	LocalOnly bool
	Log       *slog.Logger
}

type admin struct{ backend Backend }

// NewAdmin is the API for the operator.
func NewAdmin(o AdminOptions) http.Handler {
	s := &admin{backend: o.Backend}
	guard := func(next handler) handler {
		return func(w http.ResponseWriter, r *http.Request, args []string) error {
			if err := checkLocal(r, o.LocalOnly); err != nil {
				return err
			}
			if o.Tokens != nil {
				if err := authorize(r, o.Tokens); err != nil {
					return err
				}
			}
			return next(w, r, args)
		}
	}
	return &router{log: cmp.Or(o.Log, slog.Default()), routes: []route{
		{http.MethodGet, "/admin/v1/stats", guard(s.stats)},
		{http.MethodGet, "/admin/v1/jobs/{}", guard(s.job)},
		{http.MethodGet, "/admin/v1/dead", guard(s.dead)},
		{http.MethodDelete, "/admin/v1/dead", guard(s.purge)},
		{http.MethodGet, "/admin/v1/dead/groups", guard(s.deadGroups)},
		{http.MethodGet, "/admin/v1/redrives/{}", guard(s.redrive)},
		{http.MethodPost, "/admin/v1/redrives/{}/plan", guard(s.planRedrive)},
		{http.MethodPut, "/admin/v1/redrives/{}/run", guard(s.permitRedrive)},
		{http.MethodPost, "/admin/v1/redrives/{}/cancel", guard(s.cancelRedrive)},
		{http.MethodPut, "/admin/v1/config", guard(s.putConfig)},
	}}
}

var crossOrigin = http.NewCrossOriginProtection()

func checkLocal(r *http.Request, localOnly bool) error {
	if !localOnly {
		return nil
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if !IsLoopback(host) {
		return refuse(KindForbidden, "Host", "the admin API is on loopback only; address it as localhost or 127.0.0.1")
	}
	if crossOrigin.Check(r) != nil || r.Header.Get("Origin") != "" {
		return refuse(KindForbidden, "Origin", "the admin API does not answer web pages; use the command line")
	}
	return nil
}

// IsLoopback says that host is "localhost" or a loopback address, in brackets or not.
func IsLoopback(host string) bool {
	if len(host) > 2 && host[0] == '[' && host[len(host)-1] == ']' {
		host = host[1 : len(host)-1]
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (s *admin) stats(w http.ResponseWriter, r *http.Request, _ []string) error {
	if _, err := params(r); err != nil {
		return err
	}
	store, err := s.backend.Store()
	if err != nil {
		return err
	}
	stats, err := store.Stats(r.Context())
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, Stats{Stats: stats, Config: s.backend.Settings().Config})
}

func (s *admin) job(w http.ResponseWriter, r *http.Request, args []string) error {
	job, err := jobOf(s.backend, r, args[0])
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, fullView(job))
}

func (s *admin) redrive(w http.ResponseWriter, r *http.Request, args []string) error {
	return s.onRedrive(w, r, func(ctx context.Context, store queue.Store) (queue.Redrive, error) {
		return store.Redrive(ctx, args[0])
	})
}

func (s *admin) cancelRedrive(w http.ResponseWriter, r *http.Request, args []string) error {
	if body, err := readAdminBody(w, r); err != nil {
		return err
	} else if len(body) > 0 {
		return invalid("body", "cancelling takes no body; remove it")
	}
	return s.onRedrive(w, r, func(ctx context.Context, store queue.Store) (queue.Redrive, error) {
		return store.CancelRedrive(ctx, args[0])
	})
}

func (s *admin) planRedrive(w http.ResponseWriter, r *http.Request, args []string) error {
	var spec queue.RedriveSpec
	if err := readAdminJSON(w, r, &spec); err != nil {
		return err
	}
	if spec.UID != args[0] {
		return invalid("uid", "must be the uid of the path")
	}
	if own := s.backend.Settings().Config.QueueUID; spec.QueueUID != own {
		return invalid("queueUID", "the redrive is for another queue; this one's uid is %q", own)
	}
	return s.onRedrive(w, r, func(ctx context.Context, store queue.Store) (queue.Redrive, error) {
		return store.PlanRedrive(ctx, spec)
	})
}

func (s *admin) permitRedrive(w http.ResponseWriter, r *http.Request, args []string) error {
	var permit queue.RedrivePermit
	if err := readAdminJSON(w, r, &permit); err != nil {
		return err
	}
	if permit.UID != args[0] {
		return invalid("uid", "must be the uid of the path")
	}
	const longest = queue.Millis(60_000)
	if permit.For < 0 || permit.For > longest {
		return invalid("for", "must be between 0s and 60s; renew the permission before it ends")
	}
	return s.onRedrive(w, r, func(ctx context.Context, store queue.Store) (queue.Redrive, error) {
		return store.PermitRedrive(ctx, permit)
	})
}

func (s *admin) onRedrive(w http.ResponseWriter, r *http.Request, do func(context.Context, queue.Store) (queue.Redrive, error)) error {
	if _, err := params(r); err != nil {
		return err
	}
	store, err := s.backend.Store()
	if err != nil {
		return err
	}
	redrive, err := do(r.Context(), store)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, redrive)
}

func (s *admin) putConfig(w http.ResponseWriter, r *http.Request, _ []string) error {
	if _, err := params(r); err != nil {
		return err
	}
	body, err := readAdminBody(w, r)
	if err != nil {
		return err
	}
	status, err := s.backend.PutConfig(r.Context(), body)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, status)
}

func readAdminBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAdminBody))
	if err == nil {
		return body, nil
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, refuse(KindTooLarge, "body", "the body must be at most %d bytes", maxAdminBody)
	}
	return nil, invalid("body", "the body ended early or came too slowly; send it again")
}

func readAdminJSON(w http.ResponseWriter, r *http.Request, into any) error {
	body, err := readAdminBody(w, r)
	if err != nil {
		return err
	}
	if trimmed := bytes.TrimSpace(body); len(trimmed) == 0 || trimmed[0] != '{' {
		return invalid("body", "must be one JSON object")
	}
	strict, err := strictjson.UnmarshalStrict(body, into)
	if field, detail := mistyped(err); field != "" {
		return invalid(field, "%s", detail)
	}
	if err != nil {
		return invalid("body", "must be one JSON object: %s", firstLine(err))
	}
	if len(strict) > 0 {
		return invalid("body", "%s", firstLine(fmt.Errorf("%w; remove or rename it", strict[0])))
	}
	return nil
}
