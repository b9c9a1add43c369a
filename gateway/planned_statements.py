"""Statements whose client has received the progress of their discovery.

After a response, PySpark does not send a statement again. It only reattaches, also with the response ids of progress,
which the backend does not know.

Guarantees:

1. A statement is sent to the backend until the backend has answered it. The backend runs it once, because all attempts
   have the same operation id.
2. The backend receives no response id of the gateway. A client that has received only progress receives all responses
   of the backend.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
from grpc import aio
from pyspark.sql.connect.proto import base_pb2

from gateway.admission.admission import AdmittedCall
from gateway.backend_session import START_SECONDS
from gateway.backends import Backend
from gateway.drain import Drain, GatewayStoppingError
from gateway.error_status import condition_of
from gateway.forwarding import ResponseObserver, forward_responses
from gateway.requests import Request
from gateway.scans.discovery_progress import is_of_gateway
from gateway.scans.plannings import Planning
from gateway.tables.errors import statement_lost

_KNOWN_OPERATION = "INVALID_HANDLE.OPERATION_ALREADY_EXISTS"
_PAUSE_SECONDS = 0.5


async def send_planned(
    planning: Planning,
    backend: Backend,
    request: Request,
    context: AdmittedCall,
    *,
    observe: ResponseObserver,
    drain: Drain,
) -> None:
    """Send a statement to the backend, and forward the responses.

    Args:
        planning: The planning of the statement. It is closed when the backend has answered.
        backend: The backend of the session.
        request: The ``ExecutePlan`` request for the backend.
        context: The call of the client.
        observe: A function that is called with each response.
        drain: Ends the stream when the gateway stops.

    Raises:
        aio.AioRpcError: If the call to the backend fails.
        GatewayStoppingError: If the gateway stops.
    """
    give_up_at_seconds = time.monotonic() + START_SECONDS
    while True:
        try:
            await forward_responses(
                backend, request, request.data, context, observe=observe, drain=drain, on_arrival=planning.close
            )
            return
        except aio.AioRpcError as error:
            if planning.is_closed:
                raise
            if condition_of(error) == _KNOWN_OPERATION:
                break
            if error.code() is not grpc.StatusCode.UNAVAILABLE or time.monotonic() > give_up_at_seconds:
                planning.close()
                raise
        await asyncio.sleep(_PAUSE_SECONDS)
    planning.close()
    reattach = _reattachment(request)
    await forward_responses(backend, reattach, reattach.data, context, observe=observe, drain=drain)


def without_progress_id(request: Request, message: base_pb2.ReattachExecuteRequest) -> Request:
    """Return a ``ReattachExecute`` request, without its last response id if this is of the gateway.

    Args:
        request: The request of the client.
        message: The decoded request.
    """
    if not is_of_gateway(message.last_response_id):
        return request
    stripped = base_pb2.ReattachExecuteRequest()
    stripped.CopyFrom(message)
    stripped.ClearField("last_response_id")
    return request.with_data(stripped.SerializeToString())


@contextmanager
def lost_after_progress(planning: Planning) -> Iterator[None]:
    """Replace the error of a stop if the client has received progress, because it does not send the statement again."""
    try:
        yield
    except GatewayStoppingError as error:
        if not planning.has_responded:
            raise
        raise statement_lost() from error


def _reattachment(request: Request) -> Request:
    """Return the request to reattach to the operation of an ``ExecutePlan`` request."""
    client = request.decode_without_plan()
    message = base_pb2.ReattachExecuteRequest(
        session_id=client.session_id,
        user_context=client.user_context,
        operation_id=client.operation_id,
        client_type=client.client_type,
    )
    return request.with_data(message.SerializeToString())._replace(method="ReattachExecute")
