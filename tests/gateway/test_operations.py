"""Operations of Lodge statements (guarantees: gateway.operations.operations)."""

import asyncio
import gc
import uuid
import weakref

import grpc
import pytest
from grpc import aio
from pyspark.sql.connect.proto import base_pb2

from gateway.errors import BackendError, CanceledError, GatewayError
from gateway.messages.statement_request import StatementRequest
from gateway.operations.operations import Operation, Operations
from gateway.operations.responses import build_row_response


def an_operation(reattachable=True):
    return Operation(StatementRequest("s", operation_id=str(uuid.uuid4()), is_reattachable=reattachable))


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
            await asyncio.wait_for(responses_of(operation), 60)

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
                await asyncio.wait_for(responses_of(left), 60)
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


class Payload:
    """A large local variable of a statement."""


def backend_error():
    return BackendError(aio.AioRpcError(grpc.StatusCode.INTERNAL, None, None, "refused"), "sc://b:1")


@pytest.mark.parametrize("make_error", [lambda: CanceledError(), backend_error, lambda: OSError("no space")])
def test_guarantee_6_failed_statement_frees_its_data_at_once(make_error):
    async def run():
        operations, operation = Operations(300), an_operation()
        payloads = []

        async def fail():
            payload = Payload()
            payloads.append(weakref.ref(payload))
            try:
                try:
                    raise ValueError(payload)
                except ValueError as error:
                    raise make_error() from error
            except GatewayError as error:
                await asyncio.sleep(0)
                raise error

        async def follow():
            with pytest.raises(GatewayError) as raised:
                await responses_of(operation)
            return raised.value.condition

        operations.start(operation, fail)
        condition = await follow()
        assert payloads[0]() is None, "the error refers to a local variable of the statement"
        assert [await follow() for _ in range(3)] == [condition] * 3
        return operation

    gc.disable()  # nothing may depend on the collection of cycles
    try:
        operation = asyncio.run(run())
        assert operation._error.__traceback__ is None
    finally:
        gc.enable()


def test_operation_does_not_keep_its_request_after_its_end():
    async def run():
        request = StatementRequest("s", operation_id=str(uuid.uuid4()), tags=["t" * 100_000], is_reattachable=True)
        operations, operation = Operations(300), Operation(request)
        operations.start(operation, answered)
        assert len(await responses_of(operation)) == 2
        assert operations.find(*operation.key) is operation
        assert operation.request == StatementRequest("s")

    asyncio.run(run())


def test_guarantee_7_memory_of_results_without_a_stream_is_bounded(monkeypatch):
    monkeypatch.setattr("gateway.operations.operations.MAX_RESULT_BYTES", 50_000)

    def operation_of(user):
        return Operation(StatementRequest.of_principal(user, "s", str(uuid.uuid4())))

    async def run():
        operations = Operations(300)
        started = [operation_of(user) for user in ("quiet", *("hostile",) * 30)]
        watched = started[1]
        async with operations.follow(watched):
            for each in started:
                operations.start(each, answered)
                await responses_of(each)
                await asyncio.sleep(0)
            kept = [each for each in started if operations.find(*each.key) is each]
            assert {started[0], watched, started[-1]} <= set(kept)
            assert 3 <= len(kept) <= 50_000 // 4096
            assert kept == [started[0], watched, *started[-len(kept) + 2 :]]
        for each in kept:
            operations.release(each)
        assert not operations._ended
        assert operations._bytes_by_principal.total() == 0
        operations.start(late := operation_of("hostile"), answered)
        await responses_of(late)
        assert operations.find(*late.key) is late

    asyncio.run(run())


def test_guarantee_6_released_operation_is_freed_before_its_timeout():
    async def run():
        operations, operation = Operations(300), an_operation()
        operations.start(operation, answered)
        async with operations.follow(operation):
            await responses_of(operation)
        await asyncio.sleep(0)
        operations.release(operation)
        released = weakref.ref(operation)
        del operation
        await asyncio.sleep(0)
        assert released() is None
        assert not [each for each in asyncio.get_running_loop()._scheduled if not each.cancelled()]

    gc.disable()
    try:
        asyncio.run(run())
    finally:
        gc.enable()


def test_failed_statement_reports_all_that_the_client_needs():
    async def run():
        operations, operation = Operations(10), an_operation()
        error = backend_error()

        async def fail():
            raise error

        operations.start(operation, fail)
        with pytest.raises(BackendError) as raised:
            await responses_of(operation)
        assert (raised.value.error.details(), raised.value.backend) == ("refused", "sc://b:1")
        assert str(raised.value) == str(error)

    asyncio.run(run())
