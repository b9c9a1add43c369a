"""A model of a Spark Connect server, which exchanges real messages with gateways.

The gateway's own calls to the backend are a part of the protocol:

- A write continues when nobody follows it any more.
- A task of a write may write a file long after the write was interrupted.
- A driver that dies loses its sessions and operations, but its executors continue.

The model has sessions with temporary views, writes into a directory, and operations that can be reattached, interrupted
and released. Like Spark, it refuses to change the rows of a view. It has no data, and only the plans that the gateway
itself creates for temporary tables.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.message import Message
from grpc import aio
from pyspark.sql.connect.proto import base_pb2, commands_pb2, relations_pb2
from pyspark.sql.connect.types import pyspark_types_to_proto_types
from pyspark.sql.types import LongType, StructField, StructType

from gateway.errors import SPARK_SQL_EXCEPTION, GatewayError
from gateway.messages.error_status import STATUS_DETAILS_KEY, error_status
from gateway.stored_tables.table_plans import row_count_name
from tests.simulation.schedule import Schedule
from tests.simulation.storage import Storage
from workspace.identifiers import SessionUuid, TableUuid, is_uuid

Reply = Callable[[Sequence[bytes] | Exception], object]
"""Receives the responses of a call, or the reason for its failure."""

_SCHEMA = pyspark_types_to_proto_types(StructType([StructField("id", LongType())]))
_ADDED = pyspark_types_to_proto_types(StructType([StructField("x", LongType())]))
_VIEW_PREFIX = "system.session.`"
_State = base_pb2.GetStatusResponse.OperationStatus


@dataclass(slots=True)
class _Operation:
    """A statement.

    Attributes:
        id: The operation id that the client chose.
        server_session: The server's id of the session.
        target: The directory that it writes; None if it writes nothing.
        is_creation: Whether it creates this directory itself.
        answer: Its responses, or the reason for its failure; None while it runs.
        waiting: The calls that wait for its end.
        should_write: Whether its tasks should still write. After a cancellation, some tasks write nevertheless.
    """

    id: str
    server_session: str
    target: tuple[SessionUuid, TableUuid] | None = None
    is_creation: bool = False
    answer: Sequence[bytes] | Exception | None = None
    waiting: list[Reply] = field(default_factory=list)
    should_write: bool = True


@dataclass(slots=True)
class _Session:
    """A client's session at the server."""

    server_id: str
    views: dict[str, tuple[str, ...]] = field(default_factory=dict)
    operations: dict[str, _Operation] = field(default_factory=dict)


class SparkServer:
    """One backend.

    Args:
        address: The address in the gateways' settings.
        schedule: Runs what takes time.
        storage: Receives what tasks write.
        count: Counts an event.
    """

    def __init__(self, address: str, schedule: Schedule, storage: Storage, count: Callable[[str], object]) -> None:
        self.address = address
        self.down_until = 0.0
        self._schedule = schedule
        self._random: random.Random = schedule.random
        self._storage = storage
        self._count = count
        self._sessions: dict[tuple[str, str], _Session] = {}
        self._closed_sessions: dict[tuple[str, str], str] = {}
        self._unknown: set[str] = set()
        self.longest_job_seconds = 1.0
        self.longest_late_write_seconds = 0.0

    def crash(self, down_seconds: float) -> None:
        """Restart without sessions and operations; running tasks may still finish."""
        self._count("backend_crashed")
        self.down_until = self._schedule.now + down_seconds
        for key in list(self._sessions):
            self._end(key, "INVALID_HANDLE.SESSION_CHANGED")

    def release(self, user_id: str, session_id: str) -> None:
        """End a session."""
        self._end((user_id, session_id), "INVALID_HANDLE.SESSION_CLOSED")

    def views_of(self, user_id: str, session_id: str) -> dict[str, tuple[str, ...]] | None:
        """Return the paths that each view of a session reads; None without a session."""
        session = self._sessions.get((user_id, session_id))
        return None if session is None else session.views

    def writes_continue(self, user_id: str, session_id: str, operation_id: str) -> bool:
        """Return whether an operation of a session runs or has succeeded, and nobody was told that it is unknown."""
        if operation_id in self._unknown:  # a gateway may undo it, even if another gateway starts it later
            return False
        session = self._sessions.get((user_id, session_id))
        operation = None if session is None else session.operations.get(operation_id)
        return operation is not None and operation.should_write and not isinstance(operation.answer, Exception)

    def serve(self, method: str, data: bytes, reply: Reply) -> None:
        """Handle a request of a gateway."""
        request = _REQUESTS[method].FromString(data)
        key = (request.user_context.user_id, request.session_id)
        if key in self._closed_sessions:
            reply(_spark_error(self._closed_sessions[key], "The session has ended."))
            return
        session = self._sessions.get(key)
        if session is None:
            if method in {"ReleaseSession", "GetStatus", "Interrupt", "ReleaseExecute", "ReattachExecute"}:
                reply(_spark_error("INVALID_HANDLE.SESSION_NOT_FOUND", "The session does not exist."))
                return
            session = self._sessions[key] = _Session(f"{self._random.getrandbits(64):x}")
        match method:
            case "ExecutePlan":
                self._execute(session, request, reply)
            case "ReattachExecute":
                self._reattach(session, request.operation_id, reply)
            case "AnalyzePlan":
                reply(self._analyze(session, request))
            case "Config":
                reply([_config_response(session, request).SerializeToString()])
            case "GetStatus":
                reply([_status_response(session).SerializeToString()])
            case "Interrupt":
                self._interrupt(session, request.operation_id)
                reply([base_pb2.InterruptResponse().SerializeToString()])
            case "ReleaseExecute":
                reply(_release(session, request))
            case _:
                self._end(key, "INVALID_HANDLE.SESSION_CLOSED")
                reply([base_pb2.ReleaseSessionResponse().SerializeToString()])

    def _execute(self, session: _Session, request: Any, reply: Reply) -> None:
        if request.operation_id in session.operations:
            reply(_spark_error("INVALID_HANDLE.OPERATION_ALREADY_EXISTS", "The operation exists already."))
            return
        operation = _Operation(request.operation_id, session.server_id)
        session.operations[operation.id] = operation
        plan = request.plan
        path = _written_path(plan.command)
        if path:
            operation.target = _write_target(path)
            operation.is_creation = plan.command.HasField("write_operation")
            operation.waiting.append(reply)
            self._schedule.after(self._random.random() * 0.2, lambda: self._start_write(operation))
            return
        if plan.command.sql_command.input.sql.query.startswith("UPDATE"):
            text = "The feature is not supported: Table `unknown` does not support UPDATE TABLE."
            operation.answer = _spark_error("UNSUPPORTED_FEATURE.TABLE_OPERATION", text)
            reply(operation.answer)
            return
        if plan.command.HasField("create_dataframe_view"):
            view = plan.command.create_dataframe_view
            session.views[view.name.strip("`").lower()] = tuple(_view_paths(view.input))
        elif plan.root.catalog.HasField("drop_temp_view"):
            session.views.pop(plan.root.catalog.drop_temp_view.view_name.lower(), None)
        self._complete(operation)
        self._reattach(session, operation.id, reply)

    def _reattach(self, session: _Session, operation_id: str, reply: Reply) -> None:
        operation = session.operations.get(operation_id)
        if operation is None:
            self._unknown.add(operation_id)
            reply(_spark_error("INVALID_HANDLE.OPERATION_NOT_FOUND", "The operation does not exist."))
        elif operation.answer is None:
            operation.waiting.append(reply)
        else:
            reply(operation.answer)

    def _start_write(self, operation: _Operation) -> None:
        """Create the directory of a write, and schedule its tasks."""
        target = operation.target
        if target is None or not operation.should_write:
            return
        if operation.is_creation and self._storage.table(*target) is not None:
            self._finish(operation, _spark_error("PATH_ALREADY_EXISTS", "The path exists."))
            return
        self._storage.write(*target, None)
        seconds = self.longest_job_seconds * self._random.choice((0.05, 0.1, 0.3, 1.0))
        files = self._random.randint(1, 3)
        for number in range(files):
            self._schedule.after(seconds * self._random.random(), lambda number=number: self._write(operation, number))
        self._schedule.after(seconds, lambda: self._finish(operation, None) if operation.should_write else None)

    def _write(self, operation: _Operation, number: int) -> None:
        """Write the file of one task, perhaps late if the write was cancelled."""
        if operation.target is None:
            return
        if operation.should_write:
            self._storage.write(*operation.target, number)
        elif self._random.random() < 0.5:

            def write_late(target: tuple[SessionUuid, TableUuid]) -> None:
                self._count("late_writes")
                if target[0] not in self._storage.locations:
                    self._count("locations_restored")
                self._storage.write(*target, number)

            delay = self._random.random() * self.longest_late_write_seconds
            self._schedule.after(delay, lambda target=operation.target: write_late(target))

    def _finish(self, operation: _Operation, error: Exception | None) -> None:
        if error is None:
            self._complete(operation)
        else:
            operation.answer = error
        for reply in operation.waiting:
            reply(operation.answer or ())
        operation.waiting.clear()

    def _complete(self, operation: _Operation) -> None:
        response = base_pb2.ExecutePlanResponse(
            operation_id=operation.id, response_id=f"{operation.id}-1", server_side_session_id=operation.server_session
        )
        if operation.target is not None:
            metrics = response.observed_metrics.add(name=row_count_name(operation.target[1]))
            written = self._storage.table(*operation.target)
            metrics.values.add().long = len(written.files) if written is not None else 0
        response.result_complete.SetInParent()
        operation.answer = [response.SerializeToString()]

    def _interrupt(self, session: _Session, operation_id: str) -> None:
        operation = session.operations.get(operation_id)
        if operation is not None and operation.answer is None:
            operation.should_write = False
            self._finish(operation, _spark_error("OPERATION_CANCELED", "The operation was interrupted."))

    def _end(self, key: tuple[str, str], error_class: str) -> None:
        session = self._sessions.pop(key, None)
        self._closed_sessions[key] = error_class
        if session is not None:
            for operation in session.operations.values():
                if operation.answer is None:
                    operation.should_write = False
                    self._finish(operation, _spark_error(error_class, "The session has ended."))

    @staticmethod
    def _analyze(session: _Session, request: Any) -> Sequence[bytes] | Exception:
        response = base_pb2.AnalyzePlanResponse()
        kind = request.WhichOneof("analyze")
        if kind == "ddl_parse":
            response.ddl_parse.parsed.CopyFrom(_ADDED)
            return [response.SerializeToString()]
        relation = getattr(request, kind).plan.root
        name = relation.read.named_table.unparsed_identifier
        paths: Sequence[str] = ()
        if name:
            view = name.removeprefix(_VIEW_PREFIX).strip("`").lower()
            if view not in session.views:
                return _spark_error("TABLE_OR_VIEW_NOT_FOUND", f"The table or view {name} cannot be found.")
            paths = session.views[view]
        match kind:
            case "schema":
                response.schema.schema.CopyFrom(_SCHEMA)
            case "input_files":
                response.input_files.files.extend(f"file://{path}/part-0" for path in paths)
            case "explain":
                response.explain.explain_string = f"View (`{view}`, [id])" if name else ""
        return [response.SerializeToString()]


def _config_response(session: _Session, request: Any) -> base_pb2.ConfigResponse:
    response = base_pb2.ConfigResponse(server_side_session_id=session.server_id)
    response.pairs.extend(request.operation.get_with_default.pairs)
    return response


def _release(session: _Session, request: base_pb2.ReleaseExecuteRequest) -> Sequence[bytes] | Exception:
    """Release an operation, or refuse to release responses up to one that the operation does not have."""
    response = base_pb2.ReleaseExecuteResponse()
    if request.operation_id in session.operations:
        if request.HasField("release_until"):
            return _spark_error("INVALID_CURSOR.POSITION_NOT_FOUND", "The response does not exist.")
        del session.operations[request.operation_id]
        response.operation_id = request.operation_id
    return [response.SerializeToString()]


def _status_response(session: _Session) -> base_pb2.GetStatusResponse:
    response = base_pb2.GetStatusResponse()
    for operation in session.operations.values():
        running = operation.answer is None
        state = _State.OPERATION_STATE_RUNNING if running else _State.OPERATION_STATE_SUCCEEDED
        response.operation_statuses.add(operation_id=operation.id, state=state)
    return response


def _written_path(command: commands_pb2.Command) -> str:
    """Return the path to which a command writes rows. Empty if it does not write any."""
    if command.HasField("write_operation"):
        return command.write_operation.path
    references = command.sql_command.input.with_relations.references
    scans = [each.subquery_alias.input.read.data_source for each in references]
    return next((scan.paths[0] for scan in scans if scan.paths), "")


def _write_target(path: str) -> tuple[SessionUuid, TableUuid]:
    """Return the session and the table directory of a path.

    Raises:
        ValueError: The path is not that of a table in a session location.
    """
    session, table = Path(path).parts[-2:]
    if not is_uuid(session) or not is_uuid(table):
        raise ValueError(f"A statement writes to {path!r}, which is not a table directory of a session.")
    return SessionUuid(session), TableUuid(table)


def _view_paths(relation: relations_pb2.Relation) -> Sequence[str]:
    """Return the paths that a table's view reads."""
    while relation.HasField("project"):
        relation = relation.project.input
    return list(relation.read.data_source.paths)


class _SparkFailureError(GatewayError):
    spark_class = SPARK_SQL_EXCEPTION


def _spark_error(error_class: str, text: str) -> aio.AioRpcError:
    code, message, ((_, details),) = error_status(_SparkFailureError(error_class, "HY000", text))
    return rpc_error(code, message, details)


def rpc_error(code: grpc.StatusCode, text: str, details: bytes = b"") -> aio.AioRpcError:
    trailing = aio.Metadata((STATUS_DETAILS_KEY, details)) if details else aio.Metadata()
    return aio.AioRpcError(code, aio.Metadata(), trailing, text)


_REQUESTS: dict[str, type[Message]] = {
    "ExecutePlan": base_pb2.ExecutePlanRequest,
    "ReattachExecute": base_pb2.ReattachExecuteRequest,
    "AnalyzePlan": base_pb2.AnalyzePlanRequest,
    "Config": base_pb2.ConfigRequest,
    "GetStatus": base_pb2.GetStatusRequest,
    "Interrupt": base_pb2.InterruptRequest,
    "ReleaseExecute": base_pb2.ReleaseExecuteRequest,
    "ReleaseSession": base_pb2.ReleaseSessionRequest,
}
