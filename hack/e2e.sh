#!/usr/bin/env bash
# Runs the end-to-end tests on a cluster of their own, and removes it. KEEP=1 leaves it up.
set -euo pipefail
cd "$(dirname "$0")/.."
export RQ_CLUSTER=e2e
[ -n "${KEEP:-}" ] || trap 'hack/cluster/down.sh' EXIT
hack/cluster/down.sh
hack/demo/cluster.sh
. hack/cluster/env.sh
E2E_KUBECONFIG=$KUBECONFIG_ADMIN go test -count=1 -timeout 20m -v ./test/e2e/...
