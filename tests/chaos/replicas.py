"""Gateways and reapers as processes, each in place of a pod on a simulated node.

Each process has a pod in the cluster, which gives it its name, uid and node, as the chart does. Killing and
restarting the process is a restart of the pod's container. `Replica.replace` does what a Deployment does when a pod
is lost.
"""

import json
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from kubernetes.client import CoreV1Api
from kubernetes.client.exceptions import ApiException

from tests.chaos.chart import InstalledChart
from tests.chaos.programs import Program
from tests.chaos.wall_clock import WallClock
from tests.cluster.nodes import Node
from tests.cluster.ports import free_port
from tests.cluster.processes import ClusterError, wait_until

_START_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class ReplicaEnvironment:
    """The parts that all replicas of one Lodge share.

    Attributes:
        namespace: The namespace of their pods.
        directory: The directory of their logs.
        prefix: Words before each command.
        installed: The installed chart.
        core: A client with the administrator's permissions.
        clock_library: The library for wall clocks; None to use the machine's clock.
    """

    namespace: str
    directory: Path
    prefix: Sequence[str]
    installed: InstalledChart
    core: CoreV1Api
    clock_library: Path | None


@dataclass(slots=True)
class Replica:
    """A gateway or a reaper.

    Attributes:
        name: The name, such as ``gateway-0``.
        node: The node of its pod.
        pod: The name of its pod.
        clock: Its wall clock; None to use the machine's clock.
        process: The current or last process.
        port: The port for clients (gateway) or probes (reaper).
    """

    name: str
    node: Node
    environment: ReplicaEnvironment = field(repr=False)
    pod: str = ""
    clock: WallClock | None = None
    process: Program = field(init=False, repr=False)
    port: int = field(default_factory=free_port)
    _pods: int = 0

    def __post_init__(self) -> None:
        if (library := self.environment.clock_library) is not None:
            self.clock = WallClock(library, self.environment.directory / f"{self.name}.clock")
        self._create_pod()

    @property
    def component(self) -> str:
        return self.name.partition("-")[0]

    def start(self) -> None:
        """Start the process until it is ready, with restarts as by a kubelet."""

        def started() -> bool:
            if self.process.has_ended():
                self.process.kill()
            if not self.process.is_started():
                with suppress(ClusterError):
                    self.process.start()
            return self.process.is_started() and not self.process.has_ended()

        wait_until(started, f"{self.name} runs; its log ends:\n{self.log()[-4000:]}", _START_SECONDS)

    def replace(self, node: Node) -> None:
        """Delete the pod, create one on another node, and start the process there."""
        self.process.kill()
        with suppress(ApiException):
            self.environment.core.delete_namespaced_pod(self.pod, self.environment.namespace, grace_period_seconds=0)
        self.node = node
        self._create_pod()
        self.start()

    def log(self) -> str:
        """Return everything that its processes logged."""
        logs = sorted(self.environment.directory.glob(f"{self.name}.*.log"))
        return "".join(log.read_text(errors="replace") for log in logs)

    def replica_id(self) -> str:
        """Return the replica id of a running gateway."""
        lines = (line for line in self.log().splitlines() if '"gateway_started"' in line)
        return str(json.loads(list(lines)[-1])["replica"])

    def _create_pod(self) -> None:
        """Create the pod, and the process in its place."""
        self._pods += 1
        shared = self.environment
        self.pod = f"{shared.installed.instance}-{self.name}-{self._pods}"
        account = shared.installed.accounts[self.component]
        pod = self.node.pod(
            shared.namespace,
            self.pod,
            labels=shared.installed.labels[self.component],
            service_account=account.name,
            unreachable_seconds=3,
        )
        variables = {
            "KUBECONFIG": str(account.kubeconfig),
            "LODGE_POD_NAME": self.pod,
            "LODGE_POD_UID": pod.metadata.uid,
            "LODGE_NODE_NAME": self.node.name,
        }
        if self.clock is not None:
            variables |= self.clock.environment()
        listen, command, is_ready = _KINDS[self.component]
        self.process = Program(
            [
                *shared.prefix,
                *(sys.executable, "-m", "lodge", command, "--config", str(shared.installed.config_file)),
                *(() if command == "reap" else ("--metrics-listen", "127.0.0.1:0")),
                *(listen, f"127.0.0.1:{self.port}"),
            ],
            shared.directory / f"{self.name}.{self._pods}.log",
            is_ready=lambda: is_ready(self.port),
            environment=variables,
        )


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


_KINDS: dict[str, tuple[str, str, Callable[[int], bool]]] = {
    "gateway": ("--listen", "serve", _listens),
    "reaper": ("--metrics-listen", "reap", _listens),
}
