"""A parsed SQL statement, with access to the names and the query in its text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pyspark.sql.connect.proto import relations_pb2

from gateway.blocking_work.request_pools import INLINE_CHARACTERS
from gateway.names.targets import Target
from gateway.plans.sql_relations import (
    count_positional,
    find_sql,
    keep_positional_parameters,
    remove_positional_parameters,
)
from gateway.sql.identifier_clauses import EvaluatedNames
from gateway.sql.insert import may_have_defaults
from gateway.sql.lexer import tokenize
from gateway.sql.parameters import Parameters, StringEvaluator
from gateway.sql.statement_parser import extract_query, find_query
from gateway.sql.statements import HasQuery, IdentifierClause, Insert, Partition, Span, TableName
from gateway.stored_tables.insert_plans import InsertedRows
from gateway.tables.statement_context import StatementContext
from gateway.tables.table_errors import no_change_in_workspace, unreadable_name
from workspace.records import TemporaryTable

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class SqlStatement:
    """A parsed SQL statement of a client.

    Attributes:
        context: The session, operation and backend of the statement.
        relation: The relation that contains the SQL text and its parameters, as sent by the client.
        evaluated: The names in the ``IDENTIFIER(…)`` clauses of the statement.
    """

    context: StatementContext
    relation: relations_pb2.Relation
    evaluated: EvaluatedNames

    @property
    def text(self) -> str:
        """The SQL text."""
        return _sql(self.relation).query

    def target(self, name: TableName, operation: str) -> Target:
        """Return what a name in the statement refers to.

        Args:
            name: The name.
            operation: The operation to mention in the error message.

        Raises:
            GatewayError: If the name is an expression that only Spark can evaluate.
        """
        return self.context.target(self.parts(name, operation))

    def changed_table(self, name: TableName, operation: str) -> TemporaryTable | None:
        """Return the temporary table that a statement changes. None if Spark must find the table.

        Args:
            name: The name.
            operation: The operation to mention in the error message.

        Raises:
            GatewayError: If the name is in a workspace but not a temporary table, or the workspace does not exist.
        """
        target = self.target(name, operation)
        table = self.context.table(target)
        if table is None:
            self.context.require_schema(target)
            if target.workspace is not None:
                raise no_change_in_workspace(f"{target.schema}.{target.name}", operation)
        return table

    def are_values(self, partitions: Sequence[Partition]) -> bool:
        """Return whether each column in ``PARTITION`` clauses has one value."""
        comparable = self.context.settings.comparable_name
        return all(
            len({comparable(name) for name, _ in each}) == len(each) and all(text is not None for _, text in each)
            for each in partitions
        )

    def parts(self, name: TableName, operation: str) -> Sequence[str]:
        """Return the parts of a name in the statement.

        Args:
            name: The name.
            operation: The operation to mention in the error message.

        Raises:
            GatewayError: If the name is an expression that only Spark can evaluate.
        """
        if not isinstance(name, IdentifierClause):
            return name.parts
        parts = self.evaluated[name]
        if not parts:
            raise unreadable_name(operation)
        return parts

    async def query(self, statement: HasQuery) -> relations_pb2.Relation:
        """Return the query of a statement as a relation with all names resolved.

        Raises:
            GatewayError: If a name cannot be resolved.
        """
        return await self.context.resolve(await self.unresolved_query(statement))

    async def inserted_rows(self, statement: Insert) -> InsertedRows:
        """Return the rows of an ``INSERT`` statement, with all names resolved.

        Raises:
            GatewayError: If a name cannot be resolved.
        """
        start, end = statement.columns_span
        query_start = statement.clause_span[1]
        clause = self.text[start:end]
        if statement.if_not_exists is not None:
            clause += self.text[statement.if_not_exists[1] : query_start]
        return InsertedRows(
            query=await self.query(statement),
            clause=clause.strip(),
            arguments=await self.arguments(statement.columns_span),
            has_defaults=await self.run(may_have_defaults, self._sql_text, query_start, self.context.settings.dialect),
        )

    async def arguments(self, span: Span) -> relations_pb2.SQL | None:
        """Return the parameters of the statement that may occur in a span, without its text. None without any."""
        return await self.run(self._cut_arguments, *span)

    async def unresolved_query(self, statement: HasQuery) -> relations_pb2.Relation:
        """Return the query of a statement as a relation."""
        return await self.run(self._cut_query, statement)

    async def run(self, function: Callable[..., _Result], *args: object) -> _Result:
        """Call a function that reads the text, in a thread if the text is long."""
        if len(self.text) <= INLINE_CHARACTERS:
            return function(*args)
        return await self.context.workspace_reads.run_or_abandon(function, *args)

    def _cut_arguments(self, start: int, end: int) -> relations_pb2.SQL | None:
        """Return the parameters of the statement that may occur between two offsets, without its text."""
        sql = relations_pb2.SQL()
        sql.CopyFrom(_sql(self.relation))
        sql.query = ""
        if count_positional(sql):
            keep_positional_parameters(sql, self._evaluator().find_positions(start, end))
        return sql if sql.ListFields() else None

    @property
    def _sql_text(self) -> str:
        return self.context.names.texts.of(self.text)

    def _evaluator(self) -> StringEvaluator:
        tokens = tokenize(self._sql_text, self.context.settings.dialect)
        return StringEvaluator(tokens, Parameters.of_statement(self._sql_text))

    def _cut_query(self, statement: HasQuery) -> relations_pb2.Relation:
        """Return the query of a statement as a relation, without the positional parameters before it."""
        query = relations_pb2.Relation()
        query.CopyFrom(self.relation)
        sql = _sql(query)
        text = self.context.names.texts.of(sql.query)
        if count_positional(sql):
            start, end, kept_end = find_query(statement)
            positions = self._evaluator().find_positions
            remove_positional_parameters(sql, [*positions(start, end), *positions(kept_end, len(text))])
        sql.query = self.context.names.texts.of(extract_query(text, statement))
        return query


def _sql(relation: relations_pb2.Relation) -> relations_pb2.SQL:
    sql = find_sql(relation)
    if sql is None:
        raise TypeError("The relation is not SQL.")
    return sql
