#!/usr/bin/env bash
# Writes the configuration of the node's daemons. Called by up.sh.
set -euo pipefail
r=$RQ_RUN
cat >"$r/containerd.toml" <<X
version = 2
root = "$r/containerd"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp",
  "io.containerd.internal.v1.tracing", "io.containerd.nri.v1.nri",
]
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "retryqueue.local/pause:1"
  restrict_oom_score_adj = true
  disable_apparmor = true
  enable_selinux = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$r/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = "/usr/sbin/runc"
        SystemdCgroup = false
X
cat >"$r/cni/net.d/10-bridge.conflist" <<X
{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
   "ipam": {"type": "host-local", "dataDir": "/run/cni", "ranges": [[{"subnet": "$pod_cidr"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
X
echo "nameserver 127.0.0.1" >"$r/resolv.conf" # of pods that use the node's DNS: there is none to ask
cat >"$r/kubelet.yaml" <<X
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $r/pki/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $r/pki/kubelet.crt
tlsPrivateKeyFile: $r/pki/kubelet.key
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: $RQ_CGROUP
failCgroupV1: false
failSwapOn: false
protectKernelDefaults: true # it checks the machine's sysctls and never writes them; node.sh shows it what it wants
oomScoreAdj: 0
clusterDNS: [$dns_ip]
clusterDomain: cluster.local
resolvConf: $r/resolv.conf
volumePluginDir: $r/plugins
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
evictionHard: {nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%", imagefs.inodesFree: "0%", memory.available: "100Mi"}
makeIPTablesUtilChains: false
nodeStatusUpdateFrequency: 5s
syncFrequency: 10s
maxPods: 110
X
cat >"$r/kube-proxy.yaml" <<X
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: $r/pki/proxy.kubeconfig}
mode: nftables
hostnameOverride: $node_name
clusterCIDR: $pod_cidr
oomScoreAdj: 0
nodePortAddresses: ["$node_ip/32"]
conntrack: {maxPerCore: 0, min: 0, tcpCloseWaitTimeout: 0s, tcpEstablishedTimeout: 0s}
nftables: {minSyncPeriod: 100ms}
X
