"""Which statements Lodge answers itself, and how each becomes an operation.

Why it exists: a plan is Spark's to run unless it creates, changes or removes a temporary table, or would change what a
temporary table's name means. All of that is decided from here, for SQL text and for the other commands alike.
"""

import asyncio
import time
import uuid
from collections.abc import Iterator, Mapping

import structlog
from pyspark.sql.connect.proto import base_pb2

from gateway.backend_session import BackendSession
from gateway.config import GatewayConfig
from gateway.current_workspaces import CurrentWorkspaces
from gateway.errors import Metadata, SyntaxRefusedError
from gateway.names.plan_resolver import PlanResolver
from gateway.operations import Operation, Operations, Work
from gateway.plan_decoding import decode_without_plan
from gateway.responses import Response, Values, row
from gateway.session_settings import SessionSettings
from gateway.sessions.registry import Sessions
from gateway.sessions.session import Session
from gateway.sql.statement_error import StatementError
from gateway.sql.statement_parser import parse_statement
from gateway.sql.statements import Statement
from gateway.sql_relations import find_sql, find_sql_relation
from gateway.storage import Storage
from gateway.tables.asked import Asked
from gateway.tables.data_frame_commands import DataFrameCommands, concerns_tables
from gateway.tables.permanent_tables import PermanentTables
from gateway.tables.records import TableRecords
from gateway.tables.sql_commands import SqlCommands, SqlStatement
from gateway.tables.temporary_tables import TemporaryTables
from gateway.tables.writes import Execution, TableWrites, statement_lost
from workspace.leases import LeaseObserver
from workspace.record_changes import find_answer
from workspace.records import Answer, PendingWrite, ReplicaId, SessionRecord, TemporaryTable

_LONGEST_POLL_SECONDS = 1.0

log = structlog.get_logger(__name__)


class OwnStatements:
    """Starts the operations of the statements that Lodge answers.

    Args:
        replica: This replica.
        storage: Records, leases and locations.
        sessions: All sessions of the replica.
        operations: Where the statements run.
        workspaces: As they are now.
        config: The replica's settings.
    """

    def __init__(
        self,
        *,
        replica: ReplicaId,
        storage: Storage,
        sessions: Sessions,
        operations: Operations,
        workspaces: CurrentWorkspaces,
        config: GatewayConfig,
    ) -> None:
        self._replica = replica
        self._storage = storage
        self._operations = operations
        self._workspaces = workspaces
        self._config = config
        self._records = TableRecords(storage)
        self._writes = TableWrites(replica, storage, sessions)
        self._tables = TemporaryTables(
            replica=replica,
            storage=storage,
            sessions=sessions,
            writes=self._writes,
            workspaces=workspaces,
            limits=config.limits,
        )
        permanent = PermanentTables(replica, storage, self._writes)
        self._sql = SqlCommands(self._tables, permanent)
        self._commands = DataFrameCommands(self._tables)

    async def stop(self) -> None:
        """Waits for what goes on in the background."""
        await self._writes.stop()

    async def names(self, session: Session, backend: BackendSession) -> PlanResolver:
        """What names mean in the session now."""
        record = await self._records.read(session)
        return PlanResolver(self._workspaces.now, record.tables, await backend.read_settings())

    async def start(
        self, session: Session, request: bytes, plan: base_pb2.Plan, metadata: Metadata
    ) -> Operation | None:
        """The started operation, if the plan is a statement of Lodge's own; None if it is Spark's.

        Raises: GatewayError, if the plan may not run.
        """
        relation = find_sql_relation(plan)
        sql = None if relation is None else find_sql(relation)
        if sql is None and not concerns_tables(plan):
            return None
        if sql is not None and not _is_readable(sql.query):
            return None
        operation = _operation(request)
        backend = BackendSession(session.backend, operation.request, metadata)
        settings = await backend.read_settings()
        statement = None if sql is None else _recognised(sql.query, settings)
        if sql is not None and statement is None:
            return None
        if sql is not None and self._config.log_query_text:
            log.info("statement_recognised", query=sql.query)
        execution = Execution(session, operation, backend, settings)
        self._writes.require_lease(session)  # where records cannot be read either, this is known at once
        record = await self._records.read(session)
        if _knows(record, operation.id):
            self._operations.start(operation, lambda _: self._followed(execution))
            return operation
        if await self._tables.settle(execution, record):
            record = await self._records.read(session)
        asked = Asked(execution, record, PlanResolver(self._workspaces.now, record.tables, settings))
        work: Work | None
        if relation is not None and statement is not None:
            work = await self._sql.work(statement, SqlStatement(asked, relation))
        else:
            work = await self._commands.work(asked, plan)
        if work is None:
            return None
        self._operations.start(operation, work)
        return operation

    async def under_way(self, session: Session) -> Mapping[str, str]:
        """The statements that write now, at any replica: the backend's operation by the client's.

        Raises: GatewayError.
        """
        record = await self._records.read(session)
        return {write.operation_id: write.directory for write in _writes(record)}

    async def follow(
        self, session: Session, request: base_pb2.ReattachExecuteRequest, metadata: Metadata
    ) -> Operation | None:
        """The operation of a statement that another replica began; None if it is none of Lodge's."""
        record = await self._records.read(session)
        if not _knows(record, request.operation_id):
            return None
        client_request = base_pb2.ExecutePlanRequest(
            session_id=request.session_id,
            user_context=request.user_context,
            operation_id=request.operation_id,
            client_type=request.client_type,
        )
        client_request.request_options.add().reattach_options.reattachable = True
        operation = Operation(client_request)
        backend = BackendSession(session.backend, client_request, metadata)
        execution = Execution(session, operation, backend, SessionSettings())
        self._operations.start(operation, lambda _: self._followed(execution))
        return operation

    async def before_clone(self, session: Session) -> SessionRecord:
        """What :meth:`copy_to_clone` needs to know from before the backend makes a clone."""
        return await self._records.read(session)

    async def copy_to_clone(
        self,
        before: SessionRecord,
        parent: Session,
        clone: Session,
        request: base_pb2.CloneSessionRequest,
        metadata: Metadata,
    ) -> None:
        """Gives a session that the backend made as a clone tables of its own. Raises: GatewayError, OSError."""
        if not before.tables:
            return
        client_request = base_pb2.ExecutePlanRequest(
            session_id=clone.key.client_session_id,
            user_context=request.user_context,
            operation_id=str(uuid.uuid4()),
            client_type=request.client_type,
        )
        backend = BackendSession(clone.backend, client_request, metadata)
        execution = Execution(clone, Operation(client_request), backend, SessionSettings())
        await self._tables.copy_to_clone(before.tables, parent, execution)

    async def _followed(self, execution: Execution) -> Response:
        """The answer of a statement that another replica began, or that this one completes in its place.

        Raises: GatewayError if nothing is left of it.
        """
        lease_seconds = self._config.lease_duration_seconds
        observer = LeaseObserver(lease_seconds)
        while True:
            record = await self._records.read(execution.session)
            answer = find_answer(record, execution.operation.id)
            if answer is not None:
                return row(_values(answer))
            pending = _pending(record, execution.operation.id)
            if pending is None:
                raise statement_lost()
            table, write = pending
            if await self._is_lost(write.replica, observer):
                if table is None:
                    raise statement_lost()
                if not write.is_published:
                    return await self._tables.take_over(execution, table, write)
                await self._writes.complete_for(execution, table, write)
                continue
            await asyncio.sleep(min(lease_seconds / 5, _LONGEST_POLL_SECONDS))

    async def _is_lost(self, replica: ReplicaId, observer: LeaseObserver) -> bool:
        """Whether nobody follows a write any more; of this replica's own, one that no operation runs for."""
        if replica == self._replica:
            return True
        leases = await self._storage.run_lease(self._storage.leases.list)
        observer.observe(leases, {replica}, time.monotonic())
        return replica in observer.lost(time.monotonic())


def _operation(request: bytes) -> Operation:
    client_request = decode_without_plan(request)
    client_request.operation_id = client_request.operation_id or str(uuid.uuid4())
    return Operation(client_request)


def _is_readable(sql: str) -> bool:
    """Whether a text is a statement that may be Lodge's, however the session reads quotes."""
    try:
        return parse_statement(sql) is not None or (
            '"' in sql and parse_statement(sql, double_quoted_identifiers=True) is not None
        )
    except StatementError:
        return True


def _recognised(sql: str, settings: SessionSettings) -> Statement | None:
    try:
        return parse_statement(sql, double_quoted_identifiers=settings.double_quoted_identifiers)
    except StatementError as error:
        raise SyntaxRefusedError("PARSE_SYNTAX_ERROR", "42601", str(error)) from error


def _writes(record: SessionRecord) -> Iterator[PendingWrite]:
    yield from record.writes
    for table in record.tables:
        yield from table.writes


def _knows(record: SessionRecord, operation_id: str) -> bool:
    return find_answer(record, operation_id) is not None or _pending(record, operation_id) is not None


def _pending(record: SessionRecord, operation_id: str) -> tuple[TemporaryTable | None, PendingWrite] | None:
    """What an operation is writing, and the temporary table that it is for; None if it writes nothing."""
    for table in record.tables:
        for write in table.writes:
            if write.operation_id == operation_id:
                return table, write
    return next(((None, write) for write in record.writes if write.operation_id == operation_id), None)


def _values(answer: Answer) -> Values:
    return dict(answer.values)
