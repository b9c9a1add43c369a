"""Leadership of two real reaper processes that are stopped, killed or paused, or lose the API server."""

import signal
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import pytest

from reaper.kubernetes import leader_election
from reaper.kubernetes.leader_election import LeaderElection
from tests.fixture_types import WaitUntil
from workspace.identifiers import SessionUuid


def two_reapers(world: Any, wait_until: WaitUntil) -> tuple[Any, Any]:
    """Start two reapers; return the leader, and a standby that has completed a pass."""
    leader = world.start_reaper()
    wait_until(leader.leads, "the first reaper leads")
    standby = world.start_reaper()
    wait_until(lambda: standby.get("/readyz")[0] == 200, "the second reaper has completed a pass")
    assert standby.get("/readyz")[1] == "standing by\n"
    assert not standby.leads()
    return leader, standby


def assert_acts(world: Any, wait_until: WaitUntil) -> None:
    stored = world.start_session()
    wait_until(lambda: world.is_gone(stored), "a reaper acts")


@pytest.mark.slow
def test_stopped_leader_hands_over_at_once(new_world: Callable[..., Any], wait_until: WaitUntil) -> None:
    world = new_world(lease_seconds=3600.0)
    leader, standby = two_reapers(world, wait_until)
    stored = world.start_session()
    wait_until(lambda: world.is_gone(stored), "the leader acts")
    leader.stop()
    wait_until(standby.leads, "the other one leads long before the lease expires")
    assert leader.log()[-1]["event"] == "reaper_stopped"
    assert world.leader_lease().spec.lease_transitions == 1
    assert_acts(world, wait_until)


def test_stop_just_before_the_lease_is_read_does_not_wait(late_event: Any) -> None:
    election = LeaderElection(mock.Mock(), duration_seconds=1000.0)
    with mock.patch.object(election, "_wake", late_event):
        with election.running(is_fit=lambda: False, on_change=lambda: None):
            assert late_event.is_about_to_be_cleared.wait(60)
            stopped_seconds = time.monotonic()
        assert time.monotonic() - stopped_seconds < 100, "it waits for the next attempt"


def test_slow_request_does_not_delay_the_next_renewal() -> None:
    """Otherwise, one slow request would look like an API server that refuses writes."""
    election, now, waits = LeaderElection(mock.Mock(), duration_seconds=60.0), 100.0, list[float]()

    def step(_: object) -> None:
        nonlocal now
        now += 4.0 if not waits else 14.0

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            election._thread.stopping.set()

    with (
        mock.patch.object(election, "_step", step),
        mock.patch.object(election._wake, "wait", wait),
        mock.patch.object(leader_election, "time", mock.Mock(monotonic=lambda: now)),
        election.running(is_fit=lambda: True, on_change=lambda: None),
    ):
        election._thread.join(60.0)
    assert waits == [6.0, 0.0], "a renewal every ten seconds"


@pytest.mark.slow
def test_silent_leader_is_replaced_after_its_lease_and_stops_leading(
    new_world: Callable[..., Any], wait_until: WaitUntil
) -> None:
    world = new_world(lease_seconds=10.0)
    leader, standby = two_reapers(world, wait_until)
    leader.signal(signal.SIGSTOP)
    last = world.leader_lease().spec
    assert last.holder_identity == leader.events("leadership_acquired")[-1]["identity"]
    wait_until(standby.leads, "the other one leads")
    waited = world.leader_lease().spec.acquire_time - last.renew_time
    assert waited.total_seconds() > world.lease_seconds - 0.1, "clocks may differ a little"
    stored = world.start_session()
    wait_until(lambda: world.is_gone(stored), "the other one acts")
    leader.signal(signal.SIGCONT)
    wait_until(lambda: leader.has_logged("leadership_lost"), "the first one has noticed")
    acted = len(leader.events("session_reaped"))
    assert_acts(world, wait_until)
    assert len(leader.events("session_reaped")) == acted
    assert standby.leads()


@pytest.mark.slow
def test_leader_without_api_server_stops_before_another_leads_and_nothing_is_deleted(
    new_own_world: Callable[..., Any], own_cluster: Any, wait_until: WaitUntil
) -> None:
    """First the API server does not answer, then it is down."""
    world = new_own_world(lease_seconds=9.0, grace_seconds=3.0)
    alive = world.start_gateway("alive")
    living = world.start_session("alive")
    reapers = two_reapers(world, wait_until)
    leader, standby = reapers
    with own_cluster.api_server.paused():
        wait_until(lambda: leader.has_logged("leadership_lost"), "the leader has stopped leading")
        assert not standby.leads()
    leader = wait_for_leader(reapers, wait_until)
    assert_acts(world, wait_until)
    lost, held_back = len(leader.events("leadership_lost")), len(leader.events("reaper_held_back"))
    dead = world.start_session("dead")
    orphan = world.make_location(SessionUuid(str(uuid.uuid4())))
    with own_cluster.api_server.stopped():
        stopped = time.monotonic()
        wait_until(lambda: len(leader.events("leadership_lost")) > lost, "the leader has stopped leading")
        wait_until(lambda: len(leader.events("reaper_held_back")) > held_back, "it logs the hold")
        assert leader.get("/readyz")[0] == 503
        assert leader.get("/healthz")[0] == 200
        away = 1.5 * (world.lease_seconds + world.grace_seconds)
        wait_until(lambda: time.monotonic() - stopped > away, "all leases would have expired", 60)
        assert orphan.exists()
        assert world.locations.path(dead.record.session_uuid).exists()
        kinds = [line["kind"] for line in leader.events("reaper_held_back")[held_back:]]
        assert kinds == ["records"], "the hold is logged once"
        resumed = len(leader.events("reaper_resumed"))
    wait_for_leader(reapers, wait_until)
    wait_until(lambda: world.is_gone(dead) and not orphan.exists(), "dead sessions are gone", 60)
    assert world.is_there(living)
    wait_until(lambda: len(leader.events("reaper_resumed")) > resumed, "it logs the end of the hold")
    alive.die()


@pytest.mark.slow
def test_gateway_that_could_not_write_is_not_dead(
    new_own_world: Callable[..., Any], own_cluster: Any, wait_until: WaitUntil
) -> None:
    """etcd refuses writes for longer than lease and grace period. The reaper can write again before the gateway."""
    world = new_own_world(lease_seconds=15.0, grace_seconds=1.0)
    gateway = world.start_gateway("alive")
    living = world.start_session("alive")
    reaper = world.start_reaper()
    wait_until(reaper.leads, "the reaper leads")
    gateway.may_renew.clear()
    with own_cluster.read_only():
        refused = time.monotonic()
        wait_until(lambda: reaper.has_logged("reaper_held_back"), "the reaper notices that it cannot write", 60)
        away = 1.5 * (world.lease_seconds + world.grace_seconds)
        wait_until(lambda: time.monotonic() - refused > away, "the lease would have expired", 60)
    wait_until(lambda: reaper.has_logged("reaper_resumed"), "the reaper can write again", 60)
    passes = reaper.passes()
    wait_until(lambda: reaper.passes() >= passes + 2, "the reaper has completed a pass")
    gateway.may_renew.set()
    assert [line["kind"] for line in reaper.events("reaper_held_back")] == ["writes"]
    stored = world.start_session()
    wait_until(lambda: world.is_gone(stored), "the reaper acts", 60)
    assert world.is_there(living)
    gateway.die()


def wait_for_leader(reapers: Sequence[Any], wait_until: WaitUntil) -> Any:
    """Wait until one of the reapers leads, and return it."""
    wait_until(lambda: any(reaper.leads() for reaper in reapers), "one of them leads again", 60)
    (leader,) = (reaper for reaper in reapers if reaper.leads())
    return leader
