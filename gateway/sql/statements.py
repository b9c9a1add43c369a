"""The statements that Lodge answers itself: ``CREATE TEMPORARY TABLE … AS`` and ``DROP TABLE``.

Why it exists: each statement of each client passes by here, so an ordinary one costs a single match at its start; only
one that begins with ``CREATE`` or ``DROP`` is looked at further. What is not for Lodge is left to Spark untouched, with
Spark's own errors.

Source: seed 001, 5.1.1 and 5.1.8; Spark: SqlBaseParser.g4 for the clauses around.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.sql.lexer import Kind, Token, tokens

_MAY_BE_OURS = re.compile(r"(?:\s|--[^\r\n]*|/\*.*?\*/)*(?:create|drop)\b", re.IGNORECASE | re.DOTALL)


class StatementError(Exception):
    """A ``CREATE TEMPORARY TABLE`` that is not well formed; the message names what was expected, and where."""


@dataclass(frozen=True, slots=True)
class CreateTemporaryTable:
    """``CREATE TEMPORARY TABLE name [(columns)] [USING format] [PARTITION BY (columns)] AS query``.

    Attributes:
        name: The parts of the name.
        columns: The columns it names; None if it names none.
        storage_format: The format it names, as written; None if it names none.
        partition_columns: The columns it is partitioned by.
        query_start: Offset of the query in the text.
        query_end: Offset after the query's last token.
    """

    name: tuple[str, ...]
    columns: tuple[str, ...] | None
    storage_format: str | None
    partition_columns: tuple[str, ...]
    query_start: int
    query_end: int


@dataclass(frozen=True, slots=True)
class DropTable:
    """``DROP TABLE [IF EXISTS] name``."""

    name: tuple[str, ...]
    if_exists: bool


def recognise(sql: str, *, double_quoted_identifiers: bool = False) -> CreateTemporaryTable | DropTable | None:
    """The statement if it is one of Lodge's own; None if it is for Spark.

    Raises:
        StatementError: It creates a temporary table by a query, but a clause before the query is malformed.
    """
    if _MAY_BE_OURS.match(sql) is None:
        return None
    cursor = _Cursor(sql, tokens(sql, double_quoted_identifiers=double_quoted_identifiers))
    return _create(cursor) if cursor.take("create") else _drop(cursor)


def query_only(sql: str, statement: CreateTemporaryTable) -> str:
    """The query alone, at its own place: all before it is blank, so that positions in Spark's messages stay right."""
    before = "".join(char if char in "\r\n" else " " for char in sql[: statement.query_start])
    return before + sql[statement.query_start : statement.query_end]


class _Cursor:
    def __init__(self, sql: str, found: Sequence[Token]) -> None:
        self.sql = sql
        self.tokens = list(found)
        while self.tokens and self.tokens[-1].value == ";":
            self.tokens.pop()
        self.position = 0

    @property
    def current(self) -> Token | None:
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    def take(self, *words: str) -> bool:
        """Steps over these keywords if they all come next."""
        following = self.tokens[self.position : self.position + len(words)]
        if len(following) == len(words) and all(t.is_word(w) for t, w in zip(following, words, strict=True)):
            self.position += len(words)
            return True
        return False

    def take_symbol(self, symbol: str) -> bool:
        current = self.current
        if current is not None and current.kind is Kind.SYMBOL and current.value == symbol:
            self.position += 1
            return True
        return False

    def name(self) -> str:
        current = self.current
        if current is None or not current.is_name:
            raise self.expected("a name")
        self.position += 1
        return current.value

    def dotted_name(self) -> tuple[str, ...]:
        parts = [self.name()]
        while self.take_symbol("."):
            parts.append(self.name())
        return tuple(parts)

    def column_list(self) -> tuple[str, ...]:
        columns = [self.name()]
        while self.take_symbol(","):
            columns.append(self.name())
        if not self.take_symbol(")"):
            raise self.expected("')' or ','")
        return tuple(columns)

    def expected(self, what: str) -> StatementError:
        current = self.current
        offset = len(self.sql) if current is None else current.start
        found = "end of input" if current is None else f"'{self.sql[current.start : current.end]}'"
        line = self.sql.count("\n", 0, offset) + 1
        column = offset - (self.sql.rfind("\n", 0, offset) + 1)
        return StatementError(
            f"Syntax error at or near {found}: expected {what} in CREATE TEMPORARY TABLE. (line {line}, pos {column})"
        )


def _create(cursor: _Cursor) -> CreateTemporaryTable | None:
    if not (cursor.take("temporary", "table") or cursor.take("temp", "table")):
        return None
    has_query = any(
        first.is_word("as")
        and (second.is_word("select", "with", "values", "table", "from", "map", "reduce") or second.value == "(")
        for first, second in zip(cursor.tokens, cursor.tokens[1:], strict=False)
    )
    if not has_query or cursor.take("if"):
        return None
    name = cursor.dotted_name()
    columns = cursor.column_list() if cursor.take_symbol("(") else None
    storage_format, partition_columns = _clauses(cursor)
    if not cursor.take("as"):
        raise cursor.expected("USING, PARTITION BY or AS")
    first, last = cursor.current, cursor.tokens[-1]
    if first is None:
        raise cursor.expected("a query")
    return CreateTemporaryTable(name, columns, storage_format, partition_columns, first.start, last.end)


def _clauses(cursor: _Cursor) -> tuple[str | None, tuple[str, ...]]:
    storage_format: str | None = None
    partition_columns: tuple[str, ...] = ()
    while True:
        if storage_format is None and cursor.take("using"):
            storage_format = cursor.name()
        elif not partition_columns and (cursor.take("partition", "by") or cursor.take("partitioned", "by")):
            if not cursor.take_symbol("("):
                raise cursor.expected("'('")
            partition_columns = cursor.column_list()
        else:
            return storage_format, partition_columns


def _drop(cursor: _Cursor) -> DropTable | None:
    if not cursor.take("drop", "table"):
        return None
    if_exists = cursor.take("if", "exists")
    try:
        name = cursor.dotted_name()
    except StatementError:
        return None
    cursor.take("purge")
    return DropTable(name, if_exists) if cursor.current is None else None
