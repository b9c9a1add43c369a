"""A session as one statement sees it: its settings, its record, and the names in it.

Guarantees:

1. A statement reads the settings and the record of its session at most once each, however many parts of the gateway
   need them, and not at all if none does. Only if a lost replica has published changes, the record is read again after
   they were completed.
2. Names are resolved with a record that contains no published change of a lost replica.
"""

import uuid
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

from pyspark.sql.connect.proto import relations_pb2

from gateway.backends.backend_operations import OnProgress
from gateway.backends.backend_session import BackendSession
from gateway.backends.forwarding import Context, request_metadata
from gateway.backends.session_settings import SessionSettings
from gateway.blocking_work.current_workspaces import CurrentWorkspaces
from gateway.errors import storage_failed
from gateway.messages.statement_request import StatementRequest
from gateway.names.plan_resolver import PlanResolver
from gateway.operations.operations import Operation
from gateway.scans.planner import ScanPlanner, SessionScans
from gateway.sessions.session import Session
from gateway.sql.name_syntax import qualify_with_session
from gateway.sql.sql_texts import SqlTexts
from gateway.stored_tables.table_plans import FILE_METADATA
from gateway.tables.statement_context import Execution
from gateway.tables.table_services import TableServices
from workspace.records import SessionRecord, TableState, TemporaryTable


class SessionViews:
    """Creates the views of statements.

    Args:
        services: Reads session records, and completes the statements of lost replicas.
        workspaces: The configured workspaces.
        planner: Plans the scans of statements.
    """

    def __init__(self, services: TableServices, workspaces: CurrentWorkspaces, planner: ScanPlanner) -> None:
        self.services = services
        self.workspaces = workspaces
        self.planner = planner

    def of(self, session: Session, read_request: Callable[[], StatementRequest], context: Context) -> "SessionView":
        """Return the view of a statement.

        Args:
            session: The session of the client.
            read_request: Returns the statement. It is called at most once.
            context: The call of the client.
        """
        return SessionView(self, session, read_request, context)


class SessionView:
    """A session as one statement sees it.

    Args:
        views: What all views use.
        session: The session of the client.
        read_request: Returns the statement. It is called at most once.
        context: The call of the client.

    Attributes:
        session: The session of the client.
    """

    def __init__(
        self, views: SessionViews, session: Session, read_request: Callable[[], StatementRequest], context: Context
    ) -> None:
        self.session = session
        self._views = views
        self._read_request = read_request
        self._context = context
        self._settings: SessionSettings | None = None
        self._record: SessionRecord | None = None
        self._is_settled = False

    @cached_property
    def request(self) -> StatementRequest:
        """The statement.

        Raises:
            GatewayError: If the request cannot be decoded.
        """
        return self._read_request()

    @cached_property
    def backend(self) -> BackendSession:
        """The session at the backend.

        Raises:
            GatewayError: If the request cannot be decoded.
        """
        return BackendSession(self.session.backend, self.request, request_metadata(self._context))

    async def settings(self) -> SessionSettings:
        """Return the settings of the session.

        Raises:
            GatewayError: If the backend fails.
        """
        if self._settings is None:
            self._settings = await self.backend.read_settings()
        return self._settings

    async def record(self) -> SessionRecord:
        """Return the session record, with the table names that Spark uses.

        Spark stores the name of a view in lower case, unless ``spark.sql.caseSensitive`` is enabled. If the client
        enables the setting after it created the table ``Ab``, Spark finds the table only as ``ab``.

        Raises:
            GatewayError: If the session has ended, or the storage or the backend fails.
        """
        if self._record is None:
            settings = await self.settings()
            record = await self._views.services.records.read(self.session)
            if settings.is_case_sensitive:
                record = replace(record, tables=tuple([await self._as_spark_names(each) for each in record.tables]))
            self._record = record
        return self._record

    async def settled_record(self) -> SessionRecord:
        """Return the session record, after the changes that lost replicas published were completed.

        Raises:
            GatewayError: If the session has ended, or the storage or the backend fails.
        """
        record = await self.record()
        if not self._is_settled:
            if await self._views.services.tables.complete_published(self._execution_of_lodge(), record):
                self._record = None
            self._is_settled = True
        return await self.record()

    async def resolver(self, texts: SqlTexts, on_progress: OnProgress | None = None) -> PlanResolver:
        """Return a resolver for the names in the session.

        Args:
            texts: The SQL texts of the request.
            on_progress: Called with each progress message of discovery. None if the client cannot receive it.

        Raises:
            GatewayError: If the session has ended, or the storage or the backend fails.
        """
        settings = await self.settings()
        record = await self.settled_record()
        workspaces = self._views.workspaces.now
        scans = SessionScans(self._views.planner, self.session.key.principal, self.backend, workspaces, on_progress)
        return PlanResolver(workspaces, record.tables, settings, scans, texts, files=self)

    async def is_file_metadata_missing(self, query: relations_pb2.Relation) -> bool:
        """Return whether Spark cannot analyze a query because it does not find the column ``_metadata``."""
        return await self.backend.is_column_missing(query, FILE_METADATA)

    async def rows_with_file_metadata(self, table: TemporaryTable) -> relations_pb2.Relation | None:
        """Return the rows of a table with the column ``_metadata``. None if the table has its own such column.

        Raises:
            GatewayError: If the storage or the backend fails.
        """
        try:
            return await self._views.services.tables.with_file_metadata(self._execution_of_lodge(), table)
        except OSError as error:
            raise storage_failed(error) from error

    def _execution_of_lodge(self) -> Execution:
        """Return an execution for what Lodge does without a statement of the client."""
        request = StatementRequest.of_principal(*self.session.key, str(uuid.uuid4()))
        return Execution(self.session, Operation(request), self.backend, SessionSettings())

    async def _as_spark_names(self, table: TemporaryTable) -> TemporaryTable:
        lower_case = table.name.lower()
        if table.name == lower_case or table.state is not TableState.READY:
            return table
        is_found = await self.backend.table_exists(qualify_with_session(table.name))
        return table if is_found else replace(table, name=lower_case)
