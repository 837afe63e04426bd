package workerapi

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// tokenTTL is how long a read of the token files is trusted: a changed Secret is in force this soon after the
// kubelet has written it.
const tokenTTL = time.Second

const maxTokenBytes = 4096

// Tokens are bearer tokens read from files and read again when they may have changed. What cannot be read
// allows nobody.
type Tokens struct {
	// Path is a directory, each of whose files holds one token, or one such file. Files and directories whose
	// name starts with a dot are left out.
	Path string
	Now  func() time.Time // for the age of what was read
	Log  *slog.Logger

	mu     sync.Mutex
	readAt time.Time
	sums   [][sha256.Size]byte
	fault  string // as last logged
}

// Allowed says whether token is one of the tokens, in a time that does not depend on how near it is.
func (t *Tokens) Allowed(token string) bool {
	sum := sha256.Sum256([]byte(token))
	found := 0
	for _, s := range t.current() {
		found |= subtle.ConstantTimeCompare(sum[:], s[:])
	}
	return found == 1 && token != ""
}

// Check reads the tokens, so that a log says early what would refuse every request.
func (t *Tokens) Check() { t.current() }

func (t *Tokens) current() [][sha256.Size]byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.Now()
	if age := now.Sub(t.readAt); !t.readAt.IsZero() && age >= 0 && age < tokenTTL {
		return t.sums
	}
	t.readAt = now
	sums, err := readTokens(t.Path)
	t.sums = sums
	t.report(err, len(sums))
	return sums
}

// report logs a change of what is wrong, once.
func (t *Tokens) report(err error, n int) {
	fault := ""
	switch {
	case err != nil:
		fault = err.Error()
	case n == 0:
		fault = "no token in " + t.Path
	}
	if fault != t.fault && fault != "" {
		t.Log.Error("tokens not usable; every request is refused", "error", fault)
	}
	t.fault = fault
}

// readTokens reads the files of path. A file that vanishes meanwhile is one fewer token, not an error.
func readTokens(path string) ([][sha256.Size]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("reading tokens: %w", err)
	}
	files := []string{path}
	if info.IsDir() {
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, fmt.Errorf("reading tokens: %w", err)
		}
		files = files[:0]
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), ".") {
				files = append(files, filepath.Join(path, e.Name()))
			}
		}
	}
	var sums [][sha256.Size]byte
	for _, f := range files {
		b, err := os.ReadFile(f)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading tokens: %w", err)
		}
		if b = bytes.TrimSpace(b); len(b) > 0 && len(b) <= maxTokenBytes {
			sums = append(sums, sha256.Sum256(b))
		}
	}
	return sums, nil
}

// bearer is the token of a request, or "".
func bearer(h http.Header) (string, error) {
	value, set, err := single(h, "Authorization")
	if err != nil || !set {
		return "", err
	}
	scheme, token, ok := strings.Cut(value, " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", nil
	}
	return strings.TrimSpace(token), nil
}

// authorize demands one of the tokens.
func authorize(r *http.Request, tokens *Tokens) error {
	token, err := bearer(r.Header)
	if err != nil {
		return err
	}
	if tokens == nil || !tokens.Allowed(token) {
		return refuse(KindUnauthorized, "Authorization", "send Authorization: Bearer and one of the tokens that this queue knows")
	}
	return nil
}
