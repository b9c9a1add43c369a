"""Operations of statements that Lodge answers (guarantees: gateway.operations)."""

import asyncio
import threading
import uuid

import pytest
from pyspark.sql.connect.proto import base_pb2

from gateway.errors import CanceledError
from gateway.operations import Operation, Operations
from gateway.responses import ok
from gateway.storage import Storage


def an_operation(reattachable=True):
    request = base_pb2.ExecutePlanRequest(session_id="s", operation_id=str(uuid.uuid4()))
    request.request_options.add().reattach_options.reattachable = reattachable
    return Operation(request)


async def answered(_):
    return ok(True, "done")


async def forever(_):
    await asyncio.Event().wait()


async def responses_of(operation):
    return [base_pb2.ExecutePlanResponse.FromString(each) async for each in operation.responses()]


def test_an_operation_that_is_interrupted_before_its_first_step_ends_its_stream():
    async def run():
        operations, operation = Operations(10), an_operation()
        operations.start(operation, forever)
        assert await operation.interrupt()
        with pytest.raises(CanceledError):
            await asyncio.wait_for(responses_of(operation), 5)

    asyncio.run(run())


def test_a_second_interrupt_waits_for_what_the_first_one_undoes():
    undone = []

    async def work(_):
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


def test_an_operation_that_nobody_watches_is_ended_and_a_watched_one_is_not():
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


def test_an_operation_id_is_refused_also_after_its_release():
    async def run():
        operations, operation = Operations(10), an_operation()
        operations.start(operation, answered)
        await responses_of(operation)
        operations.release(operation)
        with pytest.raises(Exception, match="OPERATION_ALREADY_EXISTS"):
            operations.start(operation, answered)

    asyncio.run(run())


def test_leases_are_renewed_while_everything_else_is_busy():
    release = threading.Event()

    async def run():
        storage = Storage(None, None, None)
        busy = [asyncio.create_task(storage.run_slow(release.wait, 30)) for _ in range(16)]
        busy += [asyncio.create_task(storage.run(release.wait, 30)) for _ in range(16)]
        await asyncio.sleep(0)
        assert await asyncio.wait_for(storage.run_lease(lambda: "renewed"), 5) == "renewed"
        release.set()
        await asyncio.gather(*busy)
        storage.close()

    asyncio.run(run())


def test_a_cancelled_call_of_the_storage_is_over_when_its_caller_goes_on():
    begun, release, done = threading.Event(), threading.Event(), []

    def change():
        begun.set()
        release.wait(30)
        done.append(True)

    async def run():
        storage = Storage(None, None, None)
        call = asyncio.create_task(storage.run(change))
        await asyncio.to_thread(begun.wait, 10)
        call.cancel()
        asyncio.get_running_loop().call_later(0.05, release.set)
        with pytest.raises(asyncio.CancelledError):
            await call
        assert done == [True]
        storage.close()

    asyncio.run(run())
