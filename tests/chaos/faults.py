"""The faults: what breaks, what it may cost, and how it is repaired.

Each fault is a function that runs as long as the fault lasts, and repairs what it broke before it returns. Two faults
that touch the same thing never run at the same time.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from random import Random

from tests.chaos.clients import Client
from tests.chaos.replicas import Replica
from tests.chaos.site import Site
from tests.chaos.storage import Storage
from tests.chaos.stores import FILES, KUBERNETES, S3, STORES
from tests.chaos.testbed import Testbed
from tests.cluster.nodes import Node
from tests.cluster.processes import Process
from tests.watched import gateway_of
from tests.workspace.kubernetes.tcp_proxy import TcpProxy

_WITH_DIRECTORIES = (KUBERNETES, FILES)
"""The stores whose processes open a path for each access. The S3 server keeps its directory open."""

_BREAKS = 3
_BREAK_SECONDS = 2.0
CLOCK_SECONDS = 600


@dataclass(slots=True)
class Harm:
    """The losses that faults permit. Everything else must survive.

    Attributes:
        gateways: Names of gateways that may look dead. Sessions that only they serve may end.
        backend: Whether the backend's sessions are lost.
        sessions: Client session ids of the sessions whose end was requested.
    """

    gateways: set[str] = field(default_factory=set)
    backend: bool = False
    sessions: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Scene:
    """The context of a fault.

    Attributes:
        site: The Lodge to break.
        clients: The clients of the site.
        random: Chooses what the fault leaves open.
        harm: Receives the permitted losses, before the fault starts.
        absence_seconds: How long the API server is absent, and how long the backend hangs.
    """

    site: Site
    clients: Sequence[Client]
    random: Random
    harm: Harm
    absence_seconds: float

    @property
    def testbed(self) -> Testbed:
        return self.site.testbed

    def pause(self) -> None:
        """Sleep longer than the lease, and perhaps longer than lease and grace period."""
        times = self.site.times
        time.sleep(self.random.uniform(times.lease_seconds + 0.5, times.lost_seconds + 2))

    def wait(self, most_seconds: float) -> None:
        """Sleep for a random time."""
        time.sleep(self.random.uniform(0, most_seconds))

    def gateway(self) -> Replica:
        """Return a random gateway, and permit its loss."""
        gateway = self.random.choice(self.site.gateways)
        self.harm.gateways.add(gateway.name)
        return gateway


FaultFunction = Callable[[Scene], None]


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault.

    Attributes:
        name: The name, for people and for `FAULTS`.
        touches: Things that no concurrent fault may touch.
        stores: The stores of the sites that it can break.
        run: Breaks and repairs.
    """

    name: str
    touches: frozenset[str]
    stores: Sequence[str]
    run: FaultFunction


_faults: dict[str, Fault] = {}
FAULTS: Mapping[str, Fault] = _faults


def _fault(*touches: str, stores: Sequence[str] = STORES) -> Callable[[FaultFunction], FaultFunction]:
    if "api" in touches:
        stores = [store for store in stores if store != FILES]

    def register(function: FaultFunction) -> FaultFunction:
        _faults[function.__name__] = Fault(function.__name__, frozenset(touches), stores, function)
        return function

    return register


def faults_of(store: str) -> Mapping[str, Fault]:
    """Return the faults that can break a site with a store, by name."""
    return {name: fault for name, fault in FAULTS.items() if store in fault.stores}


@_fault("gateways")
def gateway_killed(scene: Scene) -> None:
    gateway = scene.gateway()
    gateway.process.kill()
    scene.wait(scene.site.times.lost_seconds + 2)
    gateway.start()


@_fault("gateways")
def gateway_stopped(scene: Scene) -> None:
    """Stop a gateway as Kubernetes does. This permits no loss."""
    gateway = scene.random.choice(scene.site.gateways)
    gateway.stop()
    scene.wait(scene.site.times.lost_seconds)
    gateway.start()


@_fault("gateways")
def gateway_paused(scene: Scene) -> None:
    with _paused(scene.gateway().process):
        scene.pause()


@_fault("gateways")
def gateway_process_killed(scene: Scene) -> None:
    """Kill the process of a gateway, whose watcher replaces it. This permits no loss."""
    _break_gateway_process(scene, _kill_process)


@_fault("gateways")
def gateway_process_stuck(scene: Scene) -> None:
    """Stop the process of a gateway, whose watcher kills and replaces it. This permits no loss."""
    _break_gateway_process(scene, lambda gateway: os.kill(gateway_of(gateway.process.pid), signal.SIGSTOP))


@_fault("gateways")
def gateway_lock_held(scene: Scene) -> None:
    """Let C code in a gateway hold Python's lock, until its watcher replaces the gateway. This permits no loss."""
    _break_gateway_process(scene, Replica.hold_lock)


@_fault("gateways", "reapers")
def logs_unread(scene: Scene) -> None:
    """Stop the readers of all logs. This permits no loss."""
    with ExitStack() as stack:
        for replica in scene.site.replicas:
            if replica.log_pipe is not None:
                stack.enter_context(replica.log_pipe.unread())
        scene.pause()


@_fault("reapers")
def reapers_killed(scene: Scene) -> None:
    """Kill one reaper, or all."""
    killed = scene.random.sample(scene.site.reapers, scene.random.randint(1, len(scene.site.reapers)))
    for reaper in killed:
        reaper.process.kill()
    scene.wait(scene.site.times.lost_seconds)
    for reaper in killed:
        reaper.start()


@_fault("reapers")
def reaper_paused(scene: Scene) -> None:
    with _paused(scene.random.choice(scene.site.reapers).process):
        scene.pause()


@_fault("backend")
def backend_killed(scene: Scene) -> None:
    scene.harm.backend = True
    scene.testbed.backend.process.kill()
    scene.wait(scene.site.times.lease_seconds)
    scene.testbed.backend.process.start()


@_fault("backend")
def backend_paused(scene: Scene) -> None:
    with _paused(scene.testbed.backend.process):
        scene.pause()


@_fault("backend")
def backend_hung(scene: Scene) -> None:
    """Pause the backend for longer than the timeouts of gateways, and of their connections."""
    with _paused(scene.testbed.backend.process):
        time.sleep(scene.absence_seconds)


@_fault("client connections")
def client_connections_broken(scene: Scene) -> None:
    _break_connections(scene, [gateway.proxy for gateway in scene.site.gateways])


@_fault("backend connections")
def backend_connections_broken(scene: Scene) -> None:
    _break_connections(scene, [scene.testbed.backend_proxy])


@_fault("gateways", "api")
def node_failed(scene: Scene) -> None:
    """Fail a node with its gateway. The gateway gets a pod on another node."""
    gateway = scene.gateway()
    node = gateway.node
    with _silent(node):
        gateway.process.kill()
        node.wait_until_lost()
        gateway.replace(scene.random.choice([other for other in scene.testbed.nodes if other is not node]))


@_fault("gateways", "api")
def node_silent(scene: Scene) -> None:
    """Silence a node for Kubernetes. Its processes continue, and later a watcher on it replaces its gateway.

    This permits no loss.
    """
    gateway = scene.random.choice(scene.site.gateways)
    with _silent(gateway.node):
        gateway.node.wait_until_lost()
        time.sleep(scene.site.times.lost_seconds + 1)
        _break_gateway_process(scene, _kill_process, gateway)


@_fault("api")
def api_restarted(scene: Scene) -> None:
    with scene.testbed.cluster.api_server.stopped():
        pass


@_fault("api")
def api_absent(scene: Scene) -> None:
    with scene.testbed.cluster.api_server.stopped():
        time.sleep(scene.absence_seconds)


@_fault("api")
def api_hanging(scene: Scene) -> None:
    """Pause the API server, as if the network lost all packets.

    Connections stay open, and nothing answers.
    """
    with scene.testbed.cluster.api_server.paused():
        scene.pause()


@_fault("api")
def api_without_store(scene: Scene) -> None:
    """Pause etcd: the API server answers with errors."""
    with scene.testbed.cluster.etcd.paused():
        scene.pause()
    scene.testbed.cluster.api_server.wait_until_ready()


@_fault("api")
def api_read_only(scene: Scene) -> None:
    """Let etcd refuse writes, as if its disk quota were used up: the API server only answers reads."""
    with scene.testbed.cluster.read_only():
        time.sleep(scene.absence_seconds)


@_fault("clocks")
def clock_shifted(scene: Scene) -> None:
    """Shift the wall clock of one gateway or reaper, and later shift it back."""
    clock = scene.random.choice(scene.site.replicas).clock
    if clock is not None:
        clock.set(scene.random.choice((-CLOCK_SECONDS, CLOCK_SECONDS)))
        scene.pause()
        clock.set(0)


@_fault("storage")
def disk_full(scene: Scene) -> None:
    _break_storage(scene, Storage.full)


@_fault("storage")
def storage_read_only(scene: Scene) -> None:
    _break_storage(scene, Storage.read_only)


@_fault("storage", stores=_WITH_DIRECTORIES)
def storage_gone(scene: Scene) -> None:
    _break_storage(scene, Storage.gone)


@_fault("storage", stores=_WITH_DIRECTORIES)
def storage_empty(scene: Scene) -> None:
    _break_storage(scene, Storage.empty)


@_fault("storage", stores=_WITH_DIRECTORIES)
def storage_hung(scene: Scene) -> None:
    if scene.testbed.storage.can_hang:
        _break_storage(scene, Storage.hung)


@_fault("storage", stores=(S3,))
def s3_stopped(scene: Scene) -> None:
    """Kill the S3 server, and later start it again."""
    with _s3(scene).stopped():
        scene.pause()


@_fault("storage", stores=(S3,))
def s3_hanging(scene: Scene) -> None:
    """Pause the S3 server. Connections stay open, and nothing answers."""
    with _paused(_s3(scene)):
        scene.pause()


@_fault("sessions", "api")
def record_deleted(scene: Scene) -> None:
    """Delete the record of a session in use, like ``kubectl delete connectsession``."""
    session_id = scene.random.choice(scene.clients).session_id
    scene.harm.sessions.add(session_id)
    scene.site.delete_object(session_id)


def _break_storage(scene: Scene, broken: Callable[[Storage], AbstractContextManager[None]]) -> None:
    with broken(scene.testbed.storage):
        scene.pause()


def _s3(scene: Scene) -> Process:
    assert scene.testbed.s3 is not None
    return scene.testbed.s3.process


def _break_connections(scene: Scene, proxies: Sequence[TcpProxy]) -> None:
    """Delay, drop, half-close or reset all connections, several times."""
    for _ in range(_BREAKS):
        scene.wait(_BREAK_SECONDS)
        for proxy in proxies:
            how = scene.random.choice(("delay", "drop", "half-close", "reset"))
            proxy.is_silent = how == "delay"
            if how == "drop":
                proxy.drop()
            elif how == "half-close":
                proxy.half_close()
        scene.wait(_BREAK_SECONDS)
        for proxy in proxies:
            proxy.reset()
            proxy.is_silent = False


def _kill_process(gateway: Replica) -> None:
    os.kill(gateway_of(gateway.process.pid), signal.SIGKILL)


def _break_gateway_process(scene: Scene, harm: Callable[[Replica], None], chosen: Replica | None = None) -> None:
    """Harm the process of a gateway, by default a random one, and wait until its watcher has replaced it."""
    gateway = chosen or scene.random.choice(scene.site.gateways)
    before = gateway.replica_id()
    harm(gateway)
    what = f"{gateway.name} is replaced by its watcher"
    scene.site.wait_until(lambda: gateway.replica_id() != before, what, scene.absence_seconds)


@contextmanager
def _silent(node: Node) -> Iterator[None]:
    node.fail()
    try:
        yield
    finally:
        node.recover()
        node.wait_until_ready()


@contextmanager
def _paused(process: Process) -> Iterator[None]:
    process.pause()
    try:
        yield
    finally:
        process.resume()
