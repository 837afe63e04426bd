#!/usr/bin/env bash
# Brings the project's own cluster up (RQ_CLUSTER names it) with the demo's images in it.
set -euo pipefail
cd "$(dirname "$0")/../.."
for step in deps build images up; do "hack/cluster/$step.sh"; done
hack/demo/images.sh
hack/cluster/load.sh bin/retryqueue.tar bin/orders.tar
