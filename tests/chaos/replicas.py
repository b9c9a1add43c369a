"""Gateways and reapers as processes, each in the place of a pod on a simulated node.

A pod of the cluster stands for each process: it is on a node, and its name, uid and node are what the process is told
of itself, as the chart does it. If the process is killed and started again, that is a restart of the pod's container;
`Replica.replace` is what a Deployment does when a pod is lost.
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

from tests.chaos.chart import Installed
from tests.chaos.programs import Program
from tests.chaos.wall_clock import WallClock
from tests.cluster.nodes import Node
from tests.cluster.ports import free_port
from tests.cluster.processes import ClusterError, wait_until

_START_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class ReplicaEnvironment:
    """What all replicas of one Lodge have in common.

    Attributes:
        namespace: Of their pods.
        directory: For logs.
        prefix: Words before each command.
        installed: What the chart gives them.
        core: The administrator's.
        clock_library: What gives them wall clocks of their own; None if they have the machine's.
    """

    namespace: str
    directory: Path
    prefix: Sequence[str]
    installed: Installed
    core: CoreV1Api
    clock_library: Path | None


@dataclass(slots=True)
class Replica:
    """One of the gateways or reapers.

    Attributes:
        name: Such as ``gateway-0``.
        node: Where its pod is.
        pod: Its pod's name.
        clock: Its wall clock; None if it has the machine's.
        process: What runs now, or ran last.
        port: What it listens on: a gateway for clients, a reaper for probes.
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
        self._bind()

    @property
    def component(self) -> str:
        return self.name.partition("-")[0]

    def start(self) -> None:
        """Starts it, again and again as the kubelet would if it ends, until it is ready."""

        def started() -> bool:
            if self.process.has_ended():
                self.process.kill()
            if not self.process.is_started():
                with suppress(ClusterError):
                    self.process.start()
            return self.process.is_started() and not self.process.has_ended()

        wait_until(started, f"{self.name} runs; its log ends:\n{self.log()[-4000:]}", _START_SECONDS)

    def replace(self, node: Node) -> None:
        """Gives it a pod on that node in the place of its own, which is deleted, and starts it there."""
        self.process.kill()
        with suppress(ApiException):
            self.environment.core.delete_namespaced_pod(self.pod, self.environment.namespace, grace_period_seconds=0)
        self.node = node
        self._bind()
        self.start()

    def log(self) -> str:
        """All that it ever wrote."""
        logs = sorted(self.environment.directory.glob(f"{self.name}.*.log"))
        return "".join(log.read_text(errors="replace") for log in logs)

    def replica_id(self) -> str:
        """What a gateway that runs calls itself, in leases and records."""
        lines = (line for line in self.log().splitlines() if '"gateway_started"' in line)
        return str(json.loads(list(lines)[-1])["replica"])

    def _bind(self) -> None:
        """Makes its pod, and the process that stands for it."""
        self._pods += 1
        environment = self.environment
        self.pod = f"{environment.installed.instance}-{self.name}-{self._pods}"
        account = environment.installed.accounts[self.component]
        pod = self.node.pod(
            environment.namespace,
            self.pod,
            labels=environment.installed.labels[self.component],
            service_account=account.name,
            unreachable_seconds=3,
        )
        environment = {
            "KUBECONFIG": str(account.kubeconfig),
            "LODGE_POD_NAME": self.pod,
            "LODGE_POD_UID": pod.metadata.uid,
            "LODGE_NODE_NAME": self.node.name,
        }
        if self.clock is not None:
            environment |= self.clock.environment()
        listen, command, is_ready = _KINDS[self.component]
        self.process = Program(
            [
                *environment.prefix,
                *(sys.executable, "-m", "lodge", command, "--config", str(environment.installed.config_file)),
                *(listen, f"127.0.0.1:{self.port}"),
            ],
            environment.directory / f"{self.name}.{self._pods}.log",
            is_ready=lambda: is_ready(self.port),
            environment=environment,
        )


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


_KINDS: dict[str, tuple[str, str, Callable[[int], bool]]] = {
    "gateway": ("--listen", "serve", _listens),
    "reaper": ("--metrics-listen", "reap", _listens),
}
