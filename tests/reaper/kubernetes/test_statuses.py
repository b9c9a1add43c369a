"""Status and Events of a failing removal, on a real API server with storage that refuses it."""

import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any
from unittest import mock

import pytest
import structlog
from prometheus_client import CollectorRegistry

from lodge.reap_on_kubernetes import KubernetesReaper
from lodge.settings import ReapSettings
from lodge.stores import Stores
from reaper.kubernetes.statuses import Statuses
from reaper.metrics import Metrics
from reaper.operator import Operator, Pace
from reaper.reaper import Reaper, ReaperDependencies
from reaper.reports import ReportHandler
from tests.fixture_types import WaitUntil
from workspace.files.schema_segments import FileSchemaSegments
from workspace.files.session_locations import FileSessionLocations
from workspace.identifiers import SessionUuid
from workspace.record_changes import mark_ending, update_record
from workspace.records import Phase
from workspace.storage_paths import StoragePath
from workspace.trash_entries import TrashEntry

DEADLINE_SECONDS = 60


class LocationsThatRefuseToMove(FileSessionLocations):
    """Locations that cannot be moved to the trash until the storage is repaired."""

    is_repaired = False

    def move_to_trash(self, session_uuid: SessionUuid) -> Sequence[StoragePath]:
        if not self.is_repaired:
            raise PermissionError(13, "Permission denied")
        return super().move_to_trash(session_uuid)


class LocationsWhoseTrashStays(FileSessionLocations):
    """Locations whose trash cannot be purged until the storage is repaired."""

    is_repaired = False

    def purge(self, entry: TrashEntry, should_stop: Callable[[], bool]) -> bool:
        if not self.is_repaired:
            raise OSError(16, "Device or resource busy")
        return super().purge(entry, should_stop)


@contextmanager
def run_operator(world: Any, locations: FileSessionLocations, *report_handlers: ReportHandler) -> Iterator[None]:
    """Run an operator in this process for the time of the block."""
    settings = ReapSettings.model_validate({"records": "kubernetes", "lease_duration": f"{world.lease_seconds}s"})
    segments = FileSchemaSegments(locations.home)
    stores = Stores(world.records, world.leases, locations, segments, world.connection)
    dependencies = ReaperDependencies(report_handlers=report_handlers)
    kubernetes = KubernetesReaper(world.connection, stores, settings, dependencies)
    log: structlog.typing.FilteringBoundLogger = structlog.get_logger()
    reaper = Reaper(
        records=kubernetes.stores.records,
        leases=kubernetes.stores.leases,
        locations=kubernetes.stores.locations,
        lease_duration_seconds=world.lease_seconds,
        grace_period_seconds=world.grace_seconds,
        storage_period_seconds=0.2,
        monotonic=time.monotonic,
        log=log,
        dependencies=kubernetes.dependencies,
    )
    operator = Operator(reaper, Pace(0.2, 1), monotonic=time.monotonic, log=log)
    thread = threading.Thread(target=kubernetes.run, args=[operator], daemon=True)
    thread.start()
    try:
        yield
    finally:
        operator.stop()
        thread.join(DEADLINE_SECONDS)
        assert not thread.is_alive()


@pytest.mark.parametrize(("leads", "question"), [(False, 1), (True, 2)])
def test_stop_just_before_a_wait_ends_the_thread(leads: bool, question: int) -> None:
    leaving, questions = threading.Thread(target=lambda: statuses.__exit__(), daemon=True), count(1)

    def leads_during_the_stop() -> bool:
        if next(questions) == question:  # the last question before the wait
            leaving.start()
            assert statuses.stopping.wait(DEADLINE_SECONDS)
        return leads

    statuses = Statuses(mock.Mock(), lambda address: None, leads_during_the_stop)
    with mock.patch.object(statuses, "_read_all", return_value={}):
        statuses.__enter__().join(DEADLINE_SECONDS)
    leaving.join(DEADLINE_SECONDS)
    assert not leaving.is_alive()


@pytest.mark.slow
def test_undeletable_location_appears_in_status_and_events(
    new_world: Callable[..., Any], wait_until: WaitUntil
) -> None:
    world = new_world()
    locations = LocationsThatRefuseToMove(world.root, root_ids=world.root_ids)
    gateway = world.start_gateway("alive")
    kept = world.start_session("alive")
    stored = world.start_session()
    update_record(world.records, stored.record.name, mark_ending)
    with run_operator(world, locations):
        wait_until(
            lambda: world.conditions(stored).get("LocationRemoved") == ("False", "RemovalFailed"),
            "the status shows the failure",
        )
        wait_until(
            lambda: re.search("Attempt [3-9]", world.message(stored, "LocationRemoved")),
            "the status counts the attempts",
        )
        assert "Permission denied" in world.message(stored, "LocationRemoved")
        wait_until(lambda: world.notes("RemovalFailed"), "an Event shows it")
        assert world.notes("RemovalFailed")[0][0] == f"lodge-{stored.record.name}"
        assert world.records.read(stored.record.name).record.phase is Phase.ENDING
        locations.is_repaired = True
        wait_until(lambda: world.is_gone(stored), "the session is gone")
    assert world.is_there(kept)
    assert world.leader_lease().spec.holder_identity is None, "the lease was given back"
    gateway.die()


@pytest.mark.slow
def test_unpurgeable_trash_appears_in_events_and_metrics(new_world: Callable[..., Any], wait_until: WaitUntil) -> None:
    world = new_world()
    locations = LocationsWhoseTrashStays(world.root, root_ids=world.root_ids)
    registry = CollectorRegistry()
    stored = world.start_session()
    update_record(world.records, stored.record.name, mark_ending)

    def failures() -> float:
        return registry.get_sample_value("lodge_reaper_failures_total", {"action": "purge_trash"}) or 0.0

    with run_operator(world, locations, Metrics(registry).take):
        wait_until(lambda: world.is_gone(stored), "the record is gone")
        wait_until(lambda: failures() >= 3, "a metric counts the failures")
        wait_until(lambda: len(world.notes("RemovalFailed")) >= 2, "Events show it")
        (entry,) = locations.trash()
        note = f"{entry}: [Errno 16] Device or resource busy"
        assert set(world.notes("RemovalFailed")) == {("lodge-reaper", note)}
        assert stored.record.session_uuid in note
        locations.is_repaired = True
        wait_until(lambda: not locations.trash(), "it is gone")
