package testenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Install applies the manifests of a directory, given from the root of the module, to a running API
// server and returns once roles and admission policies are in force.
func (c *Cluster) Install(t testing.TB, dir string) {
	t.Helper()
	root, err := ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.install(filepath.Join(root, dir)), c.settle(t.Context())); err != nil {
		t.Fatalf("installing %s: %v", dir, err)
	}
}

// install applies every manifest below dir, in the order of their paths. Namespaces that they need are made.
func (c *Cluster) install(dir string) error {
	objects, err := ReadManifests(dir)
	if err != nil {
		return err
	}
	ctx := context.Background()
	for _, o := range objects {
		if ns := o.GetNamespace(); ns != "" {
			n := &corev1.Namespace{}
			n.Name = ns
			if err := c.Client.Create(ctx, n); err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("making namespace %s: %w", ns, err)
			}
		}
		err := c.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("testenv"), client.ForceOwnership)
		if err != nil {
			return fmt.Errorf("applying %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}

// ReadManifests reads every YAML file below dir, kustomizations apart, in the order of their paths.
func ReadManifests(dir string) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".yaml" || d.Name() == "kustomization.yaml" {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		objects, err := ParseManifests(b)
		if err != nil {
			return fmt.Errorf("reading %s: %w", path, err)
		}
		all = append(all, objects...)
		return nil
	})
	return all, err
}

// ParseManifests reads the documents of a YAML file.
func ParseManifests(b []byte) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	dec := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(b), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := dec.Decode(o)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if len(o.Object) > 0 {
			all = append(all, o)
		}
	}
}

// awaitAdmission returns once the API server uses the admission policies that were made before. Policies and
// bindings reach it by watches, in order: when it obeys a policy made last, it knows all before it.
func (c *Cluster) awaitAdmission(ctx context.Context) error {
	objects, err := ParseManifests([]byte(sentinels))
	if err != nil {
		return err
	}
	tag := fmt.Sprint(c.serial.Add(1))
	for _, o := range objects {
		if err := retag(o, tag); err != nil {
			return err
		}
		if err := c.Client.Create(ctx, o); err != nil {
			return fmt.Errorf("making the sentinel: %w", err)
		}
	}
	mutated, denied := false, false
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		probe := &corev1.ConfigMap{}
		probe.Name, probe.Namespace = "testenv-sentinel-"+tag, "default"
		err := c.Client.Create(ctx, probe, client.DryRunAll)
		denied = apierrors.IsForbidden(err) || apierrors.IsInvalid(err)
		probe.Name = "testenv-mutated-" + tag
		if err := c.Client.Create(ctx, probe, client.DryRunAll); err != nil {
			return false, err
		}
		mutated = probe.Annotations["testenv"] == "seen"
		return mutated && denied, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for admission policies (validating %t, mutating %t): %w", denied, mutated, err)
	}
	for _, o := range objects {
		if err := c.Client.Delete(ctx, o); err != nil {
			return fmt.Errorf("removing the sentinel: %w", err)
		}
	}
	return nil
}
