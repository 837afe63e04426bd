#!/usr/bin/env bash
# The first process of the node's namespaces. Started by up.sh as "bash …/hack/cluster/node.sh".
set -eu
r=$RQ_RUN
pki=$r/pki
mount --make-rshared /
hostname "$node_name"

# Private /run, /var/log, /var/lib/kubelet and /var/lib/cni, and a /sys that shows this network namespace.
mkdir -p "$r/cgroup" && mount --rbind /sys/fs/cgroup "$r/cgroup"
mount -t sysfs sysfs /sys && mount --rbind "$r/cgroup" /sys/fs/cgroup
mount -t tmpfs tmpfs /run && mkdir -p /run/lock /run/netns /run/cni
for pair in cni/lib:/var/lib/cni pods-log:/var/log kubelet:/var/lib/kubelet; do
  mkdir -p "${pair#*:}" && mount --bind "$r/${pair%%:*}" "${pair#*:}"
done
mount --make-rshared /var/lib/kubelet

# The kubelet insists on these sysctls; it sees them, and the machine keeps its own.
show() { echo "$2" >"$r/sysctl/${1//\//.}" && mount --bind "$r/sysctl/${1//\//.}" "/proc/sys/$1"; }
show vm/overcommit_memory 1
show vm/panic_on_oom 0
show kernel/panic 10
show kernel/panic_on_oops 1
show kernel/keys/root_maxkeys 1000000
show kernel/keys/root_maxbytes 25000000

ip link set lo up
until ip link show eth0 >/dev/null 2>&1; do sleep .05; done
ip addr add "$node_ip/30" dev eth0
ip link set eth0 up
ip route add "$svc_cidr" via "$host_ip" dev eth0 # only so that connect() finds a route; kube-proxy rewrites the address
echo 1 >/proc/sys/net/ipv4/ip_forward
[ ! -e /proc/sys/net/bridge/bridge-nf-call-iptables ] || echo 1 >/proc/sys/net/bridge/bridge-nf-call-iptables

daemon() {
  local name=$1
  shift
  "$@" >"$r/log/$name.log" 2>&1 &
  echo $! >"$r/log/$name.pid" # as numbered inside this namespace
}
daemon etcd etcd --data-dir "$r/etcd" --unsafe-no-fsync --log-level warn --listen-client-urls http://127.0.0.1:2379 \
  --advertise-client-urls http://127.0.0.1:2379 --listen-peer-urls http://127.0.0.1:2380
daemon containerd containerd --config "$r/containerd.toml" --log-level info
daemon kube-apiserver kube-apiserver --etcd-servers http://127.0.0.1:2379 --bind-address 0.0.0.0 --secure-port 6443 \
  --advertise-address "$node_ip" --service-cluster-ip-range "$svc_cidr" --allow-privileged=true --shutdown-delay-duration 0 \
  --authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction \
  --client-ca-file "$pki/ca.crt" --tls-cert-file "$pki/apiserver.crt" --tls-private-key-file "$pki/apiserver.key" \
  --service-account-key-file "$pki/sa.pub" --service-account-signing-key-file "$pki/sa.key" \
  --service-account-issuer https://kubernetes.default.svc.cluster.local \
  --kubelet-client-certificate "$pki/kubelet-client.crt" --kubelet-client-key "$pki/kubelet-client.key" \
  --kubelet-certificate-authority "$pki/ca.crt" --kubelet-preferred-address-types InternalIP \
  --requestheader-client-ca-file "$pki/front-proxy-ca.crt" --requestheader-allowed-names front-proxy-client \
  --requestheader-username-headers X-Remote-User --requestheader-group-headers X-Remote-Group \
  --requestheader-extra-headers-prefix X-Remote-Extra- --enable-aggregator-routing=true \
  --proxy-client-cert-file "$pki/front-proxy-client.crt" --proxy-client-key-file "$pki/front-proxy-client.key"

containerd_ctr() { ctr -a /run/containerd/containerd.sock -n k8s.io "$@"; }
for _ in $(seq 100); do containerd_ctr version >/dev/null 2>&1 && break; sleep .1; done
for tar in "$RQ_IMAGES"/*.tar; do containerd_ctr images import "$tar"; done
until kubectl --kubeconfig "$pki/admin.kubeconfig" get --raw /readyz >/dev/null 2>&1; do sleep .2; done

as() { echo "--kubeconfig $pki/$1.kubeconfig --authentication-kubeconfig $pki/$1.kubeconfig --authorization-kubeconfig $pki/$1.kubeconfig"; }
daemon kubelet kubelet --config "$r/kubelet.yaml" --kubeconfig "$pki/node.kubeconfig" --hostname-override "$node_name" \
  --node-ip "$node_ip" --root-dir /var/lib/kubelet
# shellcheck disable=SC2046 # as prints several words
daemon kube-controller-manager kube-controller-manager $(as kcm) --bind-address 127.0.0.1 --leader-elect=false \
  --kube-api-qps 500 --kube-api-burst 1000 --use-service-account-credentials --service-account-private-key-file "$pki/sa.key" \
  --root-ca-file "$pki/ca.crt" --cluster-signing-cert-file "$pki/ca.crt" --cluster-signing-key-file "$pki/ca.key" \
  --flex-volume-plugin-dir "$r/plugins" --service-cluster-ip-range "$svc_cidr"
# shellcheck disable=SC2046
daemon kube-scheduler kube-scheduler $(as scheduler) --bind-address 127.0.0.1 --leader-elect=false --kube-api-qps 500 --kube-api-burst 1000
daemon kube-proxy kube-proxy --config "$r/kube-proxy.yaml"
daemon provisioner rq-provisioner -kubeconfig "$pki/admin.kubeconfig" -dir "$r/volumes"

# Containers' shims are re-parented to this process: waiting reaps them.
while :; do
  for p in "$r"/log/*.pid; do
    kill -0 "$(cat "$p")" 2>/dev/null || { echo "$(date +%T) $(basename "$p" .pid) has exited"; rm -f "$p"; }
  done
  sleep 2
done
