"""Finds the statements that Lodge executes instead of the backend.

Spark executes most plans. Lodge executes a plan itself if the plan creates, changes or drops a temporary table, or if
the plan would change which table the name of a temporary table refers to. This module makes that decision for SQL text
and for all other commands.
"""

import uuid
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import structlog
from pyspark.sql.connect.proto import base_pb2

from gateway.auditing.audit import Audit
from gateway.authorization.authorization import Authorization
from gateway.backends.backend_session import BackendSession, OnProgress
from gateway.backends.session_settings import SessionSettings
from gateway.blocking_work.current_work import CurrentWork
from gateway.blocking_work.current_workspaces import CurrentWorkspaces
from gateway.blocking_work.request_pools import RequestPools
from gateway.blocking_work.storage import Storage
from gateway.config import GatewayConfig
from gateway.errors import ParseError
from gateway.messages.error_status import Metadata
from gateway.messages.requests import Request
from gateway.messages.statement_request import StatementRequest
from gateway.names.plan_resolver import PlanResolver
from gateway.operations.drain import Drain
from gateway.operations.operations import Operation, Operations, Runner
from gateway.operations.responses import Response
from gateway.plans.plan_decoding import DecodedPlan
from gateway.plans.sql_relations import find_sql, find_statement
from gateway.scans.discovery_progress import DiscoveryProgress
from gateway.scans.planner import ScanPlanner, SessionScans
from gateway.scans.plannings import Plannings
from gateway.sessions.registry import Sessions
from gateway.sessions.session import Session
from gateway.sql.name_syntax import qualify_with_session
from gateway.sql.sql_texts import SqlTexts
from gateway.sql.statement_error import StatementError
from gateway.sql.statements import CreateView
from gateway.tables.clones import TableCopies
from gateway.tables.data_frame_commands import DataFrameCommands, concerns_tables
from gateway.tables.execution import StatementExecutor
from gateway.tables.followed_statements import FollowedStatements
from gateway.tables.permanent_tables import PermanentTables
from gateway.tables.quotas import Quotas
from gateway.tables.recognition import SqlRecognition
from gateway.tables.records import TableRecords
from gateway.tables.session_administration import SessionAdministration
from gateway.tables.sql_commands import SqlCommands
from gateway.tables.sql_statement import SqlStatement
from gateway.tables.statement_context import Execution, StatementContext
from gateway.tables.table_errors import ChangeTakenError, StatementStartedError
from gateway.tables.temporary_tables import TemporaryTables
from workspace.identifiers import ReplicaId
from workspace.record_changes import is_known
from workspace.records import SessionRecord, TableState, TemporaryTable

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

    Attributes:
        followed: The statements that other replicas began.
        copies: Copies the tables of sessions that are cloned.
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
        self.copies = TableCopies(replica, storage, sessions, self._executor, quotas)
        authorization = Authorization(config.admins)
        permanent = PermanentTables(
            replica,
            storage,
            sessions,
            self._executor,
            workspaces=workspaces,
            authorization=authorization,
            audit=audit,
            drain=drain,
        )
        self.followed = FollowedStatements(
            replica=replica,
            storage=storage,
            sessions=sessions,
            operations=operations,
            tables=self._tables,
            permanent=permanent,
            executor=self._executor,
            lease_seconds=config.lease_duration_seconds,
            drain=drain,
            work=work,
        )
        self._administration = SessionAdministration(storage, sessions, operations, authorization, audit)
        self._sql = SqlCommands(self._tables, permanent, self._administration)
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
            self._operations.start(operation, lambda: self.followed.follow(execution))
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
        decoded.texts.forget()
        self._operations.start(operation, lambda: self._run_or_follow(runner, execution))
        return operation

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
            return await self.followed.follow(execution)


def _operation(request: Request, plan: base_pb2.Plan) -> Operation:
    statement = request.read_statement()
    statement = replace(statement, operation_id=statement.operation_id or str(uuid.uuid4()))
    return Operation(statement, is_relation=plan.HasField("root"))


def _execution_of_lodge(session: Session, backend: BackendSession) -> Execution:
    """Return an execution that completes statements of other replicas, for no statement of a client."""
    request = StatementRequest.of_principal(*session.key, str(uuid.uuid4()))
    return Execution(session, Operation(request), backend, SessionSettings())


async def _as_spark_names(table: TemporaryTable, backend: BackendSession) -> TemporaryTable:
    lower_case = table.name.lower()
    if table.name == lower_case or table.state is not TableState.READY:
        return table
    return table if await backend.table_exists(qualify_with_session(table.name)) else replace(table, name=lower_case)
