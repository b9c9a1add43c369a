"""The statements that Lodge answers itself: ``CREATE TEMPORARY TABLE … AS`` and ``DROP TABLE``.

Why it exists: each statement of each client passes by here, so an ordinary one costs a look at its first words, and
only one of these two kinds is read further. What is not for Lodge is left to Spark untouched, with Spark's own errors.

Guarantees:

1. ``CREATE TEMPORARY TABLE`` without a query, or with column types, is Spark's own and never recognised.
2. A recognised query begins as a query and holds no ``INSERT``, ``MERGE``, ``UPDATE`` or ``DELETE``, which Spark's
   grammar allows after ``WITH`` and ``FROM``: to analyse such a text would be to run it.

Source: seed 001, 5.1.1 and 5.1.8; Spark: SqlBaseParser.g4 for the clauses around.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

from gateway.sql.lexer import Token, blanked, iterate_tokens, skip_blank, tokens

_FIRST_WORD = re.compile(r"(?:create|drop)(?!\w)", re.IGNORECASE)
_BEGINS_QUERY = frozenset({"SELECT", "WITH", "VALUES", "TABLE", "FROM", "MAP", "REDUCE"})
_CHANGES_DATA = frozenset({("INSERT", "INTO"), ("INSERT", "OVERWRITE"), ("MERGE", "INTO"), ("DELETE", "FROM")})


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a text as Spark gives it: the line from 1, the column from 0."""

    line: int
    column: int


class StatementError(Exception):
    """A ``CREATE TEMPORARY TABLE`` that is not well formed; the message names what was expected.

    Attributes:
        message: What is wrong, without the place.
        position: Where.
    """

    def __init__(self, message: str, position: Position) -> None:
        super().__init__(f"{message} (line {position.line}, pos {position.column})")
        self.message = message
        self.position = position


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTemporaryTable:
    """``CREATE TEMPORARY TABLE [IF NOT EXISTS] name [(columns)] [USING format] [PARTITION BY (columns)] AS query``.

    Attributes:
        name: The parts of the name.
        name_span: Offsets of the name's first character and after its last.
        columns: The columns it names; None if it names none.
        storage_format: The format it names, as written; None if it names none.
        partition_columns: The columns it is partitioned by.
        if_not_exists: Whether a table of that name may exist.
        query_start: Offset right after ``AS``.
        query_end: Offset after the query's last token.
    """

    name: tuple[str, ...]
    name_span: tuple[int, int]
    columns: tuple[str, ...] | None
    storage_format: str | None
    partition_columns: tuple[str, ...]
    if_not_exists: bool
    query_start: int
    query_end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DropTable:
    """``DROP TABLE [IF EXISTS] name [PURGE]``; attributes as above."""

    name: tuple[str, ...]
    name_span: tuple[int, int]
    if_exists: bool


class _ColumnTypesError(Exception):
    """The column list has types."""


def recognise(sql: str, *, double_quoted_identifiers: bool = False) -> CreateTemporaryTable | DropTable | None:
    """The statement if it is one of Lodge's own; None if it is for Spark.

    Raises:
        StatementError: It creates a temporary table by a query, but a clause is malformed or not supported.
    """
    if _FIRST_WORD.match(sql, skip_blank(sql, 0)) is None:
        return None
    first = islice(iterate_tokens(sql, double_quoted_identifiers=double_quoted_identifiers), 3)
    words = tuple(token.keyword for token in first)
    is_drop = words[:2] == ("DROP", "TABLE")
    if not is_drop and words not in (("CREATE", "TEMPORARY", "TABLE"), ("CREATE", "TEMP", "TABLE")):
        return None
    cursor = _Cursor(sql, tokens(sql, double_quoted_identifiers=double_quoted_identifiers))
    return _drop(cursor) if is_drop else _create(cursor)


def query_only(sql: str, statement: CreateTemporaryTable) -> str:
    """The query alone, at its own place: all before it is blank, so that positions in Spark's messages stay right."""
    return blanked(sql[: statement.query_start]) + sql[statement.query_start : statement.query_end]


class _Cursor:
    """Steps over the tokens of one statement; trailing semicolons are not among them."""

    def __init__(self, sql: str, found: Sequence[Token]) -> None:
        self._sql = sql
        self._tokens = list(found)
        while self._tokens and self._tokens[-1].is_symbol(";"):
            self._tokens.pop()
        self._position = 0

    @property
    def current(self) -> Token | None:
        return self._tokens[self._position] if self._position < len(self._tokens) else None

    @property
    def rest(self) -> Sequence[Token]:
        return self._tokens[self._position :]

    @property
    def end(self) -> int:
        """Offset after the last token."""
        return self._tokens[-1].end

    @property
    def previous_end(self) -> int:
        """Offset after the token stepped over last."""
        return self._tokens[self._position - 1].end

    def skip(self, count: int) -> None:
        self._position += count

    def take(self, *words: str) -> bool:
        """Steps over these keywords if they all come next."""
        following = self._tokens[self._position : self._position + len(words)]
        taken = tuple(token.keyword for token in following) == words
        self._position += len(words) if taken else 0
        return taken

    def take_symbol(self, symbol: str) -> bool:
        taken = self.current is not None and self.current.is_symbol(symbol)
        self._position += taken
        return taken

    def name(self) -> str:
        current = self.current
        if current is None or not current.is_name:
            raise self.expected("a name")
        self._position += 1
        return current.value

    def dotted_name(self) -> tuple[str, ...]:
        parts = [self.name()]
        while self.take_symbol("."):
            parts.append(self.name())
        return tuple(parts)

    def spanned_name(self) -> tuple[tuple[str, ...], tuple[int, int]]:
        """A name of one or more parts, and its span."""
        current = self.current
        name = self.dotted_name()
        return name, (current.start if current else 0, self.previous_end)

    def column_list(self) -> tuple[str, ...]:
        """Names up to the closing parenthesis; the opening one is behind.

        Raises: _ColumnTypesError, StatementError.
        """
        columns = [self.name()]
        while self.take_symbol(","):
            columns.append(self.name())
        if self.current is not None and self.current.is_name:
            raise _ColumnTypesError
        if not self.take_symbol(")"):
            raise self.expected("',' or ')'")
        return tuple(columns)

    def expected(self, what: str) -> StatementError:
        current = self.current
        found = "end of input" if current is None else f"'{self._sql[current.start : current.end]}'"
        return self.error(f"Syntax error at or near {found}: expected {what} in CREATE TEMPORARY TABLE.")

    def error(self, message: str, token: Token | None = None) -> StatementError:
        """An error at a token, or else where the cursor stands."""
        at = token or self.current
        offset = len(self._sql) if at is None else at.start
        line = self._sql.count("\n", 0, offset) + 1
        return StatementError(message, Position(line, offset - self._sql.rfind("\n", 0, offset) - 1))


def _create(cursor: _Cursor) -> CreateTemporaryTable | None:
    cursor.skip(3)
    if not any(token.keyword == "AS" for token in _outside_parentheses(cursor.rest)):
        return None
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    name, name_span = cursor.spanned_name()
    try:
        columns = cursor.column_list() if cursor.take_symbol("(") else None
    except _ColumnTypesError:
        return None
    storage_format = ".".join(cursor.dotted_name()) if cursor.take("USING") else None
    partition_columns = _partition_columns(cursor)
    _take_as(cursor)
    query_start = cursor.previous_end
    _check_query(cursor)
    return CreateTemporaryTable(
        name=name,
        name_span=name_span,
        columns=columns,
        storage_format=storage_format,
        partition_columns=partition_columns,
        if_not_exists=if_not_exists,
        query_start=query_start,
        query_end=cursor.end,
    )


def _partition_columns(cursor: _Cursor) -> tuple[str, ...]:
    if not (cursor.take("PARTITION", "BY") or cursor.take("PARTITIONED", "BY")):
        return ()
    if not cursor.take_symbol("("):
        raise cursor.expected("'('")
    try:
        return cursor.column_list()
    except _ColumnTypesError:
        raise cursor.expected("',' or ')'") from None


def _take_as(cursor: _Cursor) -> None:
    current = cursor.current
    if current is not None and current.keyword == "OPTIONS":
        raise cursor.error("OPTIONS is not supported in CREATE TEMPORARY TABLE.")
    if not cursor.take("AS"):
        raise cursor.expected(
            "AS and a query, or before it one each of (columns), USING and PARTITION BY in this order,"
        )


def _check_query(cursor: _Cursor) -> None:
    """Raises: StatementError, if what follows is no query; see guarantee 2."""
    first = cursor.current
    if first is None or not (first.keyword in _BEGINS_QUERY or first.is_symbol("(")):
        raise cursor.expected("a query")
    outside = list(_outside_parentheses(cursor.rest))
    has_set = any(token.keyword == "SET" for token in outside)
    for token, following in pairwise(outside):
        updates = has_set and token.is_symbol(")") and following.keyword == "UPDATE"
        if updates or (token.keyword, following.keyword) in _CHANGES_DATA:
            raise cursor.error("CREATE TEMPORARY TABLE takes a query, not a change of data.", token)


def _outside_parentheses(found: Iterable[Token]) -> Iterator[Token]:
    """The tokens at depth 0; of a pair of parentheses the closing one."""
    depth = 0
    for token in found:
        if token.is_symbol("("):
            depth += 1
            continue
        if token.is_symbol(")"):
            depth = max(depth - 1, 0)
        if depth == 0:
            yield token


def _drop(cursor: _Cursor) -> DropTable | None:
    cursor.skip(2)
    if_exists = cursor.take("IF", "EXISTS")
    try:
        name, name_span = cursor.spanned_name()
    except StatementError:
        return None
    cursor.take("PURGE")
    return DropTable(name=name, name_span=name_span, if_exists=if_exists) if cursor.current is None else None
