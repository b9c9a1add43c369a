"""Parses statements that list tables or sessions, show how a table was created, or close a session.

Source: [temporary-tables §5.1], [spark-sql-grammar showTables], [spark-sql-grammar showCreateTable].
"""

from gateway.sql import statements
from gateway.sql.cursor import Cursor
from gateway.sql.partition_clause import parse_partition
from gateway.sql.statements import CloseSession, ShowCreateTable, ShowSessions, ShowTables, ShowTemporaryTables
from gateway.sql.table_alteration import take_property_key


def parse_show(cursor: Cursor) -> statements.Statement | None:
    """Parse a text that begins with ``SHOW``.

    Returns:
        The statement. None if the statement is left to Spark.

    Raises:
        StatementError: If ``SHOW TEMPORARY TABLES`` has a malformed clause.
    """
    cursor.take("SHOW")
    if cursor.take("CREATE", "TABLE"):
        return _parse_create_table(cursor)
    if cursor.take("TEMPORARY", "TABLES") or cursor.take("TEMP", "TABLES"):
        return _parse_temporary_tables(cursor)
    if cursor.take("TBLPROPERTIES"):
        return _parse_properties(cursor)
    if cursor.take("PARTITIONS"):
        return _parse_partitions(cursor)
    if cursor.take("SESSIONS"):
        return ShowSessions() if cursor.current is None else None
    return _parse_tables(cursor) if cursor.take("TABLES") else None


def parse_describe(cursor: Cursor) -> statements.DescribeTable | None:
    """Parse a text that begins with ``DESCRIBE``. Return None if it describes no table, or only one of its columns."""
    cursor.take_any("DESC", "DESCRIBE")
    if cursor.peek(1) is not None:
        cursor.take("TABLE")
    is_extended = cursor.peek(1) is not None and cursor.take_any("EXTENDED", "FORMATTED") != ""
    name, partition = cursor.take_name(), parse_partition(cursor)
    if name is None or partition is None or cursor.current is not None:
        return None
    return statements.DescribeTable(name=name, is_extended=is_extended, partition=partition)


def parse_close(cursor: Cursor) -> CloseSession | None:
    """Parse a text that begins with ``CLOSE``.

    Returns:
        The statement. None if the statement is left to Spark.

    Raises:
        StatementError: If the session id is missing or malformed.
    """
    if not cursor.take("CLOSE", "SESSION") or cursor.current is None:
        return None
    cursor.statement = "CLOSE SESSION"
    session_id = cursor.take_strings()
    if session_id is None or cursor.current is not None:
        raise cursor.syntax_error("the id of a session between quotes")
    return CloseSession(session_id=session_id)


def _parse_create_table(cursor: Cursor) -> ShowCreateTable | None:
    name = cursor.take_name()
    as_serde = cursor.take("AS", "SERDE")
    return None if name is None or cursor.current is not None else ShowCreateTable(name=name, as_serde=as_serde)


def _parse_partitions(cursor: Cursor) -> statements.ShowPartitions | None:
    name, partition = cursor.take_name(), parse_partition(cursor)
    if name is None or partition is None or cursor.current is not None:
        return None
    return statements.ShowPartitions(name=name, partition=partition)


def _parse_properties(cursor: Cursor) -> statements.ShowTableProperties | None:
    name = cursor.take_name()
    key = None
    if cursor.take_symbol("("):
        key = take_property_key(cursor)
        if key is None or not cursor.take_symbol(")"):
            return None
    is_complete = name is not None and cursor.current is None
    return statements.ShowTableProperties(name=name, key=key) if name is not None and is_complete else None


def _parse_temporary_tables(cursor: Cursor) -> ShowTemporaryTables:
    cursor.statement = "SHOW TEMPORARY TABLES"
    namespace = cursor.expect_name() if cursor.take_any("FROM", "IN") else None
    has_like = cursor.take("LIKE")
    pattern = cursor.take_strings()
    if cursor.current is not None or (has_like and pattern is None):
        raise cursor.syntax_error("FROM and a name, or LIKE and a pattern between quotes,")
    return ShowTemporaryTables(namespace=namespace, pattern=pattern)


def _parse_tables(cursor: Cursor) -> ShowTables | None:
    namespace = cursor.take_name() if cursor.take_any("FROM", "IN") else None
    if namespace is None:
        return None
    has_like = cursor.take("LIKE")
    pattern = cursor.take_strings()
    if cursor.current is not None or (has_like and pattern is None):
        return None
    return ShowTables(namespace=namespace, pattern=pattern)
