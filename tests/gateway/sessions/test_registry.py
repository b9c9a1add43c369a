"""How a replica opens sessions (gateway.sessions.registry)."""

import asyncio
import gc
import threading
from typing import Any

import pytest

from gateway.admission.limits import AdmissionLimits
from gateway.admission.session_quota import SessionQuota
from gateway.errors import GatewayError
from gateway.messages.requests import SessionKey
from tests.gateway.sessions.faulty_replica import Replica, let_tasks_run, new_key
from tests.records import a_record
from workspace.record_changes import mark_ending


async def test_failed_open_whose_caller_was_cancelled_is_not_logged(replica: Replica) -> None:
    reported: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    replica.records.is_unavailable, replica.records.gate = True, threading.Event()
    tasks_before = asyncio.all_tasks()
    caller = asyncio.create_task(replica.sessions.open(new_key()))
    await let_tasks_run()  # the opening has started, and waits
    caller.cancel()
    await asyncio.wait([caller])
    [opening] = asyncio.all_tasks() - tasks_before
    replica.records.gate.set()
    await asyncio.wait([opening])
    del caller, opening  # the error is logged when the last reference is gone
    gc.collect()
    assert not reported


async def test_open_reports_an_ending_session_as_closed(replica: Replica) -> None:
    key = new_key()
    record = a_record(principal=key.principal, client_session_id=key.client_session_id)
    ending = replica.records.create(mark_ending(record))
    with pytest.raises(GatewayError, match="SESSION_CLOSED"):
        await replica.sessions.open(key)
    assert replica.records.list() == [ending], "the process that ends it deletes its record"


async def test_clones_at_the_same_time_do_not_exceed_the_quota(replica: Replica) -> None:
    replica.sessions._served.quota = SessionQuota(AdmissionLimits(max_principal_sessions=2))
    parent = await replica.sessions.open(new_key())

    async def clone() -> None:
        key = SessionKey(parent.key.principal, new_key().client_session_id)
        with replica.sessions.reserve_room(key.principal):
            await asyncio.sleep(0)  # the request to the backend
            await replica.sessions.open_clone(key, parent)

    results = await asyncio.gather(*(clone() for _ in range(5)), return_exceptions=True)
    assert len([each for each in results if isinstance(each, GatewayError)]) == 4
    assert len(replica.sessions.all()) == 2


async def test_clone_that_cannot_be_opened_is_released(replica: Replica) -> None:
    parent = await replica.sessions.open(new_key())
    replica.records.is_unavailable = True
    with pytest.raises(GatewayError, match="LODGE_STORAGE_UNAVAILABLE"):
        await replica.sessions.open_clone(new_key(), parent)
    assert replica.backend.calls == ["ReleaseSession"]
    replica.records.is_unavailable = False
