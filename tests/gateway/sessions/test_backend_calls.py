"""What the answer of a backend says about an idle session."""

from collections.abc import AsyncIterator
from typing import Any
from unittest import mock

import grpc
import pytest
import pytest_asyncio
import structlog
from grpc import aio
from pyspark.sql.connect.proto import base_pb2

from gateway.backends import Backend
from gateway.requests import SessionKey
from gateway.sessions import backend_calls
from gateway.sessions.backend_calls import Activity, find_activity
from gateway.sessions.session import Session
from tests.gateway.spark_errors import error_metadata
from workspace.identifiers import ClientSessionId, Principal

State = base_pb2.GetStatusResponse.OperationStatus.OperationState


class AnsweringBackend(grpc.GenericRpcHandler):
    """A backend whose answer to ``GetStatus`` the test chooses."""

    def __init__(self) -> None:
        self.states: list[Any] = []
        self.code: grpc.StatusCode | None = None
        self.condition = ""
        self.never_answers = False

    def service(self, handler_call_details: Any) -> Any:
        async def answer(request: bytes, context: Any) -> bytes:
            if self.never_answers:
                await aio.insecure_channel("127.0.0.1:1").channel_ready()
            if self.code is not None:
                context.set_trailing_metadata(error_metadata(self.condition, self.code))
                await context.abort(self.code, f"[{self.condition}] refused")
            response = base_pb2.GetStatusResponse()
            for state in self.states:
                response.operation_statuses.add().state = state
            return response.SerializeToString()

        return grpc.unary_unary_rpc_method_handler(answer)


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
    ("states", "runs"),
    [
        ([], False),
        ([State.OPERATION_STATE_SUCCEEDED, State.OPERATION_STATE_FAILED], False),
        ([State.OPERATION_STATE_SUCCEEDED, State.OPERATION_STATE_RUNNING], Activity.POSSIBLE),
        ([State.OPERATION_STATE_TERMINATING], Activity.POSSIBLE),
    ],
)
async def test_states_of_the_operations_decide(
    answering: tuple[AnsweringBackend, Session], states: list[Any], runs: bool
) -> None:
    backend, session = answering
    backend.states = states
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
