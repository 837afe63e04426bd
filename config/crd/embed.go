// Package crd holds the CustomResourceDefinitions of RetryQueue, so that a manifest outside a cluster is held
// to the same schema and rules.
package crd

import "embed"

// Files are the manifests of this directory.
//
//go:embed retryqueue.dev_*.yaml
var Files embed.FS
