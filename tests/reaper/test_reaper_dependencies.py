"""The optional parts of a reaper: hosts, backends, confirmations, reports and leadership.

The guarantees are those of :mod:`reaper.reaper`. A lease lasts ten seconds, and the grace period five; see ``World``.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import structlog

from reaper.mass_expiry import MassExpiryRule
from reaper.reaper import ReaperDependencies
from reaper.reports import ActionFailed, HoldBegan, HoldEnded, MassExpiryConfirmed, Report, SessionReaped
from reaper.snapshot_reader import Hosts
from tests.reaper.passes import run_waiting
from workspace.identifiers import ReplicaId, SessionUuid, TableUuid
from workspace.record_changes import put_table, update_record
from workspace.record_store import RecordsUnavailableError, StoredRecord
from workspace.records import Phase, SessionRecord, TableState
from workspace.root_identities import RootUnavailableError

LEASE_SECONDS, GRACE_SECONDS = 10, 5
ORPHAN = SessionUuid("00000000-0000-4000-8000-000000000001")
DEADLINE_SECONDS = 60


def events_of(logs: Sequence[Any]) -> list[str]:
    return [log["event"] for log in logs]


class OldRecords:
    """Reads records as they were when they were remembered."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.remembered: Sequence[StoredRecord] | None = None

    def remember(self) -> None:
        self.remembered = self.world.records.list()

    def __call__(self) -> Sequence[StoredRecord]:
        return self.world.records.list() if self.remembered is None else self.remembered


def test_guarantee_2_session_missing_in_old_records_keeps_its_location(world: Any) -> None:
    old = OldRecords(world)
    world.reaper = world.new_reaper(dependencies=ReaperDependencies(read_records=old))
    old.remember()
    stored = world.start_session("alive")
    orphan = world.make_location(ORPHAN)
    world.passes(GRACE_SECONDS + 20, "alive")
    assert world.is_there(stored)
    assert not orphan.exists(), "the orphan is removed nevertheless"


def test_guarantee_2_table_missing_in_old_records_keeps_its_directory(world: Any) -> None:
    old = OldRecords(world)
    world.reaper = world.new_reaper(dependencies=ReaperDependencies(read_records=old))
    stored = world.start_session("alive")
    world.passes(1, "alive")
    old.remember()
    new = TableUuid("00000000-0000-4000-8000-0000000000bb")
    table = replace(stored.record.tables[0], name="new", uuid=new, parts=(new,), state=TableState.READY)
    update_record(world.records, stored.record.name, lambda record: put_table(record, table))
    directory = world.locations.path(stored.record.session_uuid) / new
    directory.mkdir()
    world.passes(GRACE_SECONDS + 20, "alive")
    assert directory.exists()


@pytest.mark.parametrize(("orphans", "lists", "questions"), [(1, 0, 1), (40, 1, 0)])
def test_record_storage_is_read_only_to_confirm_orphans(world: Any, orphans: int, lists: int, questions: int) -> None:
    """Few records are read one by one, many by one list."""
    for number in range(orphans):
        world.make_location(SessionUuid(f"00000000-0000-4000-8000-{number:012}"))
    world.reaper = world.new_reaper(dependencies=ReaperDependencies(read_records=lambda: ()))
    with (
        mock.patch.object(world.records, "list", return_value=()) as listing,
        mock.patch.object(world.records, "find", return_value=None) as finding,
    ):
        world.passes(GRACE_SECONDS)
        assert not listing.called
        assert not finding.called
        world.passes(2)
        assert (listing.call_count, finding.call_count) == (lists, questions)
    assert not world.locations.list()


def test_standby_reads_snapshots_and_acts_at_once_when_it_may(world: Any) -> None:
    may_act = [False]
    world.reaper = world.new_reaper(dependencies=ReaperDependencies(may_act=lambda: may_act[0]))
    stored = world.start_session("dead")
    orphan = world.make_location(ORPHAN)
    with structlog.testing.capture_logs() as logs:
        world.passes(100)
    assert not logs
    assert world.is_there(stored)
    may_act[0] = True
    world.passes(1)
    assert not world.is_there(stored)
    assert not orphan.exists()


def test_session_is_released_at_backend_before_its_location_is_removed(world: Any) -> None:
    seen = list[tuple[Phase, bool]]()

    def release(record: SessionRecord) -> None:
        seen.append((world.records.read(record.name).record.phase, world.locations.path(record.session_uuid).exists()))

    world.reaper = world.new_reaper(dependencies=ReaperDependencies(release=release))
    stored = world.start_session("dead")
    world.passes(LEASE_SECONDS + GRACE_SECONDS + 3)
    assert seen == [(Phase.ENDING, True)]
    assert not world.is_there(stored)


def test_stop_during_a_session_end_leaves_the_rest_to_the_next_reaper(world: Any) -> None:
    world.reaper = world.new_reaper(dependencies=ReaperDependencies(release=lambda record: world.reaper.stop()))
    stored = world.start_session("dead")
    world.passes(LEASE_SECONDS + GRACE_SECONDS + 3)
    assert world.records.read(stored.record.name).record.phase is Phase.ENDING
    assert world.is_there(stored)
    world.reaper = world.new_reaper()
    world.passes(GRACE_SECONDS + 2)
    assert not world.is_there(stored)


def test_hosts_find_dead_replicas_before_the_lease_expires(world: Any) -> None:
    hosts = [Hosts()]
    world.reaper = world.new_reaper(dependencies=ReaperDependencies(hosts=lambda: hosts[0]))
    ended, doubted = world.start_session("ended"), world.start_session("doubted")
    world.passes(1, "ended", "doubted")
    hosts[0] = Hosts(ended=frozenset({ReplicaId("ended")}), doubted=frozenset({ReplicaId("doubted")}))
    world.passes(GRACE_SECONDS)
    assert world.is_there(ended)
    world.passes(1)
    assert not world.is_there(ended)
    assert world.is_there(doubted)
    world.passes(LEASE_SECONDS - 2)
    assert world.is_there(doubted), "another gateway can still adopt the session"
    world.passes(1)
    assert not world.is_there(doubted)


class RequestedEnds:
    """Reads records and marks the deletion of some as requested."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.names = set[str]()

    def __call__(self) -> Sequence[StoredRecord]:
        found = self.world.records.list()
        return [replace(one, is_deletion_requested=one.record.name in self.names) for one in found]


def test_requested_deletion_is_the_reason_of_the_end(world: Any) -> None:
    requests = RequestedEnds(world)
    world.reaper = world.new_reaper(dependencies=ReaperDependencies(read_records=requests))
    unheld, held = world.start_session(), world.start_session("alive")
    requests.names |= {unheld.record.name, held.record.name}
    with structlog.testing.capture_logs() as logs:
        world.passes(1, "alive")
        assert not world.is_there(unheld)
        assert world.is_there(held)
        world.passes(GRACE_SECONDS, "alive")
    assert not world.is_there(held)
    assert {log["reason"] for log in logs if log["event"] == "session_reaped"} == {"deletion_requested"}


def test_guarantee_4_mass_expiry_is_logged_once_and_waits_for_its_token(world: Any) -> None:
    confirmation, reports = list[str](), list[Report]()
    world.reaper = world.new_reaper(
        dependencies=ReaperDependencies(
            mass_expiry=MassExpiryRule(share=0.5, minimum_sessions=3, grace_period_seconds=GRACE_SECONDS),
            confirmation=lambda: confirmation[0] if confirmation else None,
            report_handlers=(reports.append,),
        )
    )
    sessions = [world.start_session("dead") for _ in range(3)]
    with structlog.testing.capture_logs() as logs:
        world.passes(200)
    assert all(map(world.is_there, sessions))
    assert events_of(logs) == ["reaper_held_back"]
    assert (logs[0]["kind"], logs[0]["sessions"], logs[0]["of_sessions"]) == ("mass_expiry", 3, 3)
    assert world.reaper.holds.reasons["mass_expiry"] == logs[0]["reason"]
    assert [report.kind for report in reports if isinstance(report, HoldBegan)] == ["mass_expiry"]
    confirmation.append("wrong")
    world.passes(1)
    assert all(map(world.is_there, sessions))
    assert not any(isinstance(report, MassExpiryConfirmed) for report in reports)
    confirmation[0] = token = logs[0]["confirm_with"]
    with structlog.testing.capture_logs() as logs:
        world.passes(5)
    assert not any(map(world.is_there, sessions))
    assert events_of(logs).count("mass_expiry_confirmed") == 1
    assert [report for report in reports if isinstance(report, MassExpiryConfirmed)] == [MassExpiryConfirmed(token, 3)]
    assert [report.kind for report in reports if isinstance(report, HoldEnded)] == ["mass_expiry"]


def test_mass_expiry_ends_after_a_hold_when_no_session_is_held(world: Any) -> None:
    rule = MassExpiryRule(share=0.5, minimum_sessions=2, grace_period_seconds=GRACE_SECONDS)
    world.reaper = world.new_reaper(dependencies=ReaperDependencies(mass_expiry=rule))
    sessions = [world.start_session("a") for _ in range(2)]
    world.passes(LEASE_SECONDS + 2)
    assert "mass_expiry" in world.reaper.holds.reasons
    with mock.patch.object(world.records, "list", side_effect=RecordsUnavailableError(None, "down")):
        world.passes(1)
    world.passes(1, "a")
    assert not world.reaper.holds.reasons
    assert all(map(world.is_there, sessions))


def test_mass_expiry_ends_on_standby_too(world: Any) -> None:
    leads = [True]
    rule = MassExpiryRule(share=0.5, minimum_sessions=2, grace_period_seconds=GRACE_SECONDS)
    world.reaper = world.new_reaper(dependencies=ReaperDependencies(mass_expiry=rule, may_act=lambda: leads[0]))
    for _ in range(2):
        world.start_session("a")
    world.passes(LEASE_SECONDS + 2)
    assert "mass_expiry" in world.reaper.holds.reasons
    leads[0] = False
    world.passes(GRACE_SECONDS + 1, "a")
    assert not world.reaper.holds.reasons


def test_mass_expiry_that_grew_under_another_leader_is_logged_with_its_new_token(world: Any) -> None:
    leads = [True]
    rule = MassExpiryRule(share=0.5, minimum_sessions=2, grace_period_seconds=GRACE_SECONDS)
    world.reaper = world.new_reaper(dependencies=ReaperDependencies(mass_expiry=rule, may_act=lambda: leads[0]))
    for _ in range(2):
        world.start_session("a")
    with structlog.testing.capture_logs() as logs:
        world.passes(LEASE_SECONDS + 2)
        leads[0] = False
        world.start_session()
        world.passes(1)
        leads[0] = True
        world.passes(1)
    tokens = [log["confirm_with"] for log in logs if log["event"] == "reaper_held_back"]
    assert len(tokens) == len(set(tokens)) == 2
    assert tokens[1] in world.reaper.holds.reasons["mass_expiry"]


def test_guarantee_4_waiting_ends_are_held_too(world: Any) -> None:
    world.reaper = world.new_reaper(
        dependencies=ReaperDependencies(mass_expiry=MassExpiryRule(share=0.5, minimum_sessions=2))
    )
    first = [world.start_session("first") for _ in range(2)]
    others = [world.start_session("second") for _ in range(2)]
    world.reaper.make_pass()
    for _ in range(LEASE_SECONDS + GRACE_SECONDS):
        world.now_seconds += 1
        world.leases.renew(ReplicaId("second"))
        world.reaper.make_pass()
    assert world.reaper.ends.counts()[0] >= 2, "the first two wait for their end"
    world.now_seconds += LEASE_SECONDS
    world.reaper.make_pass()
    run_waiting(world.reaper.ends)
    assert all(map(world.is_there, [*first, *others]))


def test_hold_is_logged_when_it_begins_and_when_it_ends(world: Any) -> None:
    error = RootUnavailableError("The root is another file system.")
    with structlog.testing.capture_logs() as logs:
        with mock.patch.object(world.locations, "list", side_effect=error):
            world.passes(10)
            assert world.reaper.holds.reasons == {"root": "The root is another file system."}
        with mock.patch.object(world.locations, "trash", side_effect=PermissionError(13, "Permission denied")):
            world.passes(10)
            assert world.reaper.holds.reasons.keys() == {"root", "storage"}
        world.passes(10)
    assert not world.reaper.holds.reasons
    assert events_of(logs) == ["reaper_held_back", "reaper_held_back", "reaper_resumed", "reaper_resumed"]


def test_failing_removal_is_retried_with_growing_delay_and_reported(world: Any) -> None:
    reports = list[Report]()
    world.reaper = world.new_reaper(dependencies=ReaperDependencies(report_handlers=(reports.append,)))
    stored = world.start_session("dead")
    with mock.patch.object(world.locations, "move_to_trash", side_effect=PermissionError(13, "Permission denied")):
        world.passes(LEASE_SECONDS + GRACE_SECONDS + 200)
    failures = [report for report in reports if isinstance(report, ActionFailed)]
    assert 8 <= len(failures) <= 12
    assert {failure.action for failure in failures} == {"end_session"}
    assert failures[0].stored is not None
    assert failures[0].stored.record.session_uuid == stored.record.session_uuid
    assert world.reaper.ends.failures()[stored.record.session_uuid].attempts == len(failures)
    world.passes(60)
    assert not world.is_there(stored)
    assert any(isinstance(report, SessionReaped) for report in reports)


def test_locations_are_listed_once_per_storage_period(world: Any) -> None:
    world.reaper = world.new_reaper(storage_period_seconds=10.0)
    stored = world.start_session(phase=Phase.ENDING)
    with mock.patch.object(world.locations, "list", wraps=world.locations.list) as listing:
        world.passes(25)
    assert listing.call_count == 3
    assert not world.is_there(stored), "each pass reads the records"


def test_work_done_since_the_listing_is_not_repeated(world: Any) -> None:
    world.reaper = world.new_reaper(storage_period_seconds=10.0)
    world.make_location(ORPHAN)
    with mock.patch.object(world.locations, "move_to_trash", wraps=world.locations.move_to_trash) as moving:
        summaries = world.passes(60)
    assert [session for summary in summaries for session in summary.orphans] == [ORPHAN]
    assert moving.call_count == 1
    assert sum(summary.purged for summary in summaries) == 1


@pytest.fixture
def purging(world: Any) -> Callable[..., Any]:
    """Return a purge that waits until it must stop or the test lets it continue."""
    proceed = threading.Event()

    def purge(entry: str, should_stop: Callable[[], bool]) -> bool:
        while not (stops := should_stop()) and not proceed.wait(0.01):
            pass
        return not stops

    purge.proceed = proceed  # type: ignore[attr-defined]
    return purge


def test_purge_stops_with_the_reaper(world: Any, purging: Callable[..., Any], tmp_path: Path) -> None:
    world.make_location(ORPHAN)
    world.locations.move_to_trash(ORPHAN)
    with mock.patch.object(world.locations, "purge", side_effect=purging):
        world.reaper.make_pass()
        thread = threading.Thread(target=run_waiting, args=[world.reaper.purges])
        thread.start()
        world.reaper.stop()
        thread.join(DEADLINE_SECONDS)
    assert not thread.is_alive()
    assert world.locations.trash()
    assert not world.reaper.purges.failures(), "an interrupted purge is no failure"
