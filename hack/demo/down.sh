#!/usr/bin/env bash
# Removes the demo: the project's own cluster, or from the cluster of DEMO_CONTEXT what the demo put there.
set -euo pipefail
cd "$(dirname "$0")/../.."
if [ -z "${DEMO_CONTEXT:-}" ]; then
  RQ_CLUSTER=demo exec hack/cluster/down.sh
fi
. hack/demo/context.sh
known_context
K=(--context "$DEMO_CONTEXT")
remove_shop
if k get crd retryqueues.retryqueue.dev >/dev/null 2>&1 && [ -n "$(k get retryqueues,redrives -A -o name)" ]; then
  echo "note: RetryQueue itself stays installed, since there are queues or redrives of others; see kubectl get retryqueues,redrives -A"
  exit
fi
k delete -k hack/demo/manifests/install --ignore-not-found
