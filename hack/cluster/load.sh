#!/usr/bin/env bash
# load.sh IMAGE.tar...: imports image archives into the running cluster.
set -euo pipefail
. "$(dirname "$0")/env.sh"
for tar in "$@"; do
  on_node ctr -a /run/containerd/containerd.sock -n k8s.io images import "$(readlink -f "$tar")" >/dev/null
done
