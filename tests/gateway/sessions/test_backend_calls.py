"""What the answer of a backend says about an idle session."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterable
from typing import Any
from unittest import mock

import grpc
import pytest
import pytest_asyncio
import structlog
from grpc import aio
from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc

from gateway.backends.backends import Backend
from gateway.messages.requests import SessionKey
from gateway.sessions import backend_calls
from gateway.sessions.backend_calls import Activity, find_activity
from gateway.sessions.session import Session
from tests.gateway.spark_errors import error_metadata
from workspace.identifiers import ClientSessionId, Principal

State = base_pb2.GetStatusResponse.OperationStatus.OperationState


class AnsweringBackend(grpc.GenericRpcHandler):
    """A backend whose answer to ``GetStatus`` the test chooses, and which has some of the operations."""

    def __init__(self) -> None:
        self.states: list[Any] = []
        self.code: grpc.StatusCode | None = None
        self.condition = ""
        self.never_answers = False
        self.existing: set[str] = set()
        self.seconds_to_release = 0.0

    async def _refuse(self, context: Any, code: grpc.StatusCode, condition: str) -> None:
        context.set_trailing_metadata(error_metadata(condition, code))
        await context.abort(code, f"[{condition}] refused")

    def service(self, handler_call_details: Any) -> Any:
        async def release(request: bytes, context: Any) -> bytes:
            operation = base_pb2.ReleaseExecuteRequest.FromString(request)
            await asyncio.sleep(self.seconds_to_release)
            if operation.operation_id in self.existing:
                await self._refuse(context, grpc.StatusCode.INTERNAL, "INVALID_CURSOR.POSITION_NOT_FOUND")
            return base_pb2.ReleaseExecuteResponse().SerializeToString()

        async def answer(request: bytes, context: Any) -> bytes:
            if self.never_answers:
                await aio.insecure_channel("127.0.0.1:1").channel_ready()
            if self.code is not None:
                await self._refuse(context, self.code, self.condition)
            response = base_pb2.GetStatusResponse()
            for number, state in enumerate(self.states):
                response.operation_statuses.add(operation_id=str(number), state=state)
            return response.SerializeToString()

        is_release = handler_call_details.method.endswith("/ReleaseExecute")
        return grpc.unary_unary_rpc_method_handler(release if is_release else answer)


@pytest_asyncio.fixture
async def answering() -> AsyncIterator[tuple[AnsweringBackend, Session]]:
    backend = AnsweringBackend()
    server = aio.server()
    server.add_generic_rpc_handlers((backend,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    called = Backend(f"sc://127.0.0.1:{port}")
    session = mock.Mock(spec=Session, key=SessionKey(Principal("ada"), ClientSessionId("1")), backend=called)
    yield backend, session
    await called.close()
    await server.stop(None)


@pytest.mark.parametrize(
    ("states", "existing", "runs"),
    [
        ([], (), False),
        ([State.OPERATION_STATE_SUCCEEDED, State.OPERATION_STATE_FAILED], "01", False),
        ([State.OPERATION_STATE_SUCCEEDED, State.OPERATION_STATE_RUNNING], "1", True),
        ([State.OPERATION_STATE_RUNNING, State.OPERATION_STATE_RUNNING], "1", True),
        ([State.OPERATION_STATE_TERMINATING], "0", True),
        ([State.OPERATION_STATE_RUNNING, State.OPERATION_STATE_TERMINATING], (), False),
        ([State.OPERATION_STATE_RUNNING] * 101, (), True),
    ],
)
async def test_states_of_the_operations_decide(
    answering: tuple[AnsweringBackend, Session], states: list[Any], existing: Iterable[str], runs: bool
) -> None:
    backend, session = answering
    backend.states, backend.existing = states, set(existing)
    assert await find_activity(session) is (Activity.POSSIBLE if runs else Activity.NONE)


@pytest.mark.parametrize(
    ("code", "condition", "activity"),
    [
        (grpc.StatusCode.INTERNAL, "INVALID_HANDLE.SESSION_NOT_FOUND", Activity.NONE),
        (grpc.StatusCode.INTERNAL, "INVALID_HANDLE.SESSION_CLOSED", Activity.NONE),
        (grpc.StatusCode.UNIMPLEMENTED, "", Activity.NONE),
        (grpc.StatusCode.INTERNAL, "INTERNAL_ERROR", Activity.POSSIBLE),
        (grpc.StatusCode.UNAUTHENTICATED, "", Activity.POSSIBLE),
        (grpc.StatusCode.PERMISSION_DENIED, "", Activity.POSSIBLE),
        (grpc.StatusCode.UNAVAILABLE, "", Activity.UNREACHABLE),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "", Activity.POSSIBLE),
    ],
)
async def test_only_a_missing_session_is_known_to_be_idle(
    answering: tuple[AnsweringBackend, Session], code: grpc.StatusCode, condition: str, activity: Activity
) -> None:
    backend, session = answering
    backend.code, backend.condition = code, condition
    with structlog.testing.capture_logs() as logs:
        assert await find_activity(session) is activity
    assert [event["event"] for event in logs] == ["session_state_unknown"] * (activity is not Activity.NONE)


async def test_backend_that_does_not_answer_is_unreachable(
    answering: tuple[AnsweringBackend, Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, session = answering
    backend.never_answers = True
    monkeypatch.setattr(backend_calls, "_TIMEOUT_SECONDS", 0.2)
    assert await find_activity(session) is Activity.UNREACHABLE


async def test_backend_that_answers_each_request_slowly_may_run_an_operation(
    answering: tuple[AnsweringBackend, Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, session = answering
    backend.states, backend.seconds_to_release = [State.OPERATION_STATE_RUNNING] * 100, 0.5
    monkeypatch.setattr(backend_calls, "_CHECK_SECONDS", 1.0)
    async with asyncio.timeout(25):
        assert await find_activity(session) is Activity.POSSIBLE


@pytest.mark.slow
async def test_spark_tells_whether_an_operation_exists(spark_server: str) -> None:
    """Spark reports a finished operation as terminating until its result is released."""
    backend = Backend(spark_server)
    key = SessionKey(Principal("ada"), ClientSessionId(str(uuid.uuid4())))
    session = mock.Mock(spec=Session, key=key, backend=backend)
    request = base_pb2.ExecutePlanRequest(session_id=key.client_session_id, operation_id=str(uuid.uuid4()))
    request.user_context.user_id = key.principal
    request.plan.root.sql.query = "select 1"
    request.request_options.add().reattach_options.reattachable = True
    async with aio.insecure_channel(spark_server.removeprefix("sc://")) as channel:
        stub = base_pb2_grpc.SparkConnectServiceStub(channel)
        assert [response async for response in stub.ExecutePlan(request)]
        assert await find_activity(session) is Activity.POSSIBLE
        release = base_pb2.ReleaseExecuteRequest(session_id=request.session_id, operation_id=request.operation_id)
        release.user_context.CopyFrom(request.user_context)
        release.release_all.SetInParent()
        assert (await stub.ReleaseExecute(release)).operation_id == request.operation_id
        assert await find_activity(session) is Activity.NONE
        release.release_until.response_id = str(uuid.uuid4())
        assert not (await stub.ReleaseExecute(release)).HasField("operation_id")
    await backend.close()
