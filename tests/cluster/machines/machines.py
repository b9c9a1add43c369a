"""The machines of a cluster, with their network, names and volumes."""

import secrets
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from images.debian import install_packages
from tests.cluster.control_plane import Place
from tests.cluster.kubeconfig import Server
from tests.cluster.machines import names, policy_agent
from tests.cluster.machines.cgroups import owned_cgroup
from tests.cluster.machines.image_store import create_store
from tests.cluster.machines.machine import Machine
from tests.cluster.machines.network import SERVICES, Network
from tests.cluster.machines.permissions import grant
from tests.cluster.machines.small_images import write_pause_image
from tests.cluster.machines.volumes import shared_volumes

_TOOLS = {
    "/bin/busybox": "busybox-static",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "iptables": "iptables",
    "runc": "runc",
}


def install_tools() -> str:
    """Install what machines need besides their programs.

    Returns:
        The reason why it is missing; empty if it is installed and the user is root.
    """
    return install_packages(_TOOLS, "No real nodes are started")


_NICENESS = -10
"""The priority of the control plane. Other machines run it, so that work on the nodes cannot delay it."""


class Machines:
    """A context manager of machines.

    Args:
        count: The number of machines.
        directory: The directory of the cluster.
        images: Archives of images that the machines have from the start.

    Attributes:
        place: The place of the control plane.
    """

    def __init__(self, count: int, directory: Path, images: Sequence[Path]) -> None:
        self._directory, self._images = directory, images
        self._network = Network(directory)
        self._proxy_token, self._names_token = secrets.token_urlsafe(), secrets.token_urlsafe()
        self._policies_token = secrets.token_urlsafe()
        self._tokens = {number: secrets.token_urlsafe() for number in range(1, count + 1)}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.enter_context(self._network)
        users = [
            f"{token},system:node:node-{number},node-{number},system:nodes" for number, token in self._tokens.items()
        ]
        users.append(f"{self._proxy_token},system:kube-proxy,system:kube-proxy,")
        users.append(f"{self._names_token},{names.USER},{names.USER},")
        users.append(f"{self._policies_token},{policy_agent.USER},{policy_agent.USER},")
        self.place = Place(
            self._network.control_plane,
            prefix=["nice", "-n", str(_NICENESS), *self._network.prefix_command],
            options=[
                f"--service-cluster-ip-range={SERVICES}",
                "--kubelet-preferred-address-types=InternalIP",
            ],
            users=users,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def objects(self) -> Sequence[Mapping[str, Any]]:
        """Return the objects that the cluster needs."""
        return [
            *names.dns_objects(self._network),
            *grant(policy_agent.USER, policy_agent.RULES),
            *shared_volumes(self._directory / "volumes"),
        ]

    def start(self, server: Server) -> Sequence[Machine]:
        """Start all machines after the API server."""
        dns = names.dns_server(self._network, server, self._names_token, self._directory)
        self._stack.callback(dns.kill)
        dns.start()
        pause = write_pause_image(self._directory / "pause.tar")
        store = create_store(self._directory / "store", [pause, *self._images])
        machines = [self._machine(number, server, store) for number in self._tokens]
        for machine in machines:
            self._stack.callback(machine.kill)
            machine.start()
        return machines

    def _machine(self, number: int, server: Server, images: Path) -> Machine:
        return Machine(
            number,
            nodes=list(self._tokens),
            network=self._network,
            server=server,
            tokens=(self._tokens[number], self._proxy_token, self._policies_token),
            cgroup=self._stack.enter_context(owned_cgroup(f"lodge-{self._network.number}-node-{number}")),
            directory=self._directory / f"node-{number}",
            images=images,
        )
