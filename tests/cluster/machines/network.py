"""The network of a cluster with real nodes.

A network namespace has a bridge that connects the control plane and all machines. A pair of virtual interfaces connects
it with the namespace of the tests, so that clients outside the cluster reach the API server and the nodes.

No namespace has a name. The kernel removes them with all their interfaces when their last process ends.

======================  ===================================================================
``10.231.K.1``          the control plane, where K is the number of the cluster
``10.231.K.(10 + N)``   the node N
``10.231.K.254``        clients outside the cluster
``10.244.N.0/24``       the pods of the node N
``10.96.0.0/16``        Services
======================  ===================================================================
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from tests.cluster.processes import ClusterError, Process

SERVICES = "10.96.0.0/16"
DNS_SERVICE = "10.96.0.10"
_MOST_CLUSTERS = 250
_BRIDGE = "bridge"
_BRIDGE_ADDRESS = "02:00:00:00:00:01"
"""Without an address of its own, a bridge takes the lowest one of its interfaces. When the machine with that interface
is lost, the others would send to an address that no longer exists, for up to two minutes."""
_SETTINGS = "echo 1 >/proc/sys/net/ipv4/tcp_orphan_retries"
"""A connection to a dead machine keeps the namespace alive after all processes, by default for up to two minutes."""


class Network:
    """A context manager of a network.

    Args:
        directory: The directory for logs.

    Attributes:
        number: The number of the cluster on this host.
    """

    def __init__(self, directory: Path) -> None:
        self.number = 0
        self._holder = Process(
            ["unshare", "--net", "sleep", "infinity"], directory / "network.log", is_ready=self._is_new
        )

    def __enter__(self) -> Self:
        self._holder.start()
        try:
            self.number = self._connect_host()
            self._configure(
                f"link add {_BRIDGE} address {_BRIDGE_ADDRESS} type bridge",
                f"address add {self.control_plane}/24 dev {_BRIDGE}",
                f"link set host master {_BRIDGE}",
                *(f"link set {name} up" for name in ("lo", "host", _BRIDGE)),
            )
            run_command(*self.prefix_command, "sh", "-c", _SETTINGS)
            run_command("ip", "address", "add", f"{self._prefix}.254/24", "dev", self.interface)
            run_command("ip", "link", "set", self.interface, "up")
        except BaseException:
            self._holder.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._holder.kill()

    @property
    def interface(self) -> str:
        """The interface outside the cluster."""
        return f"lodge-{self.number}"

    @property
    def prefix_command(self) -> Sequence[str]:
        """Words before the command of a process that runs in the namespace of the control plane."""
        return ["nsenter", f"--net=/proc/{self._holder.pid}/ns/net", "--"]

    @property
    def control_plane(self) -> str:
        """The address of the control plane."""
        return f"{self._prefix}.1"

    def node_address(self, number: int) -> str:
        """Return the address of a node."""
        return f"{self._prefix}.{10 + number}"

    @staticmethod
    def pod_addresses(number: int) -> str:
        """Return the range of the addresses of a node's pods."""
        return f"10.244.{number}.0/24"

    def connect(self, number: int, process_id: int) -> None:
        """Give the namespace of a machine the interface ``eth0``."""
        name = f"node-{number}"
        self._configure(
            f"link add {name} type veth peer name eth0 netns {process_id}",
            f"link set {name} master {_BRIDGE} up",
            f"route replace {self.pod_addresses(number)} via {self.node_address(number)}",
        )

    def cut(self, number: int) -> None:
        """Cut the connection of a machine."""
        self._configure(f"link set node-{number} down")

    def restore(self, number: int) -> None:
        """Restore the connection of a machine."""
        self._configure(
            f"link set node-{number} up", f"route replace {self.pod_addresses(number)} via {self.node_address(number)}"
        )

    @property
    def _prefix(self) -> str:
        return f"10.231.{self.number}"

    def _connect_host(self) -> int:
        """Connect the namespace with that of the tests, and return the first free number of a cluster."""
        for number in range(1, _MOST_CLUSTERS):
            link = ["ip", "link", "add", f"lodge-{number}", "type", "veth", "peer", "name", "host"]
            added = subprocess.run([*link, "netns", str(self._holder.pid)], capture_output=True, text=True, check=False)
            if added.returncode == 0:
                return number
            if "exists" not in added.stderr:
                raise ClusterError(f"No network interface can be added: {added.stderr.strip()}")
        raise ClusterError(f"{_MOST_CLUSTERS} clusters run already.")

    def _configure(self, *commands: str) -> None:
        run_command(*self.prefix_command, "ip", "-batch", "-", text="\n".join(commands))

    def _is_new(self) -> bool:
        return has_own_namespace(self._holder.pid, "net")


def has_own_namespace(process_id: int, kind: str) -> bool:
    """Return whether a process has a namespace of a kind, such as ``net``, that differs from that of the tests."""
    return Path(f"/proc/{process_id}/ns/{kind}").readlink() != Path(f"/proc/self/ns/{kind}").readlink()


def run_command(*command: str, text: str = "") -> str:
    """Run a command with a text as its input, and return its output.

    Raises:
        ClusterError: The command failed.
    """
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClusterError(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()[-2000:]}")
    return done.stdout
