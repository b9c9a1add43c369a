"""A reaper whose session records are objects of the Kubernetes API: led by election, and fed by watches."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from typing import Protocol

import structlog

from lodge.settings import ReapSettings
from lodge.stores import Stores
from reaper.cached_records import CachedRecords
from reaper.kubernetes.cluster_state import ClusterState
from reaper.kubernetes.events import EventRecorder
from reaper.kubernetes.leader_election import CONFIRMATION, LeaderElection
from reaper.kubernetes.statuses import Statuses
from reaper.operator import Operator
from reaper.reaper import Reaper, ReaperDependencies
from reaper.reports import Report
from workspace.kubernetes.connection import Connection
from workspace.kubernetes.leases import KubernetesLeases

_FIRST_LIST_SECONDS = 10.0

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class NewOperator(Protocol):
    def __call__(
        self, stores: Stores, dependencies: ReaperDependencies, after_pass: Callable[[Reaper], None]
    ) -> Operator: ...


def operate(
    connection: Connection,
    *,
    stores: Stores,
    settings: ReapSettings,
    dependencies: ReaperDependencies,
    new_operator: NewOperator,
    run: Callable[[Operator], bool],
) -> None:
    """Works until the operator is stopped, then hands over to the next reaper.

    Args:
        connection: To the API server.
        stores: Records, leases and locations.
        settings: How it works.
        surroundings: What is known without Kubernetes.
        new_operator: Makes the operator.
        run: Runs it; returns whether nothing of it goes on in the background.

    Raises: HomeMovedError
    """
    leases = KubernetesLeases(connection)
    election = LeaderElection(connection, settings.lease_duration.total_seconds())
    may_act = election.leads if settings.leader_election else lambda: True
    cluster = ClusterState(connection, leases)
    records = CachedRecords(
        stores.records, resync_seconds=settings.resync_period.total_seconds(), monotonic=time.monotonic, log=_log
    )
    events = EventRecorder(connection, election.identity, election.reference)
    statuses = Statuses(connection, cluster.availability, may_act)

    def report(news: Report) -> None:
        for take in (dependencies.report, events.take, statuses.take):
            take(news)

    def show(reaper: Reaper) -> None:
        if reaper.seen is not None:
            statuses.show(reaper.seen)

    known = replace(
        dependencies,
        read_records=records.read,
        hosts=cluster.hosts,
        confirmation=lambda: election.annotations().get(CONFIRMATION),
        may_act=may_act,
        report=report,
    )
    operator = new_operator(replace(stores, leases=leases), known, show)
    with ExitStack() as stack:
        stack.enter_context(records.watch(operator.request_pass))
        stack.enter_context(
            cluster.watch(
                on_change=operator.request_pass,
                on_leases=operator.reaper.snapshot_reader.observe_leases,
                on_leader=election.check_soon,
            )
        )
        stack.enter_context(events)
        records.wait_until_known(_FIRST_LIST_SECONDS)
        with _leading(election, operator, settings), statuses:
            is_over = run(operator)
        if is_over:
            election.hand_over()


def _leading(election: LeaderElection, operator: Operator, settings: ReapSettings) -> AbstractContextManager[None]:
    if not settings.leader_election:
        return nullcontext()
    return election.running(is_fit=operator.is_fit, on_change=operator.request_pass)
