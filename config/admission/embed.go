// Package admission holds the admission policies that RetryQueue ships, for those who must compare what a
// cluster has with them.
package admission

import "embed"

// Files are the manifests of this directory.
//
//go:embed *.yaml
var Files embed.FS
