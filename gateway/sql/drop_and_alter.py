"""Parses statements that drop or change an existing table or view.

Source: [spark-sql-grammar dropTable], [spark-sql-grammar dropView], [spark-sql-grammar truncateTable],
[spark-sql-grammar alterTable], [spark-sql-grammar dmlStatementNoWith].
"""

from gateway.sql import statements
from gateway.sql.cursor import Cursor
from gateway.sql.partition_clause import parse_partition
from gateway.sql.read_only_query import is_query_start

_SECOND_WORDS = frozenset(
    {"TO", "COLUMN", "COLUMNS", "PARTITION", "PARTITIONS", "CONSTRAINT", "TBLPROPERTIES", "SERDE", "SERDEPROPERTIES"}
    | {"LOCATION", "BY", "SCHEMA", "COLLATION"}
)


def parse_drop(cursor: Cursor) -> statements.DropTable | statements.DropView | None:
    """Parse a text that begins with ``DROP``.

    Returns:
        The statement. None if it does not drop a table or view.

    Raises:
        StatementError: If the statement is ``DROP TEMPORARY TABLE``.
    """
    cursor.take("DROP")
    if cursor.keyword() in ("TEMPORARY", "TEMP") and cursor.keyword(1) == "TABLE":
        raise cursor.error(
            f"Syntax error at or near '{cursor.keyword()}'. Use DROP TABLE without this word: it also drops temporary "
            "tables."
        )
    kind = cursor.take_any("TABLE", "VIEW")
    if kind == "":
        return None
    if_exists = cursor.take("IF", "EXISTS")
    name = cursor.take_name()
    if kind == "TABLE":
        cursor.take("PURGE")
    if name is None or cursor.current is not None:
        return None
    return (statements.DropTable if kind == "TABLE" else statements.DropView)(name=name, if_exists=if_exists)


def parse_truncate(cursor: Cursor) -> statements.TruncateTable | None:
    """Parse a text that begins with ``TRUNCATE``. Return None if it is malformed."""
    name = cursor.take_name() if cursor.take("TRUNCATE", "TABLE") else None
    if name is None:
        return None
    partition = parse_partition(cursor)
    if partition is None or cursor.current is not None:
        return None
    return statements.TruncateTable(name=name, partition=partition or None)


def parse_alter(cursor: Cursor) -> statements.AlterRelation | None:
    """Parse a text that begins with ``ALTER``.

    Returns:
        The statement. None if it does not alter a table or view.
    """
    cursor.take("ALTER")
    kind = cursor.take_any("TABLE", "VIEW")
    name = cursor.take_name() if kind else None
    if name is None:
        return None
    action = _parse_action(cursor)
    span = (name.end, cursor.end)
    renamed_to = cursor.take_name() if cursor.take("RENAME", "TO") else None
    return statements.AlterRelation(
        kind=statements.RelationKind(kind), name=name, action=action, renamed_to=renamed_to, action_span=span
    )


def parse_comment(cursor: Cursor) -> statements.CommentOnTable | None:
    """Parse a text that begins with ``COMMENT``. Return None if it is not the comment of a table."""
    name = cursor.take_name() if cursor.take("COMMENT", "ON", "TABLE") else None
    if name is None or not cursor.take("IS"):
        return None
    comment = None if cursor.take("NULL") else cursor.take_strings()
    is_complete = cursor.current is None and (comment is not None or cursor.keyword(-1) == "NULL")
    return statements.CommentOnTable(name=name, comment=comment) if is_complete else None


def parse_analyze(cursor: Cursor) -> statements.AnalyzeTable | None:
    """Parse a text that begins with ``ANALYZE``. Return None if it does not compute statistics of a table."""
    name = cursor.take_name() if cursor.take("ANALYZE", "TABLE") else None
    if name is None:
        return None
    if cursor.take("PARTITION"):
        cursor.take_brackets()
    return statements.AnalyzeTable(name=name) if cursor.take("COMPUTE", "STATISTICS") else None


def _parse_action(cursor: Cursor) -> str:
    first, second = cursor.keyword(), cursor.keyword(1)
    if first and second in _SECOND_WORDS:
        return f"{first} {second}"
    return "AS" if is_query_start(cursor) else first


def parse_merge_or_update(cursor: Cursor) -> statements.MergeOrUpdate | None:
    """Parse a text that begins with ``MERGE``, ``UPDATE`` or ``DELETE``.

    Returns:
        The statement. None if the text has no table name.
    """
    kind = take_modification(cursor)
    name = None if kind is None else cursor.take_name()
    return None if kind is None or name is None else statements.MergeOrUpdate(kind=kind, name=name)


def take_modification(cursor: Cursor) -> statements.ModificationKind | None:
    """Step over the words before the table name, and return the modification."""
    if cursor.take("MERGE"):
        cursor.take("WITH", "SCHEMA", "EVOLUTION")
        return statements.ModificationKind.MERGE if cursor.take("INTO") else None
    if cursor.take("DELETE", "FROM"):
        return statements.ModificationKind.DELETE
    return statements.ModificationKind.UPDATE if cursor.take("UPDATE") else None
