"""Parses ``INSERT INTO`` and ``INSERT OVERWRITE`` in all their forms.

Guarantees:

1. If the ``INSERT`` clause is removed from a supported statement, the rest is a read-only query.
2. ``INSERT OVERWRITE DIRECTORY`` is not parsed, because it does not refer to a table.

Source: [spark-sql-grammar dmlStatementNoWith], [spark-sql-grammar insertInto].
"""

import re
from dataclasses import replace
from itertools import zip_longest

from gateway.sql.cursor import Cursor
from gateway.sql.lexer import DEFAULT_DIALECT, Dialect, Token, TokenKind, tokenize
from gateway.sql.partition_clause import parse_partition
from gateway.sql.piecewise_search import is_found
from gateway.sql.read_only_query import (
    QUERY_KEYWORDS,
    find_data_change,
    find_end_of_common_tables,
    find_inserts_after_from,
    is_query_start,
)
from gateway.sql.statement_error import StatementError
from gateway.sql.statements import Insert, MultiInsert, Span

_DEFAULT = re.compile("default", re.IGNORECASE)
_AFTER_INSERT_CLAUSE = frozenset({"SELECT", "MAP", "REDUCE"})
"""Keywords that can follow an ``INSERT`` clause after ``FROM``."""

_BEFORE_BRACKETS = frozenset({"SELECT", "VALUES", "FROM"})
"""Keywords that begin a query even before a bracket. Others can be names of functions."""

_CONTINUES_VALUE = frozenset(
    {"IN", "EXISTS", "AND", "OR", "NOT", "ANY", "SOME", "ALL", "LIKE", "BETWEEN", "WHEN", "THEN", "ELSE", "CASE"}
).union("=<>!+-*/%&|^~,.")
"""Words and symbols after which a bracket is a part of the same expression."""


def parse_insert_after_with(cursor: Cursor) -> Insert | MultiInsert | None:
    """Parse a text that begins with ``WITH``. Return None if it has no ``INSERT``."""
    after = find_end_of_common_tables(cursor)
    if after is None:
        return None
    cursor.position = after
    if cursor.keyword() == "FROM":
        return parse_insert_after_from(cursor)
    return parse_insert(cursor, is_after_with=True) if cursor.keyword() == "INSERT" else None


def parse_insert_after_from(cursor: Cursor) -> Insert | MultiInsert | None:
    """Parse a text that begins with ``FROM``. Return None if it has no ``INSERT``, or one into a directory."""
    clauses = list(find_inserts_after_from(cursor, cursor.position))
    found = []
    for (index, _), following in zip_longest(clauses, clauses[1:]):
        cursor.position = index
        end = cursor.end if following is None else cursor.end_before(following[0])
        insert = parse_insert(cursor, is_after_with=True)
        if insert is None:  # into a directory
            return None
        if insert.unsupported is None and cursor.keyword() not in _AFTER_INSERT_CLAUSE:
            insert = replace(insert, unsupported=cursor.keyword() or "no query")
        found.append(replace(insert, clause_span=(clauses[0][1].start, insert.clause_span[1]), end=end))
    if len(found) > 1:
        return MultiInsert(tuple(found))
    return found[0] if found else None


def parse_insert(cursor: Cursor, *, is_after_with: bool = False) -> Insert | None:
    """Parse a text that begins with ``INSERT``, at the cursor.

    Returns:
        The statement. None if the text has no table name, or ends after the table name.
    """
    start = 0 if cursor.current is None else cursor.current.start
    evolves = cursor.keyword(1) == "WITH"
    overwrite = take_insert(cursor)
    name = None if overwrite is None else cursor.take_name()
    if name is None or overwrite is None or cursor.current is None:
        return None
    partition = () if evolves else parse_partition(cursor)
    unsupported = "WITH SCHEMA EVOLUTION" if evolves else _find_unsupported_clause(cursor)
    if partition is None:
        partition, unsupported = (), "PARTITION"
    if_not_exists = replace_where = columns_end = None
    if unsupported is None:
        if_not_exists = _take_if_not_exists(cursor)
        if not cursor.take("BY", "NAME"):
            _take_columns(cursor)
        columns_end = None if cursor.current is None else cursor.current.start
        replace_where = _take_replace_where(cursor)
        unsupported = _find_unsupported_query(cursor, is_after_with=is_after_with)
        if unsupported == "REPLACE":
            unsupported = f"REPLACE {cursor.keyword(1)}".rstrip()
    clause_end = cursor.end if cursor.current is None else cursor.current.start
    return Insert(
        name=name,
        overwrite=overwrite,
        clause_span=(start, clause_end),
        end=cursor.end,
        unsupported=unsupported,
        columns_end=clause_end if columns_end is None or replace_where is None else columns_end,
        partition=partition,
        if_not_exists=if_not_exists,
        replace_where=replace_where,
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
    return None


def _take_if_not_exists(cursor: Cursor) -> Span | None:
    """Step over ``IF NOT EXISTS``, and return its span. None without it."""
    first = cursor.current
    return (first.start, cursor.previous_end) if first is not None and cursor.take("IF", "NOT", "EXISTS") else None


def _take_replace_where(cursor: Cursor) -> Span | None:
    """Step over ``REPLACE WHERE condition``, and return the span of the condition. None without it.

    The condition ends where the query begins. None also if the text cannot be a condition.
    """
    if not cursor.take("REPLACE", "WHERE") or cursor.current is None:
        return None
    start, before = cursor.current.start, ""
    while (token := cursor.current) is not None:
        if token.start > start and _begins_query(token, cursor.peek(1), before):
            return start, cursor.previous_end
        before = token.keyword or token.value
        if not cursor.take_brackets():
            if token.keyword in {"AS", "INSERT"} or any(map(token.is_symbol, "(),;")):
                return None
            cursor.position += 1
    return None


def _begins_query(token: Token, following: Token | None, before: str) -> bool:
    """Return whether a query begins at a token after an expression."""
    if following is None:
        return False
    if token.is_symbol("("):
        return following.keyword in QUERY_KEYWORDS and before not in _CONTINUES_VALUE
    if token.keyword in _BEFORE_BRACKETS:
        return before != "DISTINCT"
    return token.keyword in QUERY_KEYWORDS and not following.is_symbol("(")


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
    if not (is_query_start(cursor) or cursor.keyword() in {"BY", "REPLACE"}):
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
