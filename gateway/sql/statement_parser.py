"""The statements that may concern a temporary table, found in SQL text without parsing all of it.

Why it exists: each statement of each client passes by here, so an ordinary one costs a look at its first word, and only
what may be about a temporary table is read further. What is not for Lodge is left to Spark, with Spark's own errors.

Guarantees:

1. What is Spark's own is never recognised as Lodge's (``create_table``), and raises no error.
2. A query that a statement has changes nothing (``query_text``): to analyse it is not to run anything.
3. The time is linear in the length of the text; for one that begins with another word than these statements, it does
   not depend on it.
4. Nothing but ``StatementError`` is raised, whatever the text, and all spans are within it.

Not guaranteed: that Spark takes what is recognised; nor that ``parse_statement`` sees a ``MERGE``, ``UPDATE`` or
``DELETE`` after ``WITH`` (``changes`` does): Spark refuses these for whatever a temporary table can be.

Source: seed 001, 5.1.1 and 5.1.8; Spark: SqlBaseParser.g4.
"""

import re
from collections.abc import Callable

from gateway.sql.create_table import parse_create_table, parse_create_temporary_table
from gateway.sql.create_view import parse_cache_table, parse_create_view
from gateway.sql.cursor import Cursor
from gateway.sql.drop_and_alter import parse_alter, parse_drop, parse_merge_or_update, parse_truncate
from gateway.sql.insert import parse_insert, parse_insert_after_from, parse_insert_after_with
from gateway.sql.lexer import blank_out, skip_blank
from gateway.sql.show import parse_show
from gateway.sql.statements import (
    CreateTable,
    CreateTemporaryTable,
    CreateView,
    Explain,
    HasQuery,
    Insert,
    Statement,
)


def parse_statement(sql: str, *, double_quoted_identifiers: bool = False) -> Statement | None:
    """The statement if it may concern a temporary table; None if it is for Spark.

    Args:
        sql: The text.
        double_quoted_identifiers: Whether the session reads ``"a"`` as a name.

    Raises:
        StatementError: It is about a temporary table, but a clause is malformed or not supported.
    """
    start = skip_blank(sql, 0)
    reader = _reader(sql, start)
    return None if reader is None else reader(Cursor(sql, double_quoted_identifiers=double_quoted_identifiers))


def extract_query(sql: str, statement: HasQuery) -> str:
    """The query alone (after ``EXPLAIN``: what explains it), at its own place.

    All else is blank, so that positions in Spark's messages stay right; after the query's end is nothing.

    Raises:
        ValueError: The statement has no query.
    """
    if isinstance(statement, Insert):
        is_query = statement.unsupported is None
        (start, end), kept_end = statement.clause_span, statement.end
    elif isinstance(statement, Explain):
        is_query = True
        (start, end), kept_end = statement.prefix_span, statement.end
    else:
        is_query = statement.query_span is not None
        start, (end, kept_end) = 0, statement.query_span or (0, 0)
    if not is_query:
        raise ValueError(f"{type(statement).__name__} has no query")
    return sql[:start] + blank_out(sql[start:end]) + sql[end:kept_end]


def _reader(sql: str, start: int) -> Callable[[Cursor], Statement | None] | None:
    """What reads the statement, if its first word says that it may be one."""
    first = _WORD.match(sql, start)
    if first is None:
        return None
    word = first.group().upper()
    if word in _AFTER_QUERY_PARTS:
        return _AFTER_QUERY_PARTS[word] if "INSERT" in sql.upper() else None
    return _READERS.get(word)


def _create(cursor: Cursor) -> CreateTemporaryTable | CreateTable | CreateView | None:
    cursor.take("CREATE")
    begin = cursor.current
    or_replace = cursor.take("OR", "REPLACE")
    is_global = cursor.take("GLOBAL")
    is_temporary = cursor.take_any("TEMPORARY", "TEMP") != ""
    is_external = cursor.take("EXTERNAL")
    kind = cursor.take_any("TABLE", "VIEW")
    if kind == "VIEW" and (is_temporary or not is_global) and not is_external:
        return parse_create_view(cursor, is_temporary=is_temporary, is_global=is_global, or_replace=or_replace)
    if kind != "TABLE" or is_global or (is_temporary and is_external):
        return None
    if not is_temporary:
        return parse_create_table(cursor, has_other_clauses=or_replace or is_external)
    if or_replace:
        raise cursor.error(
            "OR REPLACE is not supported in CREATE TEMPORARY TABLE: use DROP TABLE IF EXISTS first.", begin
        )
    return parse_create_temporary_table(cursor)


def _replace(cursor: Cursor) -> CreateTable | None:
    return parse_create_table(cursor, has_other_clauses=True) if cursor.take("REPLACE", "TABLE") else None


def _explain(cursor: Cursor) -> Explain | None:
    cursor.take("EXPLAIN")
    cursor.take_any("LOGICAL", "FORMATTED", "EXTENDED", "CODEGEN", "COST")
    first = cursor.current
    table = _create(cursor) if first is not None and cursor.keyword() == "CREATE" else None
    if first is None or not isinstance(table, CreateTemporaryTable) or table.query_span is None:
        return None
    start, end = table.query_span
    return Explain(table=table, prefix_span=(first.start, start), end=end)


_WORD = re.compile(r"\w++")
_AFTER_QUERY_PARTS: dict[str, Callable[[Cursor], Statement | None]] = {
    "WITH": parse_insert_after_with,
    "FROM": parse_insert_after_from,
}
_READERS: dict[str, Callable[[Cursor], Statement | None]] = {
    "ALTER": parse_alter,
    "CACHE": parse_cache_table,
    "CREATE": _create,
    "DELETE": parse_merge_or_update,
    "DROP": parse_drop,
    "EXPLAIN": _explain,
    "INSERT": parse_insert,
    "MERGE": parse_merge_or_update,
    "REPLACE": _replace,
    "SHOW": parse_show,
    "TRUNCATE": parse_truncate,
    "UPDATE": parse_merge_or_update,
}
