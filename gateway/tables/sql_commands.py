"""What each recognised SQL statement does.

Source: seed 001, 5.1.1-5.1.12 and 5.4; Databricks' temporary tables where the seed is silent (design).
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import singledispatchmethod

from pyspark.sql.connect.proto import relations_pb2

from gateway.errors import BackendError, GatewayError
from gateway.names.targets import Target, TargetKind, schema_not_found
from gateway.operations import Operation, Work
from gateway.responses import Response, ok, row, sql_rows
from gateway.sql.identifier_clauses import evaluate_identifier_clause
from gateway.sql.name_syntax import quote_name
from gateway.sql.statement_parser import extract_query
from gateway.sql.statements import (
    AlterRelation,
    CacheTableAs,
    CreateTable,
    CreateTemporaryTable,
    CreateView,
    DropTable,
    DropView,
    Explain,
    HasQuery,
    IdentifierClause,
    Insert,
    MergeOrUpdate,
    ShowCreateTable,
    ShowTables,
    ShowTemporaryTables,
    Statement,
    TableName,
    TruncateTable,
)
from gateway.sql_relations import find_sql, read_parameters
from gateway.stored_tables.listings import temporary_tables, workspace_tables
from gateway.stored_tables.table_plans import empty_relation, named_table, schema_json
from gateway.tables.asked import Asked
from gateway.tables.errors import (
    immutable_schema,
    not_a_view,
    not_file_based,
    not_found,
    not_supported,
    outside_of_temporary_workspace,
    unreadable_name,
)
from gateway.tables.insertions import Insertion
from gateway.tables.new_tables import NewTable
from gateway.tables.permanent_tables import PermanentTables
from gateway.tables.temporary_tables import TemporaryTables
from gateway.tables.views import refuse_lasting_view
from workspace.records import TableState, TemporaryTable
from workspace.workspaces import Workspace

_INSERT_CLAUSES = ("FROM", "IF", "PARTITION", "REPLACE", "WITH")
_ROWS_ONLY_IN_TEMPORARY = "Rows are added to temporary tables, and to tables of Spark's own; make a new table of them."


@dataclass(frozen=True, slots=True)
class SqlStatement:
    """One recognised statement of a client.

    Attributes:
        asked: By whom.
        relation: Its text and parameters, as the client sent them.
    """

    asked: Asked
    relation: relations_pb2.Relation

    @property
    def text(self) -> str:
        sql = find_sql(self.relation)
        return "" if sql is None else sql.query

    def target(self, name: TableName, operation: str) -> Target:
        """What a name means.

        Raises: GatewayError if only Spark knows, and it may be a temporary table.
        """
        return self.asked.target(self.parts(name, operation))

    def parts(self, name: TableName, operation: str) -> Sequence[str]:
        """The parts of a name. Raises: GatewayError if only Spark knows them."""
        return self._computed(name, operation) if isinstance(name, IdentifierClause) else name.parts

    def _computed(self, name: IdentifierClause, operation: str) -> Sequence[str]:
        """The parts of a name that a text or a parameter says. Raises: GatewayError for any other expression."""
        sql = find_sql(self.relation)
        parts = None
        if sql is not None:
            quotes = self.asked.settings.double_quoted_identifiers
            parts = evaluate_identifier_clause(sql.query, name, read_parameters(sql), double_quoted_identifiers=quotes)
        if not parts:
            raise unreadable_name(operation)
        return parts

    async def query(self, statement: HasQuery) -> relations_pb2.Relation:
        """The client's own relation, with the text of the statement's query alone, and its names resolved."""
        query = relations_pb2.Relation()
        query.CopyFrom(self.relation)
        sql = find_sql(query)
        if sql is None:
            raise TypeError("The relation is not SQL.")
        sql.query = extract_query(sql.query, statement)
        return await self.asked.resolved(query)


class SqlCommands:
    """Finds the work of a statement.

    Args:
        tables: What creates, fills and drops temporary tables.
        permanent: What creates and drops permanent tables in workspaces.
    """

    def __init__(self, tables: TemporaryTables, permanent: PermanentTables) -> None:
        self._tables = tables
        self._permanent = permanent

    @singledispatchmethod
    async def work(self, statement: Statement, given: SqlStatement) -> Work | None:
        """What the statement does; None if it is Spark's after all.

        Raises: GatewayError, if it may not run.
        """
        return None

    @work.register
    async def _create_temporary_table(self, statement: CreateTemporaryTable, given: SqlStatement) -> Work | None:
        target = given.target(statement.name, "CREATE TEMPORARY TABLE")
        name = await self._name_of_new(given.asked, target)
        if statement.query_span is not None:
            query = await given.query(statement)
        elif statement.definition_span is not None:
            query = empty_relation(given.text[slice(*statement.definition_span)])
            await self._check_definition(given.asked, query)
        else:
            query = await self._like(given, statement)
        new = _new_table(name, query, statement)
        return _work(lambda: self._tables.create(given.asked.execution, new))

    @staticmethod
    async def _check_definition(asked: Asked, columns: relations_pb2.Relation) -> None:
        """Raises: GatewayError for what files do not hold a table's rows to."""
        try:
            schema = await asked.backend.analyze_schema(columns)
        except BackendError as error:
            if "char/varchar" in str(error):  # an INTERNAL_ERROR of Spark's, whose LocalRelation has neither
                raise _not_checked("CHAR or VARCHAR, whose length", "Use STRING") from error
            raise
        for field in schema.fields:
            if not field.nullable:
                raise _not_checked(f"NOT NULL in column [{field.name}], which", "Leave it out")

    async def _like(self, given: SqlStatement, statement: CreateTemporaryTable) -> relations_pb2.Relation:
        """An empty relation of the columns of another table, view or file."""
        if statement.like is None or isinstance(statement.like, IdentifierClause):
            raise unreadable_name("CREATE TEMPORARY TABLE ... LIKE")
        source = named_table(given.text[statement.like.start : statement.like.end])
        schema = await given.asked.backend.analyze_schema(await given.asked.resolved(source))
        return empty_relation(schema_json(schema))

    async def _name_of_new(self, asked: Asked, target: Target) -> str:
        """The own name of a new temporary table. Raises: GatewayError if it cannot be made there (seed 001, 5.4)."""
        if target.kind in {TargetKind.UNQUALIFIED, TargetKind.SESSION}:
            return target.name
        if target.kind is TargetKind.SPARK and await asked.backend.database_exists(target.schema):
            raise not_file_based(target.schema)
        if target.workspace is None:
            raise schema_not_found(target.schema, asked.workspaces)
        if target.workspace is not asked.workspaces.temporary:
            raise outside_of_temporary_workspace(asked.workspaces)
        return target.name

    @work.register
    async def _create_table(self, statement: CreateTable, given: SqlStatement) -> Work | None:
        target = self._foreign(given, statement.name)
        if target is None:
            return None
        workspace = self._writable(given.asked, target)
        for needed in (workspace, given.asked.workspaces.temporary):
            _require_files(needed, target.name)
        if given.asked.table(target) is not None:
            error = self._tables.already_exists(target.name)
            if statement.if_not_exists:
                return _answer(ok(False, error.text))
            raise error
        if statement.query_span is None or statement.has_other_clauses:
            raise GatewayError(
                "LODGE_WORKSPACE_TABLE",
                "0A000",
                f"A table in workspace [{workspace.name}] is made by CREATE TABLE name [(columns)] [USING format] "
                "[PARTITION BY (columns)] [OPTIONS (...)] AS query, and by nothing else.",
            )
        new = _new_table(target.name, await given.query(statement), statement)
        return _work(lambda: self._permanent.create(given.asked.execution, workspace, new))

    @work.register
    async def _drop_table(self, statement: DropTable, given: SqlStatement) -> Work | None:
        asked, target = given.asked, given.target(statement.name, "DROP TABLE")
        table = asked.table(target)
        if table is not None and table.state is TableState.READY:
            found = table
            return _work(lambda: self._tables.drop(asked.execution, found))
        if target.kind is TargetKind.ABSENT:
            raise schema_not_found(target.schema, asked.workspaces)
        if target.workspace is not None and await self._permanent.exists(target.workspace, target.name):
            workspace = self._writable(asked, target)
            return _work(lambda: self._permanent.drop(workspace, target.name))
        if target.workspace is not None and not target.workspace.is_writable:
            raise immutable_schema(target.workspace.name)
        is_sparks = target.kind in {TargetKind.SPARK, TargetKind.SESSION} or (
            target.kind is TargetKind.UNQUALIFIED and await asked.backend.table_exists(quote_name(target.name))
        )
        if is_sparks and table is None:
            return None
        if statement.if_exists:
            return _answer(ok(False, f"Table [{target.name}] was not found."))
        raise not_found(target.name)

    @work.register
    async def _drop_view(self, statement: DropView, given: SqlStatement) -> Work | None:
        target = given.target(statement.name, "DROP VIEW")
        table = given.asked.table(target)
        if table is None and target.workspace is None:
            return None
        if statement.if_exists:
            schema = given.asked.workspaces.temporary.name if target.workspace is None else target.workspace.name
            return _answer(ok(False, f"View [{target.name}] not found in schema [{schema}]."))
        if table is None:
            raise GatewayError("TABLE_OR_VIEW_NOT_FOUND", "42P01", f"View [{target.name}] is not found.")
        raise not_a_view(table.name, "DROP VIEW")

    @work.register
    async def _insert(self, statement: Insert, given: SqlStatement) -> Work | None:
        operation = "INSERT OVERWRITE" if statement.overwrite else "INSERT INTO"
        for other in statement.other_names:
            self._refuse_change(given, given.target(other, operation), "several INSERT clauses", "Use one for each.")
        target = given.target(statement.name, operation)
        table = given.asked.table(target)
        if table is None:
            return self._sparks_or_refused(given.asked, target, operation)
        if statement.unsupported is not None and not statement.unsupported.startswith(_INSERT_CLAUSES):
            return None  # a syntax error, which Spark tells best
        if statement.unsupported is not None:
            raise not_supported(
                table.name,
                f"{statement.unsupported} in {operation}",
                "Give all columns by position, by name (BY NAME) or in a list.",
            )
        insertion = Insertion(
            table=table.name,
            query=await given.query(statement),
            columns=statement.columns,
            by_name=statement.by_name,
            overwrite=statement.overwrite,
        )
        return _work(lambda: self._tables.insert(given.asked.execution, insertion))

    @work.register
    async def _truncate(self, statement: TruncateTable, given: SqlStatement) -> Work | None:
        target = given.target(statement.name, "TRUNCATE TABLE")
        table = given.asked.table(target)
        if table is None:
            return self._sparks_or_refused(given.asked, target, "TRUNCATE TABLE")
        if statement.unsupported is not None:
            raise not_supported(table.name, f"TRUNCATE TABLE ... {statement.unsupported}", "Use INSERT OVERWRITE.")
        name = table.name
        return _work(lambda: self._tables.truncate(given.asked.execution, name))

    @work.register
    async def _change_rows(self, statement: MergeOrUpdate, given: SqlStatement) -> Work | None:
        operation = statement.kind.value
        target = given.target(statement.name, operation)
        self._refuse_change(
            given, target, operation, "Use INSERT OVERWRITE with a query of the rows that it shall have."
        )
        return self._sparks_or_refused(given.asked, target, operation)

    @work.register
    async def _alter(self, statement: AlterRelation, given: SqlStatement) -> Work | None:
        operation = f"ALTER {statement.kind.value} {statement.action}".strip()
        target = given.target(statement.name, operation)
        self._refuse_change(given, target, operation, "Make a new table of it by CREATE TEMPORARY TABLE ... AS SELECT.")
        return self._sparks_or_refused(given.asked, target, operation)

    @work.register
    async def _create_view(self, statement: CreateView, given: SqlStatement) -> Work | None:
        asked, target = given.asked, given.target(statement.name, "CREATE VIEW")
        takes_name = target.workspace is not None or (statement.is_temporary and not statement.is_global)
        if takes_name and asked.table(target) is not None:
            raise self._tables.already_exists(target.name)
        if target.kind is TargetKind.ABSENT:
            raise schema_not_found(target.schema, asked.workspaces)
        if target.workspace is not None:
            raise GatewayError(
                "LODGE_VIEW_IN_WORKSPACE",
                "0A000",
                f"Views are not kept in workspaces such as [{target.workspace.name}]. Make it in a schema of Spark, or "
                "as a temporary view.",
            )
        lasts = statement.is_global or not statement.is_temporary
        if lasts and asked.record.tables and statement.query_span is not None:
            await refuse_lasting_view(asked, await given.query(statement))
        return None

    @work.register
    async def _cache_as(self, statement: CacheTableAs, given: SqlStatement) -> Work | None:
        target = given.target(statement.name, "CACHE TABLE")
        if given.asked.table(target) is not None:
            raise self._tables.already_exists(target.name)
        return None

    @work.register
    async def _explain(self, statement: Explain, given: SqlStatement) -> Work | None:
        target = given.target(statement.table.name, "EXPLAIN CREATE TEMPORARY TABLE")
        await self._name_of_new(given.asked, target)
        query = await given.query(statement)
        return _work(lambda: given.asked.backend.execute_sql(query))

    @work.register
    async def _show_temporary_tables(self, statement: ShowTemporaryTables, given: SqlStatement) -> Work | None:
        asked = given.asked
        own = asked.workspaces.temporary
        tables: tuple[TemporaryTable, ...] = asked.record.tables
        if statement.namespace is not None:
            inside = self._namespace(given, statement.namespace)
            tables = tables if inside.kind is TargetKind.SESSION or inside.workspace is own else ()
        return _answer(sql_rows(temporary_tables(tables, own.name, statement.pattern, datetime.now(UTC))))

    @work.register
    async def _show_tables(self, statement: ShowTables, given: SqlStatement) -> Work | None:
        asked = given.asked
        inside = self._namespace(given, statement.namespace)
        if inside.workspace is None:
            return None
        workspace = inside.workspace
        tables = asked.record.tables if workspace is asked.workspaces.temporary else ()
        names = await self._permanent.names(workspace)
        return _answer(sql_rows(workspace_tables(tables, names, workspace.name, statement.pattern)))

    @work.register
    async def _show_create_table(self, statement: ShowCreateTable, given: SqlStatement) -> Work | None:
        asked = given.asked
        table = asked.table(given.target(statement.name, "SHOW CREATE TABLE"))
        if table is None:
            return None
        found = table

        async def show() -> Response:
            return row({"createtab_stmt": await self._tables.create_statement(asked.execution, found)})

        return _work(show)

    def _namespace(self, given: SqlStatement, name: TableName) -> Target:
        """A namespace, as the place of a table in it. Raises: GatewayError if it is absent."""
        target = given.asked.target((*given.parts(name, "SHOW TABLES"), "t"))
        if target.kind is TargetKind.ABSENT:
            raise schema_not_found(target.schema, given.asked.workspaces)
        return replace(target, name="")

    def _foreign(self, given: SqlStatement, name: TableName) -> Target | None:
        """A target in a workspace; None if it is Spark's. Raises: GatewayError if the workspace is absent."""
        target = given.target(name, "CREATE TABLE")
        if target.kind is TargetKind.ABSENT:
            raise schema_not_found(target.schema, given.asked.workspaces)
        return None if target.workspace is None else target

    @staticmethod
    def _writable(asked: Asked, target: Target) -> Workspace:
        if target.workspace is None:
            raise schema_not_found(target.schema, asked.workspaces)
        if not target.workspace.is_writable:
            raise immutable_schema(target.workspace.name)
        return target.workspace

    @staticmethod
    def _refuse_change(given: SqlStatement, target: Target, operation: str, way_out: str) -> None:
        table = given.asked.table(target)
        if table is not None:
            raise not_supported(table.name, operation, way_out)

    @staticmethod
    def _sparks_or_refused(asked: Asked, target: Target, operation: str) -> None:
        """Spark's own tables are Spark's; nothing else in a workspace takes changes."""
        if target.kind is TargetKind.ABSENT:
            raise schema_not_found(target.schema, asked.workspaces)
        if target.workspace is not None:
            raise GatewayError(
                "LODGE_WORKSPACE_TABLE",
                "0A000",
                f"{operation} cannot change [{target.schema}.{target.name}]: it is no temporary table. "
                f"{_ROWS_ONLY_IN_TEMPORARY}",
            )


def _require_files(workspace: Workspace, table: str) -> None:
    """Raises: GatewayError if a workspace is in an object store: permanent tables are put in place by renaming."""
    if not workspace.is_file_based:
        raise GatewayError(
            "LODGE_WORKSPACE_TABLE",
            "0A000",
            f"Table [{table}] cannot be created: workspace [{workspace.name}] is in an object store, where Lodge makes "
            "temporary tables only. Use CREATE TEMPORARY TABLE, or let Spark write it.",
        )


def _not_checked(what: str, way_out: str) -> GatewayError:
    return GatewayError(
        "LODGE_COLUMN_CONSTRAINT", "0A000", f"A temporary table cannot have {what} it would not check. {way_out}."
    )


def _new_table(name: str, query: relations_pb2.Relation, statement: CreateTemporaryTable | CreateTable) -> NewTable:
    return NewTable(
        name=name,
        query=query,
        columns=statement.columns,
        storage_format=statement.storage_format,
        partition_columns=statement.partition_columns,
        options=tuple(statement.options.items()),
        if_not_exists=statement.if_not_exists,
    )


def _work(do: Callable[[], Awaitable[Response]]) -> Work:
    async def work(_: Operation) -> Response:
        return await do()

    return work


def _answer(response: Response) -> Work:
    async def work(_: Operation) -> Response:
        return response

    return work
