#!/usr/bin/env bash
# Builds Kubernetes, etcd and CoreDNS from their Go modules, verified by go.sum.
#   build.sh api   kube-apiserver, etcd and kubectl only: enough for envtest
#   build.sh       those, and the rest of a node
# What an earlier run built from the same sources with the same Go is kept.
set -euo pipefail
. "$(dirname "$0")/env.sh"
mkdir -p "$RQ_BIN"
export CGO_ENABLED=0 GOFLAGS="${GOFLAGS:-} -mod=readonly -buildvcs=false"
version=$(cd "$here/build/kube" && go list -m -f '{{.Version}}' k8s.io/kubernetes)
minor=$(cut -d. -f2 <<<"$version")
v=k8s.io/component-base/version
ldflags="-s -w -X $v.gitVersion=$version -X $v.gitMajor=1 -X $v.gitMinor=$minor -X $v.gitTreeState=clean"

# group NAME MODULE BINARY=PACKAGE...: builds what is not there yet.
group() {
  local name=$1 dir=$here/build/$2 stamp started pair
  shift 2
  stamp=$( { go version; echo "$ldflags" "$@"; cat "$dir"/*.go "$dir"/go.mod "$dir"/go.sum; } | sha256sum | cut -d' ' -f1)
  if [ "$(cat "$RQ_BIN/.$name" 2>/dev/null)" = "$stamp" ]; then return; fi
  started=$(date +%s)
  for pair in "$@"; do
    say "building ${pair%%=*} (the first time takes minutes; it is kept in $RQ_BIN)"
    (cd "$dir" && go build -ldflags "$ldflags" -o "$RQ_BIN/${pair%%=*}" "${pair#*=}" 2> >(grep -v '^go: downloading' >&2))
  done
  echo "$stamp" >"$RQ_BIN/.$name"
  say "$name built in $(($(date +%s) - started)) s"
}
k=k8s.io/kubernetes/cmd
group api kube kube-apiserver=$k/kube-apiserver kubectl=$k/kubectl etcd=go.etcd.io/etcd/server/v3
[ "${1:-}" = api ] && exit 0
group node kube kube-controller-manager=$k/kube-controller-manager kube-scheduler=$k/kube-scheduler \
  kubelet=$k/kubelet kube-proxy=$k/kube-proxy
group dns coredns coredns=.
