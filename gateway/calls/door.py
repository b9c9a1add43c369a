"""The door: what happens to each call before and after its handler.

Guarantees:

1. No message of a caller is read before the caller is authenticated and admitted.
2. With an authentication method, every message that the backend receives contains the identity of the caller instead of
   the client's user context.

This module converts every error to a gRPC status. It contains one of the top-level loops that catch all exceptions.

Source: [architecture "Gateway"].
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any

import grpc
import structlog
from grpc import aio

from gateway.admission.admission import Admission, AdmittedCall
from gateway.auditing.audit import Audit, Caller
from gateway.auditing.statement_audit import StatementAudit
from gateway.authentication.authenticator import Authenticator
from gateway.backends.backend_failures import BackendFailures, FailedCall
from gateway.backends.forwarding import Context, request_metadata
from gateway.blocking_work.current_work import CurrentWork, NotedRequest, digest_of
from gateway.blocking_work.principal_shares import calling_principal
from gateway.blocking_work.request_pools import RequestPools
from gateway.calls.call import Call, Handler, Progress, lease_may_return
from gateway.errors import BackendError, GatewayError, backend_failed, internal_error, invalid_request, session_closed
from gateway.messages.error_status import Status, error_status, session_gone_condition
from gateway.messages.identity import Identity
from gateway.messages.requests import Request, SessionKey, index_request
from gateway.operations.drain import Drain
from gateway.operations.operations import Operations
from gateway.operations.tracebacks import forget_frames
from gateway.sessions.registry import Sessions
from gateway.sessions.session import Session
from gateway.sessions.suspects import check_request
from workspace.record_store import RecordError

_STARTS_NO_SESSION = frozenset(
    {"ReattachExecute", "ReleaseExecute", "ReleaseSession", "FetchErrorDetails", "GetStatus", "CloneSession"}
)

log = structlog.get_logger(__name__)


class Door:
    """Lets a call in: identifies and admits its caller, reads its first request, and opens the session.

    Args:
        authenticator: Decides who sent a call.
        admission: The limits on what callers use at the same time.
        sessions: The sessions that this replica serves.
        operations: The operations of this replica.
        audited: The statements whose outcome is recorded in the audit log.
        failures: Converts failures of backends to statuses.
        pools: The threads and the memory for large requests.
        drain: What the gateway hands over when it stops.
        work: The memory in which the gateway notes on which requests it works.
    """

    def __init__(
        self,
        *,
        authenticator: Authenticator,
        admission: Admission,
        sessions: Sessions,
        operations: Operations,
        audited: StatementAudit,
        failures: BackendFailures,
        pools: RequestPools,
        drain: Drain,
        work: CurrentWork,
    ) -> None:
        self._authenticator = authenticator
        self._admission = admission
        self._sessions = sessions
        self._operations = operations
        self._audited = audited
        self._failures = failures
        self._pools = pools
        self._drain = drain
        self._work = work

    def handler(self, name: str, handler: Handler) -> Callable[[object, Context], Awaitable[Any]]:
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

    async def _answer(self, name: str, handler: Handler, context: Context) -> Any:
        progress = Progress()
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
                call = Call(request, admitted, session, backend, progress)
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

    async def _process(self, call: Call, handler: Handler) -> Any:
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
        self, name: str, identity: Identity | None, context: AdmittedCall, progress: Progress
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
            with lease_may_return() if request.method == "ReattachExecute" else nullcontext():
                return await self._sessions.open_existing(request.key)
        if not request.continues_session:
            return await self._sessions.open(request.key)
        session = await self._sessions.open_existing(request.key)
        if session is None:
            raise session_closed(request.key.client_session_id)
        return session

    async def _fail(self, error: GatewayError | aio.AioRpcError, context: Context, call: Progress) -> None:
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

    async def _status(self, error: GatewayError | aio.AioRpcError, context: Context, call: Progress) -> Status:
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
            await self._sessions.ends.end(known, reason="closed at the backend", only_if_last=only_if_last)


def _user_agent(context: Context) -> str:
    """Return the user agent of a call, which gRPC libraries set."""
    return next((str(value) for key, value in context.invocation_metadata() or () if key == "user-agent"), "")


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
