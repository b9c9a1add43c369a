"""One Lodge as an operator would have it: the chart's rights and settings, two gateways, two reapers.

It is seen from outside as well: what is in its records, its leases and on its storage, by the administrator's eyes.
"""

from collections.abc import Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from kubernetes.client import CustomObjectsApi

from tests.chaos import chart
from tests.chaos.ground import Ground
from tests.chaos.replicas import Replica, ReplicaEnvironment
from workspace.files.layout import Layout
from workspace.kubernetes.connect_session_objects import API_VERSION, GROUP, PLURAL, object_name
from workspace.kubernetes.connection import connect
from workspace.kubernetes.leases import KubernetesLeases
from workspace.kubernetes.session_records import KubernetesSessionRecords
from workspace.records import SessionUuid, StoredRecord


@dataclass(frozen=True, slots=True)
class Times:
    """The settings by which something is dead.

    Attributes:
        lease_seconds: ``lease_duration``.
        grace_seconds: ``grace_period``.
        idle_seconds: ``session_idle_timeout``.
    """

    lease_seconds: float = 2
    grace_seconds: float = 2
    idle_seconds: float = 60

    @property
    def lost_seconds(self) -> float:
        """From the death of a gateway to the end of the sessions that it alone had, as configured."""
        return self.lease_seconds + self.grace_seconds

    def config(self) -> Mapping[str, str]:
        """For the chart."""
        return {
            "lease_duration": f"{self.lease_seconds:g}s",
            "grace_period": f"{self.grace_seconds:g}s",
            "session_idle_timeout": f"{self.idle_seconds:g}s",
            "resync_period": "30s",
        }


class Site:
    """A Lodge for ``with``.

    Args:
        ground: What it stands on.
        name: Its directory in the storage; another one for each site.
        gateways: How many.
        reapers: How many.

    Attributes:
        path: Its temporary workspace, as its processes see it.
        workspace: The same, as seen from outside.
    """

    def __init__(
        self, ground: Ground, name: str, times: Times | None = None, *, gateways: int = 2, reapers: int = 2
    ) -> None:
        self.ground = ground
        self.times = times or Times()
        self._counts = {"gateway": gateways, "reaper": reapers}
        self.path = ground.storage.path / name
        self.workspace = ground.storage.root / name
        self.directory = ground.directory / name
        self.gateways: Sequence[Replica] = ()
        self.reapers: Sequence[Replica] = ()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.directory.mkdir()
        self.workspace.mkdir(mode=0o700)
        ground = self.ground
        with ExitStack() as stack:
            namespace = ground.cluster.namespace("chaos")
            stack.callback(ground.cluster.delete_namespace, namespace)
            installed = chart.install(
                ground.cluster,
                namespace,
                self.directory,
                backend=ground.backend.address,
                workspace=self.path,
                config=self.times.config(),
            )
            connection = connect(ground.cluster.kubeconfig, namespace, installed.instance)
            self._instance, self._namespace = installed.instance, namespace
            self._records, self._leases = KubernetesSessionRecords(connection), KubernetesLeases(connection)
            self._objects = CustomObjectsApi(ground.cluster.client)
            environment = ReplicaEnvironment(
                namespace=namespace,
                directory=self.directory,
                prefix=ground.storage.prefix,
                installed=installed,
                core=ground.core,
                clock_library=ground.clock_library,
            )
            self.gateways, self.reapers = (self._replicas(kind, environment, stack) for kind in ("gateway", "reaper"))
            with ThreadPoolExecutor() as threads:
                list(threads.map(Replica.start, self.replicas))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def replicas(self) -> Sequence[Replica]:
        return [*self.gateways, *self.reapers]

    def records(self) -> Sequence[StoredRecord]:
        """All session records. Raises: RecordsUnavailableError"""
        return self._records.list()

    def record_of(self, client_session_id: str) -> StoredRecord | None:
        """The record of a client's session. Raises: RecordsUnavailableError"""
        return next((s for s in self.records() if s.record.client_session_id == client_session_id), None)

    def holders(self) -> Mapping[str, Set[str]]:
        """The names of the gateways that hold each session, by the client's session id; dead ones are none."""
        names = {gateway.replica_id(): gateway.name for gateway in self.gateways}
        return {
            stored.record.client_session_id: {names[holder] for holder in stored.record.holders if holder in names}
            for stored in self.records()
        }

    def leases(self) -> int:
        """How many gateways have one."""
        return len(self._leases.list())

    def delete_object(self, client_session_id: str) -> bool:
        """``kubectl delete connectsession``, without waiting. Returns: False if there is none."""
        stored = self.record_of(client_session_id)
        if stored is None:
            return False
        name = object_name(self._instance, stored.record.name)
        group, version, plural = GROUP, API_VERSION, PLURAL
        self._objects.delete_namespaced_custom_object(group, version, self._namespace, plural, name)
        return True

    def locations(self) -> Set[SessionUuid]:
        """What is in the workspace beside Lodge's own directory."""
        return {SessionUuid(path.name) for path in self.workspace.iterdir()} - {".lodge"}

    def location(self, session_uuid: SessionUuid) -> Path:
        return self.workspace / session_uuid

    def trash(self) -> Sequence[Path]:
        return list(Layout.below(self.workspace).trash.iterdir())

    def logs(self) -> Mapping[str, str]:
        """What each replica ever wrote."""
        return {replica.name: replica.log() for replica in self.replicas}

    def _replicas(self, kind: str, environment: ReplicaEnvironment, stack: ExitStack) -> Sequence[Replica]:
        nodes = self.ground.nodes if kind == "gateway" else self.ground.nodes[::-1]
        made = [Replica(f"{kind}-{n}", nodes[n % len(nodes)], environment) for n in range(self._counts[kind])]
        for replica in made:
            stack.callback(lambda replica=replica: replica.process.kill())
        return made
