#!/bin/bash
# Starts a machine: in its own namespaces, with a container runtime, kubelet, kube-proxy and policy agent. When the first
# process of the machine ends, the kernel ends all others and removes all mounts and interfaces.
#
# Arguments: the directory of the machine, its name, its cgroup, its address, the gateway, and the routes to the pods of
# other nodes ("RANGE via ADDRESS").
set -eu
directory=$1 name=$2 cgroup=$3

if [ "${LODGE_MACHINE:-}" != started ]; then
    for hierarchy in /sys/fs/cgroup/*/; do
        [ -e "$hierarchy$cgroup" ] && echo $$ > "$hierarchy$cgroup/cgroup.procs"
    done
    export LODGE_MACHINE=started
    exec unshare --net --mount --pid --uts --ipc --cgroup --fork --kill-child --mount-proc "$0" "$@"
fi

address=$4 network=$5
shift 5
hostname "$name"

# Nothing of the host's run-time state is visible.
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/log
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /sys/fs/cgroup
for hierarchy in $(awk -F: '$2 != "" {print $2}' /proc/self/cgroup); do
    mkdir "/sys/fs/cgroup/${hierarchy#name=}"
    options=$hierarchy
    [ "$hierarchy" = "${hierarchy#name=}" ] || options="none,$hierarchy"
    mount -t cgroup -o "$options" cgroup "/sys/fs/cgroup/${hierarchy#name=}"
done

ip link set lo up
until ip link show eth0 >/dev/null 2>&1; do sleep 0.05; done
ip address add "$address/24" dev eth0
ip link set eth0 up
ip route add default via "$network"
# Without an address of its own, the bridge of the pods takes that of a pod, and changes it when the pod ends.
ip link add pods address 02:00:00:00:00:01 type bridge
for route in "$@"; do ip route add $route; done
echo 1 > /proc/sys/net/ipv4/ip_forward
echo 1 > /proc/sys/net/bridge/bridge-nf-call-iptables || true

# On a lost node, nothing ended in order. Its images remain.
rm -rf "$directory/containerd.sock" "$directory/kubelet/pods" "$directory/networks"
mkdir -p "$directory/kubelet" "$directory/networks"

# Runs a program, and starts it again when it ends, like the service manager of a machine. A kubelet ends, for example,
# when the container runtime does not answer its first request.
keep_running() {
    local log=$directory/$1.log
    shift
    while true; do
        "$@" || true
        echo "ended and is started again: $1"
        sleep 0.5
    done >> "$log" 2>&1
}

keep_running policy-agent "$directory/policy-agent" &
keep_running containerd "$directory/containerd" --config "$directory/containerd.toml" &
until [ -S "$directory/containerd.sock" ]; do sleep 0.05; done
keep_running kubelet nice -n -5 "$directory/kubelet-program" --config "$directory/kubelet.yaml" \
    --kubeconfig "$directory/kubelet.kubeconfig" --root-dir "$directory/kubelet" --hostname-override "$name" \
    --node-ip "$address" &
keep_running kube-proxy "$directory/kube-proxy" --config "$directory/kube-proxy.yaml" --hostname-override "$name" &
touch /run/started
wait
