"""Parses what ``ALTER TABLE`` does with a table.

Source: [spark-sql-grammar alterTable].
"""

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.sql.cursor import Cursor
from gateway.sql.lexer import DEFAULT_DIALECT, Dialect, TokenKind
from gateway.sql.partition_clause import parse_partition
from gateway.sql.statements import Partition, Span
from gateway.sql.table_options import TableOptionsError, parse_property_list


@dataclass(frozen=True, slots=True)
class AddColumns:
    """``ADD COLUMN[S] …``.

    Attributes:
        span: The span of the definitions in the text of the action.
    """

    span: Span


@dataclass(frozen=True, slots=True)
class ChangeColumn:
    """``ALTER|CHANGE [COLUMN] column …``.

    Attributes:
        column: The name of the column.
        comment: The new comment. None to keep it.
        default: The SQL text of the new default value. Empty to remove it. None to keep it.
        kind: The SQL text of the type. Empty to keep it.
    """

    column: str
    comment: str | None = None
    default: str | None = None
    kind: str = ""


@dataclass(frozen=True, slots=True)
class SetProperties:
    """``SET TBLPROPERTIES (…)``."""

    values: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class UnsetProperties:
    """``UNSET TBLPROPERTIES [IF EXISTS] (…)``."""

    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DropPartitions:
    """``DROP [IF EXISTS] PARTITION (…), … [PURGE]``.

    Attributes:
        partitions: The columns in each ``PARTITION`` clause, each with the text of its value.
        if_exists: Whether partitions that do not exist are ignored.
    """

    partitions: tuple[Partition, ...]
    if_exists: bool


_AFTER_COLUMN = frozenset({"SET", "DROP", "FIRST", "AFTER", "SYNC"})
_AFTER_TYPE = frozenset({"COMMENT", "FIRST", "AFTER"})

Alteration = AddColumns | ChangeColumn | SetProperties | UnsetProperties | DropPartitions


def parse_alteration(action: str, dialect: Dialect = DEFAULT_DIALECT) -> Alteration | None:
    """Parse the action of ``ALTER TABLE``. Return None if it is another one, or malformed."""
    cursor = Cursor(action, dialect)
    found: Alteration | None = None
    if cursor.take("ADD", "COLUMNS") or cursor.take("ADD", "COLUMN"):
        found = _take_definitions(cursor)
    elif cursor.take("SET", "TBLPROPERTIES"):
        found = _take_properties(cursor, dialect)
    elif cursor.take("UNSET", "TBLPROPERTIES"):
        cursor.take("IF", "EXISTS")
        found = _take_keys(cursor)
    elif cursor.take("DROP"):
        found = _take_drop_partitions(cursor)
    elif cursor.take_any("ALTER", "CHANGE"):
        cursor.take("COLUMN")
        found = _take_change(cursor)
    return found if cursor.current is None else None


def take_property_key(cursor: Cursor) -> str | None:
    """Step over the key of a property: a string, or names with dots. Return None if there is none."""
    token = cursor.current
    if token is not None and token.kind is TokenKind.STRING:
        return cursor.take_strings()
    parts = []
    while (part := cursor.take_part()) is not None:
        parts.append(part)
        if not cursor.take_symbol("."):
            break
    return ".".join(parts) or None


def _take_definitions(cursor: Cursor) -> AddColumns | None:
    first = cursor.current
    if first is None:
        return None
    if cursor.is_symbol("("):
        return AddColumns((first.end, cursor.previous_end - 1)) if cursor.take_brackets() else None
    cursor.position = len(cursor.all_tokens())
    return AddColumns((first.start, cursor.previous_end))


def _take_properties(cursor: Cursor, dialect: Dialect) -> SetProperties | None:
    try:
        values = parse_property_list(cursor.all_tokens(), cursor.position, dialect).values
    except TableOptionsError:
        return None
    cursor.take_brackets()
    return SetProperties(values)


def _take_keys(cursor: Cursor) -> UnsetProperties | None:
    keys = []
    if not cursor.take_symbol("("):
        return None
    while (key := take_property_key(cursor)) is not None:
        keys.append(key)
        if not cursor.take_symbol(","):
            break
    return UnsetProperties(tuple(keys)) if cursor.take_symbol(")") else None


def _take_drop_partitions(cursor: Cursor) -> DropPartitions | None:
    if_exists = cursor.take("IF", "EXISTS")
    found = []
    while cursor.keyword() == "PARTITION":
        partition = parse_partition(cursor)
        if partition is None:
            return None
        found.append(partition)
        if not cursor.take_symbol(","):
            break
    cursor.take("PURGE")
    return DropPartitions(tuple(found), if_exists) if found else None


def _take_change(cursor: Cursor) -> ChangeColumn | None:
    column = cursor.take_part()
    if column is None:
        return None
    if cursor.take("COMMENT"):
        comment = cursor.take_strings()
        return None if comment is None else ChangeColumn(column, comment=comment)
    if cursor.take("TYPE"):
        kind = _take_type(cursor)
        return ChangeColumn(column, kind=kind) if kind else None
    if cursor.take("DROP", "DEFAULT"):
        return ChangeColumn(column, default="")
    if cursor.take("SET", "DEFAULT") and cursor.current is not None:
        start = cursor.current.start
        cursor.position = len(cursor.all_tokens())
        return ChangeColumn(column, default=cursor.text_from(start))
    return _take_hive_change(cursor, column)


def _take_hive_change(cursor: Cursor, column: str) -> ChangeColumn | None:
    """Step over the rest of ``CHANGE column column type [COMMENT '…']``."""
    if cursor.keyword() in _AFTER_COLUMN or cursor.take_part() != column:
        return None
    kind = _take_type(cursor)
    comment = cursor.take_strings() if cursor.take("COMMENT") else None
    return ChangeColumn(column, comment=comment, kind=kind) if kind else None


def _take_type(cursor: Cursor) -> str:
    """Step over a type, and return its text. Empty without one."""
    first = cursor.current
    while cursor.current is not None and cursor.keyword() not in _AFTER_TYPE:
        if not cursor.take_brackets():
            cursor.position += 1
    return "" if first is None or first is cursor.current else cursor.text_from(first.start)
