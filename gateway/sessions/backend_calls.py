"""Backend calls that concern a whole session.

Calls on behalf of a single statement are in :mod:`gateway.backends.backend_session`.
"""

import asyncio
import enum
import uuid

import grpc
import structlog
from grpc import aio
from pyspark.sql.connect.proto import base_pb2

from gateway.backends.backend_answers import MAX_CONTROL_BYTES, decode_answer
from gateway.backends.backends import SERVICE
from gateway.errors import GatewayError
from gateway.messages.error_status import session_gone_condition
from gateway.sessions.session import Session

_TIMEOUT_SECONDS = 10.0
_CHECK_SECONDS = 15.0
"""How long all requests about the operations of a session may take, which are up to ``_MAX_CHECKED + 1``."""

_RUNNING = {
    base_pb2.GetStatusResponse.OperationStatus.OPERATION_STATE_RUNNING,
    base_pb2.GetStatusResponse.OperationStatus.OPERATION_STATE_TERMINATING,
}
_MAX_CHECKED = 100
_UNREACHABLE = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}

log = structlog.get_logger(__name__)


class Activity(enum.Enum):
    """What the backend reports about the operations of a session."""

    NONE = enum.auto()
    """No operation is running."""
    POSSIBLE = enum.auto()
    """An operation is running, or the backend does not report whether one is running."""
    UNREACHABLE = enum.auto()
    """The backend does not respond."""


async def find_activity(session: Session) -> Activity:
    """Ask the backend whether it is running an operation of the session.

    ==============================================  ==================================================================
    The backend                                     Result
    ==============================================  ==================================================================
    returns the states of the operations            ``POSSIBLE`` if an operation is running and still exists, otherwise
                                                    ``NONE``. Spark may report an operation as running for ever that
                                                    was released while its server was frozen.
    does not have the session                       ``NONE``
    does not support ``GetStatus``                  ``NONE``. Otherwise, sessions at old backends would never end. The
                                                    gateway has not seen a request or an open stream of the session
                                                    during the idle timeout.
    cannot be reached, or does not respond in time  ``UNREACHABLE``
    answers single requests, but all too slowly     ``POSSIBLE``
    returns another error                           ``POSSIBLE``. Ending the session could end an operation.
    ==============================================  ==================================================================
    """
    try:
        async with asyncio.timeout(_CHECK_SECONDS):
            return await _find_activity(session)
    except TimeoutError:
        log.warning("session_state_unknown", reason=f"the backend answered too slowly for {_CHECK_SECONDS:g} s")
        return Activity.POSSIBLE


async def _find_activity(session: Session) -> Activity:
    request = base_pb2.GetStatusRequest()
    request.operation_status.SetInParent()
    try:
        data = await _call(session, "GetStatus", request)
    except aio.AioRpcError as error:
        if session_gone_condition(error) or error.code() is grpc.StatusCode.UNIMPLEMENTED:
            return Activity.NONE
        log.warning("session_state_unknown", reason=f"{error.code().name}: {error.details()}")
        return Activity.UNREACHABLE if error.code() in _UNREACHABLE else Activity.POSSIBLE
    try:
        answer = await decode_answer(base_pb2.GetStatusResponse, data, session.backend.address, MAX_CONTROL_BYTES)
    except GatewayError as error:
        log.warning("session_state_unknown", reason=str(error))
        return Activity.POSSIBLE
    running = [status.operation_id for status in answer.operation_statuses if status.state in _RUNNING]
    if len(running) > _MAX_CHECKED:
        return Activity.POSSIBLE
    for operation_id in running:
        if await _exists(session, operation_id):
            return Activity.POSSIBLE
    return Activity.NONE


async def _exists(session: Session, operation_id: str) -> bool:
    """Return whether the backend has an operation. True if it does not answer this question.

    The request asks the backend to release the responses up to one that does not exist. If the backend has the
    operation, it refuses the request, and changes nothing. Otherwise, the answer has no operation id
    [spark-connect-server SparkConnectReleaseExecuteHandler].
    """
    request = base_pb2.ReleaseExecuteRequest(operation_id=operation_id)
    request.release_until.response_id = str(uuid.uuid4())
    try:
        data = await _call(session, "ReleaseExecute", request)
        answer = await decode_answer(base_pb2.ReleaseExecuteResponse, data, session.backend.address, MAX_CONTROL_BYTES)
    except (aio.AioRpcError, GatewayError):
        return True
    return answer.HasField("operation_id")


async def release_session(session: Session) -> None:
    """Release a session at its backend. Failures are logged and not raised."""
    try:
        await _call(session, "ReleaseSession", base_pb2.ReleaseSessionRequest())
    except aio.AioRpcError as error:
        log.warning("backend_session_release_failed", reason=error.details())


async def _call(
    session: Session,
    method: str,
    request: base_pb2.GetStatusRequest | base_pb2.ReleaseExecuteRequest | base_pb2.ReleaseSessionRequest,
) -> bytes:
    request.session_id = session.key.client_session_id
    request.user_context.user_id = session.key.principal
    call = session.backend.unary(SERVICE + method)
    response: bytes = await call(request.SerializeToString(), timeout=_TIMEOUT_SECONDS)
    return response
