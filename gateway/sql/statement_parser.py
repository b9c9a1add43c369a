"""Finds and parses the statements that may concern a temporary table.

The parser receives every statement of every client. For most statements, it reads only the first word. It continues to
parse only if the statement may concern a temporary table. Spark executes all other statements, and reports their
errors.

Guarantees:

1. For statements that are left to Spark, the parser returns None and does not raise an error
   (:mod:`gateway.sql.create_table`).
2. The query of a statement is read-only (:mod:`gateway.sql.read_only_query`). Analyzing it does not execute anything.
3. Parsing takes linear time in the length of the text. If the first word is not the start of one of these statements,
   the time is independent of the length.
4. The parser raises only ``StatementError``, and the error for texts with too many tokens. All spans are within the
   text.

Not guaranteed:

- Spark may reject the statement.
- ``parse_statement`` does not find ``MERGE``, ``UPDATE`` or ``DELETE`` after ``WITH``. Spark rejects these statements
  for all kinds of temporary tables. :func:`gateway.sql.change_clauses.find_change_clauses` does find them.

Source: [temporary-tables §5.1.1, §5.1.8], [spark-sql-grammar statement].
"""

import re
from collections.abc import Callable

from gateway.sql.create_table import parse_create_table, parse_create_temporary_table
from gateway.sql.create_view import parse_cache_table, parse_create_view
from gateway.sql.cursor import Cursor
from gateway.sql.drop_and_alter import (
    parse_alter,
    parse_analyze,
    parse_comment,
    parse_drop,
    parse_merge_or_update,
    parse_truncate,
)
from gateway.sql.insert import parse_insert, parse_insert_after_from, parse_insert_after_with
from gateway.sql.lexer import DEFAULT_DIALECT, LONGEST_KEYWORD, Dialect, SqlText, skip_blank
from gateway.sql.piecewise_search import is_found
from gateway.sql.show import parse_close, parse_describe, parse_show
from gateway.sql.statements import (
    CreateTable,
    CreateTemporaryTable,
    CreateView,
    Explain,
    ExplainSparkStatement,
    HasQuery,
    Insert,
    Statement,
)


def parse_statement(sql: str, dialect: Dialect = DEFAULT_DIALECT) -> Statement | None:
    """Parse a statement that may concern a temporary table.

    Args:
        sql: The SQL text.
        dialect: The dialect of the session.

    Returns:
        The statement. None if the statement is left to Spark.

    Raises:
        StatementError: If the statement creates or lists temporary tables or closes a session, and has a malformed or
            unsupported clause.
        GatewayError: If the parser would have to read too many tokens.
    """
    parser = _find_parser(sql, skip_blank(sql, 0))
    return None if parser is None else parser(Cursor(sql, dialect))


def may_concern_tables(sql: str) -> bool:
    """Return whether the first word of a text can start a statement that may concern a temporary table.

    In all dialects, :func:`parse_statement` returns None for other texts.
    """
    return _find_parser(sql, skip_blank(sql, 0)) is not None


def extract_query(sql: str, statement: HasQuery) -> SqlText:
    """Return the query of a statement without changing its position in the text.

    The text before the query is replaced with spaces, so that the positions in Spark's error messages remain correct.
    The query of an :class:`Explain` statement includes the words before ``CREATE``.

    Raises:
        ValueError: If the statement does not have a query.
    """
    start, end, kept_end = find_query(statement)
    return (sql if isinstance(sql, SqlText) else SqlText(sql)).without(start, end, kept_end)


def find_query(statement: HasQuery) -> tuple[int, int, int]:
    """Return the begin of the text that is not part of the query of a statement, its end, and the end of the query.

    Raises:
        ValueError: If the statement does not have a query.
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
    return start, end, kept_end


def _find_parser(sql: str, start: int) -> Callable[[Cursor], Statement | None] | None:
    """Return the parser for the first word of a statement. None if there is none."""
    first = _WORD.match(sql, start, start + LONGEST_KEYWORD)
    if first is None:
        return None
    word = first.group().upper()
    if word in _PARSERS_OF_INSERT:
        return _PARSERS_OF_INSERT[word] if is_found(_INSERT, sql) else None
    return _PARSERS.get(word)


def _parse_create(cursor: Cursor) -> CreateTemporaryTable | CreateTable | CreateView | None:
    cursor.take("CREATE")
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
    return parse_create_temporary_table(cursor, or_replace=or_replace)


def _parse_replace(cursor: Cursor) -> CreateTable | None:
    return parse_create_table(cursor, has_other_clauses=True) if cursor.take("REPLACE", "TABLE") else None


def _parse_explain(cursor: Cursor) -> Explain | ExplainSparkStatement | None:
    cursor.take("EXPLAIN")
    cursor.take_any("LOGICAL", "FORMATTED", "EXTENDED", "CODEGEN", "COST")
    first = cursor.current
    if first is None:
        return None
    table = _parse_create(cursor) if cursor.keyword() == "CREATE" else None
    if not isinstance(table, CreateTemporaryTable) or table.query_span is None:
        return ExplainSparkStatement()
    start, end = table.query_span
    return Explain(table=table, prefix_span=(first.start, start), end=end)


_INSERT = re.compile("insert", re.IGNORECASE)
_WORD = re.compile(r"\w++")
_PARSERS_OF_INSERT: dict[str, Callable[[Cursor], Statement | None]] = {
    "WITH": parse_insert_after_with,
    "FROM": parse_insert_after_from,
}
_PARSERS: dict[str, Callable[[Cursor], Statement | None]] = {
    "ALTER": parse_alter,
    "ANALYZE": parse_analyze,
    "CACHE": parse_cache_table,
    "CLOSE": parse_close,
    "COMMENT": parse_comment,
    "CREATE": _parse_create,
    "DELETE": parse_merge_or_update,
    "DESC": parse_describe,
    "DESCRIBE": parse_describe,
    "DROP": parse_drop,
    "EXPLAIN": _parse_explain,
    "INSERT": parse_insert,
    "MERGE": parse_merge_or_update,
    "REPLACE": _parse_replace,
    "SHOW": parse_show,
    "TRUNCATE": parse_truncate,
    "UPDATE": parse_merge_or_update,
}
