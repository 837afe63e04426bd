#!/usr/bin/env bash
# Installs the Debian packages that a node needs. Starts no service.
set -euo pipefail
. "$(dirname "$0")/env.sh"
[ "$(id -u)" = 0 ] || die "the development cluster needs root; as another user set DEMO_CONTEXT to a context of your kubeconfig"
packages=(containerd runc containernetworking-plugins iptables nftables conntrack iproute2 util-linux curl)
missing=()
for p in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || missing+=("$p")
done
[ ${#missing[@]} = 0 ] && exit 0
say "installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() { apt-get install -y --no-install-recommends "${missing[@]}" >"$log" 2>&1; }
# A package index that is absent or old is renewed once.
install || { apt-get update -q >"$log" 2>&1 && install; } || { tail -n 20 "$log" >&2; die "apt-get could not install ${missing[*]}"; }
