"""Parses ``CREATE VIEW`` and ``CACHE TABLE``, which create a view of a query.

Guarantee: a query span always contains a read-only query.

Source: [spark-sql-grammar createView], [spark-sql-grammar createTempViewUsing], [spark-sql-grammar cacheTable].
"""

from gateway.sql.cursor import Cursor
from gateway.sql.read_only_query import is_read_only_query
from gateway.sql.statements import CacheTableAs, CreateView, Span


def parse_create_view(cursor: Cursor, *, is_temporary: bool, is_global: bool, or_replace: bool) -> CreateView | None:
    """Parse the text after ``CREATE … VIEW``. Return None if it has no name."""
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    name = cursor.take_name()
    if name is None:
        return None
    return CreateView(
        name=name,
        is_temporary=is_temporary,
        is_global=is_global,
        or_replace=or_replace,
        if_not_exists=if_not_exists,
        query_span=_find_query_after_as(cursor),
    )


def parse_cache_table(cursor: Cursor) -> CacheTableAs | None:
    """Parse a text that begins with ``CACHE``. Return None if it has no query."""
    cursor.take("CACHE")
    cursor.take("LAZY")
    name = cursor.take_name() if cursor.take("TABLE") else None
    if name is None:
        return None
    if cursor.take("OPTIONS"):
        cursor.take_brackets()
    current = cursor.current
    start = cursor.previous_end if cursor.take("AS") else current.start if current is not None else 0
    query_span = _parse_query(cursor, start)
    return None if query_span is None else CacheTableAs(name=name, query_span=query_span)


def _find_query_after_as(cursor: Cursor) -> Span | None:
    for index, token in cursor.outside_brackets():
        if token.keyword == "USING":
            return None
        if token.keyword == "AS":
            cursor.position = index + 1
            return _parse_query(cursor, cursor.previous_end)
    return None


def _parse_query(cursor: Cursor, start: int) -> Span | None:
    return (start, cursor.end) if is_read_only_query(cursor) else None
