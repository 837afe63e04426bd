# What the scripts of the demo share, to be sourced. k is kubectl for the cluster of the demo; the caller sets K to its flags.
k() { kubectl "${K[@]}" "$@"; }

# known_context ends the script unless the kubeconfig has the context that DEMO_CONTEXT names.
known_context() {
  command -v kubectl >/dev/null || { echo "error: kubectl is not on the PATH" >&2; exit 1; }
  kubectl config get-contexts "$DEMO_CONTEXT" >/dev/null 2>&1 || {
    echo "error: your kubeconfig has no context $DEMO_CONTEXT; it has: $(kubectl config get-contexts -o name | paste -sd ' ')" >&2
    exit 1
  }
}

# remove_shop removes the shop of an earlier demo, and never a namespace of that name that somebody else made.
remove_shop() {
  [ -n "$(k get namespace shop --ignore-not-found -o name)" ] || return 0
  if [ "$(k get namespace shop -o 'jsonpath={.metadata.labels.app\.kubernetes\.io/part-of}')" != retryqueue-demo ]; then
    echo "error: the namespace shop is there and is not the demo's; remove or rename it, or take another cluster" >&2
    exit 1
  fi
  echo "== removing the shop of an earlier demo"
  for kind in redrives retryqueues; do # while the manager is there to let go of them
    if k get crd "$kind.retryqueue.dev" >/dev/null 2>&1; then k -n shop delete "$kind" --all >/dev/null; fi
  done
  k delete namespace shop >/dev/null
}

# renew_manager has the manager of an earlier demo start again, from the image that was just loaded under the same name.
renew_manager() {
  [ -n "$(k -n retryqueue-system get deployment retryqueue-manager --ignore-not-found -o name)" ] || return 0
  k -n retryqueue-system rollout restart deployment retryqueue-manager >/dev/null
}
