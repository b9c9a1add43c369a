"""The end of idle sessions (gateway.sessions.idle_sessions).

Numbers in names are the guarantees of :mod:`gateway.sessions.registry`.
"""

import asyncio
import threading

import pytest

from gateway.errors import GatewayError
from gateway.sessions.session import Session
from tests.gateway.sessions.faulty_replica import (
    DEADLINE_SECONDS,
    OWN,
    Replica,
    let_tasks_run,
    may_act,
    new_key,
    renew_until,
)
from workspace.identifiers import ReplicaId
from workspace.record_changes import add_holder, update_record


async def open_idle_session(replica: Replica) -> Session:
    """Open a session that has reached an idle timeout of an hour."""
    session = await replica.sessions.open(new_key())
    session.last_active_seconds -= 3600.0
    return session


async def test_guarantee_6_opening_waits_until_the_session_is_left(replica: Replica) -> None:
    session = await replica.sessions.open(new_key())
    replica.records.gate = threading.Event()
    leaving = asyncio.create_task(replica.sessions.idle.end())
    while replica.sessions.find(session.key) is not None:  # noqa: ASYNC110 - another task stops serving it
        await asyncio.sleep(0.01)
    opening = asyncio.create_task(replica.sessions.open(session.key))
    await let_tasks_run()  # the opening has started, and must wait
    replica.records.gate.set()
    await leaving
    opened = await opening
    [stored] = replica.records.list()
    assert (stored.record.session_uuid, stored.record.holders) == (opened.uuid, {OWN})


@pytest.mark.parametrize("replica", [3600.0], indirect=True)
async def test_sessions_of_unreachable_backend_end_after_second_idle_timeout(replica: Replica) -> None:
    sessions = [await replica.sessions.open(new_key()) for _ in range(40)]
    replica.backend.is_unreachable = True
    for session in sessions:
        session.last_active_seconds -= 3600.0
    await replica.sessions.idle.end()
    assert len(replica.sessions.all()) == 40, "they may have running operations"
    assert replica.backend.calls.count("GetStatus") < 40, "one check shows that the backend does not respond"
    for session in sessions:
        session.last_active_seconds -= 3600.0
    await replica.sessions.idle.end()
    assert not replica.sessions.all()
    assert not replica.records.list()


async def test_end_of_idle_sessions_does_not_wait_for_a_slow_backend(
    replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.sessions.idle_sessions._PASS_SECONDS", 0.1)
    await replica.sessions.open(new_key())
    replica.backend.may_answer.clear()
    for _ in range(2):
        async with asyncio.timeout(5):
            await replica.sessions.idle.end()
    assert replica.backend.calls == ["GetStatus"], "the first check continues"
    replica.backend.may_answer.set()
    async with asyncio.timeout(DEADLINE_SECONDS):
        while replica.records.list():  # noqa: ASYNC110 - the check ends the session in the background
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("replica", [3600.0], indirect=True)
async def test_guarantee_2_idle_session_whose_end_failed_is_idle_again_before_it_ends(replica: Replica) -> None:
    session = await open_idle_session(replica)
    replica.records.is_unavailable = True
    await replica.sessions.idle.end()
    replica.records.is_unavailable = False
    await renew_until(replica, lambda: replica.sessions.find(session.key) is session, "the session is served again")
    await renew_until(replica, lambda: may_act(replica, session), "the session is joined again")
    await replica.sessions.idle.end()
    assert replica.sessions.find(session.key) is session, "no replica could serve a request of its client"
    session.last_active_seconds -= 3600.0
    await replica.sessions.idle.end()
    assert not replica.sessions.all()
    assert not replica.records.list()


@pytest.mark.parametrize("replica", [3600.0], indirect=True)
async def test_guarantee_2_idle_session_whose_end_has_no_answer_is_not_served_again(replica: Replica) -> None:
    session = await open_idle_session(replica)
    replica.records.loses_answers = True
    await replica.sessions.idle.end()
    replica.records.loses_answers = False
    with pytest.raises(GatewayError, match="SESSION_CLOSED"):
        await replica.sessions.open(session.key)
    await renew_until(replica, lambda: not replica.records.list(), "the end is completed")
    assert not replica.sessions.all()


@pytest.mark.parametrize("replica", [3600.0], indirect=True)
async def test_guarantee_2_idle_session_whose_end_failed_is_left_to_a_replica_that_serves_it(replica: Replica) -> None:
    session = await open_idle_session(replica)
    replica.records.is_unavailable = True
    await replica.sessions.idle.end()
    replica.records.is_unavailable = False
    update_record(replica.records, session.record_name, lambda record: add_holder(record, ReplicaId("r2")))
    await renew_until(replica, lambda: replica.holders() == [{"r2"}], "the record no longer names this replica")
    assert not replica.sessions.all()


@pytest.mark.parametrize("replica", [3600.0], indirect=True)
async def test_guarantee_2_idle_time_starts_again_after_a_lapse(replica: Replica) -> None:
    session = await open_idle_session(replica)
    replica.lapse()
    await replica.sessions.idle.end()
    assert replica.sessions.find(session.key) is session, "without a lease, it does not end"
    await renew_until(replica, lambda: may_act(replica, session), "the session is joined again")
    await replica.sessions.idle.end()
    assert replica.sessions.find(session.key) is session
    assert replica.holders() == [{OWN}]
