"""Numbers in comments are the guarantees of ``gateway.scans.plannings``."""

import asyncio

import pytest
from pyspark.sql.connect.proto import base_pb2

from gateway.drain import Drain, GatewayStoppingError
from gateway.errors import CanceledError
from gateway.requests import Request, SessionKey
from gateway.scans.discovery_progress import is_of_gateway
from gateway.scans.plannings import Plannings, StreamReplacedError
from workspace.identifiers import ClientSessionId, Principal

ANN = SessionKey(Principal("ann"), ClientSessionId("1"))
BOB = SessionKey(Principal("bob"), ClientSessionId("1"))
REQUEST = base_pb2.ExecutePlanRequest(operation_id="one", tags=["red"])
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
    with plannings.plan(ANN) as planning:
        task = asyncio.create_task(plannings.run(planning, REQUEST, work.run()))
        await asyncio.sleep(0.01)
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


class Discovery:
    """A planning with a job that reports progress until it is released."""

    def __init__(self, planning):
        self._progress = planning.progress
        self.released = asyncio.Event()
        self.result = Request("ExecutePlan", None, ANN, "one", "", (), b"planned", None, 0, None)

    async def run(self):
        with self._progress.job() as report:
            response = base_pb2.ExecutePlanResponse(server_side_session_id="s", response_id="of the job")
            response.execution_progress.num_inflight_tasks = 7
            await report(response)
            await self.released.wait()
        return self.result


class Stream:
    """The stream of a client."""

    def __init__(self):
        self.responses = []

    async def write(self, data):
        self.responses.append(base_pb2.ExecutePlanResponse.FromString(data))


REATTACHABLE = base_pb2.ExecutePlanRequest(session_id="1", operation_id="one")
REATTACHABLE.request_options.add().reattach_options.reattachable = True
TIMEOUT_SECONDS = 30.0


class Statement:
    """A statement in discovery, and the task of its first stream."""

    def __init__(self, drain, after_seconds=0.0, detached_timeout_seconds=TIMEOUT_SECONDS, request=REATTACHABLE):
        self.plannings = Plannings(drain, detached_timeout_seconds, after_seconds)
        self.stream = Stream()
        self.request = request
        self.discovery = None
        self.task = asyncio.create_task(self._run())

    async def _run(self):
        with self.plannings.plan(ANN, self.stream.write) as planning:
            self.discovery = Discovery(planning)
            return await self.plannings.run(planning, self.request, self.discovery.run())

    async def lose_stream(self):
        self.task.cancel()
        await asyncio.sleep(0.01)

    def find(self):
        return self.plannings.find(ANN, "one")


@pytest.fixture
def discover(drain):
    """Start a statement, and wait until its job has reported progress."""

    async def start(**others):
        statement = Statement(drain, **others)
        await asyncio.sleep(0.02)
        return statement

    return start


async def test_progress_has_the_ids_of_the_client(discover):
    statement = await discover()
    (response,) = statement.stream.responses
    assert (response.session_id, response.operation_id, response.server_side_session_id) == ("1", "one", "s")
    assert is_of_gateway(response.response_id)
    assert response.execution_progress.num_inflight_tasks == 7
    statement.discovery.released.set()
    assert await statement.task is statement.discovery.result
    assert statement.find() is None


async def test_short_job_sends_nothing_and_ends_with_its_stream(discover):  # 3
    statement = await discover(after_seconds=TIMEOUT_SECONDS)
    assert statement.find() is None
    await statement.lose_stream()
    assert statement.task.cancelled()
    assert statement.stream.responses == []


async def test_progress_is_sent_when_it_is_due_without_further_messages(discover):
    statement = await discover(after_seconds=0.1)
    assert statement.stream.responses == []
    await asyncio.sleep(0.2)
    assert len(statement.stream.responses) == 1
    statement.task.cancel()


async def test_planning_that_cannot_be_reattached_ends_with_its_stream(discover):
    statement = await discover(request=REQUEST)
    assert len(statement.stream.responses) == 1
    await statement.lose_stream()
    assert statement.task.cancelled()


async def test_other_stream_continues_the_planning(discover):  # 3, 4
    statement = await discover()
    await statement.lose_stream()
    planning, second = statement.find(), Stream()
    last_response_id = statement.stream.responses[-1].response_id
    with planning.followed():
        following = asyncio.create_task(planning.follow(second.write, last_response_id))
        await asyncio.sleep(0.01)
        statement.discovery.released.set()
        assert await following is statement.discovery.result
        assert second.responses == []
        assert statement.find() is planning, "another stream may have to send the statement"
        planning.close()
    with pytest.raises(asyncio.CancelledError):
        await statement.task


async def test_second_stream_replaces_the_first(discover):
    statement = await discover()
    planning, second = statement.find(), Stream()
    with planning.followed():
        following = asyncio.create_task(planning.follow(second.write, ""))
        await asyncio.sleep(0.01)
        assert len(second.responses) == 1
        statement.discovery.released.set()
        assert await following is statement.discovery.result
        assert not statement.task.done()
        planning.close()
    with pytest.raises(StreamReplacedError):
        await statement.task


async def test_planning_without_a_stream_ends_after_the_detached_timeout(discover):  # 3
    statement = await discover(detached_timeout_seconds=0.1)
    await statement.lose_stream()
    assert not statement.task.done()
    await asyncio.wait([statement.task], timeout=TIMEOUT_SECONDS)
    assert statement.task.cancelled()
    assert statement.find() is None


async def test_interrupt_without_a_stream_is_reported_to_the_next_stream(discover):  # 1
    statement = await discover()
    await statement.lose_stream()
    assert await statement.plannings.interrupt(ANN, interrupt(KINDS.INTERRUPT_TYPE_ALL)) == ["one"]
    with pytest.raises(CanceledError):
        await statement.find().follow(Stream().write, "")
    statement.plannings.end_session(ANN)


async def test_planning_with_progress_can_finish_before_the_gateway_stops(discover, drain):  # 2
    statement = await discover()
    drain.hand_over()
    await asyncio.sleep(0.01)
    assert not statement.task.done()
    statement.discovery.released.set()
    assert await statement.task is statement.discovery.result


async def test_planning_with_progress_ends_when_the_gateway_gives_up(discover, drain):  # 2
    statement = await discover()
    drain.hand_over()
    drain.give_up()
    with pytest.raises(GatewayStoppingError):
        await statement.task


async def test_handover_ends_planning_with_progress_without_a_stream(discover, drain):  # 2
    statement = await discover()
    await statement.lose_stream()
    drain.hand_over()
    await asyncio.wait([statement.task], timeout=TIMEOUT_SECONDS)
    assert statement.task.cancelled()


async def test_statement_that_is_sent_again_ends_the_earlier_planning(discover, drain):
    statement = await discover()
    await statement.lose_stream()
    with statement.plannings.plan(ANN, Stream().write) as planning:
        again = Discovery(planning)
        again.released.set()
        assert await statement.plannings.run(planning, REATTACHABLE, again.run()) is again.result
    with pytest.raises(asyncio.CancelledError):
        await statement.task
