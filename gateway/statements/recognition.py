"""Parses the SQL texts of clients without blocking the event loop.

Guarantees:

1. A text is parsed at most once in each dialect. A long text is parsed once: its first word decides whether it is
   parsed at all, and the settings of the session determine the dialect.
2. Long texts are parsed in threads.
"""

import dataclasses
from collections.abc import Iterator

from pyspark.sql.connect.proto import relations_pb2

from gateway.blocking_work.request_pools import INLINE_CHARACTERS, RequestPools
from gateway.plans.sql_relations import read_parameters
from gateway.sql.identifier_clauses import EvaluatedNames, evaluate_identifier_clauses
from gateway.sql.lexer import DEFAULT_DIALECT, Dialect
from gateway.sql.statement_error import StatementError
from gateway.sql.statement_parser import may_concern_tables, parse_statement
from gateway.sql.statements import IdentifierClause, Statement

_DOUBLE_QUOTED = Dialect(double_quoted_identifiers=True)

_Result = Statement | StatementError | None


class SqlRecognition:
    """The SQL text of a statement, and what was parsed of it so far.

    Args:
        text: The SQL text.
        pools: The threads that parse long texts.
    """

    def __init__(self, text: str, pools: RequestPools) -> None:
        self._text = text
        self._pools = pools
        self._parsed: dict[Dialect, _Result] = {}

    async def may_concern_tables(self) -> bool:
        """Return whether the text may concern a temporary table in any dialect.

        Raises:
            GatewayError: If the text has too many tokens.
        """
        if len(self._text) > INLINE_CHARACTERS:
            return await self._pools.parse(len(self._text), may_concern_tables, self._text)
        if await self.parse(DEFAULT_DIALECT) is not None:
            return True
        return '"' in self._text and await self.parse(_DOUBLE_QUOTED) is not None

    async def parse(self, dialect: Dialect) -> _Result:
        """Return the statement, or the error in it. None if Spark executes the text.

        Raises:
            GatewayError: If the text has too many tokens.
        """
        if dialect not in self._parsed:
            self._parsed[dialect] = await self._pools.parse(len(self._text), _parse, self._text, dialect)
        return self._parsed[dialect]

    async def evaluate_names(self, statement: Statement, sql: relations_pb2.SQL, dialect: Dialect) -> EvaluatedNames:
        """Return the names in the ``IDENTIFIER(…)`` clauses of a statement."""
        clauses = list(_find_clauses(statement))
        if not clauses:
            return {}
        return await self._pools.parse(sql.ByteSize(), _evaluate, self._text, clauses, sql, dialect)


def _parse(text: str, dialect: Dialect) -> _Result:
    try:
        return parse_statement(text, dialect)
    except StatementError as error:
        return error


def _evaluate(text: str, clauses: list[IdentifierClause], sql: relations_pb2.SQL, dialect: Dialect) -> EvaluatedNames:
    return evaluate_identifier_clauses(text, clauses, read_parameters(sql), dialect)


def _find_clauses(value: object) -> Iterator[IdentifierClause]:
    if isinstance(value, IdentifierClause):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from _find_clauses(each)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from _find_clauses(getattr(value, field.name))
