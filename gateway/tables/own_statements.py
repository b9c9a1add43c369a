"""Finds the statements that Lodge executes instead of the backend.

Spark executes most plans. Lodge executes a plan itself if the plan creates, changes or drops a temporary table, or if
the plan would change which table the name of a temporary table refers to. This module makes that decision for SQL text
and for all other commands.
"""

import asyncio
import time
import uuid
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import structlog
from pyspark.sql.connect.proto import base_pb2

from gateway.auditing.audit import Audit
from gateway.authorization.authorization import Authorization
from gateway.backends.backend_session import BackendSession, OnProgress
from gateway.backends.session_settings import SessionSettings
from gateway.blocking_work.current_work import CurrentWork, NotedRequest, digest_of
from gateway.blocking_work.current_workspaces import CurrentWorkspaces
from gateway.blocking_work.request_pools import RequestPools
from gateway.blocking_work.storage import Storage
from gateway.config import GatewayConfig
from gateway.errors import LEASE_LOST, SESSION_CLOSED, GatewayError, ParseError
from gateway.messages.error_status import Metadata
from gateway.messages.requests import Request
from gateway.messages.statement_request import StatementRequest
from gateway.names.plan_resolver import PlanResolver
from gateway.operations.drain import Drain
from gateway.operations.operations import Operation, Operations, Runner
from gateway.operations.responses import Response, build_row_response
from gateway.plans.plan_decoding import DecodedPlan
from gateway.plans.sql_relations import find_sql, find_statement
from gateway.scans.discovery_progress import DiscoveryProgress, is_of_lodge_statement
from gateway.scans.lost_discoveries import discovery_lost
from gateway.scans.planner import ScanPlanner, SessionScans
from gateway.scans.plannings import Plannings
from gateway.sessions.adoption import find_abandoned
from gateway.sessions.registry import Sessions
from gateway.sessions.session import Session
from gateway.sessions.suspects import check_request
from gateway.sql.name_syntax import qualify_with_session
from gateway.sql.sql_texts import SqlTexts
from gateway.sql.statement_error import StatementError
from gateway.sql.statements import CreateView
from gateway.tables.changes import is_lost, is_undone, is_unknown, mark_lost
from gateway.tables.clones import TableCopies
from gateway.tables.data_frame_commands import DataFrameCommands, concerns_tables
from gateway.tables.errors import ChangeTakenError, StatementStartedError, permanent_table_unknown, statement_lost
from gateway.tables.execution import StatementExecutor
from gateway.tables.permanent_tables import PermanentTables
from gateway.tables.quotas import Quotas
from gateway.tables.recognition import SqlRecognition
from gateway.tables.records import TableRecords
from gateway.tables.session_administration import SessionAdministration
from gateway.tables.sql_commands import SqlCommands
from gateway.tables.sql_statement import SqlStatement
from gateway.tables.statement_context import Execution, StatementContext
from gateway.tables.temporary_tables import TemporaryTables
from gateway.tables.undo import TRANSIENT_ERRORS
from workspace.identifiers import ReplicaId
from workspace.leases import LeaseObserver
from workspace.record_changes import find_answer, find_change, is_known
from workspace.record_store import StoredRecord
from workspace.records import NO_REPLICA, PendingChange, PendingWrite, SessionRecord, TableState, TemporaryTable

_MAX_POLL_SECONDS = 1.0
_FIRST_RETRY_SECONDS = 1.0
_MAX_RETRY_SECONDS = 60.0
_COMPLETION = "completion"
_SUSPECTED = "A gateway was lost while it completed the statement. The end of the session removes it."

log = structlog.get_logger(__name__)


class OwnStatements:
    """Starts the operations of Lodge statements.

    Args:
        replica: The name of this replica.
        storage: The session records, leases and session locations.
        sessions: The sessions that this replica serves.
        operations: The operations of this replica.
        workspaces: The configured workspaces.
        config: The configuration of this replica.
        audit: The audit events of this replica.
        pools: The threads that parse long SQL texts and resolve names.
        drain: What this replica hands over when it stops.
        work: The memory in which this replica notes on which requests it works.
        planner: Plans the scans of statements.
        plannings: The statements whose scans are being planned.
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
        audit: Audit,
        pools: RequestPools,
        drain: Drain,
        work: CurrentWork,
        planner: ScanPlanner,
        plannings: Plannings,
    ) -> None:
        self._drain = drain
        self._work = work
        self._replica = replica
        self._storage = storage
        self._sessions = sessions
        self._operations = operations
        self._workspaces = workspaces
        self._config = config
        self._pools = pools
        self._planner = planner
        self._plannings = plannings
        self._records = TableRecords(storage)
        self._executor = StatementExecutor(replica, storage, sessions, drain)
        quotas = Quotas(config.limits, self._records)
        self._tables = TemporaryTables(
            replica=replica, storage=storage, executor=self._executor, workspaces=workspaces, quotas=quotas
        )
        self._copies = TableCopies(replica, storage, sessions, self._executor, quotas)
        authorization = Authorization(config.admins)
        self._permanent = PermanentTables(
            replica,
            storage,
            sessions,
            self._executor,
            workspaces=workspaces,
            authorization=authorization,
            audit=audit,
            drain=drain,
        )
        self._administration = SessionAdministration(storage, sessions, operations, authorization, audit)
        self._sql = SqlCommands(self._tables, self._permanent, self._administration)
        self._commands = DataFrameCommands(self._tables)

    async def stop(self) -> None:
        """Wait for background tasks to finish."""
        await self._executor.stop()
        await self._administration.stop()

    async def names(
        self, session: Session, backend: BackendSession, texts: SqlTexts, on_progress: OnProgress | None = None
    ) -> PlanResolver:
        """Return a resolver for the names in a session.

        The resolver uses the current tables and settings of the session.

        Args:
            session: The session of the client.
            backend: The session at the backend.
            texts: The SQL texts of the request.
            on_progress: Called with each progress message of discovery. None if the client cannot receive it.

        Raises:
            GatewayError: If the session has ended, or the storage or the backend fails.
        """
        settings = await backend.read_settings()
        record = await self._read_record(session, backend, settings)
        if await self._tables.complete_published(_execution_of_lodge(session, backend), record):
            record = await self._read_record(session, backend, settings)
        return self._resolver(session, backend, record, settings, on_progress=on_progress, texts=texts)

    def _resolver(
        self,
        session: Session,
        backend: BackendSession,
        record: SessionRecord,
        settings: SessionSettings,
        *,
        on_progress: OnProgress | None,
        texts: SqlTexts,
    ) -> PlanResolver:
        workspaces = self._workspaces.now
        scans = SessionScans(self._planner, session.key.principal, backend, workspaces, on_progress)
        return PlanResolver(workspaces, record.tables, settings, scans, texts)

    async def start(
        self, session: Session, request: Request, decoded: DecodedPlan, metadata: Metadata, progress: DiscoveryProgress
    ) -> Operation | None:
        """Start the operation of a plan that Lodge executes.

        Args:
            session: The session of the client.
            request: The ``ExecutePlan`` request of the client.
            decoded: The plan of the request.
            metadata: The metadata of the request.
            progress: Sends the progress of discovery to the client.

        Returns:
            The operation. None if Spark executes the plan.

        Raises:
            GatewayError: If the plan is not allowed, or its statement is malformed.
        """
        plan = decoded.plan
        relation = find_statement(plan)
        sql = None if relation is None else find_sql(relation)
        if sql is None and not concerns_tables(plan):
            return None
        recognition = None if sql is None else SqlRecognition(decoded.texts.of(sql.query), self._pools)
        if recognition is not None and not await recognition.may_concern_tables():
            return None
        operation = _operation(request, plan)
        backend = BackendSession(session.backend, operation.request, metadata)
        settings = await backend.read_settings()
        statement = None if recognition is None else await recognition.parse(settings.dialect)
        if recognition is not None and statement is None:
            return None
        if isinstance(statement, StatementError):
            raise ParseError(str(statement)) from statement
        if sql is not None and self._config.log_query_text:
            log.info("statement_recognised", query=sql.query)
        execution = Execution(session, operation, backend, settings, request.identity)
        await self._sessions.ensure_joined(session)  # fail early, because reading the record can take long
        record = await self._read_record(session, backend, settings)
        if is_known(record, operation.id):
            self._operations.start(operation, lambda: self._follow(execution))
            return operation
        if await self._tables.complete_published(execution, record):
            record = await self._read_record(session, backend, settings)
        is_view = isinstance(statement, CreateView) or plan.command.HasField("create_dataframe_view")
        on_progress = progress.send if is_view else progress.send_of_lodge_statement  # Spark creates views
        names = self._resolver(session, backend, record, settings, on_progress=on_progress, texts=decoded.texts)
        context = StatementContext(execution, record, names, self._workspaces.reads)
        work: Coroutine[Any, Any, Runner | None]
        if relation is not None and sql is not None and recognition is not None and statement is not None:
            evaluated = await recognition.evaluate_names(statement, sql, settings.dialect)
            work = self._sql.work(statement, SqlStatement(context, relation, evaluated))
        else:
            work = self._commands.work(context, plan)
        runner = await self._plannings.run(session.key, operation.request, work)
        if runner is None:
            return None
        self._operations.start(operation, lambda: self._run_or_follow(runner, execution))
        return operation

    async def running_writes(self, session: Session) -> Mapping[str, str]:
        """Return the backend operation ids of the running writes.

        Returns:
            A mapping from the operation id of the client to the operation id of the backend.

        Raises:
            GatewayError: If the session has ended, or the storage fails.
        """
        record = await self._records.read(session)
        writes = (*record.writes, *(write for table in record.tables for write in table.writes))
        return {write.operation_id: write.directory for write in writes}

    async def follow(
        self, session: Session, request: base_pb2.ReattachExecuteRequest, metadata: Metadata
    ) -> Operation | None:
        """Start an operation that follows a statement of another replica.

        The operation waits for the answer of a statement that another replica started. If that replica is lost, the
        operation completes the statement. A statement whose stream was lost during discovery cannot begin afterwards.

        Args:
            session: The session of the client.
            request: The request of the client to reattach to the statement.
            metadata: The metadata of the request.

        Returns:
            The operation. None if the statement is not a Lodge statement.

        Raises:
            GatewayError: If the statement was lost during discovery, the session has ended, or the storage fails.
        """
        record = await self._records.read(session)
        if running := self._operations.find(session.key, request.operation_id):  # started while the record was read
            return running
        if not is_known(record, request.operation_id):
            if not is_of_lodge_statement(request.last_response_id):
                return None
            await self._lose(session, request.operation_id)
            if running := self._operations.find(session.key, request.operation_id):  # started concurrently
                return running
        statement = StatementRequest(
            request.session_id, request.user_context, request.operation_id, request.client_type, is_reattachable=True
        )
        execution = _execution(session, statement, metadata)
        self._operations.start(execution.operation, lambda: self._follow(execution))
        return execution.operation

    async def _lose(self, session: Session, operation_id: str) -> None:
        """Prevent a statement from beginning, unless it has already begun."""
        await self._sessions.ensure_joined(session)
        with suppress(StatementStartedError):
            await self._records.change(session, mark_lost(operation_id))

    def complete_abandoned(self, session: Session, stored: StoredRecord) -> None:
        """Complete the changes of lost replicas in the background.

        The client may be gone, or may not reconnect soon. If the client reattaches to a statement, it follows the
        operation that this method starts. As for each operation that no client follows, the operation of a statement
        that still writes rows is interrupted after the detached timeout.

        Args:
            session: A session that this replica serves.
            stored: The record of the session, which may be outdated.
        """
        for change in find_abandoned(stored, self._sessions.peers.lost | {NO_REPLICA}):
            if self._drain.is_handing_over or self._operations.is_used(session.key, change.operation_id):
                continue
            execution = _execution(session, StatementRequest.of_principal(*session.key, change.operation_id), ())
            digest = digest_of(_COMPLETION, change.operation_id.encode())
            try:
                check_request(session.suspects, _COMPLETION, change.operation_id, digest)
            except GatewayError:
                log.warning("statement_not_completed", operation=change.operation_id, reason=_SUSPECTED)
                continue
            request = NotedRequest(session.record_name, digest, change.operation_id)
            log.info("statement_completion_started", operation=change.operation_id, replica=change.replica)
            self._operations.start(execution.operation, self._completion(execution, request))

    def _completion(self, execution: Execution, request: NotedRequest) -> Runner:
        """Return the function that completes an abandoned statement, and notes that this gateway works on it."""
        return lambda: self._work.note(request, self._complete_abandoned(execution))

    async def before_clone(self, session: Session) -> SessionRecord:
        """Return the record of a session that the backend is about to clone."""
        return await self._records.read(session)

    async def copy_to_clone(
        self,
        before: SessionRecord,
        parent: Session,
        clone: Session,
        request: base_pb2.CloneSessionRequest,
        metadata: Metadata,
    ) -> None:
        """Copy the temporary tables of a session to a clone of the session.

        Args:
            before: The record of the parent session, read before the backend cloned the session.
            parent: The session that was cloned.
            clone: The new session.
            request: The request of the client.
            metadata: The metadata of the request.

        Raises:
            GatewayError: If the clone would exceed a quota, or the backend or the storage fails.
            OSError: If the storage fails.
        """
        if not before.tables:
            return
        statement = StatementRequest(
            clone.key.client_session_id, request.user_context, str(uuid.uuid4()), request.client_type
        )
        await self._copies.copy_all(before.tables, parent, _execution(clone, statement, metadata))

    async def _read_record(self, session: Session, backend: BackendSession, settings: SessionSettings) -> SessionRecord:
        """Return the session record, with the table names that Spark uses.

        Spark stores the name of a view in lower case, unless ``spark.sql.caseSensitive`` is enabled. If the client
        enables the setting after it created the table ``Ab``, Spark finds the table only as ``ab``.
        """
        record = await self._records.read(session)
        if not settings.is_case_sensitive:
            return record
        return replace(record, tables=tuple([await _as_spark_names(table, backend) for table in record.tables]))

    async def _run_or_follow(self, work: Runner, execution: Execution) -> Response:
        """Execute a statement, or follow it if another replica began it under the same id, or took it over."""
        try:
            return await work()
        except (StatementStartedError, ChangeTakenError):
            return await self._follow(execution)

    async def _complete_abandoned(self, execution: Execution) -> Response:
        """Complete a change of a lost replica. Retry this while the change is published, and so cannot be undone."""
        session, operation = execution.session, execution.operation
        pause_seconds = _FIRST_RETRY_SECONDS
        with session.log_context():
            while True:
                try:
                    return await self._follow(execution)
                except TRANSIENT_ERRORS as error:
                    log.warning("statement_not_completed", operation=operation.id, reason=str(error))
                    if self._sessions.find(session.key) is not session or not await self._is_published(execution):
                        raise
                await asyncio.sleep(pause_seconds)
                pause_seconds = min(2 * pause_seconds, _MAX_RETRY_SECONDS)

    async def _is_published(self, execution: Execution) -> bool:
        """Return whether the change of an operation is published, or its state cannot be read."""
        try:
            record = await self._records.read(execution.session)
        except GatewayError as error:
            return error.condition != SESSION_CLOSED
        found = find_change(record, execution.operation.id)
        return found is not None and found[1].is_published

    async def _follow(self, execution: Execution) -> Response:
        """Wait for a statement that another replica started, and return its answer.

        If the other replica is lost, complete the statement. The completion counts as a request of the session, so the
        session is not idle. The wait does not count.

        Raises:
            GatewayError: If the statement failed or was undone.
        """
        lease_seconds = self._config.lease_duration_seconds
        observer = LeaseObserver(lease_seconds)
        execution.operation.executes = False
        while True:
            self._drain.require_not_stopping()
            record = await self._records.read(execution.session)
            execution.operation.is_relation |= execution.operation.id in record.relations
            answer = find_answer(record, execution.operation.id)
            if answer is not None:
                if is_lost(answer):
                    execution.operation.executes = True  # no other gateway records how it ended
                    raise discovery_lost()
                if is_unknown(answer):
                    raise permanent_table_unknown()
                if is_undone(answer):
                    raise statement_lost()
                return build_row_response(dict(answer.values))
            found = find_change(record, execution.operation.id)
            if found is None:
                raise statement_lost()
            table, change = found
            if await self._is_lost(change.replica, observer) and await self._may_take_over(execution.session):
                execution.operation.executes = True
                try:
                    with execution.session.track_request():
                        response = await self._finish(execution, table, change)
                    if response:
                        return response
                    continue
                except ChangeTakenError:  # follow the replica that was faster
                    execution.operation.executes = False
            await asyncio.sleep(min(lease_seconds / 5, _MAX_POLL_SECONDS))

    async def _finish(
        self, execution: Execution, table: TemporaryTable | None, change: PendingChange
    ) -> Response | None:
        """Finish a change of a lost replica, and return its answer. None if the session record contains the answer.

        Raises:
            ChangeTakenError: If another replica was faster.
            GatewayError: If the statement failed or was undone.
        """
        if isinstance(change, PendingWrite):
            if table is None:
                return await self._permanent.give_up(execution.session, change)
            if not change.is_published:
                return await self._tables.take_over(execution, table, change)
        if table is not None:
            await self._executor.complete_for(execution, table, change)
        return None

    async def _may_take_over(self, session: Session) -> bool:
        """Join the session again if the lease had lapsed, and return whether this replica may complete its statements.

        Raises:
            GatewayError: If the session has ended, or the storage fails.
        """
        try:
            await self._sessions.ensure_joined(session)
        except GatewayError as error:
            if error.condition != LEASE_LOST:
                raise
            return False
        return True

    async def _is_lost(self, replica: ReplicaId, observer: LeaseObserver) -> bool:
        """Return whether the replica that executes a change is lost.

        This replica counts as lost too, because it does not run an operation for the change. So does a replica that
        handed over the change.

        The leases are listed after the record was read. A replica that was lost before may have returned and begun the
        change.
        """
        if replica in {self._replica, NO_REPLICA}:
            return True
        peers = self._sessions.peers
        if replica in peers.lost:
            await peers.observe()
            return replica in peers.lost
        leases = await self._storage.run_lease(self._storage.leases.list)
        observer.observe(leases, {replica}, time.monotonic())
        return replica in observer.lost(time.monotonic())


def _operation(request: Request, plan: base_pb2.Plan) -> Operation:
    statement = request.read_statement()
    statement = replace(statement, operation_id=statement.operation_id or str(uuid.uuid4()))
    return Operation(statement, is_relation=plan.HasField("root"))


def _execution(session: Session, request: StatementRequest, metadata: Metadata) -> Execution:
    """Return the execution of a statement that does not need the session settings."""
    return Execution(session, Operation(request), BackendSession(session.backend, request, metadata), SessionSettings())


def _execution_of_lodge(session: Session, backend: BackendSession) -> Execution:
    """Return an execution that completes statements of other replicas, for no statement of a client."""
    request = StatementRequest.of_principal(*session.key, str(uuid.uuid4()))
    return Execution(session, Operation(request), backend, SessionSettings())


async def _as_spark_names(table: TemporaryTable, backend: BackendSession) -> TemporaryTable:
    lower_case = table.name.lower()
    if table.name == lower_case or table.state is not TableState.READY:
        return table
    return table if await backend.table_exists(qualify_with_session(table.name)) else replace(table, name=lower_case)
