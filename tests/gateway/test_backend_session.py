"""Calls of Lodge survive resets between gateway and backend (gateway.backends.backend_session and its operations)."""

import asyncio
import gc
import uuid
import weakref
from contextlib import asynccontextmanager, suppress

import grpc
import pytest
from grpc import aio
from pyspark.sql.connect.proto import base_pb2

from gateway.backends import followed_operation, session_channel
from gateway.backends.backend_session import BackendSession
from gateway.backends.backends import SERVICE, Backend
from gateway.errors import SPARK_SQL_EXCEPTION, BackendError, GatewayError
from gateway.messages.error_status import error_status
from gateway.messages.statement_request import StatementRequest
from tests.gateway.frozen_time import FrozenTime
from tests.workspace.kubernetes.tcp_proxy import TcpProxy

RESPONSES = 5


class _HandleError(GatewayError):
    spark_class = SPARK_SQL_EXCEPTION


class Server:
    """A backend whose operations can be reattached, as in Spark. A real gRPC server on loopback."""

    def __init__(self):
        self.executed, self.interrupted, self.operations = [], [], {}
        self.knows_session = True
        self.failure = None
        self.on_sent = {}
        self.reattached = 0
        self.on_execute = None
        self.resets = self.refusals = 0
        self.server_side_session_id = "first"

    @asynccontextmanager
    async def serve(self):
        server = aio.server()
        methods = {
            "ExecutePlan": grpc.unary_stream_rpc_method_handler(self.execute),
            "ReattachExecute": grpc.unary_stream_rpc_method_handler(self.reattach),
            "Config": grpc.unary_unary_rpc_method_handler(self.config),
            "Interrupt": grpc.unary_unary_rpc_method_handler(self.interrupt),
            "ReleaseExecute": grpc.unary_unary_rpc_method_handler(self.release),
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE.strip("/"), methods),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            with TcpProxy(port) as self.proxy:
                yield f"sc://127.0.0.1:{self.proxy.port}"
        finally:
            await server.stop(0)

    async def execute(self, request, context):
        message = base_pb2.ExecutePlanRequest.FromString(request)
        if message.client_observed_server_side_session_id not in ("", self.server_side_session_id):
            await self.refuse(context, "INVALID_HANDLE.SESSION_CHANGED")
        if self.executed and self.on_execute is not None:
            await self.on_execute()
        if message.operation_id in self.operations:
            await self.refuse(context, "INVALID_HANDLE.OPERATION_ALREADY_EXISTS")
        self.executed.append(message.operation_id)
        self.operations[message.operation_id] = []
        if self.failure is not None:
            await self.refuse(context, self.failure)
        await self.send(message.operation_id, "", context)

    async def reattach(self, request, context):
        message = base_pb2.ReattachExecuteRequest.FromString(request)
        self.reattached += 1
        if self.refusals:
            self.refusals -= 1
            await context.abort(grpc.StatusCode.UNAVAILABLE, "The stream cannot be reattached.")
        if not self.knows_session:
            await self.refuse(context, "INVALID_HANDLE.SESSION_NOT_FOUND")
        if message.operation_id not in self.operations:
            await self.refuse(context, "INVALID_HANDLE.OPERATION_NOT_FOUND")
        await self.send(message.operation_id, message.last_response_id, context)

    async def refuse(self, context, condition):
        await context.abort(*error_status(_HandleError(condition, "HY000", "The handle is invalid.")))

    async def send(self, operation_id, last_response_id, context):
        """Send the responses after the last one. Each response triggers its action once."""
        for number in range(int(last_response_id or 0) + 1, RESPONSES + 1):
            before = self.on_sent.pop(("before", number), None)
            if before is not None:
                await before()
            response = base_pb2.ExecutePlanResponse(operation_id=operation_id, response_id=str(number))
            if number == RESPONSES:
                metrics = response.observed_metrics.add(name="rows")
                metrics.values.add().long = 7
                response.result_complete.SetInParent()
            else:
                response.execution_progress.num_inflight_tasks = number
            await context.write(response.SerializeToString())

    async def config(self, request, context):
        if self.resets:
            self.resets -= 1
            await self.reset()
        pairs = base_pb2.ConfigRequest.FromString(request).operation.get_with_default.pairs
        answer = base_pb2.ConfigResponse(server_side_session_id=self.server_side_session_id, pairs=pairs)
        return answer.SerializeToString()

    async def interrupt(self, request, context):
        self.interrupted.append(base_pb2.InterruptRequest.FromString(request).operation_id)
        return base_pb2.InterruptResponse().SerializeToString()

    async def release(self, request, context):
        return base_pb2.ReleaseExecuteResponse().SerializeToString()

    async def reset(self):
        """Reset the connection, and let the gateway notice before the server continues."""
        self.proxy.reset()
        await asyncio.Event().wait()  # the server cancels the handler of a connection that is gone


@asynccontextmanager
async def connected(server):
    async with server.serve() as address:
        backend = Backend(address)
        request = StatementRequest(str(uuid.uuid4()))
        try:
            yield BackendSession(backend, request, ())
        finally:
            await backend.close()


class Progress(list):
    async def __call__(self, response):
        self.append(response.execution_progress.num_inflight_tasks)


@pytest.mark.parametrize("resets", [{1}, {3}, {RESPONSES}, {1, 2, 3, 4, 5}])
async def test_reset_stream_is_reattached_and_the_plan_runs_once(resets):
    server, progress = Server(), Progress()
    async with connected(server) as session:
        server.on_sent = {("before", number): server.reset for number in resets}
        result = await session.operations.execute(base_pb2.Plan(), on_progress=progress)
    assert result.observed == {"rows": 7}
    assert len(server.executed) == 1
    assert server.reattached == len(resets)
    assert progress == list(range(1, RESPONSES)), "each response is taken once"
    assert server.interrupted == []


async def test_plan_that_never_arrived_is_sent_again_under_the_same_id():
    server = Server()

    async def lose():
        server.operations.clear()
        await server.reset()

    async with connected(server) as session:
        server.on_sent[("before", 1)] = lose
        result = await session.operations.execute(base_pb2.Plan(), operation_id="op")
    assert result.observed == {"rows": 7}
    assert server.executed == ["op", "op"], "the backend runs the first plan of an operation id only"
    assert server.interrupted == []


async def test_plan_that_arrives_before_it_is_sent_again_runs_once():
    server = Server()

    async def lose():
        del server.operations["op"]
        await server.reset()

    async def arrive():
        server.operations["op"] = []

    async with connected(server) as session:
        server.on_sent[("before", 1)] = lose
        server.on_execute = arrive
        result = await session.operations.execute(base_pb2.Plan(), operation_id="op")
    assert result.observed == {"rows": 7}
    assert server.executed == ["op"]
    assert server.reattached == 2


async def test_plan_is_not_sent_again_to_another_session():
    """A restarted backend does not know the operation either, and would create a new session."""
    server = Server()

    async def restart():
        server.operations.clear()
        server.server_side_session_id = "second"
        await server.reset()

    async with connected(server) as session:
        await session.read_settings()
        server.on_sent[("before", 1)] = restart
        with pytest.raises(BackendError) as raised:
            await session.operations.execute(base_pb2.Plan(), operation_id="op")
    assert raised.value.error.code() is grpc.StatusCode.UNAVAILABLE
    assert server.executed == ["op"]


async def test_other_calls_are_repeated_after_a_reset():
    server = Server()
    async with connected(server) as session:
        server.resets = 3
        await session.read_settings()
        assert server.resets == 0


async def test_other_calls_of_an_unreachable_backend_fail_in_time(monkeypatch):
    monkeypatch.setattr(session_channel, "REPEAT_SECONDS", 0.5)
    server = Server()
    async with connected(server) as session:
        server.proxy.__exit__()
        with pytest.raises(BackendError) as raised:
            async with asyncio.timeout(60):
                await session.read_settings()
    assert raised.value.error.code() is grpc.StatusCode.UNAVAILABLE


async def test_time_to_reattach_begins_with_the_reset(monkeypatch):
    """An operation may be silent for hours before its connection is reset."""
    server, frozen, third = Server(), FrozenTime(), asyncio.Event()
    monkeypatch.setattr(followed_operation, "time", frozen)

    async def on_progress(response):
        if response.response_id == "3":
            third.set()

    async def wait_and_reset():
        await third.wait()  # a reset could lose the response, and would then be the same as the first one
        frozen.advance(2 * followed_operation.REATTACH_SECONDS)
        server.refusals = 2
        await server.reset()

    async with connected(server) as session:
        server.on_sent = {("before", 3): server.reset, ("before", 4): wait_and_reset}
        result = await session.operations.execute(base_pb2.Plan(), on_progress=on_progress)
    assert result.observed == {"rows": 7}


@pytest.mark.parametrize("late_seconds", [0.0, 0.5])
async def test_plan_that_arrives_after_a_cancellation_is_interrupted(late_seconds):
    server, arrived = Server(), asyncio.Event()

    async def arrive_late(request, context):
        arrived.set()
        await asyncio.shield(asyncio.create_task(start_late(request)))

    async def start_late(request):
        await asyncio.sleep(late_seconds)
        message = base_pb2.ExecutePlanRequest.FromString(request)
        server.operations[message.operation_id] = []
        server.started_after = len(server.interrupted)

    server.execute = arrive_late
    async with connected(server) as session:
        running = asyncio.create_task(session.operations.execute(base_pb2.Plan(), operation_id="op"))
        await asyncio.wait_for(arrived.wait(), 60)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert len(server.interrupted) > server.started_after, "the plan was interrupted after it had arrived"


async def test_restarted_backend_ends_the_execution_at_once(monkeypatch):
    monkeypatch.setattr(followed_operation, "time", FrozenTime())  # the time to reattach never ends
    server = Server()

    async def restart():
        server.knows_session = False
        await server.reset()

    async with connected(server) as session:
        server.on_sent[("before", 3)] = restart
        with pytest.raises(BackendError) as raised:
            async with asyncio.timeout(60):
                await session.operations.execute(base_pb2.Plan())
    assert raised.value.error.code() is grpc.StatusCode.UNAVAILABLE


async def test_unreachable_backend_ends_the_execution_in_time(monkeypatch):
    monkeypatch.setattr(followed_operation, "REATTACH_SECONDS", 0.5)
    monkeypatch.setattr(followed_operation, "START_SECONDS", 0.5)
    monkeypatch.setattr(session_channel, "REPEAT_SECONDS", 0.2)
    server, stopped = Server(), asyncio.Event()

    async def stop():
        server.proxy.__exit__()
        stopped.set()
        await asyncio.Event().wait()

    async with connected(server) as session:
        server.on_sent[("before", 3)] = stop
        with pytest.raises(BackendError) as raised:
            async with asyncio.timeout(60):
                await session.operations.execute(base_pb2.Plan())
    assert stopped.is_set()
    assert raised.value.error.code() is grpc.StatusCode.UNAVAILABLE


async def test_operation_is_interrupted_before_the_execution_gives_up(monkeypatch):
    monkeypatch.setattr(followed_operation, "REATTACH_SECONDS", 0.3)
    monkeypatch.setattr(followed_operation, "START_SECONDS", 0.3)
    server = Server()

    async def refuse(request, context):
        await context.abort(grpc.StatusCode.UNAVAILABLE, "The stream cannot be reattached.")

    server.reattach = refuse
    async with connected(server) as session:
        server.on_sent[("before", 3)] = server.reset
        with pytest.raises(BackendError):
            await session.operations.execute(base_pb2.Plan(), operation_id="op")
    assert set(server.interrupted) == {"op"}


async def test_cancellation_between_two_attempts_interrupts_the_operation():
    server, refused = Server(), asyncio.Event()

    async def refuse(request, context):
        refused.set()
        await context.abort(grpc.StatusCode.UNAVAILABLE, "The stream cannot be reattached.")

    server.reattach = refuse
    async with connected(server) as session:
        server.on_sent[("before", 3)] = server.reset
        running = asyncio.create_task(session.operations.execute(base_pb2.Plan(), operation_id="op"))
        await asyncio.wait_for(refused.wait(), 60)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert set(server.interrupted) == {"op"}


async def test_error_of_an_operation_is_raised_without_an_interrupt():
    server = Server()
    server.failure = "INVALID_HANDLE.OPERATION_ALREADY_EXISTS"
    async with connected(server) as session:
        with pytest.raises(BackendError, match="The handle is invalid") as raised:
            await session.operations.execute(base_pb2.Plan())
    assert raised.value.error.code() is grpc.StatusCode.INTERNAL
    assert (server.reattached, server.interrupted) == (0, [])


@pytest.mark.parametrize("knows_session", [True, False])
async def test_failed_execution_leaves_no_reference_cycle(knows_session):
    server = Server()
    if knows_session:
        server.failure = "INVALID_HANDLE.OPERATION_ALREADY_EXISTS"
    else:
        server.knows_session = False
        server.on_sent[("before", 3)] = server.reset

    async def fail(session):
        local = Progress()
        with suppress(BackendError):
            await session.operations.execute(base_pb2.Plan(), on_progress=local)
        return weakref.ref(local)

    async with connected(server) as session:
        gc.disable()  # a cycle would keep the local variable
        try:
            local = await fail(session)
            assert local() is None
        finally:
            gc.enable()
