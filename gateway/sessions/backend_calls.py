"""Calls that this replica makes at a backend about a session as a whole.

:mod:`gateway.backend_session` contains the calls that Lodge makes on behalf of a statement.
"""

import structlog
from grpc import aio
from pyspark.sql.connect.proto import base_pb2

from gateway.backends import SERVICE
from gateway.sessions.session import Session

_TIMEOUT_SECONDS = 10.0
_RUNNING = {
    base_pb2.GetStatusResponse.OperationStatus.OPERATION_STATE_RUNNING,
    base_pb2.GetStatusResponse.OperationStatus.OPERATION_STATE_TERMINATING,
}

log = structlog.get_logger(__name__)


async def runs_operations(session: Session) -> bool:
    """Return whether an operation of the session runs at its backend.

    A backend that does not answer counts as running none.
    """
    request = base_pb2.GetStatusRequest()
    request.operation_status.SetInParent()
    try:
        data = await _call(session, "GetStatus", request)
    except aio.AioRpcError:
        return False
    statuses = base_pb2.GetStatusResponse.FromString(data).operation_statuses
    return any(status.state in _RUNNING for status in statuses)


async def release_session(session: Session) -> None:
    """Release a session at its backend. A failure is logged, not raised."""
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
