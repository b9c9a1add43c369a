"""The RPCs that concern a session, and those that are only forwarded.

Source: [architecture "Gateway"], [spark-connect-proto base.proto].
"""

from collections.abc import Awaitable

from pyspark.sql.connect.proto import base_pb2

from gateway.backends.backend_answers import MAX_CONTROL_BYTES, decode_answer
from gateway.backends.backend_failures import BackendFailures, without_traceback
from gateway.backends.forwarding import RequestStream, forward_stream, forward_unary, forward_upload
from gateway.blocking_work.current_work import noted
from gateway.calls.call import Call
from gateway.messages.requests import SessionKey
from gateway.names.path_checks import PathChecks
from gateway.operations.operations import Operations
from gateway.sessions.registry import Sessions
from gateway.tables.table_services import TableServices
from workspace.identifiers import ClientSessionId


async def pass_unary(call: Call) -> bytes:
    """Forward a call with one request and one response."""
    return await forward_unary(call.backend, call.method, call.request.data, call.context)


async def pass_stream(call: Call) -> None:
    """Forward a call with streams in both directions."""
    await forward_stream(call.backend, call.method, RequestStream(call.request, call.context), call.context)


class SessionCalls:
    """The handlers of the RPCs that concern a session.

    Args:
        sessions: The sessions that this replica serves.
        operations: The operations of this replica.
        services: Executes the statements about tables.
        paths: The check of the paths in requests.
        failures: Has the details of the errors that clients ask for.
    """

    def __init__(
        self,
        *,
        sessions: Sessions,
        operations: Operations,
        services: TableServices,
        paths: PathChecks,
        failures: BackendFailures,
    ) -> None:
        self._sessions = sessions
        self._operations = operations
        self._services = services
        self._paths = paths
        self._failures = failures

    async def add_artifacts(self, call: Call) -> bytes:
        def check_following(data: bytes) -> Awaitable[None]:
            return noted(self._paths.check_artifacts(data))  # gRPC reads the stream in a task of its own

        await self._paths.check_artifacts(call.request.data)
        requests = RequestStream(call.request, call.context, check_following)
        return await forward_upload(call.backend, call.method, requests, call.context)

    async def config(self, call: Call) -> bytes:
        await self._paths.check_settings(call.request.data)
        return await pass_unary(call)

    async def fetch_error_details(self, call: Call) -> bytes:
        """Return the stored error details, or fetch them from the backend."""
        error_id = call.request.decode(base_pb2.FetchErrorDetailsRequest).error_id
        details = self._failures.take_details(call.key, error_id)
        return details or without_traceback(await pass_unary(call))

    async def release_session(self, call: Call) -> bytes:
        session = call.session
        if session is None:
            await self._operations.end_session(call.key)
            return await pass_unary(call)
        session.is_being_released = True
        try:
            await self._operations.end_session(call.key)
            response = await pass_unary(call)
            await self._sessions.ends.end(session, reason="released by the client")
        finally:
            session.is_being_released = False
        return response

    async def clone_session(self, call: Call) -> bytes:
        """Clone a session.

        The clone gets copies of the temporary tables, so that changes in the parent do not affect the clone.
        """
        parent = call.session
        with self._sessions.reserve_room(call.key.principal):
            before = None if parent is None else await self._services.copies.before_clone(parent)
            response = await pass_unary(call)
            answer = await decode_answer(
                base_pb2.CloneSessionResponse, response, call.backend.address, MAX_CONTROL_BYTES
            )
            clone = answer.new_session_id
            if parent is None or before is None or not clone:
                return response
            key = SessionKey(call.key.principal, ClientSessionId(clone))
            session = await self._sessions.open_clone(key, parent)
        call.progress.session = None  # from now on, an error can say that the clone has ended
        try:
            message = call.request.decode(base_pb2.CloneSessionRequest)
            await self._services.copies.copy_to_clone(before, parent, session, message, call.metadata)
        except BaseException:
            await self._sessions.ends.discard(session, reason="incomplete")
            raise
        return response
