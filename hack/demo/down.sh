#!/usr/bin/env bash
# Removes the demo: the project's own cluster, or from the cluster of DEMO_CONTEXT what the demo put there.
set -euo pipefail
cd "$(dirname "$0")/../.."
if [ -z "${DEMO_CONTEXT:-}" ]; then
  RQ_CLUSTER=demo exec hack/cluster/down.sh
fi
kubectl --context "$DEMO_CONTEXT" -n shop delete redrives,retryqueues --all --ignore-not-found
kubectl --context "$DEMO_CONTEXT" delete namespace shop --ignore-not-found
kubectl --context "$DEMO_CONTEXT" delete -k hack/demo/manifests/install --ignore-not-found
