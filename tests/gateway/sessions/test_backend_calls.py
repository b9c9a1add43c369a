"""What the answer of a backend says about an idle session."""

from collections.abc import AsyncIterator
from typing import Any
from unittest import mock

import grpc
import pytest
import pytest_asyncio
import structlog
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from grpc import aio
from pyspark.sql.connect.proto import base_pb2

from gateway.backends import Backend
from gateway.requests import SessionKey
from gateway.sessions import backend_calls
from gateway.sessions.backend_calls import may_run_operations
from gateway.sessions.session import Session
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
                context.set_trailing_metadata((("grpc-status-details-bin", self._details()),))
                await context.abort(self.code, f"[{self.condition}] refused")
            response = base_pb2.GetStatusResponse()
            for state in self.states:
                response.operation_statuses.add().state = state
            return response.SerializeToString()

        return grpc.unary_unary_rpc_method_handler(answer)

    def _details(self) -> bytes:
        info, packed = ErrorInfo(reason="org.apache.spark.SparkSQLException"), AnyMessage()
        info.metadata["errorClass"] = self.condition
        packed.Pack(info)
        return Status(code=13, details=[packed]).SerializeToString()


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
        ([State.OPERATION_STATE_SUCCEEDED, State.OPERATION_STATE_RUNNING], True),
        ([State.OPERATION_STATE_TERMINATING], True),
    ],
)
async def test_states_of_the_operations_decide(
    answering: tuple[AnsweringBackend, Session], states: list[Any], runs: bool
) -> None:
    backend, session = answering
    backend.states = states
    assert await may_run_operations(session) is runs


@pytest.mark.parametrize(
    ("code", "condition", "may_run"),
    [
        (grpc.StatusCode.INTERNAL, "INVALID_HANDLE.SESSION_NOT_FOUND", False),
        (grpc.StatusCode.INTERNAL, "INVALID_HANDLE.SESSION_CLOSED", False),
        (grpc.StatusCode.UNIMPLEMENTED, "", False),
        (grpc.StatusCode.INTERNAL, "INTERNAL_ERROR", True),
        (grpc.StatusCode.UNAUTHENTICATED, "", True),
        (grpc.StatusCode.PERMISSION_DENIED, "", True),
        (grpc.StatusCode.UNAVAILABLE, "", True),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "", True),
    ],
)
async def test_only_a_missing_session_is_known_to_be_idle(
    answering: tuple[AnsweringBackend, Session], code: grpc.StatusCode, condition: str, may_run: bool
) -> None:
    backend, session = answering
    backend.code, backend.condition = code, condition
    with structlog.testing.capture_logs() as logs:
        assert await may_run_operations(session) is may_run
    assert [event["event"] for event in logs] == ["session_state_unknown"] * may_run


async def test_backend_that_does_not_answer_may_run_operations(
    answering: tuple[AnsweringBackend, Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, session = answering
    backend.never_answers = True
    monkeypatch.setattr(backend_calls, "_TIMEOUT_SECONDS", 0.2)
    assert await may_run_operations(session) is True
