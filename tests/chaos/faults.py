"""The faults: what breaks, what it may cost, and how it is put right again.

Each is a function that takes as long as the fault lasts; what it broke is whole again when it returns. No other fault
may touch at that time what it touches.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from random import Random

from tests.chaos.clients import Client
from tests.chaos.ground import Ground
from tests.chaos.replicas import Replica
from tests.chaos.site import Site
from tests.chaos.storage import Storage
from tests.cluster.nodes import Node
from tests.cluster.processes import Process

CLOCK_SECONDS = 600


@dataclass(slots=True)
class Harm:
    """What faults may have cost; everything else must have stayed.

    Attributes:
        gateways: The names of those that may seem dead to others: sessions that only they held may have ended.
        backend: Whether the sessions of the backend are gone.
        sessions: The client's ids of the sessions whose end was asked for.
    """

    gateways: set[str] = field(default_factory=set)
    backend: bool = False
    sessions: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Scene:
    """Where a fault happens.

    Attributes:
        site: To whom.
        clients: Who is there.
        random: Chooses what the fault leaves open.
        harm: Is told what the fault may cost, before it happens.
        absence_seconds: How long the API server is away.
    """

    site: Site
    clients: Sequence[Client]
    random: Random
    harm: Harm
    absence_seconds: float

    @property
    def ground(self) -> Ground:
        return self.site.ground

    def pause(self) -> None:
        """Takes longer than the lease, and perhaps than lease and grace period."""
        times = self.site.times
        time.sleep(self.random.uniform(times.lease_seconds + 0.5, times.lost_seconds + 2))

    def wait(self, most_seconds: float) -> None:
        """Takes a moment."""
        time.sleep(self.random.uniform(0, most_seconds))

    def gateway(self) -> Replica:
        """One that is about to be harmed."""
        gateway = self.random.choice(self.site.gateways)
        self.harm.gateways.add(gateway.name)
        return gateway


Happening = Callable[[Scene], None]


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind.

    Attributes:
        name: For people, and to choose it.
        touches: What no other fault may touch meanwhile.
        happens: What it does.
    """

    name: str
    touches: frozenset[str]
    happens: Happening


_faults: dict[str, Fault] = {}
FAULTS: Mapping[str, Fault] = _faults


def _fault(*touches: str) -> Callable[[Happening], Happening]:
    def registered(happens: Happening) -> Happening:
        _faults[happens.__name__] = Fault(happens.__name__, frozenset(touches), happens)
        return happens

    return registered


@_fault("gateways")
def gateway_killed(scene: Scene) -> None:
    gateway = scene.gateway()
    gateway.process.kill()
    scene.wait(scene.site.times.lost_seconds + 2)
    gateway.start()


@_fault("gateways")
def gateway_paused(scene: Scene) -> None:
    with _paused(scene.gateway().process):
        scene.pause()


@_fault("reapers")
def reapers_killed(scene: Scene) -> None:
    """One of them, or all."""
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
    scene.ground.backend.process.kill()
    scene.wait(scene.site.times.lease_seconds)
    scene.ground.backend.process.start()


@_fault("backend")
def backend_paused(scene: Scene) -> None:
    with _paused(scene.ground.backend.process):
        scene.pause()


@_fault("gateways", "api")
def node_failed(scene: Scene) -> None:
    """With the gateway on it; the cluster gives the gateway a pod elsewhere."""
    gateway = scene.gateway()
    node = gateway.node
    with _silent(node):
        gateway.process.kill()
        node.wait_until_lost()
        gateway.replace(scene.random.choice([other for other in scene.ground.nodes if other is not node]))


@_fault("gateways", "api")
def node_silent(scene: Scene) -> None:
    """Only for Kubernetes: what runs on it goes on, and renews its lease."""
    node = scene.random.choice(scene.site.gateways).node
    with _silent(node):
        node.wait_until_lost()
        time.sleep(scene.site.times.lost_seconds + 1)


@_fault("api")
def api_restarted(scene: Scene) -> None:
    with scene.ground.cluster.api_server.stopped():
        pass


@_fault("api")
def api_absent(scene: Scene) -> None:
    with scene.ground.cluster.api_server.stopped():
        time.sleep(scene.absence_seconds)


@_fault("api")
def api_hanging(scene: Scene) -> None:
    """As behind a network that loses everything: connections stay, and nothing answers."""
    with scene.ground.cluster.api_server.paused():
        scene.pause()


@_fault("api")
def api_without_store(scene: Scene) -> None:
    """The API server answers, and fails."""
    with scene.ground.cluster.etcd.paused():
        scene.pause()
    scene.ground.cluster.api_server.wait_until_ready()


@_fault("clocks")
def clock_shifted(scene: Scene) -> None:
    """Of one gateway or reaper: it jumps, and later jumps back."""
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


@_fault("storage")
def storage_gone(scene: Scene) -> None:
    _break_storage(scene, Storage.gone)


@_fault("storage")
def storage_empty(scene: Scene) -> None:
    _break_storage(scene, Storage.empty)


@_fault("sessions", "api")
def record_deleted(scene: Scene) -> None:
    """As by ``kubectl delete connectsession``, of a session in use."""
    session_id = scene.random.choice(scene.clients).session_id
    scene.harm.sessions.add(session_id)
    scene.site.delete_object(session_id)


def _break_storage(scene: Scene, broken: Callable[[Storage], AbstractContextManager[None]]) -> None:
    with broken(scene.ground.storage):
        scene.pause()


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
