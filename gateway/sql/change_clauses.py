"""Finds the clauses in a SQL text that change a table or view by name.

Scripts contain statements that Lodge cannot execute. Lodge must still detect whether these statements create, replace,
change or remove a temporary table.

Guarantees:

1. Every clause that Spark would execute as a ``ChangeKind`` is found, regardless of its position in the text.
2. Strings, quoted names and comments do not contain clauses. The text of ``EXECUTE IMMEDIATE`` is not searched.
3. The search takes linear time in the length of the text.

Not guaranteed:

- Some results are not clauses. Words that can have another meaning are included. For example, a column can be called
  ``update``.
- The name in an ``IDENTIFIER(…)`` clause is not evaluated. Only :mod:`gateway.sql.identifier_clauses` evaluates it.

Source: [spark-sql-grammar statement], [spark-sql-grammar dmlStatementNoWith].
"""

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gateway.sql.cursor import Cursor
from gateway.sql.drop_and_alter import take_modification
from gateway.sql.insert import take_insert
from gateway.sql.lexer import DEFAULT_DIALECT, Dialect
from gateway.sql.read_only_query import is_query_start
from gateway.sql.statements import ModificationKind, TableName


class ChangeKind(enum.Enum):
    """The kind of a change. The values are the first words of the clause."""

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


@dataclass(frozen=True, slots=True)
class ChangeClause:
    """A clause that creates, replaces, changes or removes a table or view.

    Attributes:
        kind: The kind of the change.
        name: The name of the table or view. None if the clause has no name.
    """

    kind: ChangeKind
    name: TableName | None


_BEFORE_TABLE_OR_VIEW = frozenset(
    {"OR", "REPLACE", "GLOBAL", "LOCAL", "TEMPORARY", "TEMP", "EXTERNAL", "MATERIALIZED", "STREAMING"}
)


def find_change_clauses(sql: str, dialect: Dialect = DEFAULT_DIALECT) -> Sequence[ChangeClause]:
    """Return all clauses that change a table or view by name, in order.

    Args:
        sql: The SQL text.
        dialect: The dialect of the session.
    """
    cursor = Cursor(sql, dialect)
    clauses: list[ChangeClause] = []
    for index, token in enumerate(cursor.all_tokens()):
        if parse := _PARSERS.get(token.keyword):
            cursor.position = index
            clauses += parse(cursor)
    return clauses


def _parse_create(cursor: Cursor) -> Iterator[ChangeClause]:
    cursor.take("CREATE")
    words = set[str]()
    while word := cursor.take_any(*_BEFORE_TABLE_OR_VIEW):
        words.add(word)
    is_temporary = bool(words & {"TEMPORARY", "TEMP"})
    kind = cursor.take_any("TABLE", "VIEW")
    if kind == "":
        return
    cursor.take("IF", "NOT", "EXISTS")
    if "GLOBAL" in words and kind == "VIEW":
        kind = "GLOBAL TEMPORARY VIEW"
    elif is_temporary:
        kind = f"TEMPORARY {kind}"
    yield ChangeClause(ChangeKind(f"CREATE {kind}"), cursor.take_name())


def _parse_replace(cursor: Cursor) -> Iterator[ChangeClause]:
    """Parse ``REPLACE TABLE``, except after ``CREATE OR``."""
    is_part = cursor.position > 1 and cursor.keyword(-1) == "OR" and cursor.keyword(-2) == "CREATE"
    if not is_part and cursor.take("REPLACE", "TABLE"):
        yield ChangeClause(ChangeKind.CREATE_TABLE, cursor.take_name())


def _parse_drop(cursor: Cursor) -> Iterator[ChangeClause]:
    cursor.take("DROP")
    cursor.take_any("TEMPORARY", "TEMP")
    kind = cursor.take_any("TABLE", "VIEW")
    if kind:
        cursor.take("IF", "EXISTS")
        yield ChangeClause(ChangeKind(f"DROP {kind}"), cursor.take_name())


def _parse_alter(cursor: Cursor) -> Iterator[ChangeClause]:
    """Parse ``ALTER``. The new name after ``RENAME TO`` is a separate clause."""
    cursor.take("ALTER")
    word = cursor.take_any("TABLE", "VIEW")
    if word == "":
        return
    kind = ChangeKind(f"ALTER {word}")
    yield ChangeClause(kind, cursor.take_name())
    if cursor.take("RENAME", "TO"):
        yield ChangeClause(kind, cursor.take_name())


def _parse_insert(cursor: Cursor) -> Iterator[ChangeClause]:
    """Parse ``INSERT``.

    If ``TABLE`` can be either the table name or the keyword before the table name, yield one clause for each case.
    """
    if take_insert(cursor) is None:
        return
    start = cursor.position
    if cursor.take("TABLE") and (after := cursor.take_name()) is not None:
        yield ChangeClause(ChangeKind.INSERT, after)
    cursor.position = start
    yield ChangeClause(ChangeKind.INSERT, cursor.take_name())


def _parse_truncate(cursor: Cursor) -> Iterator[ChangeClause]:
    if cursor.take("TRUNCATE", "TABLE"):
        yield ChangeClause(ChangeKind.TRUNCATE_TABLE, cursor.take_name())


def _parse_modification(cursor: Cursor) -> Iterator[ChangeClause]:
    kind = take_modification(cursor)
    if kind is None or (kind is ModificationKind.UPDATE and _is_action_of_merge(cursor)):
        return
    name = cursor.take_name()
    if name is not None or kind is not ModificationKind.UPDATE:
        yield ChangeClause(ChangeKind(kind.value), name)


def _is_action_of_merge(cursor: Cursor) -> bool:
    """Return whether ``UPDATE`` is an action of ``MERGE``, which has no table name."""
    start = cursor.position
    is_set = cursor.take("SET")
    is_action = is_set and (cursor.is_symbol("*") or (cursor.take_name() is not None and cursor.is_symbol("=")))
    cursor.position = start
    return is_action


def _parse_cache(cursor: Cursor) -> Iterator[ChangeClause]:
    cursor.take("CACHE")
    cursor.take("LAZY")
    if not cursor.take("TABLE"):
        return
    name = cursor.take_name()
    if cursor.take("OPTIONS"):
        cursor.take_brackets()
    if cursor.take("AS") or is_query_start(cursor):
        yield ChangeClause(ChangeKind.CACHE_TABLE_AS, name)


_PARSERS: dict[str, Callable[[Cursor], Iterator[ChangeClause]]] = {
    "CREATE": _parse_create,
    "REPLACE": _parse_replace,
    "DROP": _parse_drop,
    "ALTER": _parse_alter,
    "INSERT": _parse_insert,
    "TRUNCATE": _parse_truncate,
    "MERGE": _parse_modification,
    "UPDATE": _parse_modification,
    "DELETE": _parse_modification,
    "CACHE": _parse_cache,
}
