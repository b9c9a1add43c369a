"""Statements that tell which tables there are, and how one was created.

Source: seed 001, 5.1; Spark: SqlBaseParser.g4 (showTables, showCreateTable).
"""

from gateway.sql.cursor import Cursor
from gateway.sql.statements import ShowCreateTable, ShowTables, ShowTemporaryTables


def parse_show(cursor: Cursor) -> ShowTemporaryTables | ShowTables | ShowCreateTable | None:
    """What begins with ``SHOW``.

    Raises: StatementError, for ``SHOW TEMPORARY TABLES``.
    """
    cursor.take("SHOW")
    if cursor.take("CREATE", "TABLE"):
        return _create_table(cursor)
    if cursor.take("TEMPORARY", "TABLES") or cursor.take("TEMP", "TABLES"):
        return _temporary_tables(cursor)
    return _tables(cursor) if cursor.take("TABLES") else None


def _create_table(cursor: Cursor) -> ShowCreateTable | None:
    name = cursor.maybe_name()
    as_serde = cursor.take("AS", "SERDE")
    return None if name is None or cursor.current is not None else ShowCreateTable(name=name, as_serde=as_serde)


def _temporary_tables(cursor: Cursor) -> ShowTemporaryTables:
    cursor.statement = "SHOW TEMPORARY TABLES"
    namespace = cursor.name() if cursor.take_any("FROM", "IN") else None
    has_like = cursor.take("LIKE")
    pattern = cursor.take_strings()
    if cursor.current is not None or (has_like and pattern is None):
        raise cursor.expected("FROM and a name, or LIKE and a pattern between quotes,")
    return ShowTemporaryTables(namespace=namespace, pattern=pattern)


def _tables(cursor: Cursor) -> ShowTables | None:
    namespace = cursor.maybe_name() if cursor.take_any("FROM", "IN") else None
    if namespace is None:
        return None
    has_like = cursor.take("LIKE")
    pattern = cursor.take_strings()
    if cursor.current is not None or (has_like and pattern is None):
        return None
    return ShowTables(namespace=namespace, pattern=pattern)
