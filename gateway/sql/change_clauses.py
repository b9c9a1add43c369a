"""What a text would create, replace, change or remove by name, wherever in it that stands.

Why it exists: statements also stand in scripts and in the texts of ``EXECUTE IMMEDIATE``, where Lodge does not act on
them, but must know whether they are about a temporary table.

Guarantees:

1. No clause is missed that Spark would run as one of ``ChangeKind``, whatever is around it.
2. What stands in a string, a quoted name or a comment is none. The text of ``EXECUTE IMMEDIATE`` is not looked into.
3. The time is linear in the length of the text.

Not guaranteed: that each is one. Where the same words may mean something else (``update`` is a fine name for a column),
they are listed. A name that the text computes is known only as far as ``IdentifierClause`` tells.

Source: Spark: SqlBaseParser.g4 (statement, dmlStatementNoWith).
"""

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gateway.sql.cursor import Cursor
from gateway.sql.drop_and_alter import take_modification
from gateway.sql.insert import take_insert
from gateway.sql.read_only_query import is_query_start
from gateway.sql.statements import ModificationKind, TableName


class ChangeKind(enum.Enum):
    """What a clause would do; the words that it begins with."""

    CREATE_TABLE = "CREATE TABLE"
    CREATE_TEMPORARY_TABLE = "CREATE TEMPORARY TABLE"
    CREATE_VIEW = "CREATE VIEW"
    CREATE_TEMPORARY_VIEW = "CREATE TEMPORARY VIEW"
    CREATE_GLOBAL_TEMPORARY_VIEW = "CREATE GLOBAL TEMPORARY VIEW"
    DROP_TABLE = "DROP TABLE"
    DROP_VIEW = "DROP VIEW"
    ALTER_TABLE = "ALTER TABLE"
    ALTER_VIEW = "ALTER VIEW"
    INSERT = "INSERT"
    TRUNCATE_TABLE = "TRUNCATE TABLE"
    MERGE = "MERGE INTO"
    UPDATE = "UPDATE"
    DELETE = "DELETE FROM"
    CACHE_TABLE_AS = "CACHE TABLE AS"
    EXECUTE_IMMEDIATE = "EXECUTE IMMEDIATE"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeClause:
    """A clause that would create, replace, change or remove a table or view.

    Attributes:
        kind: What it would do.
        name: Of the table or view; None for ``EXECUTE IMMEDIATE``, and where what follows is no name.
        start: Offset of its first word.
    """

    kind: ChangeKind
    name: TableName | None
    start: int


_BEFORE_TABLE_OR_VIEW = frozenset(
    {"OR", "REPLACE", "GLOBAL", "LOCAL", "TEMPORARY", "TEMP", "EXTERNAL", "MATERIALIZED", "STREAMING"}
)
_MODIFICATIONS = {
    ModificationKind.MERGE: ChangeKind.MERGE,
    ModificationKind.UPDATE: ChangeKind.UPDATE,
    ModificationKind.DELETE: ChangeKind.DELETE,
}
_Found = Iterator[tuple[ChangeKind, TableName | None]]


def find_change_clauses(sql: str, *, double_quoted_identifiers: bool = False) -> Sequence[ChangeClause]:
    """Every clause in the text that would create, replace, change or remove a table or view by name, in order.

    Args:
        sql: The text.
        double_quoted_identifiers: Whether the session reads ``"a"`` as a name.
    """
    cursor = Cursor(sql, double_quoted_identifiers=double_quoted_identifiers)
    listed = []
    for index, token in enumerate(cursor.all_tokens()):
        cursor.position = index
        if token.keyword == "EXECUTE" and cursor.take("EXECUTE", "IMMEDIATE"):
            listed.append(ChangeClause(kind=ChangeKind.EXECUTE_IMMEDIATE, name=None, start=token.start))
        elif clause := _CLAUSES.get(token.keyword):
            listed += [ChangeClause(kind=kind, name=name, start=token.start) for kind, name in clause(cursor)]
    return listed


def _created(cursor: Cursor) -> _Found:
    cursor.take("CREATE")
    words = set[str]()
    while word := cursor.take_any(*_BEFORE_TABLE_OR_VIEW):
        words.add(word)
    is_temporary = bool(words & {"TEMPORARY", "TEMP"})
    kind = cursor.take_any("TABLE", "VIEW")
    if kind == "":
        return
    cursor.take("IF", "NOT", "EXISTS")
    if kind == "TABLE":
        yield ChangeKind.CREATE_TEMPORARY_TABLE if is_temporary else ChangeKind.CREATE_TABLE, cursor.maybe_name()
    elif "GLOBAL" in words:
        yield ChangeKind.CREATE_GLOBAL_TEMPORARY_VIEW, cursor.maybe_name()
    else:
        yield ChangeKind.CREATE_TEMPORARY_VIEW if is_temporary else ChangeKind.CREATE_VIEW, cursor.maybe_name()


def _replaced(cursor: Cursor) -> _Found:
    """``REPLACE TABLE``; after ``CREATE OR``, it is a part of what was listed."""
    at = cursor.position
    is_listed = at > 1 and cursor.keyword(-1) == "OR" and cursor.keyword(-2) == "CREATE"
    if not is_listed and cursor.take("REPLACE", "TABLE"):
        yield ChangeKind.CREATE_TABLE, cursor.maybe_name()


def _dropped(cursor: Cursor) -> _Found:
    cursor.take("DROP")
    cursor.take_any("TEMPORARY", "TEMP")
    kind = cursor.take_any("TABLE", "VIEW")
    if kind == "":
        return
    cursor.take("IF", "EXISTS")
    yield ChangeKind.DROP_TABLE if kind == "TABLE" else ChangeKind.DROP_VIEW, cursor.maybe_name()


def _altered(cursor: Cursor) -> _Found:
    """The new name of what is renamed is listed too."""
    cursor.take("ALTER")
    word = cursor.take_any("TABLE", "VIEW")
    if word == "":
        return
    kind = ChangeKind.ALTER_TABLE if word == "TABLE" else ChangeKind.ALTER_VIEW
    yield kind, cursor.maybe_name()
    if cursor.take("RENAME", "TO"):
        yield kind, cursor.maybe_name()


def _inserted(cursor: Cursor) -> _Found:
    """Where ``TABLE`` may be the name or the word before it, both are listed."""
    if take_insert(cursor) is None:
        return
    at = cursor.position
    if cursor.take("TABLE") and (after := cursor.maybe_name()) is not None:
        yield ChangeKind.INSERT, after
    cursor.position = at
    yield ChangeKind.INSERT, cursor.maybe_name()


def _truncated(cursor: Cursor) -> _Found:
    if cursor.take("TRUNCATE", "TABLE"):
        yield ChangeKind.TRUNCATE_TABLE, cursor.maybe_name()


def _modified(cursor: Cursor) -> _Found:
    kind = take_modification(cursor)
    if kind is None or (kind is ModificationKind.UPDATE and _is_action_of_merge(cursor)):
        return
    name = cursor.maybe_name()
    if name is not None or kind is not ModificationKind.UPDATE:
        yield _MODIFICATIONS[kind], name


def _is_action_of_merge(cursor: Cursor) -> bool:
    """Whether ``UPDATE`` was that of ``WHEN MATCHED THEN UPDATE SET``, which names no table."""
    at = cursor.position
    is_set = cursor.take("SET")
    is_action = is_set and (cursor.is_symbol("*") or (cursor.maybe_name() is not None and cursor.is_symbol("=")))
    cursor.position = at
    return is_action


def _cached(cursor: Cursor) -> _Found:
    cursor.take("CACHE")
    cursor.take("LAZY")
    if not cursor.take("TABLE"):
        return
    name = cursor.maybe_name()
    if cursor.take("OPTIONS"):
        cursor.take_brackets()
    if cursor.take("AS") or is_query_start(cursor):
        yield ChangeKind.CACHE_TABLE_AS, name


_CLAUSES: dict[str, Callable[[Cursor], _Found]] = {
    "CREATE": _created,
    "REPLACE": _replaced,
    "DROP": _dropped,
    "ALTER": _altered,
    "INSERT": _inserted,
    "TRUNCATE": _truncated,
    "MERGE": _modified,
    "UPDATE": _modified,
    "DELETE": _modified,
    "CACHE": _cached,
}
