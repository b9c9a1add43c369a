"""The gRPC service ``SparkConnectService``: how each RPC is processed.

All methods are registered as methods with a stream of requests. gRPC then calls the handler before it reads a message.
The handler authenticates and admits the caller first (the *door*). Therefore a caller who is refused occupies no memory
for messages.

- Most RPCs are forwarded unchanged.
- ``ExecutePlan`` and ``AnalyzePlan`` requests can contain names that Lodge resolves, or Lodge statements.
- RPCs that concern an operation or a session are processed by both Lodge and the backend.

Guarantees:

1. No message of a caller is read before the caller is authenticated and admitted.
2. Every message that the backend receives contains the identity of the caller instead of the client's user context.

This module converts every error to a gRPC status. It contains one of the top-level loops that catch all exceptions.

Source: [architecture "Gateway"], [spark-connect-proto base.proto].
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import grpc
import structlog
from grpc import aio
from pyspark.sql.connect.proto import base_pb2

from gateway.admission.admission import Admission, AdmittedCall
from gateway.auditing.audit import Audit, Caller
from gateway.auditing.statement_audit import ObservedStatement, StatementAudit
from gateway.authentication.authenticator import Authenticator
from gateway.backends.backend_answers import MAX_CONTROL_BYTES, decode_answer
from gateway.backends.backend_failures import BackendFailures, FailedCall, without_traceback
from gateway.backends.backend_session import BackendSession, OnProgress
from gateway.backends.backends import SERVICE, Backend
from gateway.backends.forwarding import (
    Context,
    RequestStream,
    forward_responses,
    forward_stream,
    forward_unary,
    forward_upload,
    request_metadata,
)
from gateway.backends.response_releases import ResponseReleases
from gateway.blocking_work.current_work import CurrentWork, NotedRequest, digest_of, noted
from gateway.blocking_work.current_workspaces import CurrentWorkspaces
from gateway.blocking_work.principal_shares import calling_principal
from gateway.blocking_work.request_pools import RequestPools
from gateway.errors import (
    LEASE_LOST,
    OPERATION_NOT_FOUND,
    STORAGE_UNAVAILABLE,
    BackendError,
    GatewayError,
    backend_failed,
    internal_error,
    invalid_request,
    reattach_later,
    session_closed,
)
from gateway.messages.error_status import Metadata, Status, condition_of, error_status, session_gone_condition
from gateway.messages.identity import Identity
from gateway.messages.requests import Request, SessionKey, index_request
from gateway.messages.statement_request import StatementRequest
from gateway.names.path_checks import PathChecks
from gateway.names.plan_resolver import PlanResolver
from gateway.names.request_resolver import RequestResolver, ResolvedAnalysis
from gateway.operations.drain import Drain
from gateway.operations.operations import Operation, Operations
from gateway.operations.tracebacks import forget_frames
from gateway.plans.plan_decoding import PlanDecoder, UnreadablePlanError
from gateway.scans.discovery_progress import DiscoveryProgress, is_of_discovery
from gateway.scans.explanations import add_scans_to_analysis
from gateway.scans.kept_statements import KeptStatements
from gateway.scans.lost_discoveries import discovery_lost, prevent_start
from gateway.scans.plannings import Plannings
from gateway.sessions.registry import Sessions
from gateway.sessions.session import Session
from gateway.sessions.suspects import check_request
from gateway.sql.sql_texts import SqlTexts
from gateway.tables.own_statements import OwnStatements
from workspace.identifiers import ClientSessionId
from workspace.record_store import RecordError

_STARTS_NO_SESSION = frozenset(
    {"ReattachExecute", "ReleaseExecute", "ReleaseSession", "FetchErrorDetails", "GetStatus", "CloneSession"}
)

log = structlog.get_logger(__name__)


class SparkConnectService(grpc.GenericRpcHandler):  # type: ignore[misc] # grpc has no types
    """The handlers of all ``SparkConnectService`` methods, including unknown methods.

    Args:
        authenticator: Decides who sent a call.
        admission: The limits on what callers use at the same time.
        sessions: The sessions that this replica serves.
        operations: The operations of this replica.
        statements: The Lodge statements.
        workspaces: The configured workspaces.
        paths: The check of the paths in requests.
        audited: The statements whose outcome is recorded in the audit log.
        pools: The threads and the memory for large requests.
        plannings: The statements whose scans are being planned.
        drain: What the gateway hands over when it stops.
        work: The memory in which the gateway notes on which requests it works.

    Attributes:
        methods: The handlers of the known methods.
    """

    def __init__(
        self,
        *,
        authenticator: Authenticator,
        admission: Admission,
        sessions: Sessions,
        operations: Operations,
        statements: OwnStatements,
        workspaces: CurrentWorkspaces,
        paths: PathChecks,
        audited: StatementAudit,
        pools: RequestPools,
        plannings: Plannings,
        drain: Drain,
        work: CurrentWork,
    ) -> None:
        self._drain = drain
        self._work = work
        self._authenticator = authenticator
        self._admission = admission
        self._sessions = sessions
        self._operations = operations
        self._releases = ResponseReleases()
        self._failures = BackendFailures()
        self._statements = statements
        self._audited = audited
        self._paths = paths
        self._plans = PlanDecoder(pools)
        self._pools = pools
        self._plannings = plannings
        self._kept = KeptStatements()
        self._resolution = RequestResolver(workspaces, paths, pools, plannings)
        unary: dict[str, Handler] = {
            "AddArtifacts": self._add_artifacts,
            "AnalyzePlan": self._analyze_plan,
            "ArtifactStatus": self._pass_unary,
            "CloneSession": self._clone_session,
            "Config": self._config,
            "FetchErrorDetails": self._fetch_error_details,
            "GetStatus": self._pass_unary,
            "Interrupt": self._interrupt,
            "ReleaseExecute": self._release_execute,
            "ReleaseSession": self._release_session,
        }
        streaming: dict[str, Handler] = {
            "ExecutePlan": self._execute_plan,
            "ReattachExecute": self._reattach_execute,
        }
        self.methods = {
            **{name: grpc.stream_unary_rpc_method_handler(self._door(name, each)) for name, each in unary.items()},
            **{name: grpc.stream_stream_rpc_method_handler(self._door(name, each)) for name, each in streaming.items()},
        }

    async def stop(self) -> None:
        await self._releases.stop()

    def service(self, handler_call_details: Any) -> Any:
        """Return the handler of a method. Calls of unknown methods are only forwarded."""
        path: str = handler_call_details.method
        if not path.startswith(SERVICE):
            return None
        name = path.removeprefix(SERVICE)
        known = self.methods.get(name)
        return known or grpc.stream_stream_rpc_method_handler(self._door(name, self._pass_stream))

    def _door(self, name: str, handler: "Handler") -> Callable[[object, Context], Awaitable[Any]]:
        """Return the gRPC handler of a method.

        The gRPC handler identifies and admits the caller, reads the first request, opens the session, calls the given
        handler, and converts errors to statuses. It is the same for all methods, so that no method can omit a step.
        """

        async def handle(_: object, context: Context) -> Any:
            try:
                return await self._answer(name, handler, context)
            except (aio.AbortError, asyncio.CancelledError) as error:
                forget_frames(error)  # gRPC keeps the error together with the call
                raise

        return handle

    async def _answer(self, name: str, handler: "Handler", context: Context) -> Any:
        progress = _Progress()
        try:
            self._drain.require_open()
            progress.identity = identity = await self._identify(context)
            principal = None if identity is None else identity.principal
            calling_principal.set(principal)
            async with self._admission.admit(context, name, principal) as admitted:
                request = await self._read_first(name, identity, admitted, progress)
                _bind_log(request.key, request.operation_id)
                progress.caller = _caller(identity, context, request)
                Audit.set_caller(progress.caller)
                calling_principal.set(request.key.principal)
                await admitted.claim(request.key.principal)
                session = self._sessions.find(request.key) or await self._session(request)
                backend = self._sessions.route(request.key) if session is None else session.backend
                progress.session, progress.backend = session, backend
                call = _Call(request, admitted, session, backend, progress)
                with nullcontext() if session is None else session.track_request():
                    response = await self._process(call, handler)
                return None if response is None else admitted.respond(response)
        except (GatewayError, aio.AioRpcError) as error:
            if name == "ExecutePlan" and not progress.is_observed:
                self._audited.refuse(progress.caller or _caller(progress.identity, context), error)
            await self._fail(error, context, progress)
        except (aio.AbortError, aio.InternalError, aio.UsageError):
            raise
        except Exception as error:
            log.exception("request_failed", rpc=name)
            await self._fail(internal_error(error), context, progress)

    async def _process(self, call: "_Call", handler: "Handler") -> Any:
        """Process a request, and note that this gateway works on it.

        Raises:
            GatewayError: If an earlier gateway may have been lost because of the request.
        """
        session, request = call.session, call.request
        if session is None:
            return await handler(call)
        digest = digest_of(request.method, request.data if request.plan is None else request.plan)
        if session.suspects:
            check_request(session.suspects, request.method, request.operation_id, digest)
        return await self._work.note(NotedRequest(session.record_name, digest, request.operation_id), handler(call))

    async def _identify(self, context: Context) -> Identity | None:
        """Return the identity of the caller. Callers whose logins fail too often wait for the answer."""
        try:
            return await self._authenticator.identify(context, self._admission.limit_login)
        except GatewayError as error:
            if error.code is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                await self._admission.delay_failed_login(context.peer() or "")
            raise

    async def _read_first(
        self, name: str, identity: Identity | None, context: AdmittedCall, progress: "_Progress"
    ) -> Request:
        """Return the first request of a call. Methods with a single request have no other."""
        data = await context.read()
        if data is aio.EOF:
            raise invalid_request("the request stream is empty")
        index = index_request(data, name)
        progress.client_type = index.client_type
        request = await self._pools.decode(len(data), index.to_request, identity)
        progress.key = request.key
        return request

    async def _session(self, request: Request) -> Session | None:
        """Open the session of a request.

        Raises:
            GatewayError: If the session has ended, or cannot be opened.
        """
        if request.method in _STARTS_NO_SESSION:
            with _lease_may_return() if request.method == "ReattachExecute" else nullcontext():
                return await self._sessions.open_existing(request.key)
        if not request.continues_session:
            return await self._sessions.open(request.key)
        session = await self._sessions.open_existing(request.key)
        if session is None:
            raise session_closed(request.key.client_session_id)
        return session

    async def _fail(self, error: GatewayError | aio.AioRpcError, context: Context, call: "_Progress") -> None:
        """End the client's call with the status of an error."""
        condition = session_gone_condition(error)
        if call.session is not None and condition:
            try:
                await self._forget(call.session, condition)
            except (GatewayError, RecordError) as failure:  # the reaper ends the session later
                log.warning("session_not_ended", reason=str(failure))
        try:
            status = await self._status(error, context, call)
        except Exception as failure:
            log.exception("request_failed", rpc="error_status")
            status = error_status(internal_error(failure))
        await context.abort(*status)

    async def _status(self, error: GatewayError | aio.AioRpcError, context: Context, call: "_Progress") -> Status:
        failure = error.error if isinstance(error, BackendError) else error
        if not call.client_type:  # no request was read, or its method is unknown
            call.client_type = _user_agent(context)
        if isinstance(failure, GatewayError):
            return error_status(failure, call.client_type)
        if call.key is None or call.backend is None:
            return error_status(backend_failed("", failure.details() or ""), call.client_type)
        failed = FailedCall(call.key, call.backend, request_metadata(context), call.client_type)
        return await self._failures.status(failure, failed)

    async def _forget(self, session: Session, condition: str) -> None:
        """End a session that has ended at the backend, unless a call of the client is releasing it.

        By now, the client may have started another session with the same id. The other session continues. If the
        backend does not know the session, the session may be about to start through another replica. The other replica
        then keeps the session.
        """
        known = self._sessions.find(session.key)
        if known is not None and known.uuid == session.uuid and not known.is_being_released:
            await self._operations.end_session(known.key)
            only_if_last = condition == "INVALID_HANDLE.SESSION_NOT_FOUND"
            await self._sessions.end(known, reason="closed at the backend", only_if_last=only_if_last)

    async def _pass_unary(self, call: "_Call") -> bytes:
        return await forward_unary(call.backend, call.method, call.request.data, call.context)

    async def _pass_stream(self, call: "_Call") -> None:
        await forward_stream(call.backend, call.method, RequestStream(call.request, call.context), call.context)

    async def _add_artifacts(self, call: "_Call") -> bytes:
        def check_following(data: bytes) -> Awaitable[None]:
            return noted(self._paths.check_artifacts(data))  # gRPC reads the stream in a task of its own

        await self._paths.check_artifacts(call.request.data)
        requests = RequestStream(call.request, call.context, check_following)
        return await forward_upload(call.backend, call.method, requests, call.context)

    async def _config(self, call: "_Call") -> bytes:
        await self._paths.check_settings(call.request.data)
        return await self._pass_unary(call)

    async def _fetch_error_details(self, call: "_Call") -> bytes:
        """Return the stored error details, or fetch them from the backend."""
        error_id = call.request.decode(base_pb2.FetchErrorDetailsRequest).error_id
        details = self._failures.take_details(call.key, error_id)
        return details or without_traceback(await self._pass_unary(call))

    async def _execute_plan(self, call: "_Call") -> None:
        await self._execute(call, DiscoveryProgress(call.request, call.context.write, has_started=False))

    async def _execute(self, call: "_Call", progress: DiscoveryProgress) -> None:
        call.context.start_statement()
        observed = self._audited.begin(call.request)
        call.progress.is_observed = True
        with self._audited.follow(observed) as count:
            try:
                with self._kept.keeping(call.request, progress):
                    result = await self._start_or_resolve(call, observed, progress)
                    if not isinstance(result, Operation):
                        await progress.finish()
            except Exception:
                await progress.finish()
                raise
            if isinstance(result, Operation):
                result.on_end(call.context.keep_statement())
                self._audited.finish_with(result, observed)
                await self._send(result, "", call.context, progress)
            else:
                await forward_responses(
                    call.backend, call.request, result.data, call.context, observe=count, drain=self._drain
                )

    async def _start_or_resolve(
        self, call: "_Call", observed: ObservedStatement | None, progress: DiscoveryProgress
    ) -> Operation | Request:
        """Return the started operation of a Lodge statement. For other plans, return the request for the backend.

        The plan is in memory only until this method returns, because the result can take hours.
        """
        request = call.request
        plan = await self._plans.read(request)
        if plan is None:
            return request
        async with self._plans.reserve(plan):
            try:
                decoded = await self._plans.decode(plan)
                self._audited.describe(observed, decoded.plan)
                searched = None if decoded.is_compressed else request.data
                await self._paths.check(searched, [decoded.plan], decoded.size_bytes, decoded.texts)
                operation = await self._statements.start(call.existing, request, decoded, call.metadata, progress)
                if operation is not None:
                    return operation
                return await self._resolution.resolve_execution(
                    request, decoded, lambda texts: self._names(call, texts, progress.send)
                )
            except UnreadablePlanError as error:
                data = await self._resolution.resolve_deep_plan(
                    call.key, request.data, base_pb2.ExecutePlanRequest, error, lambda texts: self._names(call, texts)
                )
                return request.with_data(data)

    async def _names(self, call: "_Call", texts: SqlTexts, on_progress: OnProgress | None = None) -> PlanResolver:
        """Return the resolver for the names in a request that contains a plan."""
        session = call.existing
        statement = StatementRequest(session.key.client_session_id, call.request.user_context)
        backend = BackendSession(session.backend, statement, call.metadata)
        return await self._statements.names(session, backend, texts, on_progress)

    async def _send(
        self,
        operation: Operation,
        last_response_id: str,
        context: AdmittedCall,
        progress: DiscoveryProgress | None = None,
    ) -> None:
        async with self._operations.follow(operation):
            if progress is not None:
                await progress.finish()
            async for response in operation.responses(last_response_id):
                await context.write(response)

    async def _analyze_plan(self, call: "_Call") -> bytes:
        data = call.request.data
        try:
            resolved = await self._resolution.resolve_analysis(call.key, data, lambda texts: self._names(call, texts))
        except UnreadablePlanError as error:
            data = await self._resolution.resolve_deep_plan(
                call.key, data, base_pb2.AnalyzePlanRequest, error, lambda texts: self._names(call, texts)
            )
            resolved = ResolvedAnalysis(data)
        answer = await forward_unary(call.backend, call.method, resolved.data, call.context)
        if not resolved.scans:
            return answer
        return await add_scans_to_analysis(answer, resolved.scans, call.backend.address)

    async def _reattach_execute(self, call: "_Call") -> None:
        message = call.request.decode(base_pb2.ReattachExecuteRequest)
        if call.session is not None and is_of_discovery(message.last_response_id):
            kept = await self._kept.find(call.key, call.request.operation_id)
            if kept is not None:
                kept = kept._replace(identity=call.request.identity)
                progress = DiscoveryProgress(kept, call.context.write, has_started=True)
                await self._execute(replace(call, request=kept), progress)
                return
        call.context.follow_statement()
        operation = self._operations.find(call.key, call.request.operation_id)
        unread: GatewayError | None = None
        if operation is None and call.session is not None:
            try:
                with _lease_may_return():
                    operation = await self._statements.follow(call.session, message, call.metadata)
            except GatewayError as error:
                if error.condition != STORAGE_UNAVAILABLE or is_of_discovery(message.last_response_id):
                    raise
                unread = error  # without the record, only the backend can know the operation
            if operation is not None:
                self._audited.finish_with(operation, self._audited.reattach(call.request))
        if operation is None:
            observed = self._audited.reattach(call.request)
            with _instead_of_unknown_operation(unread), self._audited.follow(observed) as count:
                request = await self._without_discovery(call, message)
                await forward_responses(
                    call.backend, request, request.data, call.context, observe=count, drain=self._drain
                )
            return
        call.progress.session = None  # the operation can be of an earlier session with the same id
        last_response_id = "" if is_of_discovery(message.last_response_id) else message.last_response_id
        await self._send(operation, last_response_id, call.context)

    async def _without_discovery(self, call: "_Call", message: base_pb2.ReattachExecuteRequest) -> Request:
        """Return the request to reattach to an operation. The backend does not know the progress of its discovery.

        Raises:
            GatewayError: If the client lost the stream during discovery, so the statement has not begun.
        """
        if call.session is None or not is_of_discovery(message.last_response_id):
            return call.request
        observed = message.HasField("client_observed_server_side_session_id")
        statement = StatementRequest(
            message.session_id,
            call.request.user_context,
            client_type=message.client_type,
            observed_session_id=message.client_observed_server_side_session_id if observed else None,
        )
        if await prevent_start(BackendSession(call.backend, statement, call.metadata), message.operation_id):
            raise discovery_lost()
        message.ClearField("last_response_id")
        return call.request.with_data(message.SerializeToString())

    async def _release_execute(self, call: "_Call") -> bytes:
        message = call.request.decode(base_pb2.ReleaseExecuteRequest)
        operation = self._operations.find(call.key, call.request.operation_id)
        answer = base_pb2.ReleaseExecuteResponse(session_id=message.session_id, operation_id=message.operation_id)
        if is_of_discovery(message.release_until.response_id):
            return answer.SerializeToString()
        if operation is not None:
            if message.HasField("release_until"):
                operation.release_until(message.release_until.response_id)
            else:
                self._operations.release(operation)
            answer.server_side_session_id = operation.server_side_session_id
            return answer.SerializeToString()
        key = (call.key, call.request.operation_id)
        if message.HasField("release_until"):
            self._releases.defer(key, call.backend, call.request.data, call.metadata)
            return answer.SerializeToString()
        self._kept.release(*key)
        self._releases.discard(key, call.backend)
        response = await self._pass_unary(call)
        self._audited.release(call.request)
        return response

    async def _interrupt(self, call: "_Call") -> bytes:
        message = call.request.decode(base_pb2.InterruptRequest)
        ended = [
            *self._kept.interrupt(call.key, message),
            *await self._plannings.interrupt(call.key, message),
            *await self._operations.interrupt(call.key, message),
        ]
        response = await self._pass_unary(call)
        address = call.backend.address
        answer = await decode_answer(base_pb2.InterruptResponse, response, address, MAX_CONTROL_BYTES)
        at_backend = list(answer.interrupted_ids)
        if call.session is not None and (at_backend or (message.operation_id and not ended)):
            running_writes = await self._statements.running_writes(call.session)
            if message.operation_id in running_writes:  # another replica executes the statement
                message.operation_id = running_writes[message.operation_id]
                response = await forward_unary(call.backend, call.method, message.SerializeToString(), call.context)
                again = await decode_answer(base_pb2.InterruptResponse, response, address, MAX_CONTROL_BYTES)
                at_backend += again.interrupted_ids
            names = {backend_id: client_id for client_id, backend_id in running_writes.items()}
            at_backend = [names.get(each, each) for each in at_backend]
        answer.interrupted_ids[:] = dict.fromkeys((*at_backend, *ended))
        return answer.SerializeToString()

    async def _release_session(self, call: "_Call") -> bytes:
        session = call.session
        if session is None:
            await self._operations.end_session(call.key)
            return await self._pass_unary(call)
        session.is_being_released = True
        try:
            await self._operations.end_session(call.key)
            response = await self._pass_unary(call)
            await self._sessions.end(session, reason="released by the client")
        finally:
            session.is_being_released = False
        return response

    async def _clone_session(self, call: "_Call") -> bytes:
        """Clone a session.

        The clone gets copies of the temporary tables, so that changes in the parent do not affect the clone.
        """
        parent = call.session
        with self._sessions.reserve_room(call.key.principal):
            before = None if parent is None else await self._statements.before_clone(parent)
            response = await self._pass_unary(call)
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
            await self._statements.copy_to_clone(before, parent, session, message, call.metadata)
        except BaseException:
            await self._sessions.discard(session, reason="incomplete")
            raise
        return response


@contextmanager
def _lease_may_return() -> Iterator[None]:
    """Let a client that reattaches to a statement try again if this replica is fenced now.

    Raises:
        GatewayError: Instead of the one for a lapsed lease.
    """
    try:
        yield
    except GatewayError as error:
        if error.condition != LEASE_LOST:
            raise
        raise reattach_later() from error


@contextmanager
def _instead_of_unknown_operation(error: GatewayError | None) -> Iterator[None]:
    """Raise an error in place of the backend's error that it does not know an operation."""
    try:
        yield
    except aio.AioRpcError as failure:
        if error is not None and condition_of(failure) == OPERATION_NOT_FOUND:
            raise error from failure
        raise


def _user_agent(context: Context) -> str:
    """Return the user agent of a call, which gRPC libraries set."""
    return next((str(value) for key, value in context.invocation_metadata() or () if key == "user-agent"), "")


@dataclass(slots=True)
class _Progress:
    """What the gateway knows about a call so far, for use when the call fails.

    Attributes:
        client_type: The client type. Empty until the head of the request has been read. If the call fails earlier, the
            user agent of the call.
        identity: The authenticated client. None until the client has been authenticated, or if no method is configured.
        caller: The client, for audit events. None until the head of the request has been read.
        key: The session that the client names. None until the head of the request has been read.
        session: The session. None until it has been found, and for calls that need none.
        backend: The backend. None until the session has been found.
        is_observed: Whether the audit log will contain the outcome of the statement.
    """

    client_type: str = ""
    identity: Identity | None = None
    caller: Caller | None = None
    key: SessionKey | None = None
    session: Session | None = None
    backend: Backend | None = None
    is_observed: bool = False


@dataclass(slots=True)
class _Call:
    """A call of a method, with its first request."""

    request: Request
    context: AdmittedCall
    session: Session | None
    backend: Backend
    progress: "_Progress"

    @property
    def key(self) -> SessionKey:
        return self.request.key

    @property
    def method(self) -> str:
        return SERVICE + self.request.method

    @property
    def metadata(self) -> Metadata:
        """The metadata for calls to the backend on behalf of this call."""
        return request_metadata(self.context)

    @property
    def existing(self) -> Session:
        if self.session is None:
            raise LookupError(f"{self.method} was called without a session.")
        return self.session


Handler = Callable[[_Call], Coroutine[Any, Any, Any]]


def _caller(identity: Identity | None, context: Context, request: Request | None = None) -> Caller:
    """Return the caller of a request, for audit events. Without a request, only the client is known."""
    principal = "" if identity is None else identity.principal
    return Caller(
        principal=principal if request is None else request.key.principal,
        groups=() if identity is None else identity.groups,
        method="" if identity is None else identity.method,
        peer=context.peer() or "",
        session="" if request is None else request.key.client_session_id,
        operation="" if request is None else request.operation_id,
    )


def _bind_log(key: SessionKey, operation_id: str = "") -> None:
    """Add the session, principal and operation to all log lines of this call.

    Each call runs in a task with its own context, so the values do not need to be removed.
    """
    operation = {"operation": operation_id} if operation_id else {}
    structlog.contextvars.bind_contextvars(session=key.client_session_id, principal=key.principal, **operation)
