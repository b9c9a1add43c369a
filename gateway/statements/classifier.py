"""Decides what happens to a statement.

The backend executes it, with or without other names, or Lodge does.

Lodge executes a statement itself if the statement creates, changes or drops a temporary table, if it would change which
table the name of a temporary table refers to, or if it concerns workspaces or the sessions of Lodge. All other
statements belong to Spark. Their names are resolved if they are in a workspace.

The decision needs the statement, and for few statements also the settings and the record of the session
(:mod:`gateway.statements.session_view`). An ordinary statement is decided without a read of either.
"""

from collections.abc import Coroutine
from functools import partial
from typing import Any

import structlog

from gateway.blocking_work.current_workspaces import CurrentWorkspaces
from gateway.names.request_resolver import RequestResolver
from gateway.operations.operations import Operation, Runner
from gateway.operations.responses import Response
from gateway.scans.discovery_progress import DiscoveryProgress
from gateway.scans.plannings import Plannings
from gateway.sessions.registry import Sessions
from gateway.sql.statements import CreateView
from gateway.statements.computed_texts import evaluate_names
from gateway.statements.hidden_paths import check_query, copy_query
from gateway.statements.routes import Change, Pass, Route, Scan
from gateway.statements.session_view import SessionView
from gateway.statements.statement import Statement
from gateway.tables.sql_statement import SqlStatement
from gateway.tables.statement_context import Execution, StatementContext
from gateway.tables.table_errors import ChangeTakenError, StatementStartedError
from gateway.tables.table_services import TableServices
from workspace.record_changes import is_known

log = structlog.get_logger(__name__)


class Classifier:
    """Decides what happens to each ``ExecutePlan`` request.

    Args:
        sessions: The sessions that this replica serves.
        workspaces: The configured workspaces.
        services: Executes the statements about tables.
        resolution: Resolves the names in requests.
        plannings: The statements whose scans are being planned.
        log_query_text: Whether the log contains the text of each statement that Lodge recognises.
    """

    def __init__(
        self,
        *,
        sessions: Sessions,
        workspaces: CurrentWorkspaces,
        services: TableServices,
        resolution: RequestResolver,
        plannings: Plannings,
        log_query_text: bool,
    ) -> None:
        self._sessions = sessions
        self._workspaces = workspaces
        self._services = services
        self._resolution = resolution
        self._plannings = plannings
        self._log_query_text = log_query_text

    async def classify(self, statement: Statement, view: SessionView, progress: DiscoveryProgress) -> Route:
        """Return what happens to a statement. Names in its plan are replaced in place.

        Args:
            statement: The statement.
            view: The session of the client.
            progress: Sends the progress of discovery to the client.

        Raises:
            GatewayError: If the statement is malformed or not allowed, or a name cannot be resolved, or the session has
                ended, or the storage or the backend fails.
        """
        change = await self._find_change(statement, view, progress)
        if change is not None:
            return change
        get_resolver = partial(view.resolver, on_progress=progress.send)
        resolver = await self._resolution.find_resolver(statement.request, statement.decoded, get_resolver)
        if resolver is None:
            return Pass()
        query = await copy_query(statement, resolver) if resolver.file_metadata else None
        if not await self._resolution.resolve_names(statement.decoded, resolver):
            return Pass()
        return Scan(resolver) if query is None else check_query(query, statement, view, resolver)

    async def _find_change(self, statement: Statement, view: SessionView, progress: DiscoveryProgress) -> Change | None:
        """Return the execution of a statement that belongs to Lodge. None if it belongs to Spark."""
        if not await statement.may_change_tables():
            return None
        settings = await view.settings()
        parsed = await statement.parse(settings.dialect)
        if parsed is None and statement.sql is not None:
            return None
        if statement.sql is not None and self._log_query_text:
            log.info("statement_recognised", query=statement.sql.query)
        request = view.request.with_operation_id()
        operation = Operation(request, is_relation=statement.plan.HasField("root"))
        execution = Execution(view.session, operation, view.backend, settings, statement.request.identity)
        await self._sessions.joins.ensure_joined(view.session)  # fail early, because reading the record can take long
        if is_known(await view.record(), operation.id):
            return Change(operation, partial(self._services.followed.follow, execution))
        creates_view = isinstance(parsed, CreateView) or statement.creates_view  # Spark creates views
        on_progress = progress.send if creates_view else progress.send_of_lodge_statement
        names = await view.resolver(statement.texts, on_progress)
        context = StatementContext(execution, await view.settled_record(), names, self._workspaces.reads)
        work: Coroutine[Any, Any, Runner | None]
        if parsed is None:
            work = self._services.commands.work(context, statement.plan)
        else:
            evaluated = await evaluate_names(statement, view, await statement.evaluate_names(parsed, settings.dialect))
            work = self._services.sql.work(parsed, SqlStatement(context, statement.sql_relation, evaluated))
        runner = await self._plannings.run(view.session.key, request, work)
        return None if runner is None else Change(operation, partial(self._run_or_follow, runner, execution))

    async def _run_or_follow(self, work: Runner, execution: Execution) -> Response:
        """Execute a statement, or follow it if another replica began it under the same id, or took it over."""
        try:
            return await work()
        except (StatementStartedError, ChangeTakenError):
            return await self._services.followed.follow(execution)
