#!/usr/bin/env bash
# Removes the cluster: killing the first process of its pid namespace ends every process in it, and its
# mounts and network go with its namespaces.
set -u
. "$(dirname "$0")/env.sh"
pid=$(cat "$RQ_RUN/node.pid" 2>/dev/null)
if [ -n "$pid" ] && tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -q "hack/cluster/node.sh"; then
  kill -KILL "$pid"
  for _ in $(seq 100); do [ -e "/proc/$pid" ] || break; sleep .1; done
fi
ip link del "$host_if" 2>/dev/null
for _ in $(seq 10); do # a cgroup can be removed only once its last process is gone
  left=
  for c in /sys/fs/cgroup/*"$RQ_CGROUP" "/sys/fs/cgroup$RQ_CGROUP"; do
    [ -d "$c" ] && { find "$c" -depth -type d -exec rmdir {} + 2>/dev/null || left=1; }
  done
  [ -z "$left" ] && break
  sleep .5
done
rm -rf --one-file-system "$RQ_RUN"
[ ! -e "$RQ_RUN" ] || die "could not remove $RQ_RUN"
say "cluster $RQ_CLUSTER is gone"
