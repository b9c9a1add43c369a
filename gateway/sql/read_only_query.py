"""Whether the text from a place on is a query that changes nothing.

Why it exists: Lodge has queries analysed and run apart from the statement around them. Spark's grammar allows
``INSERT``, ``MERGE``, ``UPDATE`` and ``DELETE`` after ``WITH``, and ``INSERT`` after ``FROM``: to analyse such a text
would be to run it.

Not guaranteed: that what changes nothing is never taken for a change: ``FROM t SELECT insert into`` is.

Source: Spark: SqlBaseParser.g4 (ctes, dmlStatementNoWith, queryPrimary).
"""

from collections.abc import Iterator

from gateway.sql.cursor import Cursor
from gateway.sql.lexer import Token

QUERY_KEYWORDS = frozenset({"SELECT", "WITH", "VALUES", "TABLE", "FROM", "MAP", "REDUCE"})
_CHANGES_AFTER_WITH = frozenset({"INSERT", "MERGE", "UPDATE", "DELETE"})
_GOES_ON_IN_WITH = frozenset({"AS", "MAX"})
_AFTER_INSERT = frozenset({"INTO", "OVERWRITE", "WITH"})


def is_query_start(cursor: Cursor) -> bool:
    return cursor.keyword() in QUERY_KEYWORDS or cursor.is_symbol("(")


def find_data_change(cursor: Cursor) -> Token | None:
    """The word that makes what begins here as a query a change of data; None if it is a query throughout."""
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
    """The index of the token after ``WITH a AS (…), b AS (…)``, which begins here; None if there is none."""
    is_closed = False
    for index, token in cursor.outside_brackets():
        is_bracket = token.is_symbol(")")
        if is_closed and not (is_bracket or token.is_symbol(",") or token.keyword in _GOES_ON_IN_WITH):
            return index
        is_closed = is_bracket
    return None


def find_inserts_after_from(cursor: Cursor, start: int) -> Iterator[tuple[int, Token]]:
    """Each ``INSERT`` that follows the ``FROM`` at this index, with its own index."""
    for index, token in cursor.outside_brackets(start):
        if token.keyword == "INSERT":
            following = cursor.at(index + 1)
            if following is not None and following.keyword in _AFTER_INSERT:
                yield index, token
