package workerapi

import (
	"bytes"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// secretDir is a directory as the kubelet mounts a Secret: files are links into a directory that is swapped.
func secretDir(t *testing.T, values map[string]string) (dir string, swap func(map[string]string)) {
	t.Helper()
	dir = t.TempDir()
	n := 0
	swap = func(values map[string]string) {
		t.Helper()
		n++
		version := filepath.Join(dir, "..v"+string(rune('0'+n)))
		must(t, os.Mkdir(version, 0o700))
		for name, value := range values {
			must(t, os.WriteFile(filepath.Join(version, name), []byte(value), 0o600))
			if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
				must(t, os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)))
			}
		}
		must(t, os.Symlink(filepath.Base(version), filepath.Join(dir, "..new")))
		must(t, os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")))
	}
	swap(values)
	return dir, swap
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestTokensFollowTheMountedSecret(t *testing.T) {
	t.Parallel()
	dir, swap := secretDir(t, map[string]string{"a": "token-a\n", "b": "token-b", "empty": "", "blank": " \n"})
	now := time.Unix(1000, 0)
	tokens := &Tokens{Path: dir, Now: func() time.Time { return now }, Log: quiet()}
	check := func(token string, want bool) {
		t.Helper()
		if got := tokens.Allowed(token); got != want {
			t.Errorf("%q allowed: %v, want %v", token, got, want)
		}
	}
	for token, want := range map[string]bool{"token-a": true, "token-b": true, "": false, " ": false, "token-a\n": false, "token-": false, "token-c": false} {
		check(token, want)
	}
	swap(map[string]string{"b": "token-b", "c": "token-c"})
	now = now.Add(tokenTTL)
	for token, want := range map[string]bool{"token-a": false, "token-b": true, "token-c": true} {
		check(token, want)
	}
	must(t, os.RemoveAll(dir))
	now = now.Add(tokenTTL)
	check("token-b", false)
}

func TestTokensOfOneFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(file, []byte("t\n"), 0o600))
	tokens := &Tokens{Path: file, Now: func() time.Time { return time.Unix(1, 0) }, Log: quiet()}
	if !tokens.Allowed("t") || tokens.Allowed("u") {
		t.Error("the file's token is not the one that is allowed")
	}
}

func TestTokensThatAreNotThereAreToldOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var log bytes.Buffer
	now := time.Unix(1, 0)
	tokens := &Tokens{Path: dir, Now: func() time.Time { return now }, Log: slog.New(slog.NewTextHandler(&log, nil))}
	tokens.Check()
	if n := strings.Count(log.String(), "no token in "+dir); n != 1 {
		t.Errorf("told %d times before the first request: %s", n, &log)
	}
	now = now.Add(tokenTTL)
	tokens.Allowed("t")
	if n := strings.Count(log.String(), "no token in "+dir); n != 1 {
		t.Errorf("told %d times: %s", n, &log)
	}
}

func TestProducersShowAToken(t *testing.T) {
	t.Parallel()
	dir, _ := secretDir(t, map[string]string{"a": "token-a"})
	for name, tc := range map[string]struct {
		authorization []string
		tokens        bool
		status        int
	}{
		"the token":             {[]string{"Bearer token-a"}, true, 202},
		"scheme in lower case":  {[]string{"bearer token-a"}, true, 202},
		"no header":             {nil, true, 401},
		"empty header":          {[]string{""}, true, 401},
		"empty token":           {[]string{"Bearer "}, true, 401},
		"another token":         {[]string{"Bearer token-b"}, true, 401},
		"a prefix of the token": {[]string{"Bearer token"}, true, 401},
		"another scheme":        {[]string{"Basic token-a"}, true, 401},
		"no scheme":             {[]string{"token-a"}, true, 401},
		"two headers":           {[]string{"Bearer token-a", "Bearer token-a"}, true, 400},
		"no tokens mounted":     {[]string{"Bearer token-a"}, false, 401},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t, func(o *PublicOptions, b *backend) {
				b.settings.NeedsToken = true
				if tc.tokens {
					o.Tokens = &Tokens{Path: dir, Now: func() time.Time { return time.Unix(1, 0) }, Log: quiet()}
				}
			})
			h := http.Header{}
			if tc.authorization != nil {
				h["Authorization"] = tc.authorization
			}
			got := a.send(request{path: "/v1/jobs", raw: h})
			if got.status != tc.status {
				t.Fatalf("status %d: %s", got.status, got.body)
			}
			if tc.status == 202 {
				return
			}
			p := got.problem(t)
			if p.Field != "Authorization" || strings.Contains(got.body, "token-") || a.pending() != 0 {
				t.Errorf("got %s with %d stored", got.body, a.pending())
			}
			if tc.status == 401 && !strings.HasPrefix(got.header.Get("WWW-Authenticate"), "Bearer") {
				t.Error("no WWW-Authenticate")
			}
			for _, r := range []request{{method: "GET", path: "/v1/jobs/a", raw: h}, {path: "/v1/jobs:batch", raw: h}} {
				if got := a.send(r); got.status != tc.status {
					t.Errorf("%s %s: status %d", r.method, r.path, got.status)
				}
			}
		})
	}
}
