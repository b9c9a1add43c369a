"""Operations of Lodge statements (guarantees: gateway.operations)."""

import asyncio
import uuid

import pytest
from pyspark.sql.connect.proto import base_pb2

from gateway.errors import CanceledError
from gateway.operations import Operation, Operations
from gateway.responses import build_row_response


def an_operation(reattachable=True):
    request = base_pb2.ExecutePlanRequest(session_id="s", operation_id=str(uuid.uuid4()))
    request.request_options.add().reattach_options.reattachable = reattachable
    return Operation(request)


async def answered():
    return build_row_response({"ok": True})


async def forever():
    await asyncio.Event().wait()


async def responses_of(operation):
    return [base_pb2.ExecutePlanResponse.FromString(each) async for each in operation.responses()]


def test_interrupt_before_the_first_step_ends_the_stream():
    async def run():
        operations, operation = Operations(10), an_operation()
        operations.start(operation, forever)
        assert await operation.interrupt()
        with pytest.raises(CanceledError):
            await asyncio.wait_for(responses_of(operation), 5)

    asyncio.run(run())


def test_second_interrupt_waits_for_the_undo():
    undone = []

    async def work():
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.05)
            undone.append(True)

    async def run():
        operation = an_operation()
        operation.start(work)
        await asyncio.sleep(0)
        await asyncio.gather(operation.interrupt(), operation.interrupt())
        assert undone == [True]

    asyncio.run(run())


def test_guarantee_4_only_an_operation_without_stream_is_abandoned():
    async def run():
        operations = Operations(0.2)
        left, watched = an_operation(), an_operation()
        for operation in (left, watched):
            operations.start(operation, forever)
        async with operations.follow(watched):
            with pytest.raises(CanceledError):
                await asyncio.wait_for(responses_of(left), 10)
            assert not watched.is_finished
        await operations.end_all()

    asyncio.run(run())


def test_guarantee_5_operation_id_is_refused_after_its_release():
    async def run():
        operations, operation = Operations(10), an_operation()
        operations.start(operation, answered)
        await responses_of(operation)
        operations.release(operation)
        with pytest.raises(Exception, match="OPERATION_ALREADY_EXISTS"):
            operations.start(operation, answered)

    asyncio.run(run())
