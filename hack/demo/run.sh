#!/usr/bin/env bash
# The demo. It brings up the project's own cluster, or uses the current context of your kubeconfig when
# DEMO_CONTEXT names it; naming it is the consent.
set -euo pipefail
cd "$(dirname "$0")/../.."
. hack/demo/context.sh
if [ -n "${DEMO_CONTEXT:-}" ]; then
  known_context
  current=$(kubectl config current-context 2>/dev/null || echo "not set")
  [ "$current" = "$DEMO_CONTEXT" ] || {
    echo "error: DEMO_CONTEXT is $DEMO_CONTEXT but the current context is $current; run: kubectl config use-context $DEMO_CONTEXT" >&2
    exit 1
  }
  K=(--context "$DEMO_CONTEXT")
  remove_shop
  hack/demo/images.sh
  case $DEMO_CONTEXT in
    kind-*) for i in retryqueue orders; do kind load image-archive "bin/$i.tar" --name "${DEMO_CONTEXT#kind-}"; done ;;
    k3d-*) k3d image import bin/retryqueue.tar bin/orders.tar --cluster "${DEMO_CONTEXT#k3d-}" ;;
    minikube) for i in retryqueue orders; do minikube image load "bin/$i.tar"; done ;;
    *) echo "note: load bin/retryqueue.tar and bin/orders.tar into the nodes of $DEMO_CONTEXT, unless they are there" ;;
  esac
  renew_manager
  go run ./hack/demo -context "$DEMO_CONTEXT"
  printf '\nThe demo is still there. Look around:  kubectl -n shop get retryqueues,redrives,pods,events\nRemove it:  DEMO_CONTEXT=%s make demo-down\n' "$DEMO_CONTEXT"
  exit
fi
export RQ_CLUSTER=demo
hack/demo/cluster.sh
. hack/cluster/env.sh
K=(--kubeconfig "$KUBECONFIG_ADMIN")
remove_shop
renew_manager
go run ./hack/demo -kubeconfig "$KUBECONFIG_ADMIN"
cat <<X

The cluster is still up. Look around:
  export KUBECONFIG=$KUBECONFIG_ADMIN PATH=$RQ_BIN:\$PATH
  kubectl -n shop get retryqueues,redrives,pods,events
Remove it:  make demo-down
X
