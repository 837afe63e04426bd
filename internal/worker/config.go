package worker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/retryqueue/retryqueue/internal/delivery"
	"github.com/retryqueue/retryqueue/internal/manifest"
	"github.com/retryqueue/retryqueue/internal/workerapi"
)

// parse reads a manifest as it is fit for this worker. The error is a *workerapi.ConfigError.
func (o Options) parse(data []byte) (manifest.Config, error) {
	rq, err := manifest.Parse(data)
	if err != nil {
		return manifest.Config{}, invalidManifest(err)
	}
	c, err := manifest.ToConfig(rq)
	if err != nil {
		return manifest.Config{}, invalidManifest(err)
	}
	// Outside a cluster the target is often on the same machine; inside, only the manifest's sidecars are.
	c.Delivery.AllowLoopback = c.Delivery.AllowLoopback || !o.mutualTLS()
	if c.Delivery.Signed {
		if c.Delivery.SigningKeys, err = readSigningKeys(o.SigningKeys); err != nil {
			return manifest.Config{}, &workerapi.ConfigError{
				Reason: workerapi.ConfigInvalid, Field: "spec.delivery.http.signingSecretRef", Detail: err.Error(),
			}
		}
	}
	return c, nil
}

// invalidManifest names the first field at fault, and says all that is wrong.
func invalidManifest(err error) error {
	e, ok := errors.AsType[*manifest.InvalidError](err)
	if !ok {
		return fmt.Errorf("reading the manifest: %w", err)
	}
	if len(e.Problems) == 1 {
		return &workerapi.ConfigError{Reason: workerapi.ConfigInvalid, Field: e.Problems[0].Field, Detail: e.Problems[0].Detail}
	}
	return &workerapi.ConfigError{Reason: workerapi.ConfigInvalid, Field: e.Problems[0].Field, Detail: e.Error()}
}

// succeeds says whether next may take the place of c while the worker runs.
func succeeds(next, c manifest.Config) error {
	other := func(field, is, got string) error {
		return &workerapi.ConfigError{Reason: workerapi.ConfigOtherQueue, Field: field,
			Detail: fmt.Sprintf("must be %q: this worker runs that queue (got %q)", is, got)}
	}
	switch {
	case next.Name != c.Name:
		return other("metadata.name", c.Name, next.Name)
	case next.Namespace != c.Namespace:
		return other("metadata.namespace", c.Namespace, next.Namespace)
	case next.UID != c.UID:
		return other("metadata.uid", c.UID, next.UID)
	case next.Generation < c.Generation:
		return &workerapi.ConfigError{Reason: workerapi.ConfigOlder, Field: "metadata.generation",
			Detail: fmt.Sprintf("generation %d is in force, and %d is older", c.Generation, next.Generation)}
	}
	return nil
}

// readSigningKeys reads each file of dir as a Standard Webhooks secret, in order of their names. Files whose name
// starts with a dot are left out.
func readSigningKeys(dir string) ([][]byte, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("the secret's files must be mounted at --signing-keys: %w", err)
	}
	var keys [][]byte
	for _, e := range entries { // sorted by name
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("reading a signing secret: %w", err)
		}
		key, err := delivery.ParseSigningKey(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name(), err)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("--signing-keys %s must hold at least one secret", dir)
	}
	return keys, nil
}

func sameKeys(a, b [][]byte) bool {
	return slices.EqualFunc(a, b, func(x, y []byte) bool { return string(x) == string(y) })
}
