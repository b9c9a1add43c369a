"""Which statements Lodge answers itself, and how each becomes an operation.

Why it exists: a plan is Spark's to run unless it creates, changes or removes a temporary table, or would change what a
temporary table's name means. All of that is decided here, for SQL text and for the other commands alike.
"""

import uuid

import structlog
from pyspark.sql.connect.proto import base_pb2, relations_pb2

from gateway.backend_session import BackendSession
from gateway.errors import Metadata, SyntaxRefusedError
from gateway.operations import Operation, Operations
from gateway.plans import sql_input, sql_of
from gateway.sessions import Session
from gateway.sql.statements import CreateTemporaryTable, DropTable, StatementError, query_only, recognise
from gateway.temporary_tables import Creation, TemporaryTables
from gateway.workspace_names import Names

log = structlog.get_logger(__name__)


class OwnStatements:
    """Starts the operations of the statements that Lodge answers.

    Args:
        operations: Where they run.
        tables: What they do.
        log_query_text: Whether their text may stand in log lines.
    """

    def __init__(self, operations: Operations, tables: TemporaryTables, *, log_query_text: bool) -> None:
        self._operations = operations
        self._tables = tables
        self._log_query_text = log_query_text

    async def names(self, session: Session, backend: BackendSession) -> Names:
        """What names mean in the session now."""
        return await self._tables.names(session, await backend.settings())

    async def start(
        self, session: Session, request: bytes, plan: base_pb2.Plan, metadata: Metadata
    ) -> Operation | None:
        """The started operation, if the plan is a statement of Lodge's own; None if it is Spark's.

        Raises: LodgeError, if the plan may not run.
        """
        relation = sql_input(plan)
        if relation is None:
            return None
        sql = sql_of(relation)
        statement = None if sql is None else _recognised(sql.query)
        if sql is None or statement is None:
            return None
        client_request = base_pb2.ExecutePlanRequest.FromString(request)
        client_request.ClearField("plan")
        client_request.operation_id = client_request.operation_id or str(uuid.uuid4())
        backend = BackendSession(session.backend, client_request, metadata)
        operation = Operation(client_request)
        if self._log_query_text:
            log.info("statement_recognised", query=sql.query)
        if isinstance(statement, DropTable):
            if await self._tables.is_for_spark(session, statement, backend):
                return None
            self._operations.start(operation, lambda _: self._tables.drop(session, statement, backend))
        else:
            query = _query(relation, statement, await self.names(session, backend))
            creation = Creation(statement, query, operation, backend)
            self._operations.start(operation, lambda _: self._tables.create(session, creation))
        return operation


def _query(relation: relations_pb2.Relation, statement: CreateTemporaryTable, names: Names) -> relations_pb2.Relation:
    """The client's own relation, with the text of the statement's query alone, and its names resolved."""
    query = base_pb2.Plan(root=relation)
    text = sql_of(query.root)
    if text is None:
        raise TypeError("The relation is not SQL.")
    text.query = query_only(text.query, statement)
    names.resolve(query)
    return query.root


def _recognised(sql: str) -> CreateTemporaryTable | DropTable | None:
    try:
        return recognise(sql)
    except StatementError as error:
        raise SyntaxRefusedError("PARSE_SYNTAX_ERROR", "42601", str(error)) from error
