# Sourced by every script here. RQ_CLUSTER names the cluster, so that the demo and the tests can each have
# one at the same time; every other value follows from it and can be overridden.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo=$(cd "$here/../.." && pwd)
: "${RQ_CLUSTER:=demo}"
case $RQ_CLUSTER in
  demo) net=0 ;;
  e2e) net=1 ;;
  *) net=${RQ_CLUSTER_NET:?set RQ_CLUSTER_NET to a number from 2 to 9 for a cluster named $RQ_CLUSTER} ;;
esac
: "${RQ_CACHE:=${XDG_CACHE_HOME:-$HOME/.cache}/retryqueue-cluster}"
: "${RQ_BIN:=$RQ_CACHE/bin}"                # built binaries, shared by all clusters
: "${RQ_IMAGES:=$RQ_CACHE/images}"          # *.tar here is imported when a cluster starts
: "${RQ_RUN:=$RQ_CACHE/run-$RQ_CLUSTER}"    # everything of the running cluster; removed by down.sh
: "${RQ_CGROUP:=/retryqueue-$RQ_CLUSTER}"
: "${RQ_MEMORY:=8G}"                        # of all pods together
host_if=rq-$RQ_CLUSTER                      # the host's end of the cluster's one network link
host_ip=10.250.$net.1
node_ip=10.250.$net.2
pod_cidr=10.$((230 + net)).0.0/16
svc_cidr=10.$((210 + net)).0.0/16
svc_ip=10.$((210 + net)).0.1
dns_ip=10.$((210 + net)).0.10
node_name=node
KUBECONFIG_ADMIN=$RQ_RUN/pki/admin.kubeconfig
PATH=$RQ_BIN:/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:$PATH
export PATH

say() { printf '%s  %s\n' "$(date +%T)" "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }
# on_node COMMAND: runs it in the namespaces of the cluster's node.
on_node() { nsenter -t "$(cat "$RQ_RUN/node.pid")" -m -u -i -n -p -- "$@"; }
