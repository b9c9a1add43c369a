"""Backend calls that concern a whole session.

Calls on behalf of a single statement are in :mod:`gateway.backend_session`.
"""

import enum

import grpc
import structlog
from grpc import aio
from pyspark.sql.connect.proto import base_pb2

from gateway.backend_answers import MAX_CONTROL_BYTES, decode_answer
from gateway.backends import SERVICE
from gateway.error_status import session_gone_condition
from gateway.errors import GatewayError
from gateway.sessions.session import Session

_TIMEOUT_SECONDS = 10.0
_RUNNING = {
    base_pb2.GetStatusResponse.OperationStatus.OPERATION_STATE_RUNNING,
    base_pb2.GetStatusResponse.OperationStatus.OPERATION_STATE_TERMINATING,
}
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
    returns the states of the operations            ``POSSIBLE`` if an operation is running, otherwise ``NONE``
    does not have the session                       ``NONE``
    does not support ``GetStatus``                  ``NONE``. Otherwise, sessions at old backends would never end. The
                                                    gateway has not seen a request or an open stream of the session
                                                    during the idle timeout.
    cannot be reached, or does not respond in time  ``UNREACHABLE``
    returns another error                           ``POSSIBLE``. Ending the session could end an operation.
    ==============================================  ==================================================================
    """
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
        answer = decode_answer(base_pb2.GetStatusResponse, data, session.backend.address, MAX_CONTROL_BYTES)
    except GatewayError as error:
        log.warning("session_state_unknown", reason=str(error))
        return Activity.POSSIBLE
    statuses = answer.operation_statuses
    return Activity.POSSIBLE if any(status.state in _RUNNING for status in statuses) else Activity.NONE


async def release_session(session: Session) -> None:
    """Release a session at its backend. Failures are logged and not raised."""
    try:
        await _call(session, "ReleaseSession", base_pb2.ReleaseSessionRequest())
    except aio.AioRpcError as error:
        log.warning("backend_session_release_failed", reason=error.details())


async def _call(
    session: Session, method: str, request: base_pb2.GetStatusRequest | base_pb2.ReleaseSessionRequest
) -> bytes:
    request.session_id = session.key.client_session_id
    request.user_context.user_id = session.key.principal
    call = session.backend.unary(SERVICE + method)
    response: bytes = await call(request.SerializeToString(), timeout=_TIMEOUT_SECONDS)
    return response
