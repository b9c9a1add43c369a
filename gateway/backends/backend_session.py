"""Calls that Lodge makes at the backend in the session of a client.

Lodge executes a Lodge statement with such calls. The calls have the user context and the metadata of the client's
request.

Guarantees:

1. :meth:`BackendSession.execute` follows an operation until it has ended. The backend limits the duration and size of
   its result streams, so it may end a stream early. A connection can also be reset. In both cases, this class
   reattaches to the operation.
2. A plan runs at most once. If a connection is reset before the first response, the backend may not have received the
   plan. If it does not know the operation, this class sends the plan again under the same operation id. The backend
   runs only the first plan with this id. It refuses the plan if its session has been replaced since the last response.
3. If the backend cannot be reached for ``REATTACH_SECONDS``, or for ``START_SECONDS`` before the first response, or no
   longer knows the session or
   the operation, the execution fails with the error of the reset. Before that, the operation is interrupted, so that a
   job that still runs does not write files into a directory that the caller removes.
4. Other calls are repeated for ``REPEAT_SECONDS`` if the connection is reset. They can be repeated without harm.

Source: [spark-connect-server ExecuteGrpcResponseSender]: a client must reattach to a stream that ended without
``result_complete``.
"""

import asyncio
import contextlib
import random
import time
import uuid
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import grpc
import structlog
from google.protobuf.message import Message
from grpc import aio
from pyspark.errors import PySparkException
from pyspark.sql.connect.proto import base_pb2, relations_pb2, types_pb2
from pyspark.sql.connect.types import proto_schema_to_pyspark_data_type
from pyspark.sql.types import StructType

from gateway.backends.backend_answers import decode_answer
from gateway.backends.backend_rows import MAX_ROW_BYTES, BackendRowsError, Kind, RowReader, is_boolean, is_integer
from gateway.backends.backends import SERVICE, Backend, require_answer
from gateway.backends.session_settings import SETTING_DEFAULTS, SessionSettings
from gateway.blocking_work.request_pools import INLINE_BYTES
from gateway.errors import (
    OPERATION_NOT_FOUND,
    BackendError,
    GatewayError,
    SparkError,
    backend_failed,
    long_settings,
)
from gateway.messages.error_status import Metadata, condition_of
from gateway.messages.statement_request import StatementRequest
from gateway.sql.name_syntax import quote_name

REATTACH_SECONDS = 60.0
"""How long this class tries to reattach to a running operation after a reset of the connection.

Spark keeps an operation that nobody follows for five minutes.
"""

START_SECONDS = 30.0
"""How long this class tries to start an operation after a reset of the connection."""

REPEAT_SECONDS = 10.0
"""How long this class repeats other calls after a reset of the connection."""

_CLEANUP_SECONDS = 10.0
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 2.0
_REPEAT_PAUSE_SECONDS = 0.2
_IN_FLIGHT_SECONDS = 2.0
_SHORT_STREAM_SECONDS = 1.0  # Spark ends a stream without a response after minutes
_MAX_SETTINGS_BYTES = 65_536
_MAX_MESSAGES = 1_000  # without rows, and the following number in each second; Spark sends one in two seconds
_MAX_MESSAGES_A_SECOND = 10
_MAX_METRICS = 1_000
_MAX_NAME_CHARACTERS = 1024 * 1024  # the names of all observed metrics
_MAX_ID_CHARACTERS = 1024
_MAX_METADATA_CHARACTERS = 2 * 1024 * 1024
_KNOWN_OPERATION = "INVALID_HANDLE.OPERATION_ALREADY_EXISTS"
_KNOWN_ARTIFACT = "ARTIFACT_ALREADY_EXISTS"
_ARTIFACT_CHUNK_BYTES = 32 * 1024
_DISCONNECTED = "INVALID_CURSOR.DISCONNECTED"
_HANDLE_LOST = "INVALID_HANDLE."
_RAISED_BY_PLAN = "USER_RAISED_EXCEPTION"

log = structlog.get_logger(__name__)
_Request = TypeVar("_Request", bound=Message)
_Answer = TypeVar("_Answer", bound=Message)
_Execution = base_pb2.ExecutePlanRequest | base_pb2.ReattachExecuteRequest
OnProgress = Callable[[base_pb2.ExecutePlanResponse], Awaitable[None]]
OnRows = Callable[[bytes], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    """The result of an execution, without the rows.

    Attributes:
        observed: The first value of each observed metric, by name.
        server_side_session_id: The session id that the backend generated.
        answer: The result of a SQL command. Empty for other plans.
    """

    observed: dict[str, int]
    server_side_session_id: str
    answer: base_pb2.ExecutePlanResponse = field(default_factory=base_pb2.ExecutePlanResponse)


class BackendSession:
    """The session of a client at its backend.

    Args:
        backend: The backend of the session.
        request: The statement of the client for which the calls are made.
        metadata: The metadata of the client's request.
    """

    def __init__(self, backend: Backend, request: StatementRequest, metadata: Metadata) -> None:
        self._backend = backend
        self._request = request
        self._metadata = metadata
        self._leaves_operations = False
        self._server_side_session_id = request.observed_session_id or ""

    @property
    def address(self) -> str:
        """The address of the backend."""
        return self._backend.address

    @property
    def server_side_session_id(self) -> str:
        """The session id that the backend generated. Empty before the first response."""
        return self._server_side_session_id

    def leave_operations(self) -> None:
        """Let operations continue at the backend when their execution here is cancelled."""
        self._leaves_operations = True

    async def analyze_schema(self, relation: relations_pb2.Relation) -> StructType:
        """Return the schema of a relation.

        Raises:
            BackendError: If Spark rejects the relation.
            GatewayError: If the schema contains a user-defined type, or the answer is not what it should be.
        """
        request = self._analysis()
        request.schema.plan.root.CopyFrom(relation)
        found = (await self._analyze(request)).schema.schema
        if found.ByteSize() <= INLINE_BYTES:
            return self._read_schema(found)
        return await asyncio.to_thread(self._read_schema, found)

    def _read_schema(self, found: types_pb2.DataType) -> StructType:
        """Return the schema in an answer of the backend.

        Raises:
            GatewayError: If the schema contains a user-defined type or too much metadata, or cannot be used.
        """
        _refuse_user_defined(found)
        _refuse_long_metadata(found)
        try:
            schema = proto_schema_to_pyspark_data_type(found)
        except (PySparkException, ValueError, RecursionError) as error:
            raise self._failed(f"its schema of a relation cannot be used ({error})") from error
        if not isinstance(schema, StructType):
            raise self._failed(f"the schema of a relation is {schema.typeName()}")
        return schema

    async def explain(self, relation: relations_pb2.Relation) -> str:
        """Return all plans of a relation in the format of ``EXPLAIN EXTENDED``.

        Raises:
            BackendError: If the call fails.
        """
        request = self._analysis()
        request.explain.plan.root.CopyFrom(relation)
        request.explain.explain_mode = base_pb2.AnalyzePlanRequest.Explain.EXPLAIN_MODE_EXTENDED
        return (await self._analyze(request)).explain.explain_string

    async def list_input_files(self, relation: relations_pb2.Relation) -> Sequence[str]:
        """Return the URIs of the files that a relation reads.

        Raises:
            BackendError: If the call fails.
        """
        request = self._analysis()
        request.input_files.plan.root.CopyFrom(relation)
        return (await self._analyze(request)).input_files.files

    async def table_exists(self, unparsed_identifier: str) -> bool:
        """Return whether Spark can resolve a table or view with the given name.

        Raises:
            BackendError: If the call fails for another reason.
        """
        relation = relations_pb2.Relation()
        relation.read.named_table.unparsed_identifier = unparsed_identifier
        try:
            await self.analyze_schema(relation)
        except BackendError as error:
            if condition_of(error.error) == "TABLE_OR_VIEW_NOT_FOUND":
                return False
            raise
        return True

    async def database_exists(self, name: str) -> bool:
        """Return whether a database exists in Spark. False if the call fails."""
        plan = base_pb2.Plan()
        plan.root.catalog.database_exists.db_name = name
        try:
            answers = await self._read_row(plan, {"exists": is_boolean})
        except (BackendError, BackendRowsError):
            return False
        return any(answer["exists"] for answer in answers)

    async def read_count(self, plan: base_pb2.Plan) -> int:
        """Execute a query that returns one row with a number, and return the number.

        Raises:
            BackendError: If the query fails.
            GatewayError: If the backend answers something else.
        """
        try:
            answers = await self._read_row(plan, {"count": is_integer})
        except BackendRowsError as error:
            raise self._failed(str(error)) from error
        if len(answers) != 1 or answers[0]["count"] is None:
            raise self._failed(f"{len(answers)} counts instead of one")
        return int(answers[0]["count"])

    async def _read_row(self, plan: base_pb2.Plan, columns: Mapping[str, Kind]) -> Sequence[Mapping[str, Any]]:
        """Execute a query, and return its rows, at most one."""
        answers: list[Mapping[str, Any]] = []
        reader = RowReader(columns, max_rows=1, max_bytes=MAX_ROW_BYTES)

        async def take(rows: bytes) -> None:
            answers.extend(reader.read(rows))

        await self.execute(plan, on_rows=take)
        return answers

    async def execute_sql(self, relation: relations_pb2.Relation) -> base_pb2.ExecutePlanResponse:
        """Execute a SQL command and return the response from Spark.

        Raises:
            BackendError: If the command fails.
        """
        plan = base_pb2.Plan()
        plan.command.sql_command.input.CopyFrom(relation)
        return (await self.execute(plan)).answer

    async def register_data_source(self, name: str, command: bytes, python_version: str) -> None:
        """Register a data source in the session.

        Args:
            name: The name of the data source.
            command: The pickled class of the data source.
            python_version: The Python version that the backend must have to load the class, such as ``3.11``.

        Raises:
            BackendError: If the call fails.
        """
        plan = base_pb2.Plan()
        source = plan.command.register_data_source
        source.name = name
        source.python_data_source.command = command
        source.python_data_source.python_ver = python_version
        await self.execute(plan)

    async def add_artifact(self, name: str, data: bytes) -> None:
        """Add an artifact to the session. Do nothing if the session has an artifact with this name.

        Raises:
            BackendError: If the call fails.
        """
        chunks = [data[start : start + _ARTIFACT_CHUNK_BYTES] for start in range(0, len(data), _ARTIFACT_CHUNK_BYTES)]
        requests = [self._build(base_pb2.AddArtifactsRequest) for _ in chunks]
        if len(chunks) == 1:  # Spark refuses a single chunk
            artifact = requests[0].batch.artifacts.add(name=name)
            artifact.data.data, artifact.data.crc = data, zlib.crc32(data)
        else:
            for request, chunk in zip(requests, chunks, strict=True):
                part = request.chunk if request is not requests[0] else request.begin_chunk.initial_chunk
                part.data, part.crc = chunk, zlib.crc32(chunk)
            first = requests[0].begin_chunk
            first.name, first.total_bytes, first.num_chunks = name, len(data), len(chunks)
        encoded = [request.SerializeToString() for request in requests]
        try:
            await self._repeat(
                lambda: self._backend.stream_unary(SERVICE + "AddArtifacts")(iter(encoded), metadata=self._metadata)
            )
        except BackendError as error:
            if condition_of(error.error) != _KNOWN_ARTIFACT:
                raise

    async def drop_temp_view(self, name: str) -> None:
        """Drop a temporary view if it exists.

        Raises:
            BackendError: If the call fails.
        """
        plan = base_pb2.Plan()
        plan.root.catalog.drop_temp_view.view_name = name
        await self.execute(plan)

    async def read_settings(self) -> SessionSettings:
        """Return the session settings that change how Lodge interprets statements.

        Raises:
            BackendError: If the call fails, or the session at the backend is not the session that the client observed.
            GatewayError: If the answer is not what it should be.
        """
        request = self._build_for_observed_session(base_pb2.ConfigRequest)
        for key, default in SETTING_DEFAULTS.items():
            pair = request.operation.get_with_default.pairs.add()
            pair.key, pair.value = key, default
        answer = await self._call("Config", request)
        if len(answer) > _MAX_SETTINGS_BYTES:
            raise long_settings(SETTING_DEFAULTS, _MAX_SETTINGS_BYTES)
        response = await self._decode(base_pb2.ConfigResponse, answer)
        self._server_side_session_id = response.server_side_session_id or self._server_side_session_id
        values = {pair.key: pair.value for pair in response.pairs}
        if not values.keys() >= SETTING_DEFAULTS.keys():
            raise self._failed("its answer lacks settings of the session")
        return SessionSettings.from_values(values)

    async def execute(
        self,
        plan: base_pb2.Plan,
        *,
        operation_id: str = "",
        on_progress: OnProgress | None = None,
        on_rows: OnRows | None = None,
        keep: bool = False,
    ) -> ExecutionResult:
        """Execute a plan and wait until it finishes.

        Args:
            plan: The plan.
            operation_id: The UUID of the operation, for following and interrupting it. If empty, a new UUID is
                generated.
            on_progress: A function that is called with each progress message.
            on_rows: A function that is called with each batch of rows, as a stream in Arrow's IPC format.
            keep: Whether the backend keeps the result until :meth:`release` is called, so that another replica can
                follow the operation.

        Raises:
            BackendError: If the execution fails.
        """
        request = self._build(
            base_pb2.ExecutePlanRequest,
            client_type=self._request.client_type,
            operation_id=operation_id or str(uuid.uuid4()),
            tags=self._request.tags,
            plan=plan,
        )
        request.request_options.add().reattach_options.reattachable = True
        result = self._result("ExecutePlan", request, on_progress, on_rows)
        if keep:
            return await result
        try:
            return await result
        finally:
            await self.release(request.operation_id)

    async def use_operation_id(self, operation_id: str, plan: base_pb2.Plan) -> bool:
        """Begin an operation with an id of the client, so that no other operation can begin with it.

        Args:
            operation_id: The UUID of the operation.
            plan: A plan that calls ``raise_error``. The client receives its error if it reattaches to the operation.

        Returns:
            Whether the operation has begun. False if an operation with this id exists or existed, or if the backend
            does not know the session.

        Raises:
            BackendError: If it is not known whether the operation has begun.
        """
        request = self._build_for_observed_session(
            base_pb2.ExecutePlanRequest,
            client_type=self._request.client_type,
            operation_id=operation_id,
            plan=plan,
        )
        request.request_options.add().reattach_options.reattachable = True
        try:
            async for _ in self._stream("ExecutePlan", request):
                pass
        except BackendError as error:
            condition = condition_of(error.error)
            if condition.startswith(_HANDLE_LOST):
                return False
            if condition != _RAISED_BY_PLAN:
                raise
        return True

    async def follow(self, operation_id: str, *, on_progress: OnProgress | None = None) -> ExecutionResult:
        """Wait until an operation that another replica started has finished.

        The backend keeps the result of the operation.

        Raises:
            BackendError: If the execution fails, or the operation does not exist at the backend.
        """
        request = self._build(base_pb2.ReattachExecuteRequest, operation_id=operation_id)
        return await self._result("ReattachExecute", request, on_progress)

    async def _result(
        self, method: str, request: _Execution, on_progress: OnProgress | None, on_rows: OnRows | None = None
    ) -> ExecutionResult:
        """Follow an operation until it has ended."""
        reattach = self._build(base_pb2.ReattachExecuteRequest, operation_id=request.operation_id)
        plan = request if isinstance(request, base_pb2.ExecutePlanRequest) else None
        following = _Following(method, request, reattach, plan, on_rows)
        error: BackendError | None = None
        try:
            while not following.is_complete:
                error = await self._read_streams(following, on_progress)
                if error is not None:
                    await self._fail(error, following)
        except asyncio.CancelledError:
            if not self._leaves_operations:
                await self._stop(following)
            raise
        finally:
            error = following.reset = None  # an error and a frame that refer to each other would keep the plan
        return following.result()

    async def _read_streams(self, following: "_Following", on_progress: OnProgress | None) -> BackendError | None:
        """Read streams of responses until another stream would not help.

        A library for retries would keep the error of each attempt, and so the plan, together with the attempt's frame.

        Returns:
            The error of the last stream. None if it ended without an error.
        """
        longest_seconds = _FIRST_PAUSE_SECONDS
        while True:
            error = await self._read_stream(following, on_progress)
            if error is None or not following.may_continue(error) or following.is_given_up():
                return error
            error = None
            await asyncio.sleep(random.uniform(0, longest_seconds))  # noqa: S311 - no secret
            longest_seconds = min(2 * longest_seconds, _LONGEST_PAUSE_SECONDS)

    async def _read_stream(self, following: "_Following", on_progress: OnProgress | None) -> BackendError | None:
        """Read the responses of an operation until the stream ends.

        Returns:
            The error that ended the stream. None if the stream ended without an error, or was reset after a response.
        """
        has_advanced, begun = False, time.monotonic()
        try:
            async for response in self._stream(following.method, following.request):
                has_advanced = True
                if not following.take(response):
                    raise self._failed("it sent too many messages without rows")
                self._server_side_session_id = response.server_side_session_id or self._server_side_session_id
                if following.on_rows is not None and response.arrow_batch.row_count:
                    await following.on_rows(response.arrow_batch.data)
                if on_progress is not None and response.HasField("execution_progress"):
                    await on_progress(response)
                if following.is_complete:
                    return None
        except BackendError as error:
            if not _is_reset(error.error):
                following.choose_next(condition_of(error.error), self._server_side_session_id)
                return error
            log.warning(
                "backend_connection_reset",
                backend=self._backend.address,
                operation=following.reattach.operation_id,
                reason=error.error.details(),
            )
            following.count_reset(error)
            return None if has_advanced else error
        following.reattach_next()  # the backend ended the stream early
        if not has_advanced and time.monotonic() - begun < _SHORT_STREAM_SECONDS:
            following.count_empty_stream()
            if following.is_given_up():
                raise self._failed("it ends the stream of an operation again and again")
            await asyncio.sleep(_FIRST_PAUSE_SECONDS)
        return None

    async def _fail(self, error: BackendError, following: "_Following") -> None:
        """Raise the error of an execution. Stop the operation first if it may still run."""
        reset = following.reset
        try:
            if reset is None or not (_is_reset(error.error) or condition_of(error.error).startswith(_HANDLE_LOST)):
                raise error
            await self._stop(following)
            raise reset
        finally:
            following.reset = None
            del error, reset

    def _analysis(self) -> base_pb2.AnalyzePlanRequest:
        return self._build(base_pb2.AnalyzePlanRequest, client_type=self._request.client_type)

    async def _analyze(self, request: base_pb2.AnalyzePlanRequest) -> base_pb2.AnalyzePlanResponse:
        response = await self._decode(base_pb2.AnalyzePlanResponse, await self._call("AnalyzePlan", request))
        self._server_side_session_id = response.server_side_session_id or self._server_side_session_id
        return response

    async def _stream(self, method: str, request: Message) -> AsyncIterator[base_pb2.ExecutePlanResponse]:
        call = self._backend.unary_stream(SERVICE + method)(request.SerializeToString(), metadata=self._metadata)
        try:
            while (response := await call.read()) is not aio.EOF:
                decoded = await self._decode(base_pb2.ExecutePlanResponse, response)
                del response
                yield decoded
        except aio.AioRpcError as error:
            raise BackendError(error, self._backend.address) from error
        finally:
            call.cancel()

    async def _stop(self, following: "_Following") -> None:
        """Interrupt an operation. If the backend may not have received its plan yet, wait for the plan.

        Without the wait, the plan could arrive after the interrupt, and change what the caller has undone by then.
        """
        operation_id = following.reattach.operation_id
        await self._interrupt(operation_id)
        if following.plan is None:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_IN_FLIGHT_SECONDS):
                while await self._is_unknown(following.reattach):  # noqa: ASYNC110 - no event reports its arrival
                    await asyncio.sleep(_FIRST_PAUSE_SECONDS)
        await self._interrupt(operation_id)

    async def _is_unknown(self, reattach: base_pb2.ReattachExecuteRequest) -> bool:
        """Return whether the backend has the session, but does not know the operation."""
        try:
            async for _ in self._stream("ReattachExecute", reattach):
                break
        except BackendError as error:
            return condition_of(error.error) == OPERATION_NOT_FOUND
        return False

    async def _interrupt(self, operation_id: str) -> None:
        """Interrupt an operation. Releasing the operation would not stop its Spark jobs."""
        request = self._build(
            base_pb2.InterruptRequest,
            interrupt_type=base_pb2.InterruptRequest.INTERRUPT_TYPE_OPERATION_ID,
            operation_id=operation_id,
        )
        with contextlib.suppress(GatewayError, aio.UsageError):  # the gateway may have closed the connection
            await self._call("Interrupt", request, timeout_seconds=_CLEANUP_SECONDS)

    async def release(self, operation_id: str) -> None:
        """Release an operation at the backend.

        Errors are ignored, because the backend discards abandoned operations later.
        """
        request = self._build(base_pb2.ReleaseExecuteRequest, operation_id=operation_id)
        request.release_all.SetInParent()
        with contextlib.suppress(GatewayError, aio.UsageError):
            await self._call("ReleaseExecute", request, timeout_seconds=_CLEANUP_SECONDS)

    async def _call(self, method: str, request: Message, *, timeout_seconds: float | None = None) -> bytes:
        """Call a method that can be repeated without harm. Repeat it if the connection is reset."""
        data = request.SerializeToString()
        return await self._repeat(
            lambda: self._backend.unary(SERVICE + method)(data, metadata=self._metadata, timeout=timeout_seconds)
        )

    async def _repeat(self, start: Callable[[], Awaitable[bytes]]) -> bytes:
        """Start a call that can be repeated without harm. Start it again if the connection is reset."""
        give_up_at: float | None = None
        while True:
            try:
                response = await start()
            except aio.AioRpcError as error:
                give_up_at = give_up_at or time.monotonic() + REPEAT_SECONDS
                if not _is_reset(error) or time.monotonic() > give_up_at:
                    raise BackendError(error, self._backend.address) from error
            else:
                return require_answer(response, self._backend)
            await asyncio.sleep(_REPEAT_PAUSE_SECONDS)

    async def _decode(self, kind: type[_Answer], data: bytes) -> _Answer:
        """Decode an answer of the backend.

        Raises:
            GatewayError: If it cannot be decoded.
        """
        return await decode_answer(kind, data, self._backend.address)

    def _failed(self, problem: str) -> GatewayError:
        return backend_failed(self._backend.address, problem)

    def _build(self, kind: Callable[..., _Request], **fields: object) -> _Request:
        return kind(session_id=self._request.session_id, user_context=self._request.user_context, **fields)

    def _build_for_observed_session(self, kind: Callable[..., _Request], **fields: object) -> _Request:
        """Return a request that the backend refuses if its session is not the session that the client observed."""
        if self._request.observed_session_id is not None:
            fields["client_observed_server_side_session_id"] = self._request.observed_session_id
        return self._build(kind, **fields)


@dataclass(slots=True)
class _Following:
    """The state of an operation that is being followed.

    Attributes:
        method: The method of the next call.
        request: The request of the next call.
        reattach: The request for reattaching after the last response.
        plan: The request with the plan. None if the backend has received the plan.
        on_rows: A function that is called with each batch of rows, as a stream in Arrow's IPC format.
        is_complete: Whether the operation has ended.
        reset: The error of the last reset of the connection.
    """

    method: str
    request: _Execution
    reattach: base_pb2.ReattachExecuteRequest
    plan: base_pb2.ExecutePlanRequest | None
    on_rows: OnRows | None = None
    is_complete: bool = False
    reset: BackendError | None = None
    _failing_since: float | None = None
    _begun: float = 0.0
    _messages: int = 0
    _name_characters: int = 0
    _observed: dict[str, int] = field(default_factory=dict)
    _server_side_session_id: str = ""
    _answer: base_pb2.ExecutePlanResponse = field(default_factory=base_pb2.ExecutePlanResponse)

    def __post_init__(self) -> None:
        self._begun = time.monotonic()

    def is_given_up(self) -> bool:
        """Return whether the connection has been failing for too long since the last response."""
        limit_seconds = REATTACH_SECONDS if self.plan is None else START_SECONDS
        return self._failing_since is not None and time.monotonic() - self._failing_since > limit_seconds

    def count_reset(self, error: BackendError) -> None:
        """Record a reset of the connection. The next call reattaches."""
        self.reset = error
        self._failing_since = self._failing_since or time.monotonic()
        self.reattach_next()

    def count_empty_stream(self) -> None:
        """Record that the backend ended a stream at once, before it sent a response."""
        self._failing_since = self._failing_since or time.monotonic()

    def reattach_next(self) -> None:
        """Let the next call reattach to the operation."""
        self.method, self.request = "ReattachExecute", self.reattach

    def choose_next(self, condition: str, server_side_session_id: str) -> None:
        """Choose the next call after an answer of the backend that is not a reset.

        Args:
            condition: The condition of the answer.
            server_side_session_id: The session to which the plan belongs. Empty if it is not known.
        """
        if self.plan is not None and self.reset is not None and condition == OPERATION_NOT_FOUND:
            self.plan.client_observed_server_side_session_id = server_side_session_id
            self.method, self.request = "ExecutePlan", self.plan
        else:
            self.reattach_next()

    def may_continue(self, error: BackendError) -> bool:
        """Return whether another call can continue the operation after an error."""
        in_doubt = self.plan is not None and self.reset is not None
        return _is_reset(error.error) or (
            in_doubt and condition_of(error.error) in (OPERATION_NOT_FOUND, _KNOWN_OPERATION)
        )

    def take(self, response: base_pb2.ExecutePlanResponse) -> bool:
        """Record a response.

        Returns:
            False if the backend has sent more messages, or longer names, than Spark would.
        """
        self._messages += self.on_rows is None or not response.arrow_batch.row_count
        observed = len(self._observed) + len(response.observed_metrics)
        self._name_characters += sum(len(metrics.name) for metrics in response.observed_metrics)
        longest_id = max(len(response.response_id), len(response.server_side_session_id))
        if self._name_characters > _MAX_NAME_CHARACTERS or longest_id > _MAX_ID_CHARACTERS:
            return False
        allowed = _MAX_MESSAGES + _MAX_MESSAGES_A_SECOND * (time.monotonic() - self._begun)
        if self._messages > allowed or observed > _MAX_METRICS:
            return False
        self.plan = self._failing_since = None
        if response.response_id:
            self.reattach.last_response_id = response.response_id
        self._server_side_session_id = response.server_side_session_id or self._server_side_session_id
        for metrics in response.observed_metrics:
            if metrics.values:
                self._observed[metrics.name] = metrics.values[0].long
        if response.HasField("sql_command_result"):
            self._answer.sql_command_result.CopyFrom(response.sql_command_result)
        self.is_complete = response.HasField("result_complete")
        return True

    def result(self) -> ExecutionResult:
        return ExecutionResult(self._observed, self._server_side_session_id, self._answer)


def _is_reset(error: aio.AioRpcError) -> bool:
    """Return whether an operation may still run after an error of its stream."""
    return error.code() is grpc.StatusCode.UNAVAILABLE or condition_of(error) == _DISCONNECTED


def _refuse_user_defined(data_type: types_pb2.DataType) -> None:
    """Raise an error if a type is or contains a user-defined type.

    Converting a user-defined type would import a Python class that the client specifies.

    Raises:
        SparkError: If the type is or contains a user-defined type.
    """
    if not _has_user_defined(data_type):
        return
    columns = [field.name for field in data_type.struct.fields if _has_user_defined(field.data_type)]
    raise SparkError(
        "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE",
        "Tables cannot contain columns of user-defined types. Convert the columns to their underlying types.",
        format="table",
        columnName=", ".join(map(quote_name, columns)),
        columnType='"UDT"',
    )


def _refuse_long_metadata(data_type: types_pb2.DataType) -> None:
    """Raise an error if the metadata of all columns together are long. They are JSON, which is read at once.

    Raises:
        GatewayError: If the metadata have too many characters.
    """
    fields = (each for each in _parts_of(data_type) if isinstance(each, types_pb2.DataType.StructField))
    if sum(len(field.metadata) for field in fields) > _MAX_METADATA_CHARACTERS:
        raise GatewayError(
            "LODGE_TEMPORARY_TABLE_OPERATION",
            "0A000",
            f"The columns have metadata of more than {_MAX_METADATA_CHARACTERS:,} characters together, which Lodge "
            "does not store in tables. Remove the metadata, for example with col('a').alias('a', metadata={}).",
        )


def _has_user_defined(data_type: types_pb2.DataType) -> bool:
    return any(isinstance(each, types_pb2.DataType) and each.HasField("udt") for each in _parts_of(data_type))


def _parts_of(data_type: types_pb2.DataType) -> Iterator[Message]:
    """Yield a type and all messages in it."""
    pending: list[Message] = [data_type]
    while pending:
        message = pending.pop()
        yield message
        for descriptor, value in message.ListFields():
            if descriptor.message_type is not None:
                pending += [value] if isinstance(value, Message) else list(value)
