"""The parts of a reaper that need Kubernetes.

These parts are the leader election, the watches, the Kubernetes Events and the status conditions.
"""

import time
from contextlib import ExitStack
from dataclasses import replace

import structlog

from lodge.settings import ReapSettings
from lodge.stores import Stores
from reaper.cached_records import CachedRecords
from reaper.kubernetes.cluster_state import ClusterState
from reaper.kubernetes.events import EventRecorder
from reaper.kubernetes.holder_labels import HolderLabels
from reaper.kubernetes.leader_election import CONFIRMATION, LeaderElection
from reaper.kubernetes.statuses import Statuses
from reaper.operator import Operator
from reaper.reaper import ReaperDependencies
from workspace.kubernetes.connection import Connection
from workspace.kubernetes.leases import KubernetesLeases

_FIRST_LIST_SECONDS = 10.0

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class KubernetesReaper:
    """The Kubernetes parts of one reaper. An instance can be run once.

    Args:
        connection: The connection to the API server.
        stores: The storage of records, leases and session locations.
        settings: The settings of the reaper.
        dependencies: The dependencies of the reaper that do not need Kubernetes.

    Attributes:
        stores: The storage that the reaper must use. It reads leases without a pod identity.
        dependencies: The given dependencies with the Kubernetes parts added.
    """

    def __init__(
        self, connection: Connection, stores: Stores, settings: ReapSettings, dependencies: ReaperDependencies
    ) -> None:
        leases = KubernetesLeases(connection)
        self._is_elected = settings.leader_election
        self._election = LeaderElection(connection, settings.lease_duration.total_seconds())
        self._cluster = ClusterState(connection, leases)
        self._records = CachedRecords(
            stores.records, resync_seconds=settings.resync_period.total_seconds(), monotonic=time.monotonic, log=_log
        )
        self._events = EventRecorder(connection, self._election.identity, self._election.reference)
        may_act = self._election.leads if self._is_elected else lambda: True
        self._statuses = Statuses(connection, self._cluster.availability, may_act)
        self._labels = HolderLabels(connection, may_act)
        self.stores = replace(stores, leases=leases)
        self.dependencies = replace(
            dependencies,
            read_records=self._records.read,
            hosts=self._cluster.hosts,
            confirmation=lambda: self._election.annotations().get(CONFIRMATION),
            may_act=may_act,
            check_writable=self._election.check_writable,
            report_handlers=(*dependencies.report_handlers, self._events.take, self._statuses.take),
        )

    def run(self, operator: Operator) -> None:
        """Run an operator until it is stopped, and then hand over to the next leader.

        Raises:
            HomeMovedError: If the home of the workspace has moved to another directory.
        """
        with ExitStack() as stack:
            stack.enter_context(self._records.watch(operator.request_pass))
            stack.enter_context(
                self._cluster.watch(
                    on_change=operator.request_pass,
                    on_leases=operator.reaper.snapshot_reader.observe_leases,
                    on_leader=self._election.check_soon,
                )
            )
            stack.enter_context(self._events)
            self._records.wait_for_first_list(_FIRST_LIST_SECONDS)
            with ExitStack() as acting:
                # Without an election, the Lease still shows whether writes are possible.
                candidacy = self._election.running(is_fit=operator.is_fit, on_change=operator.request_pass)
                acting.enter_context(candidacy)
                acting.enter_context(self._statuses)
                acting.enter_context(self._labels)
                is_over = operator.run()
            if is_over:
                self._election.hand_over()
