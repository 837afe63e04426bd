#!/usr/bin/env bash
# Packs the two images of the demo into bin/: the product's and the shop's.
set -euo pipefail
cd "$(dirname "$0")/../.."
echo "== packing the images"
hack/image.sh retryqueue.local/retryqueue:dev bin/retryqueue.tar ./cmd/retryqueue
hack/image.sh retryqueue.local/orders:dev bin/orders.tar ./hack/demo/orders
