"""Numbers in comments are the guarantees of ``gateway.scans.plannings``."""

import asyncio

import pytest
from pyspark.sql.connect.proto import base_pb2

from gateway.errors import CanceledError
from gateway.messages.requests import SessionKey
from gateway.messages.statement_request import StatementRequest
from gateway.operations.drain import Drain, GatewayStoppingError
from gateway.scans.plannings import Plannings
from workspace.identifiers import ClientSessionId, Principal

ANN = SessionKey(Principal("ann"), ClientSessionId("1"))
BOB = SessionKey(Principal("bob"), ClientSessionId("1"))
REQUEST = StatementRequest("1", operation_id="one", tags=["red"])
KINDS = base_pb2.InterruptRequest.InterruptType


class Work:
    """A planning that ends only if it is cancelled."""

    def __init__(self):
        self.undone = False

    async def run(self):
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            self.undone = True


def interrupt(kind, **fields):
    return base_pb2.InterruptRequest(interrupt_type=kind, **fields)


@pytest.fixture
def drain():
    return Drain()


@pytest.fixture
async def started(drain):
    """The plannings of a replica, a planning of ann, and its task."""
    plannings, work = Plannings(drain), Work()
    task = asyncio.create_task(plannings.run(ANN, REQUEST, work.run()))
    await asyncio.sleep(0)
    yield plannings, work, task
    task.cancel()
    await asyncio.wait([task])


@pytest.mark.parametrize(
    "request_",
    [
        interrupt(KINDS.INTERRUPT_TYPE_ALL),
        interrupt(KINDS.INTERRUPT_TYPE_TAG, operation_tag="red"),
        interrupt(KINDS.INTERRUPT_TYPE_OPERATION_ID, operation_id="one"),
    ],
)
async def test_interrupt_ends_the_planning(started, request_):  # 1
    plannings, work, task = started
    assert await plannings.interrupt(ANN, request_) == ["one"]
    assert work.undone
    with pytest.raises(CanceledError, match="OPERATION_CANCELED"):
        await task
    assert await plannings.interrupt(ANN, request_) == []


@pytest.mark.parametrize(
    ("session", "request_"),
    [
        (BOB, interrupt(KINDS.INTERRUPT_TYPE_ALL)),
        (ANN, interrupt(KINDS.INTERRUPT_TYPE_TAG, operation_tag="blue")),
        (ANN, interrupt(KINDS.INTERRUPT_TYPE_OPERATION_ID, operation_id="other")),
        (ANN, interrupt(KINDS.INTERRUPT_TYPE_OPERATION_ID)),
    ],
)
async def test_interrupt_of_something_else_changes_nothing(started, session, request_):
    plannings, work, task = started
    assert await plannings.interrupt(session, request_) == []
    assert not task.done()
    assert not work.undone


async def test_handover_ends_the_planning(started, drain):  # 2
    _, work, task = started
    drain.hand_over()
    with pytest.raises(GatewayStoppingError):
        await task
    assert work.undone


async def test_planning_ends_when_its_client_leaves(started):
    _, work, task = started
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert work.undone
