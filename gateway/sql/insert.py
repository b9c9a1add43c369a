"""Parses ``INSERT INTO`` and ``INSERT OVERWRITE`` in all their forms.

Guarantees:

1. If the ``INSERT`` clause is removed from a supported statement, the rest is a read-only query.
2. ``INSERT OVERWRITE DIRECTORY`` is not parsed, because it does not refer to a table.

Source: [spark-sql-grammar dmlStatementNoWith], [spark-sql-grammar insertInto].
"""

from gateway.sql.cursor import Cursor
from gateway.sql.lexer import TokenKind
from gateway.sql.read_only_query import (
    QUERY_KEYWORDS,
    find_data_change,
    find_end_of_common_tables,
    find_inserts_after_from,
    is_query_start,
)
from gateway.sql.statement_error import StatementError
from gateway.sql.statements import Insert, TableName


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
        columns=None,
        by_name=False,
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
    partition = () if evolves or cursor.keyword() != "PARTITION" else _parse_partition(cursor)
    unsupported = "WITH SCHEMA EVOLUTION" if evolves else _find_unsupported_clause(cursor)
    columns, by_name = None, False
    if unsupported is None:
        by_name = cursor.take("BY", "NAME")
        columns = None if by_name else _parse_columns(cursor)
        unsupported = _find_unsupported_query(cursor, is_after_with=is_after_with)
    clause_end = cursor.end if cursor.current is None else cursor.current.start
    return Insert(
        name=name,
        overwrite=overwrite,
        columns=columns,
        by_name=by_name,
        clause_span=(start, clause_end),
        end=cursor.end,
        unsupported=unsupported,
        partition=partition,
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
    if cursor.keyword() == "PARTITION":
        return "PARTITION"
    if cursor.keyword() == "IF":
        return "IF NOT EXISTS"
    if cursor.keyword() == "REPLACE":
        return f"REPLACE {cursor.keyword(1)}".rstrip()
    return None


def _parse_partition(cursor: Cursor) -> tuple[tuple[str, str | None], ...]:
    """Step over a ``PARTITION`` clause whose values are literals.

    Returns:
        The columns and their values. Empty for any other clause, which the cursor does not step over.
    """
    start = cursor.position
    cursor.take("PARTITION")
    found: list[tuple[str, str | None]] = []
    if cursor.take_symbol("("):
        while (name := cursor.take_part()) is not None:
            value = None
            if cursor.take_symbol("="):
                value = _take_literal(cursor)
                if value is None:
                    break
            found.append((name, value))
            if cursor.take_symbol(")"):
                return tuple(found)
            if not cursor.take_symbol(","):
                break
    cursor.position = start
    return ()


def _take_literal(cursor: Cursor) -> str | None:
    """Step over a literal, and return its text. None if there is none."""
    first = cursor.current
    if first is None:
        return None
    if cursor.take_any("NULL", "TRUE", "FALSE") == "":
        if cursor.take_any("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "TIME", "X") == "":
            cursor.take_symbol("-")
        last = cursor.current
        if last is None or last.kind not in {TokenKind.STRING, TokenKind.NUMBER}:
            return None
        cursor.position += 1
    return cursor.text_from(first.start)


def _parse_columns(cursor: Cursor) -> tuple[str, ...] | None:
    """Step over a column list. Return None if the brackets contain the query."""
    start = cursor.position
    if not cursor.is_symbol("("):
        return None
    try:
        columns = cursor.expect_columns()
    except StatementError:
        columns = None
    if columns is None or not (is_query_start(cursor) or cursor.keyword() == "BY"):
        cursor.position = start
        return None
    return columns


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
