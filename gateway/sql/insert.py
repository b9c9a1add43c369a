"""Parses ``INSERT INTO`` and ``INSERT OVERWRITE`` in all their forms.

Guarantees:

1. If the ``INSERT`` clause is removed from a supported statement, the rest is a read-only query.
2. ``INSERT OVERWRITE DIRECTORY`` is not parsed, because it does not refer to a table.

Source: [spark-sql-grammar dmlStatementNoWith], [spark-sql-grammar insertInto].
"""

import re

from gateway.sql.cursor import Cursor
from gateway.sql.lexer import DEFAULT_DIALECT, Dialect, Token, TokenKind, tokenize
from gateway.sql.piecewise_search import is_found
from gateway.sql.read_only_query import (
    QUERY_KEYWORDS,
    find_data_change,
    find_end_of_common_tables,
    find_inserts_after_from,
    is_query_start,
)
from gateway.sql.statement_error import StatementError
from gateway.sql.statements import Insert, TableName

_CONSTANTS = frozenset({"NULL", "TRUE", "FALSE", "DEFAULT"})
_DEFAULT = re.compile("default", re.IGNORECASE)


def parse_insert_after_with(cursor: Cursor) -> Insert | None:
    """Parse a text that begins with ``WITH``. Return None if it has no ``INSERT``."""
    after = find_end_of_common_tables(cursor)
    if after is None:
        return None
    cursor.position = after
    if cursor.keyword() == "FROM":
        return parse_insert_after_from(cursor)
    return parse_insert(cursor, is_after_with=True) if cursor.keyword() == "INSERT" else None


def parse_insert_after_from(cursor: Cursor) -> Insert | None:
    """Parse a text that begins with ``FROM``. Return None if it has no ``INSERT``."""
    names: list[TableName] = []
    overwrite, clause_span = False, (0, 0)
    for index, token in find_inserts_after_from(cursor, cursor.position):
        cursor.position = index
        is_overwrite = take_insert(cursor)
        name = None if is_overwrite is None else cursor.take_name()
        if name is None or is_overwrite is None:
            continue
        if not names:
            overwrite, clause_span = is_overwrite, (token.start, cursor.previous_end)
        names.append(name)
    if not names:
        return None
    return Insert(
        name=names[0],
        overwrite=overwrite,
        clause_span=clause_span,
        end=cursor.end,
        unsupported="FROM ... INSERT",
        other_names=tuple(names[1:]),
    )


def parse_insert(cursor: Cursor, *, is_after_with: bool = False) -> Insert | None:
    """Parse a text that begins with ``INSERT``.

    Returns:
        The statement. None if the text has no table name, or ends after the table name.
    """
    start = 0 if cursor.current is None else cursor.current.start
    evolves = cursor.keyword(1) == "WITH"
    overwrite = take_insert(cursor)
    name = None if overwrite is None else cursor.take_name()
    if name is None or overwrite is None or cursor.current is None:
        return None
    partition: tuple[tuple[str, str | None], ...] | None = ()
    if not evolves and cursor.keyword() == "PARTITION":
        partition = _parse_partition(cursor)
    unsupported = "WITH SCHEMA EVOLUTION" if evolves else _find_unsupported_clause(cursor)
    if partition is None:
        partition, unsupported = (), "PARTITION"
    if unsupported is None:
        if not cursor.take("BY", "NAME"):
            _take_columns(cursor)
        unsupported = _find_unsupported_query(cursor, is_after_with=is_after_with)
    clause_end = cursor.end if cursor.current is None else cursor.current.start
    return Insert(
        name=name,
        overwrite=overwrite,
        clause_span=(start, clause_end),
        end=cursor.end,
        unsupported=unsupported,
        partition=partition,
    )


def may_have_defaults(sql: str, start: int, dialect: Dialect = DEFAULT_DIALECT) -> bool:
    """Return whether the text after an offset may contain ``DEFAULT`` as a value, and not only as a part of a name."""
    if not is_found(_DEFAULT, sql):
        return False
    tokens = tokenize(sql, dialect)
    return any(
        token.keyword == "DEFAULT" and not any(each.is_symbol(".") for each in tokens[index - 1 : index + 2])
        for index, token in enumerate(tokens)
        if token.start >= start
    )


def take_insert(cursor: Cursor) -> bool | None:
    """Step over the words before the table name.

    Returns:
        Whether the new rows replace the rows of the table. None if the statement does not insert into a table.
    """
    cursor.take("INSERT")
    cursor.take("WITH", "SCHEMA", "EVOLUTION")
    word = cursor.take_any("INTO", "OVERWRITE")
    if word == "" or (word == "OVERWRITE" and _is_before_directory(cursor)):
        return None
    if cursor.keyword() == "TABLE" and _is_table_before_name(cursor):
        cursor.take("TABLE")
    return word == "OVERWRITE"


def _is_before_directory(cursor: Cursor) -> bool:
    ahead = 1 if cursor.keyword() == "LOCAL" else 0
    after = cursor.peek(ahead + 1)
    is_path = after is not None and (after.kind is TokenKind.STRING or after.keyword == "USING")
    return cursor.keyword(ahead) == "DIRECTORY" and is_path


def _is_table_before_name(cursor: Cursor) -> bool:
    """Return whether ``TABLE`` precedes a table name and is not the table name itself."""
    after = cursor.peek(1)
    if after is None or not after.is_name:
        return False
    return after.keyword not in QUERY_KEYWORDS or cursor.keyword(2) in QUERY_KEYWORDS


def _find_unsupported_clause(cursor: Cursor) -> str | None:
    """Return the unsupported clause at the cursor. None if there is no such clause."""
    if cursor.keyword() == "WITH" and cursor.is_symbol("(", 1):
        return "WITH (...)"
    if cursor.keyword() == "IF":
        return "IF NOT EXISTS"
    if cursor.keyword() == "REPLACE":
        return f"REPLACE {cursor.keyword(1)}".rstrip()
    return None


def _parse_partition(cursor: Cursor) -> tuple[tuple[str, str | None], ...] | None:
    """Step over a ``PARTITION`` clause.

    Returns:
        The columns, and the texts of their values. None if the clause is malformed.
    """
    cursor.take("PARTITION")
    found: list[tuple[str, str | None]] = []
    if not cursor.take_symbol("("):
        return None
    while (name := cursor.take_part()) is not None:
        value = _take_value(cursor) if cursor.take_symbol("=") else None
        if value == "":
            break
        found.append((name, value))
        if cursor.take_symbol(")"):
            return tuple(found)
        if not cursor.take_symbol(","):
            break
    return None


def _take_value(cursor: Cursor) -> str:
    """Step over a constant, and return its text. Empty if there is none, or Spark would not parse it as a constant."""
    first = cursor.current
    tokens: list[Token] = []
    while (token := cursor.current) is not None and not (token.is_symbol(",") or token.is_symbol(")")):
        tokens.append(token)
        cursor.position += 1
    kinds = [token.kind for token in tokens]
    is_constant = (
        kinds in ([TokenKind.STRING], [TokenKind.NUMBER])
        or (len(tokens) == 1 and (tokens[0].keyword in _CONSTANTS or tokens[0].is_symbol("?")))
        or (kinds == [TokenKind.SYMBOL, TokenKind.NUMBER] and tokens[0].is_symbol("-"))
        or (len(tokens) == 2 and tokens[0].is_symbol(":") and tokens[1].is_name)
        or (kinds == [TokenKind.WORD, TokenKind.STRING])
        or (len(tokens) > 1 and tokens[0].keyword == "INTERVAL")
    )
    return cursor.text_from(first.start) if first is not None and is_constant else ""


def _take_columns(cursor: Cursor) -> None:
    """Step over a column list, unless the brackets contain the query."""
    start = cursor.position
    if not cursor.is_symbol("("):
        return
    try:
        cursor.expect_columns()
    except StatementError:
        cursor.position = start
        return
    if not (is_query_start(cursor) or cursor.keyword() == "BY"):
        cursor.position = start


def _find_unsupported_query(cursor: Cursor, *, is_after_with: bool) -> str | None:
    """Return the word that makes the rest of the text unsupported as a query."""
    current = cursor.current
    if current is None:
        return "no query"
    if not is_query_start(cursor):
        return current.keyword or "no query"
    if is_after_with and current.keyword == "WITH":
        return "WITH ... INSERT ... WITH"
    change = find_data_change(cursor)
    return None if change is None else change.keyword
