"""The gRPC service ``SparkConnectService``: how each RPC is processed.

- Most RPCs are forwarded unchanged.
- ``ExecutePlan`` and ``AnalyzePlan`` requests can contain names that Lodge resolves, or Lodge statements.
- RPCs that concern an operation or a session are processed by both Lodge and the backend.

This module converts every error to a gRPC status. It contains one of the top-level loops that catch all exceptions.

Source: [architecture "Gateway"], [spark-connect-proto base.proto].
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc
import structlog
from google.protobuf.message import DecodeError, Message
from grpc import aio
from pyspark.sql.connect.proto import base_pb2

from gateway.backend_failures import BackendFailures, FailedCall, without_traceback
from gateway.backend_session import BackendSession
from gateway.backends import SERVICE, Backend
from gateway.current_workspaces import CurrentWorkspaces
from gateway.error_status import Status, error_status, forwardable, session_gone_condition
from gateway.errors import BackendError, GatewayError, backend_failed, internal_error, invalid_request
from gateway.forwarding import Context, call_arguments, forward_responses, forward_stream, forward_unary, forward_upload
from gateway.names.plan_resolver import PlanResolver
from gateway.names.request_resolver import RequestResolver
from gateway.operations import Operation, Operations
from gateway.plan_decoding import UnreadablePlanError, decode_plan
from gateway.requests import SessionKey, head, message_field
from gateway.response_releases import ResponseReleases
from gateway.sessions.registry import Sessions
from gateway.sessions.session import Session
from gateway.tables.own_statements import OwnStatements
from workspace.identifiers import ClientSessionId
from workspace.record_store import RecordError

_USER_CONTEXT = 2
_STARTS_NO_SESSION = frozenset(
    {"ReattachExecute", "ReleaseExecute", "ReleaseSession", "FetchErrorDetails", "GetStatus", "CloneSession"}
)

Handler = Callable[..., Awaitable[Any]]
_Request = TypeVar("_Request", bound=Message)
log = structlog.get_logger(__name__)


class SparkConnectService(grpc.GenericRpcHandler):  # type: ignore[misc] # grpc has no types
    """The handlers of all ``SparkConnectService`` methods, including unknown methods."""

    def __init__(
        self, sessions: Sessions, operations: Operations, statements: OwnStatements, workspaces: CurrentWorkspaces
    ) -> None:
        self._sessions = sessions
        self._operations = operations
        self._releases = ResponseReleases()
        self._failures = BackendFailures()
        self._statements = statements
        self._resolution = RequestResolver(workspaces)
        own: dict[str, Handler] = {
            "AnalyzePlan": self._analyze_plan,
            "Interrupt": self._interrupt,
            "ReleaseExecute": self._release_execute,
            "ReleaseSession": self._release_session,
            "CloneSession": self._clone_session,
            "FetchErrorDetails": self._fetch_error_details,
        }
        passed = ("Config", "ArtifactStatus", "GetStatus")
        self._handlers = {
            **{name: grpc.unary_unary_rpc_method_handler(self._unary(name, handler)) for name, handler in own.items()},
            **{name: grpc.unary_unary_rpc_method_handler(self._unary(name, self._pass_unary)) for name in passed},
            "ExecutePlan": grpc.unary_stream_rpc_method_handler(self._unary("ExecutePlan", self._execute_plan)),
            "ReattachExecute": grpc.unary_stream_rpc_method_handler(
                self._unary("ReattachExecute", self._reattach_execute)
            ),
            "AddArtifacts": grpc.stream_unary_rpc_method_handler(self._streaming("AddArtifacts")),
        }

    async def stop(self) -> None:
        await self._releases.stop()

    def service(self, handler_call_details: Any) -> Any:
        """Return the handler of a method. Calls of unknown methods are only forwarded."""
        path: str = handler_call_details.method
        if not path.startswith(SERVICE):
            return None
        name = path.removeprefix(SERVICE)
        known = self._handlers.get(name)
        return known or grpc.stream_stream_rpc_method_handler(self._streaming(name))

    def _unary(self, name: str, handler: Handler) -> Handler:
        """Return a handler for a method with a single request.

        The handler opens the session, calls the given handler and converts errors to statuses.
        """

        async def handle(request: bytes, context: Context) -> Any:
            failed = _FailedRequest()
            try:
                about = head(request, name)
                failed.client_type = about.client_type
                key = failed.key = about.key
                operation_id = about.operation_id
                _bind_log(key, operation_id)
                session = self._sessions.find(key) or await self._session(key, name)
                backend = self._sessions.route(key) if session is None else session.backend
                failed.backend = backend
                call = _Call(SERVICE + name, key, operation_id, session, backend)
                if session is None:
                    return await handler(call, request, context)
                with session.track_request():
                    return await handler(call, request, context)
            except (GatewayError, aio.AioRpcError) as error:
                await self._fail(error, context, failed)
            except (aio.AbortError, aio.InternalError, aio.UsageError):
                raise
            except Exception as error:
                log.exception("request_failed", rpc=name)
                await self._fail(internal_error(error), context, failed)

        return handle

    def _streaming(self, name: str) -> Handler:
        """Return a handler for a method with a stream of requests.

        The first request of the stream contains the session.
        """
        method = SERVICE + name

        async def handle(requests: AsyncIterator[bytes], context: Context) -> Any:
            failed = _FailedRequest()
            try:
                first = await anext(aiter(requests), None)
                if first is None:
                    raise invalid_request("the request stream is empty")
                about = head(first, name)
                failed.client_type = about.client_type
                key = failed.key = about.key
                _bind_log(key)
                session = await self._sessions.open(key)
                backend = failed.backend = session.backend
                with session.track_request():
                    everything = _chain(first, requests)
                    if name == "AddArtifacts":
                        return await forward_upload(backend, method, everything, context)
                    await forward_stream(backend, method, everything, context)
            except (GatewayError, aio.AioRpcError) as error:
                await self._fail(error, context, failed)
            except (aio.AbortError, aio.InternalError, aio.UsageError):
                raise
            except Exception as error:
                log.exception("request_failed", rpc=name)
                await self._fail(internal_error(error), context, failed)

        return handle

    async def _session(self, key: SessionKey, name: str) -> Session | None:
        if name in _STARTS_NO_SESSION:
            return await self._sessions.open_existing(key)
        return await self._sessions.open(key)

    async def _fail(self, error: GatewayError | aio.AioRpcError, context: Context, call: "_FailedRequest") -> None:
        """End the client's call with the status of an error."""
        condition = session_gone_condition(error)
        if call.key is not None and condition:
            try:
                await self._forget(call.key, condition)
            except (GatewayError, RecordError) as failure:  # the reaper ends the session later
                log.warning("session_not_ended", reason=str(failure))
        try:
            status = await self._status(error, context, call)
        except Exception as failure:
            log.exception("request_failed", rpc="error_status")
            status = error_status(internal_error(failure))
        await context.abort(*status)

    async def _status(self, error: GatewayError | aio.AioRpcError, context: Context, call: "_FailedRequest") -> Status:
        failure = error.error if isinstance(error, BackendError) else error
        if isinstance(failure, GatewayError):
            return error_status(failure, call.client_type)
        if call.key is None or call.backend is None:
            return error_status(backend_failed("", failure.details() or ""), call.client_type)
        metadata = forwardable(context.invocation_metadata() or ())
        return await self._failures.status(failure, FailedCall(call.key, call.backend, metadata, call.client_type))

    async def _forget(self, key: SessionKey, condition: str) -> None:
        """End a session that has ended at the backend.

        If the backend does not know the session, the session may be about to start through another replica. The other
        replica then keeps the session.
        """
        session = self._sessions.find(key)
        if session is not None:
            await self._operations.end_session(key)
            only_if_last = condition == "INVALID_HANDLE.SESSION_NOT_FOUND"
            await self._sessions.end(session, reason="closed at the backend", only_if_last=only_if_last)

    async def _pass_unary(self, call: "_Call", request: bytes, context: Context) -> bytes:
        return await forward_unary(call.backend, call.method, request, context)

    async def _fetch_error_details(self, call: "_Call", request: bytes, context: Context) -> bytes:
        """Return the stored error details, or fetch them from the backend."""
        error_id = _decode(base_pb2.FetchErrorDetailsRequest, request).error_id
        details = self._failures.take_details(call.key, error_id)
        return details or without_traceback(await self._pass_unary(call, request, context))

    async def _execute_plan(self, call: "_Call", request: bytes, context: Context) -> None:
        def ask() -> Awaitable[PlanResolver]:
            return self._names(call.existing, request, context)

        try:
            plan = await decode_plan(request)
            if plan is not None:
                metadata = forwardable(context.invocation_metadata() or ())
                operation = await self._statements.start(call.existing, request, plan, metadata)
                if operation is not None:
                    await self._send(operation, "", context)
                    return
                request = await self._resolution.resolve_execution(request, plan, ask)
        except UnreadablePlanError as error:
            request = await self._resolution.resolve_deep_plan(request, base_pb2.ExecutePlanRequest, error, ask)
        await forward_responses(call.backend, call.method, request, context)

    async def _names(self, session: Session, request: bytes, context: Context) -> PlanResolver:
        """Return the resolver for the names in a request that contains a plan."""
        client = base_pb2.ExecutePlanRequest(session_id=session.key.client_session_id)
        client.user_context.ParseFromString(bytes(message_field(request, _USER_CONTEXT) or b""))
        backend = BackendSession(session.backend, client, forwardable(context.invocation_metadata() or ()))
        return await self._statements.names(session, backend)

    async def _send(self, operation: Operation, last_response_id: str, context: Context) -> None:
        async with self._operations.follow(operation):
            async for response in operation.responses(last_response_id):
                await context.write(response)

    async def _analyze_plan(self, call: "_Call", request: bytes, context: Context) -> bytes:
        def ask() -> Awaitable[PlanResolver]:
            return self._names(call.existing, request, context)

        try:
            request = await self._resolution.resolve_analysis(request, ask)
        except UnreadablePlanError as error:
            request = await self._resolution.resolve_deep_plan(request, base_pb2.AnalyzePlanRequest, error, ask)
        return await self._pass_unary(call, request, context)

    async def _reattach_execute(self, call: "_Call", request: bytes, context: Context) -> None:
        message = _decode(base_pb2.ReattachExecuteRequest, request)
        operation = self._operations.find(call.key, call.operation_id)
        if operation is None and call.session is not None:
            metadata = forwardable(context.invocation_metadata() or ())
            operation = await self._statements.follow(call.session, message, metadata)
        if operation is None:
            await forward_responses(call.backend, call.method, request, context)
            return
        await self._send(operation, message.last_response_id, context)

    async def _release_execute(self, call: "_Call", request: bytes, context: Context) -> bytes:
        message = _decode(base_pb2.ReleaseExecuteRequest, request)
        operation = self._operations.find(call.key, call.operation_id)
        answer = base_pb2.ReleaseExecuteResponse(session_id=message.session_id, operation_id=message.operation_id)
        if operation is not None:
            if message.HasField("release_until"):
                operation.release_until(message.release_until.response_id)
            else:
                self._operations.release(operation)
            answer.server_side_session_id = operation.server_side_session_id
            return answer.SerializeToString()
        key = (call.key, call.operation_id)
        if message.HasField("release_until"):
            self._releases.defer(key, call.backend, request, call_arguments(context))
            return answer.SerializeToString()
        self._releases.discard(key, call.backend)
        return await self._pass_unary(call, request, context)

    async def _interrupt(self, call: "_Call", request: bytes, context: Context) -> bytes:
        message = _decode(base_pb2.InterruptRequest, request)
        ended = await self._operations.interrupt(call.key, message)
        response = await self._pass_unary(call, request, context)
        answer = base_pb2.InterruptResponse.FromString(response)
        at_backend = list(answer.interrupted_ids)
        if call.session is not None and (at_backend or (message.operation_id and not ended)):
            running_writes = await self._statements.running_writes(call.session)
            if message.operation_id in running_writes:  # another replica executes the statement
                message.operation_id = running_writes[message.operation_id]
                response = await self._pass_unary(call, message.SerializeToString(), context)
                at_backend += base_pb2.InterruptResponse.FromString(response).interrupted_ids
            names = {backend_id: client_id for client_id, backend_id in running_writes.items()}
            at_backend = [names.get(each, each) for each in at_backend]
        answer.interrupted_ids[:] = dict.fromkeys((*at_backend, *ended))
        return answer.SerializeToString()

    async def _release_session(self, call: "_Call", request: bytes, context: Context) -> bytes:
        await self._operations.end_session(call.key)
        response = await self._pass_unary(call, request, context)
        if call.session is not None:
            await self._sessions.end(call.session, reason="released by the client")
        return response

    async def _clone_session(self, call: "_Call", request: bytes, context: Context) -> bytes:
        """Clone a session.

        The clone gets copies of the temporary tables, so that changes in the parent do not affect the clone.
        """
        parent = call.session
        before = None if parent is None else await self._statements.before_clone(parent)
        response = await self._pass_unary(call, request, context)
        clone = base_pb2.CloneSessionResponse.FromString(response).new_session_id
        if parent is None or before is None or not clone:
            return response
        key = SessionKey(call.key.principal, ClientSessionId(clone))
        session = await self._sessions.open_clone(key, parent)
        try:
            message = _decode(base_pb2.CloneSessionRequest, request)
            metadata = forwardable(context.invocation_metadata() or ())
            await self._statements.copy_to_clone(before, parent, session, message, metadata)
        except BaseException:
            await self._sessions.release_and_end(session, reason="incomplete")
            raise
        return response


@dataclass(slots=True)
class _FailedRequest:
    """The known properties of a request, for use when the request fails.

    Attributes:
        client_type: The client type. Empty until the head of the request has been read.
        key: The session. None until the head of the request has been read.
        backend: The backend. None until the session has been found.
    """

    client_type: str = ""
    key: SessionKey | None = None
    backend: Backend | None = None


@dataclass(slots=True)
class _Call:
    """A call of a method with a single request."""

    method: str
    key: SessionKey
    operation_id: str
    session: Session | None
    backend: Backend

    @property
    def existing(self) -> Session:
        if self.session is None:
            raise LookupError(f"{self.method} was called without a session.")
        return self.session


def _decode(kind: type[_Request], request: bytes) -> _Request:
    """Return the decoded request.

    Raises:
        GatewayError: If the bytes are not a request of this kind.
    """
    try:
        return kind.FromString(request)
    except DecodeError as error:
        raise invalid_request(str(error)) from error


def _bind_log(key: SessionKey, operation_id: str = "") -> None:
    """Add the session, principal and operation to all log lines of this call.

    Each call runs in a task with its own context, so the values do not need to be removed.
    """
    structlog.contextvars.bind_contextvars(session=key.client_session_id, principal=key.principal)
    if operation_id:
        structlog.contextvars.bind_contextvars(operation=operation_id)


async def _chain(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for each in rest:
        yield each
