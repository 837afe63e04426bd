package workerapi

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// requestTimeout bounds what one request may take of the store.
const requestTimeout = 30 * time.Second

// handler answers a request, or says as an error why not. args are the unescaped values of the route's {}.
type handler func(w http.ResponseWriter, r *http.Request, args []string) error

// route is a method and an escaped path, in which a segment {} stands for any one non-empty segment.
type route struct {
	method, path string
	handle       handler
}

// router dispatches on the escaped path, segment by segment, so that an id may hold any character, "/" and
// ".." included. (http.ServeMux would clean the path and redirect.)
type router struct {
	routes []route
	log    *slog.Logger
}

func (rt *router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	r = r.WithContext(ctx)
	defer rt.recovered(w, r)
	if err := rt.dispatch(w, r); err != nil {
		p, surprise := problemOf(err)
		if surprise {
			rt.log.WarnContext(ctx, "request not done", "method", r.Method, "problem", string(p.Kind()), "error", err)
		}
		writeProblem(w, p)
	}
}

// recovered turns a panic into an answer without its stack, which goes to the log.
func (rt *router) recovered(w http.ResponseWriter, r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(v)
	}
	rt.log.ErrorContext(r.Context(), "request panicked", "method", r.Method, "panic", v, "stack", stack())
	writeProblem(w, problem(KindInternal, "the worker has a bug here; its log tells more. Send the request again with the same id"))
}

func (rt *router) dispatch(w http.ResponseWriter, r *http.Request) error {
	path := r.URL.EscapedPath()
	var allowed []string
	for _, candidate := range rt.routes {
		args, ok := candidate.match(path)
		if !ok {
			continue
		}
		if r.Method == candidate.method || r.Method == http.MethodHead && candidate.method == http.MethodGet {
			return candidate.handle(w, r, args)
		}
		allowed = append(allowed, candidate.method)
	}
	if len(allowed) == 0 {
		return refuse(KindUnknownRoute, "", "the routes are: %s", rt.list())
	}
	e := refuse(KindMethodNotAllowed, "", "use %s", strings.Join(allowed, " or "))
	e.Problem.allow = strings.Join(allowed, ", ")
	return e
}

func (rt *router) list() string {
	all := make([]string, 0, len(rt.routes))
	for _, r := range rt.routes {
		all = append(all, r.method+" "+strings.ReplaceAll(r.path, "{}", "{id}"))
	}
	return strings.Join(all, ", ")
}

func (r route) match(path string) (args []string, ok bool) {
	want, got := strings.Split(r.path, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return nil, false
	}
	for i, segment := range want {
		if segment != "{}" {
			if segment != got[i] {
				return nil, false
			}
			continue
		}
		value, err := url.PathUnescape(got[i])
		if err != nil || value == "" {
			return nil, false
		}
		args = append(args, value)
	}
	return args, true
}

// params are the query parameters of a request: only those named as known, and only well-formed.
func params(r *http.Request, known ...string) (url.Values, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, invalid("query", "the query string must be well-formed; escape odd characters with %XX")
	}
	for name := range values {
		if slices.Contains(known, name) {
			continue
		}
		if len(known) == 0 {
			return nil, invalid(name, "this request takes no query parameters; remove it")
		}
		return nil, invalid(name, "no such query parameter; use one of %s", strings.Join(known, ", "))
	}
	return values, nil
}

func writeJSON(w http.ResponseWriter, status int, body any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // the client has gone: nobody to tell
	return nil
}
