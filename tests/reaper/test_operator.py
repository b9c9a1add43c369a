"""The loop and the threads of an operator, in real time; see the guarantees of :mod:`reaper.operator`."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
import structlog

import reaper.operator
from reaper.operator import Operator, Pace
from reaper.reaper import ReaperDependencies
from tests.fixture_types import WaitUntil
from workspace.identifiers import SessionUuid
from workspace.record_changes import mark_ending, update_record
from workspace.records import Phase
from workspace.root_identities import HomeMovedError, RootUnavailableError

ORPHAN = SessionUuid("00000000-0000-4000-8000-000000000001")
OTHER = SessionUuid("00000000-0000-4000-8000-000000000002")
DEADLINE_SECONDS = 60
LONG_SECONDS = 1000.0


def an_operator(world: Any, *, period_seconds: float = 0.05, removals: int = 1, **parts: Any) -> Operator:
    world.reaper = world.new_reaper(monotonic=time.monotonic, storage_period_seconds=period_seconds, **parts)
    pace = Pace(period_seconds, removals)
    return Operator(world.reaper, pace, monotonic=time.monotonic, log=structlog.get_logger())


@contextmanager
def running(operator: Operator) -> Iterator[list[bool]]:
    """Run an operator for the time of the block; the list gets the result of ``run``."""
    results = list[bool]()
    thread = threading.Thread(target=lambda: results.append(operator.run()), daemon=True)
    thread.start()
    try:
        yield results
    finally:
        operator.stop()
        thread.join(DEADLINE_SECONDS)
        assert not thread.is_alive()


def test_guarantee_1_pass_begins_soon_after_a_request(world: Any, wait_until: WaitUntil) -> None:
    operator = an_operator(world, period_seconds=LONG_SECONDS)
    with running(operator) as results:
        wait_until(operator.has_completed_pass, "the first pass")
        stored = world.start_session(phase=Phase.ENDING)
        operator.request_pass()
        wait_until(lambda: not world.records.list(), "the session is ended")
        wait_until(lambda: not world.locations.trash(), "its files are gone")
    assert results == [True]
    assert not world.locations.path(stored.record.session_uuid).exists()


def test_guarantee_1_pass_begins_when_a_lease_may_have_expired(world: Any, wait_until: WaitUntil) -> None:
    operator = an_operator(world, period_seconds=LONG_SECONDS, lease_duration_seconds=0.3, grace_period_seconds=0.3)
    world.start_session("dead")
    with running(operator):
        wait_until(lambda: not world.records.list(), "the session is ended")


def test_planned_pause_longer_than_a_lease_restarts_no_grace_period(world: Any, wait_until: WaitUntil) -> None:
    operator = an_operator(world, lease_duration_seconds=0.3, grace_period_seconds=0.3)
    world.start_session("dead")
    with mock.patch.object(reaper.operator, "_SHORTEST_GAP_SECONDS", 0.4), running(operator):
        wait_until(lambda: not world.records.list(), "the session is ended")


def test_guarantee_1_thousand_requests_cause_few_passes(world: Any, wait_until: WaitUntil) -> None:
    operator = an_operator(world, period_seconds=LONG_SECONDS)
    with mock.patch.object(world.reaper, "make_pass", wraps=world.reaper.make_pass) as deciding, running(operator):
        wait_until(operator.has_completed_pass, "the first pass")
        begun = time.monotonic()
        while time.monotonic() - begun < 1.0:
            operator.request_pass()
        assert deciding.call_count <= 15 * (time.monotonic() - begun)


def test_stop_just_before_a_pass_does_not_wait(world: Any, late_event: Any) -> None:
    operator = an_operator(world, period_seconds=LONG_SECONDS)
    with mock.patch.object(operator, "_wake", late_event), running(operator):
        assert late_event.is_about_to_be_cleared.wait(DEADLINE_SECONDS)


def test_guarantee_2_loop_continues_after_unexpected_error(world: Any, wait_until: WaitUntil) -> None:
    operator = an_operator(world)
    world.start_session(phase=Phase.ENDING)
    deciding = world.reaper.make_pass
    failures = iter([RuntimeError("unexpected")])

    def fail_once(planned_pause_seconds: float) -> Any:
        for failure in failures:
            raise failure
        return deciding(planned_pause_seconds)

    with (
        structlog.testing.capture_logs() as logs,
        mock.patch.object(world.reaper, "make_pass", side_effect=fail_once),
        running(operator),
    ):
        wait_until(lambda: not world.records.list(), "the session is ended")
    assert logs[0]["event"] == "reaper_pass_failed"
    assert logs[0]["exc_info"]


def test_moved_home_ends_the_loop(world: Any) -> None:
    operator = an_operator(world)
    with (
        mock.patch.object(world.locations, "list", side_effect=HomeMovedError("elsewhere")),
        pytest.raises(HomeMovedError),
    ):
        operator.run()


def test_operator_stopped_before_its_run_does_nothing(world: Any) -> None:
    operator = an_operator(world)
    stored = world.start_session(phase=Phase.ENDING)
    operator.stop()
    assert operator.run()
    assert world.is_there(stored)


def test_slow_purge_delays_nothing_else(world: Any, wait_until: WaitUntil) -> None:
    """One thread purges, and the purge of one location ends after all other work."""
    operator = an_operator(world, grace_period_seconds=0.1)
    world.make_location(ORPHAN)
    world.locations.move_to_trash(ORPHAN)
    proceed, purge = threading.Event(), world.locations.purge

    def slow(entry: str, should_stop: Callable[[], bool]) -> bool:
        assert proceed.wait(DEADLINE_SECONDS)
        return bool(purge(entry, should_stop))

    with mock.patch.object(world.locations, "purge", side_effect=slow), running(operator):
        wait_until(lambda: world.reaper.purges.counts() == (0, 1), "the purge has begun")
        stored = world.start_session("alive")
        update_record(world.records, stored.record.name, mark_ending)
        other = world.make_location(OTHER)
        wait_until(lambda: not world.records.list() and not other.exists(), "the others are removed")
        proceed.set()
        wait_until(lambda: not world.locations.trash(), "the trash is empty")


def test_guarantee_3_run_returns_whether_all_work_has_ended(
    world: Any, wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reaper.operator, "HAND_OVER_SECONDS", 0.2)
    proceed = threading.Event()
    released = threading.Event()

    def hang(record: object) -> None:
        released.set()
        proceed.wait(DEADLINE_SECONDS)

    operator = an_operator(world, dependencies=ReaperDependencies(release=hang))
    stored = world.start_session(phase=Phase.ENDING)
    with running(operator) as results:
        assert released.wait(DEADLINE_SECONDS)
    assert results == [False]
    proceed.set()
    wait_until(lambda: world.reaper.ends.counts() == (0, 0), "the current step ends")
    assert world.is_there(stored), "no other step follows"


def test_operator_without_storage_becomes_unfit_to_lead(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    operator = an_operator(world)
    assert operator.is_fit()
    with mock.patch.object(world.locations, "list", side_effect=RootUnavailableError("not mounted")):
        world.reaper.make_pass()
    assert operator.is_fit(), "it stays fit for a while"
    monkeypatch.setattr(reaper.operator, "STUCK_SECONDS", 0.0)
    assert not operator.is_fit()
    world.reaper.make_pass()
    assert operator.is_fit()


def test_operator_with_endless_pass_is_stuck_and_unfit_to_lead(
    world: Any, wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = an_operator(world)
    proceed = threading.Event()
    hanging = mock.patch.object(
        world.locations, "list", side_effect=lambda: proceed.wait(DEADLINE_SECONDS) and frozenset()
    )
    with hanging, running(operator):
        monkeypatch.setattr(reaper.operator, "STUCK_SECONDS", 0.1)
        wait_until(operator.is_stuck, "it is stuck")
        assert not operator.is_fit()
        proceed.set()
        wait_until(lambda: not operator.is_stuck(), "it is no longer stuck")
