#!/usr/bin/env bash
# Builds the cluster's own helpers and packs the images that every cluster needs: pause and CoreDNS.
set -euo pipefail
. "$(dirname "$0")/env.sh"
mkdir -p "$RQ_BIN" "$RQ_IMAGES"
cd "$repo"
for c in image pki pause provisioner; do
  CGO_ENABLED=0 go build -ldflags '-s -w' -o "$RQ_BIN/rq-$c" "./hack/cluster/cmd/$c"
done
rq-image -tag retryqueue.local/pause:1 -user 65535 -o "$RQ_IMAGES/pause.tar" "$RQ_BIN/rq-pause"
rq-image -tag retryqueue.local/coredns:1 -o "$RQ_IMAGES/coredns.tar" "$RQ_BIN/coredns"
