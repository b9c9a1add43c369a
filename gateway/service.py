"""``SparkConnectService`` as a client of Lodge sees it: each RPC passed through, or answered by Lodge.

Why it exists: this is the one place that decides, for each RPC, what Lodge does with it: most pass through as bytes;
``ExecutePlan`` and ``AnalyzePlan`` may hold names that Lodge resolves or a statement that Lodge answers; the RPCs about
an operation or a session that is Lodge's concern are shared between Lodge and the backend.

Every failure leaves here as a gRPC status; this is one of the top loops that catch everything.

Source: design, "Gateway"; Spark's ``base.proto``.
"""

import asyncio
import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import grpc
import structlog
import zstandard
from google.protobuf.message import DecodeError
from grpc import aio
from pyspark.sql.connect.proto import base_pb2, relations_pb2

from engine.source import FORMAT
from gateway.backend_session import BackendSession
from gateway.backends import SERVICE, Backend
from gateway.config import GatewayConfig
from gateway.errors import (
    STATUS_DETAILS_KEY,
    LodgeError,
    SyntaxRefusedError,
    forwardable,
    has_details,
    invalid_request,
    relayed_status,
)
from gateway.forwarding import (
    Context,
    call_arguments,
    forward_responses,
    forward_stream,
    forward_unary,
    forward_upload,
)
from gateway.operations import Operation, Operations
from gateway.releases import Releases
from gateway.requests import SessionKey, head, message_field
from gateway.sessions import Session, Sessions
from gateway.sql.statements import CreateTemporaryTable, DropTable, StatementError, query_only, recognise
from gateway.temporary_tables import Creation, TemporaryTables
from gateway.workspace_names import Names
from workspace.records import ClientSessionId

_USER_CONTEXT = 2
_PLAN = 3
_TIMESTAMP = re.compile(rb"timestamp", re.IGNORECASE)
_OPERATION_ID = {"ExecutePlan": 6, "ReattachExecute": 3, "ReleaseExecute": 3}
_INLINE_BYTES = 1024 * 1024
_MAX_PLAN_BYTES = 512 * 1024 * 1024  # Spark: spark.connect.maxPlanSize
_SESSION_GONE = b"INVALID_HANDLE.SESSION_"
_STARTS_NO_SESSION = frozenset(
    {"ReattachExecute", "ReleaseExecute", "ReleaseSession", "FetchErrorDetails", "GetStatus", "CloneSession"}
)

Handler = Callable[..., Awaitable[Any]]
log = structlog.get_logger(__name__)


class SparkConnectService(grpc.GenericRpcHandler):  # type: ignore[misc] # grpc has no types
    """Handles every method below ``/spark.connect.SparkConnectService/``, known or not."""

    def __init__(
        self, sessions: Sessions, operations: Operations, tables: TemporaryTables, config: GatewayConfig
    ) -> None:
        self._sessions = sessions
        self._operations = operations
        self._releases = Releases()
        self._tables = tables
        self._log_query_text = config.log_query_text
        roots = (name.partition(".")[0].lower() for name in config.workspaces.by_name)
        self._looked_for = tuple(text.encode() for text in (*roots, FORMAT))
        own: dict[str, Handler] = {
            "AnalyzePlan": self._analyze_plan,
            "Interrupt": self._interrupt,
            "ReleaseExecute": self._release_execute,
            "ReleaseSession": self._release_session,
            "CloneSession": self._clone_session,
        }
        passed = ("Config", "ArtifactStatus", "FetchErrorDetails", "GetStatus")
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
        """The handler of a method; of one that this version does not know, one that passes everything."""
        path: str = handler_call_details.method
        if not path.startswith(SERVICE):
            return None
        name = path.removeprefix(SERVICE)
        known = self._handlers.get(name)
        return known or grpc.stream_stream_rpc_method_handler(self._streaming(name))

    def _unary(self, name: str, handler: Handler) -> Handler:
        """A handler of a method with one request: finds its session, and turns failures into a status."""
        operation_field = _OPERATION_ID.get(name)

        async def handle(request: bytes, context: Context) -> Any:
            backend = None
            key = None
            try:
                about = head(request, operation_field)
                key = about.key
                _bind_log(key, about.operation_id)
                session = self._sessions.held(key) or await self._session(key, name)
                backend = self._sessions.route(key) if session is None else session.backend
                call = _Call(name, key, about.operation_id, session, backend)
                if session is None:
                    return await handler(call, request, context)
                with session.busy():
                    return await handler(call, request, context)
            except (LodgeError, aio.AioRpcError) as error:
                await self._fail(error, context, key, backend)
            except (aio.AbortError, aio.InternalError, aio.UsageError):
                raise
            except Exception as error:
                log.exception("request_failed", rpc=name)
                await self._fail(_internal(error), context, key, backend)

        return handle

    def _streaming(self, name: str) -> Handler:
        """A handler of a method with a stream of requests; the first one names the session."""
        method = SERVICE + name

        async def handle(requests: AsyncIterator[bytes], context: Context) -> Any:
            backend = None
            key = None
            try:
                first = await anext(aiter(requests), None)
                if first is None:
                    raise invalid_request("the stream of requests is empty")
                key = head(first).key
                _bind_log(key)
                session = await self._sessions.open(key)
                backend = session.backend
                with session.busy():
                    everything = _chain(first, requests)
                    if name == "AddArtifacts":
                        return await forward_upload(backend, method, everything, context)
                    await forward_stream(backend, method, everything, context)
            except (LodgeError, aio.AioRpcError) as error:
                await self._fail(error, context, key, backend)

        return handle

    async def _session(self, key: SessionKey, name: str) -> Session | None:
        if name in _STARTS_NO_SESSION:
            return await self._sessions.open_existing(key)
        return await self._sessions.open(key)

    async def _fail(
        self,
        error: LodgeError | aio.AioRpcError,
        context: Context,
        key: SessionKey | None,
        backend: Backend | None,
    ) -> None:
        if isinstance(error, LodgeError):
            code, details, trailing = error.status()
        else:
            code, details, trailing = relayed_status(error, backend.address if backend else "")
            if code in _UNREADABLE and not has_details(trailing):
                code, details, trailing = invalid_request(f"the backend answered {details!r}").status()
        if key is not None and _says_session_gone(trailing):
            await self._forget(key)
        await context.abort(code, details, trailing)

    async def _forget(self, key: SessionKey) -> None:
        """The backend says that the session is over, so it is over for Lodge."""
        session = self._sessions.held(key)
        if session is not None:
            await self._operations.end_session(key)
            await self._sessions.end(session, reason="closed at the backend")

    async def _pass_unary(self, call: "_Call", request: bytes, context: Context) -> bytes:
        return await forward_unary(call.backend, call.method, request, context)

    async def _execute_plan(self, call: "_Call", request: bytes, context: Context) -> None:
        plan = await self._plan_of(request)
        if plan is not None:
            operation = await self._operation(call, request, plan, context)
            if operation is not None:
                await self._send(operation, "", context)
                return
            if self._may_name_workspace(request) and (await self._names(call.existing, request, context)).resolve(plan):
                full = base_pb2.ExecutePlanRequest.FromString(request)
                full.plan.CopyFrom(plan)
                request = full.SerializeToString()
        await forward_responses(call.backend, call.method, request, context)

    async def _operation(self, call: "_Call", data: bytes, plan: base_pb2.Plan, context: Context) -> Operation | None:
        """The started operation, if the plan is a statement of Lodge's own; None if it is Spark's."""
        sql = _sql_of(plan)
        statement = None if sql is None else _recognised(sql.query)
        if sql is None or statement is None:
            return None
        session = call.existing
        request = base_pb2.ExecutePlanRequest.FromString(data)
        request.ClearField("plan")
        request.operation_id = request.operation_id or str(uuid.uuid4())
        backend = BackendSession(session.backend, request, forwardable(context.invocation_metadata() or ()))
        operation = Operation(request)
        if self._log_query_text:
            log.info("statement_recognised", query=sql.query)
        if isinstance(statement, DropTable):
            if await self._tables.is_for_spark(session, statement, backend):
                return None
            self._operations.start(operation, lambda _: self._tables.drop(session, statement, backend))
        else:
            query = await self._query(plan, statement, await self._names(session, data, context))
            creation = Creation(statement, query, operation, backend)
            self._operations.start(operation, lambda _: self._tables.create(session, creation))
        return operation

    async def _names(self, session: Session, request: bytes, context: Context) -> Names:
        """What names mean in the session now, for one request with a plan."""
        names = await self._tables.names(session)
        if _TIMESTAMP.search(request) is None:
            return names
        client = base_pb2.ExecutePlanRequest(session_id=session.key.client_session_id)
        client.user_context.ParseFromString(bytes(message_field(request, _USER_CONTEXT) or b""))
        backend = BackendSession(session.backend, client, forwardable(context.invocation_metadata() or ()))
        return replace(names, time_zone=await backend.config("spark.sql.session.timeZone", "UTC"))

    async def _query(
        self, plan: base_pb2.Plan, statement: CreateTemporaryTable, names: Names
    ) -> relations_pb2.Relation:
        """The client's own relation, with the text of the statement's query alone, and its names resolved."""
        query = base_pb2.Plan(root=_input_of(plan))
        root = query.root
        text = root.sql if root.HasField("sql") else root.with_relations.root.sql
        text.query = query_only(text.query, statement)
        names.resolve(query)
        return query.root

    async def _send(self, operation: Operation, last_response_id: str, context: Context) -> None:
        try:
            async for response in operation.responses(last_response_id):
                await context.write(response)
        finally:
            if not operation.is_reattachable:
                await operation.interrupt()
                self._operations.release(operation)

    async def _analyze_plan(self, call: "_Call", request: bytes, context: Context) -> bytes:
        if len(request) <= _INLINE_BYTES and self._may_name_workspace(request):
            try:
                message = base_pb2.AnalyzePlanRequest.FromString(request)
            except DecodeError:
                return await self._pass_unary(call, request, context)
            if (await self._names(call.existing, request, context)).resolve(message):
                request = message.SerializeToString()
        return await self._pass_unary(call, request, context)

    async def _reattach_execute(self, call: "_Call", request: bytes, context: Context) -> None:
        operation = self._operations.find(call.key, call.operation_id)
        if operation is None:
            await forward_responses(call.backend, call.method, request, context)
            return
        message = base_pb2.ReattachExecuteRequest.FromString(request)
        await self._send(operation, message.last_response_id, context)

    async def _release_execute(self, call: "_Call", request: bytes, context: Context) -> bytes:
        message = base_pb2.ReleaseExecuteRequest.FromString(request)
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
        self._releases.forget(key)
        return await self._pass_unary(call, request, context)

    async def _interrupt(self, call: "_Call", request: bytes, context: Context) -> bytes:
        message = base_pb2.InterruptRequest.FromString(request)
        ended = await self._operations.interrupt(call.key, message)
        response = await self._pass_unary(call, request, context)
        if not ended:
            return response
        answer = base_pb2.InterruptResponse.FromString(response)
        answer.interrupted_ids.extend(each for each in ended if each not in answer.interrupted_ids)
        return answer.SerializeToString()

    async def _release_session(self, call: "_Call", request: bytes, context: Context) -> bytes:
        await self._operations.end_session(call.key)
        response = await self._pass_unary(call, request, context)
        if call.session is not None:
            await self._sessions.end(call.session, reason="released by the client")
        return response

    async def _clone_session(self, call: "_Call", request: bytes, context: Context) -> bytes:
        response = await self._pass_unary(call, request, context)
        clone = base_pb2.CloneSessionResponse.FromString(response).new_session_id
        if call.session is not None and clone:
            await self._sessions.open_clone(SessionKey(call.key.principal, ClientSessionId(clone)), call.session)
        return response

    async def _plan_of(self, request: bytes) -> base_pb2.Plan | None:
        """The plan of an ``ExecutePlan`` request; None if this decoder cannot follow it, and Spark must judge it."""
        field = message_field(request, _PLAN)
        if field is None:
            return None
        data = bytes(field)
        if len(data) > _INLINE_BYTES:
            return await asyncio.to_thread(_decoded, data)
        return _decoded(data)

    def _may_name_workspace(self, request: bytes) -> bool:
        """Whether a request can refer to a workspace at all: one cheap look at its bytes."""
        lowered = request.lower() if len(request) <= _INLINE_BYTES else request
        return any(text in lowered for text in self._looked_for)


class _Call:
    """One call of a method with one request."""

    __slots__ = ("backend", "key", "method", "operation_id", "session")

    def __init__(
        self, name: str, key: SessionKey, operation_id: str, session: Session | None, backend: Backend
    ) -> None:
        self.method = SERVICE + name
        self.key = key
        self.operation_id = operation_id
        self.session = session
        self.backend = backend

    @property
    def existing(self) -> Session:
        if self.session is None:
            raise LookupError(f"{self.method} was called without a session.")
        return self.session


def _bind_log(key: SessionKey, operation_id: str = "") -> None:
    """Names the request in every line logged from here on. A call's task has a context of its own, so nothing undoes
    this."""
    structlog.contextvars.bind_contextvars(session=key.client_session_id, principal=key.principal)
    if operation_id:
        structlog.contextvars.bind_contextvars(operation=operation_id)


_UNREADABLE = frozenset({grpc.StatusCode.CANCELLED, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN})


def _decoded(data: bytes) -> base_pb2.Plan | None:
    """A plan, decompressed if it may be a SQL command; None if it is nested deeper than this decoder follows."""
    try:
        plan = base_pb2.Plan.FromString(data)
        operation = plan.compressed_operation
        if (
            plan.WhichOneof("op_type") == "compressed_operation"
            and operation.op_type == base_pb2.Plan.CompressedOperation.OP_TYPE_COMMAND
        ):
            command = zstandard.ZstdDecompressor().decompress(operation.data, max_output_size=_MAX_PLAN_BYTES)
            plan.command.ParseFromString(command)
    except (DecodeError, zstandard.ZstdError):
        return None
    return plan


def _input_of(plan: base_pb2.Plan) -> relations_pb2.Relation:
    """The relation of a SQL command; older clients send the text alone."""
    command = plan.command.sql_command
    if command.HasField("input"):
        return command.input
    relation = relations_pb2.Relation()
    relation.sql.query = command.sql
    relation.sql.pos_args.extend(command.pos_args)
    relation.sql.pos_arguments.extend(command.pos_arguments)
    for name, literal in command.args.items():
        relation.sql.args[name].CopyFrom(literal)
    for name, expression in command.named_arguments.items():
        relation.sql.named_arguments[name].CopyFrom(expression)
    return relation


def _sql_of(plan: base_pb2.Plan) -> relations_pb2.SQL | None:
    if not plan.HasField("command") or not plan.command.HasField("sql_command"):
        return None
    relation = _input_of(plan)
    if relation.HasField("with_relations"):
        relation = relation.with_relations.root
    return relation.sql if relation.HasField("sql") else None


def _recognised(sql: str) -> CreateTemporaryTable | DropTable | None:
    try:
        return recognise(sql)
    except StatementError as error:
        raise SyntaxRefusedError("PARSE_SYNTAX_ERROR", "42601", str(error)) from error


def _says_session_gone(trailing: Any) -> bool:
    return any(key == STATUS_DETAILS_KEY and _SESSION_GONE in value for key, value in trailing)


def _internal(error: Exception) -> LodgeError:
    return LodgeError(
        "INTERNAL_ERROR",
        "XX000",
        f"The gateway failed on this request ({type(error).__name__}); its log has the reason.",
    )


async def _chain(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for each in rest:
        yield each
