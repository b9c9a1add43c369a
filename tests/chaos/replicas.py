"""Gateways and reapers as processes, each in place of a pod on a simulated node.

Each process has a pod in the cluster, which gives it its name, uid and node, as the chart does. Killing and
restarting the process is a restart of the pod's container. `Replica.replace` does what a Deployment does when a pod
is lost.

Clients reach a gateway through a TCP proxy, whose connections a fault can break. As a Service, the proxy makes no new
connections to a gateway that stops.
"""

import json
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from kubernetes.client import CoreV1Api
from kubernetes.client.exceptions import ApiException

from tests.chaos.chart import InstalledChart
from tests.chaos.log_pipe import LogPipe
from tests.chaos.programs import Program
from tests.chaos.wall_clock import WallClock
from tests.cluster.nodes import Node
from tests.cluster.ports import free_port
from tests.cluster.processes import ClusterError, wait_until
from tests.held_lock import HOLDS_THE_LOCK
from tests.workspace.kubernetes.tcp_proxy import TcpProxy

_START_SECONDS = 120.0
STOP_SECONDS = 60.0
"""How long a pod may take to stop. Then, a kubelet kills it."""


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
        variables: Further environment variables.
        pipes_logs: Whether each process writes to a `LogPipe`.
    """

    namespace: str
    directory: Path
    prefix: Sequence[str]
    installed: InstalledChart
    core: CoreV1Api
    clock_library: Path | None
    variables: Mapping[str, str]
    pipes_logs: bool = False


@dataclass(slots=True)
class Replica:
    """A gateway or a reaper.

    Attributes:
        name: The name, such as ``gateway-0``.
        node: The node of its pod.
        pod: The name of its pod.
        clock: Its wall clock; None to use the machine's clock.
        process: The current or last process.
        port: The port of a gateway.
        probe_port: The port for probes.
        is_endpoint: Whether a Service would send new connections to it.
        proxy: A TCP proxy between the clients and a gateway.
        log_pipe: The pipe between the current process and its log; None without pipes.
    """

    name: str
    node: Node
    environment: ReplicaEnvironment = field(repr=False)
    pod: str = ""
    clock: WallClock | None = None
    process: Program = field(init=False, repr=False)
    port: int = field(default_factory=free_port)
    probe_port: int = field(default_factory=free_port)
    is_endpoint: bool = False
    proxy: TcpProxy = field(init=False, repr=False)
    log_pipe: LogPipe | None = field(default=None, repr=False)
    _pods: int = 0
    _order: Path = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if (library := self.environment.clock_library) is not None:
            self.clock = WallClock(library, self.environment.directory / f"{self.name}.clock")
        self._order = self.environment.directory / f"{self.name}.hold-the-lock"
        self.proxy = TcpProxy(lambda: self.port if self.is_endpoint else None)
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
        self.is_endpoint = True

    def stop(self) -> None:
        """Stop the process as a kubelet does, after new connections go elsewhere.

        Raises:
            ClusterError: If it does not end in time, or reports a failure.
        """
        self.is_endpoint = False
        status = self.process.stop(STOP_SECONDS)
        if status != 0:
            how = f"within {STOP_SECONDS:g} s" if status is None else f"with status {status}"
            raise ClusterError(f"{self.name} did not stop {how}; its log ends:\n{self.log()[-4000:]}")

    def hold_lock(self) -> None:
        """Let C code in a gateway's process hold Python's lock for ever."""
        self._order.touch()

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        if self.log_pipe is not None:
            self.log_pipe.close()

    def replace(self, node: Node) -> None:
        """Delete the pod, create one on another node, and start the process there."""
        self.close()
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
            **shared.variables,
        }
        if self.clock is not None:
            variables |= self.clock.environment()
        log = shared.directory / f"{self.name}.{self._pods}.log"
        self.log_pipe = LogPipe(log) if shared.pipes_logs else None
        program, command = ("-m", "lodge"), "reap"
        if self.component == "gateway":
            program, command = ("-c", HOLDS_THE_LOCK, str(self._order)), "serve"
        self.process = Program(
            [
                *shared.prefix,
                *(sys.executable, *program, command, "--config", str(shared.installed.config_file)),
                *(("--listen", f"127.0.0.1:{self.port}") if command == "serve" else ()),
                *("--metrics-listen", f"127.0.0.1:{self.probe_port}"),
            ],
            log,
            is_ready=self._listens,
            environment=variables,
            output=None if self.log_pipe is None else self.log_pipe.path,
        )

    def _listens(self) -> bool:
        port = self.port if self.component == "gateway" else self.probe_port
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
        return False
