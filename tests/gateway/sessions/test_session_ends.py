"""The end of sessions by a replica (gateway.sessions.session_ends)."""

import asyncio
import threading
from typing import Any

import pytest

from gateway.errors import GatewayError
from tests.gateway.sessions.faulty_replica import DEADLINE_SECONDS, OWN, Replica, let_tasks_run, new_key
from workspace.records import Phase


@pytest.mark.parametrize("is_renewed", [False, True])
async def test_session_is_not_ended_after_a_lapse(replica: Replica, monkeypatch: Any, is_renewed: bool) -> None:
    session = await replica.sessions.open(new_key())
    read, loop = replica.records.read, asyncio.get_running_loop()

    def read_slowly(name: Any) -> Any:
        found = read(name)
        replica.lapse()
        if is_renewed:
            asyncio.run_coroutine_threadsafe(replica.sessions.renew_lease(), loop).result(DEADLINE_SECONDS)
        return found

    monkeypatch.setattr(replica.records, "read", read_slowly)
    with pytest.raises(GatewayError, match="LODGE_LEASE_LOST"):
        await replica.sessions.ends.end(session, reason="closed at the backend")
    [stored] = replica.records.list()
    assert (stored.record.phase, stored.record.holders) == (Phase.ACTIVE, {OWN})


async def test_late_request_does_not_start_an_ending_session_again(replica: Replica) -> None:
    session = await replica.sessions.open(new_key())
    replica.records.gate = threading.Event()
    ending = asyncio.create_task(replica.sessions.ends.end(session, reason="released by the client"))
    while replica.sessions.find(session.key) is not None:  # noqa: ASYNC110 - another task stops serving it
        await asyncio.sleep(0.01)
    reads = replica.records.reads
    late = asyncio.create_task(replica.sessions.open_existing(session.key))
    while replica.records.reads == reads:  # noqa: ASYNC110 - a thread reads the record, which is still active
        await asyncio.sleep(0.01)
    await let_tasks_run()  # the late request must wait
    replica.records.gate.set()
    await ending
    assert await late is None
    assert not replica.records.list()
    assert (await replica.sessions.open(session.key)).uuid != session.uuid, "only a new request may start it again"


async def test_discarded_session_is_released_although_its_record_is_gone(replica: Replica) -> None:
    parent = await replica.sessions.open(new_key())
    clone = await replica.sessions.open_clone(new_key(), parent)
    [record] = [each for each in replica.records.list() if each.record.session_uuid == clone.uuid]
    replica.records.delete(record.record.name, record.version)
    await replica.sessions.ends.discard(clone, reason="incomplete")
    assert replica.backend.calls == ["ReleaseSession"]
    assert replica.sessions.all() == [parent]
