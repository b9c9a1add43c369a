"""Checks whether a query is read-only.

Lodge analyzes and runs the query of a statement separately from the statement. Spark's grammar allows ``INSERT``,
``MERGE``, ``UPDATE`` and ``DELETE`` after ``WITH``, and ``INSERT`` after ``FROM``. Analyzing such a text would execute
the change.

Not guaranteed: a few read-only queries are mistaken for changes, for example ``FROM t SELECT insert into``.

Source: [spark-sql-grammar ctes], [spark-sql-grammar dmlStatementNoWith], [spark-sql-grammar queryPrimary].
"""

from collections.abc import Iterator

from gateway.sql.cursor import Cursor
from gateway.sql.lexer import Token

QUERY_KEYWORDS = frozenset({"SELECT", "WITH", "VALUES", "TABLE", "FROM", "MAP", "REDUCE"})
_CHANGES_AFTER_WITH = frozenset({"INSERT", "MERGE", "UPDATE", "DELETE"})
_CONTINUES_WITH = frozenset({"AS", "MAX"})
_AFTER_INSERT = frozenset({"INTO", "OVERWRITE", "WITH"})


def is_query_start(cursor: Cursor) -> bool:
    """Return whether a query starts at the current token."""
    return cursor.keyword() in QUERY_KEYWORDS or cursor.is_symbol("(")


def is_read_only_query(cursor: Cursor) -> bool:
    """Return whether a query that changes nothing starts at the current token."""
    return is_query_start(cursor) and find_data_change(cursor) is None


def find_data_change(cursor: Cursor) -> Token | None:
    """Return the keyword of the first data change in the query at the cursor.

    Returns:
        The keyword. None if the query is read-only.
    """
    start = cursor.position
    if cursor.keyword() == "WITH":
        after = find_end_of_common_tables(cursor)
        if after is None:
            return None
        token = cursor.at(after)
        if token is not None and token.keyword in _CHANGES_AFTER_WITH:
            return token
        start = after
    first = cursor.at(start)
    if first is not None and first.keyword == "FROM":
        return next((token for _, token in find_inserts_after_from(cursor, start)), None)
    return None


def find_end_of_common_tables(cursor: Cursor) -> int | None:
    """Return the index of the token after ``WITH a AS (…), b AS (…)``.

    The clause must start at the current token. Return None if no token follows the clause.
    """
    is_closed = False
    for index, token in cursor.outside_brackets():
        is_bracket = token.is_symbol(")")
        if is_closed and not (is_bracket or token.is_symbol(",") or token.keyword in _CONTINUES_WITH):
            return index
        is_closed = is_bracket
    return None


def find_inserts_after_from(cursor: Cursor, start: int) -> Iterator[tuple[int, Token]]:
    """Yield each ``INSERT`` after a ``FROM``, together with its token index.

    Args:
        cursor: The cursor.
        start: The token index of the ``FROM``.
    """
    for index, token in cursor.outside_brackets(start):
        if token.keyword == "INSERT":
            following = cursor.at(index + 1)
            if following is not None and following.keyword in _AFTER_INSERT:
                yield index, token
