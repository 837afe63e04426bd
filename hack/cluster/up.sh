#!/usr/bin/env bash
# Starts a single-node cluster with real pods. It lives in mount, pid, network, uts and ipc namespaces of its
# own with no route out. Outside of them there are only: one veth, two routes to it, one cgroup and $RQ_RUN.
set -euo pipefail
. "$(dirname "$0")/env.sh"
if [ -e "$RQ_RUN/node.pid" ]; then
  pid=$(cat "$RQ_RUN/node.pid")
  if [ -d "/proc/$pid" ] && kubectl --kubeconfig "$KUBECONFIG_ADMIN" get --raw /readyz >/dev/null 2>&1; then
    say "cluster $RQ_CLUSTER is already up"
    exit 0
  fi
  "$here/down.sh"
fi
mkdir -p "$RQ_RUN"/{log,pods-log,kubelet,cni/net.d,cni/lib,containerd,etcd,sysctl,plugins,volumes}
chmod 700 "$RQ_RUN/etcd"
rq-pki -dir "$RQ_RUN/pki" -server "https://$node_ip:6443" -node "$node_name" -ips "127.0.0.1,$node_ip,$svc_ip"
export here RQ_RUN RQ_BIN RQ_IMAGES RQ_CGROUP node_name node_ip host_ip pod_cidr svc_cidr dns_ip
"$here/configure.sh"

if [ -e /sys/fs/cgroup/cgroup.controllers ]; then # cgroup v2
  mkdir -p "/sys/fs/cgroup$RQ_CGROUP"
  for c in cpu cpuset memory pids io hugetlb; do
    echo "+$c" >/sys/fs/cgroup/cgroup.subtree_control 2>/dev/null || say "cgroup controller $c is not available"
  done
  echo "$RQ_MEMORY" >"/sys/fs/cgroup$RQ_CGROUP/memory.max"
else # cgroup v1: one tree a controller; a new cpuset is unusable until it is filled in
  for c in cpu cpuacct cpuset memory devices freezer blkio pids systemd; do
    [ ! -e "/sys/fs/cgroup/$c/cgroup.procs" ] || mkdir -p "/sys/fs/cgroup/$c$RQ_CGROUP"
  done
  for f in cpuset.cpus cpuset.mems; do cat "/sys/fs/cgroup/cpuset/$f" >"/sys/fs/cgroup/cpuset$RQ_CGROUP/$f"; done
  echo "$RQ_MEMORY" >"/sys/fs/cgroup/memory$RQ_CGROUP/memory.limit_in_bytes"
fi

setsid unshare --mount --pid --net --uts --ipc --fork --kill-child --mount-proc --propagation private \
  bash "$here/node.sh" </dev/null >"$RQ_RUN/log/node.log" 2>&1 &
parent=$!
pid=
for _ in $(seq 100); do
  pid=$(tr -d ' ' <"/proc/$parent/task/$parent/children" 2>/dev/null) && [ -n "$pid" ] && break
  sleep .05
done
[ -n "$pid" ] || die "the node's namespaces could not be made: $(cat "$RQ_RUN/log/node.log")"
echo "$pid" >"$RQ_RUN/node.pid"
ip link add "$host_if" type veth peer name eth0 netns "$pid"
ip addr add "$host_ip/30" dev "$host_if"
ip link set "$host_if" up
for cidr in "$pod_cidr" "$svc_cidr"; do ip route replace "$cidr" via "$node_ip" dev "$host_if" onlink; done

k() { kubectl --kubeconfig "$KUBECONFIG_ADMIN" "$@"; }
# until_true WHAT COMMAND...: polls for a minute, and shows the logs when it does not come true.
until_true() {
  local what=$1
  shift
  for _ in $(seq 240); do
    "$@" >/dev/null 2>&1 && return
    [ -d "/proc/$pid" ] || break
    sleep .25
  done
  tail -n 15 "$RQ_RUN"/log/*.log >&2
  die "$what (logs: $RQ_RUN/log)"
}
until_true "the API server is not ready" k get --raw /readyz
until_true "the node did not register" k get node "$node_name"
until_true "the default service account is missing" k -n default get serviceaccount default
k wait --for=condition=Ready "node/$node_name" --timeout=120s >/dev/null
sed "s/CLUSTER_DNS_IP/$dns_ip/" "$here/manifests/coredns.yaml" | k apply -f - >/dev/null
k apply -f "$here/manifests/storageclass.yaml" >/dev/null
k -n kube-system rollout status deploy/coredns --timeout=90s >/dev/null
say "cluster $RQ_CLUSTER is up: export KUBECONFIG=$KUBECONFIG_ADMIN"
