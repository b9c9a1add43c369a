"""A machine: a real node in namespaces of its own.

A machine has a kubelet, a container runtime, kube-proxy, a policy agent, an address, and a cgroup. Its first process is
a boot script. When that process is killed, the kernel ends everything that runs on the machine, like a power failure.
The directory of the machine is its disk: the images remain.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import yaml

from tests.cluster.builds import program
from tests.cluster.kubeconfig import Server
from tests.cluster.machines import policy_agent
from tests.cluster.machines.image_store import copy_store, import_image
from tests.cluster.machines.network import DNS_SERVICE, Network, has_own_namespace, run_command
from tests.cluster.machines.small_images import PAUSE_IMAGE
from tests.cluster.processes import ClusterError, Process, wait_until

BOOT_SECONDS = 60.0
HEARTBEAT_SECONDS = 2
_PLUGINS = Path("/usr/lib/cni")
_BOOT = Path(__file__).with_name("boot.sh")


class Machine:
    """A node.

    Args:
        number: The number of the node, from 1.
        nodes: The numbers of all nodes of the cluster.
        network: The network of the cluster.
        server: The API server.
        tokens: The tokens with which the kubelet, kube-proxy and the policy agent authenticate.
        cgroup: The name of its cgroup.
        directory: The disk of the machine.
        images: A store of images that the machine has from the start.

    Attributes:
        name: The name of the node.
        address: The address of the node.
        directory: The disk of the machine, which contains the logs.
    """

    def __init__(
        self,
        number: int,
        *,
        nodes: Sequence[int],
        network: Network,
        server: Server,
        tokens: tuple[str, str, str],
        cgroup: str,
        directory: Path,
        images: Path,
    ) -> None:
        self._number, self._network = number, network
        self.name = f"node-{number}"
        self.address = network.node_address(number)
        self.directory = directory
        routes = [f"{network.pod_addresses(each)} via {network.node_address(each)}" for each in nodes if each != number]
        boot = [_BOOT, directory, self.name, cgroup, self.address, network.control_plane, *routes]
        directory.mkdir()
        copy_store(images, directory / "images")
        self._process = Process(
            boot, directory / "boot.log", is_ready=lambda: has_own_namespace(self._process.pid, "cgroup")
        )
        server.write_kubeconfig(directory / "kubelet.kubeconfig", {"token": tokens[0]})
        server.write_kubeconfig(directory / "kube-proxy.kubeconfig", {"token": tokens[1]})
        kubeconfig = server.write_kubeconfig(directory / "policy-agent.kubeconfig", {"token": tokens[2]})
        policy_agent.write_command(directory / "policy-agent", kubeconfig, self.name)
        self._write_settings()

    def start(self) -> None:
        """Switch the machine on, and wait until containers can run."""
        self._process.start()
        self._network.connect(self._number, self._process.pid)
        wait_until(lambda: self._has_started() or self._process.has_ended(), f"{self.name} has started", BOOT_SECONDS)
        if self._process.has_ended():
            raise ClusterError(f"{self.name} did not start:\n{(self.directory / 'boot.log').read_text()[-2000:]}")

    def kill(self) -> None:
        """Switch the machine off, like a power failure."""
        self._process.kill()

    def cut_network(self) -> None:
        """Cut the network. Everything on the machine continues."""
        self._network.cut(self._number)

    def restore_network(self) -> None:
        """Restore the network."""
        self._network.restore(self._number)

    def run(self, *command: str) -> str:
        """Run a command on the machine, and return its output.

        Raises:
            ClusterError: The command failed.
        """
        process = self._process.pid
        names = ("net", "mnt", "uts", "ipc", "cgroup")
        namespaces = [f"--{name.replace('mnt', 'mount')}=/proc/{process}/ns/{name}" for name in names]
        first = f"--pid=/proc/{process}/ns/pid_for_children"
        return run_command("nsenter", *namespaces, first, "--", *command)

    def load_image(self, archive: Path) -> None:
        """Add the images of an archive in the format of ``docker save``."""
        import_image(self.directory / "containerd.sock", archive)

    def log_ends(self) -> str:
        """Return the ends of the logs of its programs."""
        ends = [f"{log}:\n{log.read_text(errors='replace')[-4000:]}" for log in sorted(self.directory.glob("*.log"))]
        return "\n".join(ends)

    def _write_settings(self) -> None:
        directory = self.directory
        for name, source in (
            ("containerd", "containerd"),
            ("kubelet-program", "kubelet"),
            ("kube-proxy", "kube-proxy"),
        ):
            (directory / name).symlink_to(program(source))
        (directory / "containerd.toml").write_text(
            _CONTAINERD.format(
                directory=directory,
                pause=PAUSE_IMAGE,
                plugins=_PLUGINS,
                shims=program("containerd-shim-runc-v2").parent,
            )
        )
        networks = directory / "networks.d"
        networks.mkdir()
        (networks / "10-pods.conflist").write_text(json.dumps(self._pod_network()))
        (directory / "resolv.conf").touch()
        (directory / "kubelet.yaml").write_text(yaml.safe_dump(self._kubelet()))
        (directory / "kube-proxy.yaml").write_text(yaml.safe_dump(self._kube_proxy()))

    def _pod_network(self) -> object:
        addresses = {
            "type": "host-local",
            "ranges": [[{"subnet": self._network.pod_addresses(self._number)}]],
            "routes": [{"dst": "0.0.0.0/0"}],
            "dataDir": str(self.directory / "networks"),
        }
        bridge = {"type": "bridge", "bridge": "pods", "isGateway": True, "hairpinMode": True, "ipam": addresses}
        ports = {"type": "portmap", "capabilities": {"portMappings": True}}
        return {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge, ports]}

    def _kubelet(self) -> object:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": f"unix://{self.directory}/containerd.sock",
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "failCgroupV1": False,
            "cgroupDriver": "cgroupfs",
            "cgroupsPerQOS": False,
            "enforceNodeAllocatable": [],
            "localStorageCapacityIsolation": False,
            "makeIPTablesUtilChains": False,
            "failSwapOn": False,
            "nodeStatusUpdateFrequency": f"{HEARTBEAT_SECONDS}s",
            "nodeLeaseDurationSeconds": 4 * HEARTBEAT_SECONDS,
            "clusterDNS": [DNS_SERVICE],
            "clusterDomain": "cluster.local",
            "resolvConf": str(self.directory / "resolv.conf"),
            "podLogsDir": str(self.directory / "pods"),
            "volumePluginDir": str(self.directory / "volume-plugins"),
            "staticPodPath": "",
            "evictionHard": {"nodefs.available": "1%", "imagefs.available": "1%"},
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
            "serializeImagePulls": False,
        }

    def _kube_proxy(self) -> object:
        return {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "clientConnection": {"kubeconfig": str(self.directory / "kube-proxy.kubeconfig")},
            "mode": "iptables",
            "clusterCIDR": "10.244.0.0/16",
            "conntrack": {"maxPerCore": 0, "min": 0},
        }

    def _has_started(self) -> bool:
        return Path(f"/proc/{self._process.pid}/root/run/started").exists()


_CONTAINERD = """
version = 3
root = "{directory}/images"
state = "/run/containerd"
disabled_plugins = ["io.containerd.nri.v1.nri"]

[grpc]
address = "{directory}/containerd.sock"

[plugins."io.containerd.cri.v1.images"]
snapshotter = "overlayfs"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{pause}"

[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{plugins}"]
conf_dir = "{directory}/networks.d"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
runtime_path = "{shims}/containerd-shim-runc-v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
SystemdCgroup = false
"""
