"""One Lodge as an operator runs it, with the chart's settings.

By default it has two gateways and two reapers. A site can also be inspected from outside: its records, leases and
storage, with the administrator's permissions.
"""

import time
from collections.abc import Callable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from kubernetes.client import CustomObjectsApi

from tests.chaos import chart
from tests.chaos.replicas import Replica, ReplicaEnvironment
from tests.chaos.stores import FILES, KUBERNETES, S3, InFiles, InS3, OnKubernetes, Store
from tests.chaos.testbed import Testbed
from tests.cluster.processes import ClusterError
from tests.workspace.object_store.servers import BUCKET
from workspace.identifiers import SessionUuid
from workspace.kubernetes.connect_session_objects import API_VERSION, GROUP, PLURAL, object_name
from workspace.kubernetes.connection import Connection, connect
from workspace.record_store import StoredRecord

SLACK_SECONDS = 60.0
"""How long a removal may take beyond lease and grace period: passes of the reaper, its election, and a busy machine."""

POLL_SECONDS = 0.5
"""The pause between two questions about a site. Most of them are a request to the API server."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """The settings that decide when something is dead.

    The default lease is so long that a busy machine does not end it, and so short that a test can wait for its end.

    Attributes:
        lease_seconds: ``lease_duration``.
        grace_seconds: ``grace_period``.
        idle_seconds: ``session_idle_timeout``.
    """

    lease_seconds: float = 6
    grace_seconds: float = 3
    idle_seconds: float = 60

    @property
    def lost_seconds(self) -> float:
        """The configured time from a gateway's death to the end of its sessions."""
        return self.lease_seconds + self.grace_seconds

    def config(self) -> Mapping[str, str]:
        """Return the settings for the chart."""
        return {
            "lease_duration": f"{self.lease_seconds:g}s",
            "grace_period": f"{self.grace_seconds:g}s",
            "session_idle_timeout": f"{self.idle_seconds:g}s",
            "resync_period": "30s",
        }


class Site:
    """A Lodge.

    Args:
        testbed: The testbed that it uses.
        name: The name of its directory in the storage, unique for each site.
        timeouts: Its settings; the defaults are short.
        gateways: The number of gateways.
        reapers: The number of reapers.
        pipes_logs: Whether the processes write their logs through pipes whose readers can stop.
        store: Where the site keeps its records and session locations, one of `STORES`.

    Attributes:
        path: The directory of the temporary workspace, as processes in the storage see it.
        workspace: The same directory, as seen from outside.
        store: Its records, leases and session locations.
    """

    def __init__(
        self,
        testbed: Testbed,
        name: str,
        times: Timeouts | None = None,
        *,
        gateways: int = 2,
        reapers: int = 2,
        pipes_logs: bool = False,
        store: str = KUBERNETES,
    ) -> None:
        self.testbed = testbed
        self._kind = store
        self.times = times or Timeouts()
        self._pipes_logs = pipes_logs
        self._counts = {"gateway": gateways, "reaper": reapers}
        directory = Path("objects", BUCKET, name) if store == S3 else Path(name)
        self.path = testbed.storage.path / directory
        self.workspace = testbed.storage.root / directory
        self.directory = testbed.directory / name
        self.gateways: Sequence[Replica] = ()
        self.reapers: Sequence[Replica] = ()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.directory.mkdir()
        if self._kind != S3:
            self.workspace.mkdir(mode=0o700)
        testbed = self.testbed
        with ExitStack() as stack:
            namespace = testbed.cluster.namespace("chaos")
            stack.callback(testbed.cluster.delete_namespace, namespace)
            instance = chart.INSTANCE
            connection = connect(testbed.cluster.kubeconfig, namespace, instance)
            self.store = self._open_store(connection)
            installed = chart.install(
                testbed.cluster,
                namespace,
                self.directory,
                backend=testbed.backend_address,
                workspace=self.path,
                config=self.times.config(),
                settings=self.store.settings(),
            )
            self._instance, self._namespace = instance, namespace
            self._objects = CustomObjectsApi(testbed.cluster.client)
            environment = ReplicaEnvironment(
                namespace=namespace,
                directory=self.directory,
                prefix=testbed.storage.prefix,
                installed=installed,
                core=testbed.core,
                clock_library=testbed.clock_library,
                variables=self.store.environment(),
                pipes_logs=self._pipes_logs,
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

    def wait_until(self, condition: Callable[[], object], what: str, more_seconds: float = 0.0) -> None:
        """Wait until a condition holds, at most as long as the removal of a lost session may take.

        Args:
            condition: The condition.
            what: A description of the condition, for the error.
            more_seconds: How much longer to wait, because of a fault at the same time.

        Raises:
            ClusterError: The condition did not hold in time. The message contains ``what``.
        """
        deadline = time.monotonic() + self.times.lost_seconds + SLACK_SECONDS + more_seconds
        while not condition():
            if time.monotonic() > deadline:
                raise ClusterError(f"Not in time: {what}")
            time.sleep(POLL_SECONDS)

    def records(self) -> Sequence[StoredRecord]:
        """Return all session records."""
        return self.store.records.list()

    def record_of(self, client_session_id: str) -> StoredRecord | None:
        """Return the record of a client's session, or None."""
        return next((s for s in self.records() if s.record.client_session_id == client_session_id), None)

    def holders(self) -> Mapping[str, Set[str]]:
        """Return the living gateways that serve each session, by client session id."""
        names = {gateway.replica_id(): gateway.name for gateway in self.gateways}
        return {
            stored.record.client_session_id: {names[holder] for holder in stored.record.holders if holder in names}
            for stored in self.records()
        }

    def leases(self) -> int:
        """Return the number of gateways with a lease."""
        return len(self.store.leases.list())

    def delete_object(self, client_session_id: str) -> bool:
        """Delete a session like ``kubectl delete connectsession --wait=false``.

        Returns:
            Whether the session existed.
        """
        stored = self.record_of(client_session_id)
        if stored is None:
            return False
        name = object_name(self._instance, stored.record.name)
        group, version, plural = GROUP, API_VERSION, PLURAL
        self._objects.delete_namespaced_custom_object(group, version, self._namespace, plural, name)
        return True

    def locations(self) -> Set[SessionUuid]:
        """Return all entries of the workspace except Lodge's own directory."""
        return self.store.locations()

    def location(self, session_uuid: SessionUuid) -> Path:
        return self.workspace / session_uuid

    def trash(self) -> Sequence[Path]:
        return self.store.trash()

    def logs(self) -> Mapping[str, str]:
        """Return everything that each replica logged."""
        return {replica.name: replica.log() for replica in self.replicas}

    def _open_store(self, connection: Connection) -> Store:
        if self._kind == FILES:
            return InFiles(self.workspace)
        if self._kind == S3:
            return InS3(self.workspace, connection, self.testbed)
        return OnKubernetes(self.workspace, connection)

    def _replicas(self, kind: str, environment: ReplicaEnvironment, stack: ExitStack) -> Sequence[Replica]:
        nodes = self.testbed.nodes if kind == "gateway" else self.testbed.nodes[::-1]
        made = [Replica(f"{kind}-{n}", nodes[n % len(nodes)], environment) for n in range(self._counts[kind])]
        for replica in made:
            stack.enter_context(replica.proxy)
            stack.callback(replica.close)
        return made
