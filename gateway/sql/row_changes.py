"""Parses ``UPDATE``, ``DELETE`` and ``MERGE INTO``.

The text must be one that Spark parses. Expressions stay parts of the text.

Source: [spark-sql-grammar dmlStatementNoWith].
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from gateway.sql.cursor import Cursor
from gateway.sql.drop_and_alter import take_modification
from gateway.sql.lexer import DEFAULT_DIALECT, Dialect, tokenize
from gateway.sql.statements import ModificationKind, Name, TableName


@dataclass(frozen=True, slots=True)
class Assignment:
    """A new value of a column.

    Attributes:
        target: The parts of the name of the column, perhaps with the name of the table before and members after it.
        value: The SQL text of the value.
    """

    target: tuple[str, ...]
    value: str


@dataclass(frozen=True, slots=True)
class Action:
    """What ``MERGE INTO`` does with a row.

    Attributes:
        condition: The SQL text of the condition. Empty without one.
        assignments: The new values. None for ``*``, which stands for all columns of the table.
        deletes: Whether the row is deleted.
    """

    condition: str
    assignments: tuple[Assignment, ...] | None = ()
    deletes: bool = False


@dataclass(frozen=True, slots=True)
class RowChange:
    """A statement that changes rows of a table.

    Attributes:
        kind: The kind of the statement.
        table: The name of the table.
        alias: The alias of the table. Empty without one.
        condition: The SQL text of the condition: which rows change, or which rows match. Empty without one.
        assignments: The new values of ``UPDATE``.
        source: The SQL text of the source of ``MERGE``, with its alias.
        source_alias: The name by which the source is known. Empty if it has none.
        matched: The actions for rows of the table that match a row of the source.
        not_matched: The actions for rows of the source that match no row of the table.
        not_matched_by_source: The actions for rows of the table that match no row of the source.
        is_joined: Whether the rows of the table are already joined with the source, and have the number of the action.
    """

    kind: ModificationKind
    table: TableName
    alias: str = ""
    condition: str = ""
    assignments: tuple[Assignment, ...] = ()
    source: str = ""
    source_alias: str = ""
    matched: tuple[Action, ...] = ()
    not_matched: tuple[Action, ...] = ()
    not_matched_by_source: tuple[Action, ...] = ()
    is_joined: bool = False

    def find_subquery(self, dialect: Dialect) -> tuple[str, str] | None:
        """Return the kind and the text of a condition of ``MERGE`` with a subquery. None without one."""
        if self.kind is not ModificationKind.MERGE:
            return None
        conditions = [("SEARCH", self.condition)]
        for actions, kind in ((self.matched, "UPDATE"), (self.not_matched, "INSERT")):
            conditions += [("DELETE" if each.deletes else kind, each.condition) for each in actions]
        conditions += [("DELETE" if each.deletes else "UPDATE", each.condition) for each in self.not_matched_by_source]
        return next((each for each in conditions if has_subquery(each[1], dialect)), None)


def has_subquery(condition: str, dialect: Dialect) -> bool:
    """Return whether a condition contains a subquery."""
    tokens = tokenize(condition, dialect)
    return any(before.is_symbol("(") and token.keyword in {"SELECT", "WITH"} for before, token in pairwise(tokens))


def parse_row_change(sql: str, dialect: Dialect = DEFAULT_DIALECT) -> RowChange | None:
    """Parse a statement that changes rows. Return None if it is not one, or has a clause that is not supported."""
    cursor = Cursor(sql, dialect)
    if cursor.keyword(1) == "WITH":  # schema evolution
        return None
    kind = take_modification(cursor)
    table = None if kind is None else cursor.take_name()
    if kind is None or table is None:
        return None
    alias = _take_alias(cursor)
    if kind is ModificationKind.MERGE:
        return _parse_merge(cursor, table, alias)
    assignments: tuple[Assignment, ...] = ()
    if kind is ModificationKind.UPDATE:
        if not cursor.take("SET"):
            return None
        assignments = _take_assignments(cursor, ("WHERE",))
    condition = _take_text(cursor, ()) if cursor.take("WHERE") else ""
    return RowChange(kind, table, alias, condition, assignments) if cursor.current is None else None


def _parse_merge(cursor: Cursor, table: TableName, alias: str) -> RowChange | None:
    if not cursor.take("USING") or cursor.current is None:
        return None
    start = cursor.current.start
    source_alias = ""
    if not cursor.take_brackets():
        source = cursor.take_name()
        source_alias = source.parts[-1] if isinstance(source, Name) else ""
    source_alias = _take_alias(cursor) or source_alias
    text = cursor.text_from(start)
    if not cursor.take("ON"):
        return None
    condition = _take_text(cursor, ("WHEN",))
    found: dict[str, list[Action]] = {"MATCHED": [], "TARGET": [], "SOURCE": []}
    while cursor.take("WHEN"):
        clause = "MATCHED"
        if cursor.take("NOT"):
            clause = "TARGET"
        cursor.take("MATCHED")
        if cursor.take("BY"):
            clause = cursor.take_any("TARGET", "SOURCE")
        when = _take_text(cursor, ("THEN",)) if cursor.take("AND") else ""
        cursor.take("THEN")
        action = _take_action(cursor, when)
        if action is None or clause not in found:
            return None
        found[clause].append(action)
    if cursor.current is not None:
        return None
    return RowChange(
        ModificationKind.MERGE,
        table,
        alias,
        condition,
        source=text,
        source_alias=source_alias,
        matched=tuple(found["MATCHED"]),
        not_matched=tuple(found["TARGET"]),
        not_matched_by_source=tuple(found["SOURCE"]),
    )


def _take_action(cursor: Cursor, condition: str) -> Action | None:
    if cursor.take("DELETE"):
        return Action(condition, deletes=True)
    if cursor.take("UPDATE", "SET"):
        if cursor.take_symbol("*"):
            return Action(condition, None)
        return Action(condition, _take_assignments(cursor, ("WHEN",)))
    if not cursor.take("INSERT"):
        return None
    if cursor.take_symbol("*"):
        return Action(condition, None)
    columns = _take_targets(cursor)
    values = _take_values(cursor) if cursor.take("VALUES") else ()
    pairs = zip(columns, values, strict=False)
    return Action(condition, tuple(Assignment(column, value) for column, value in pairs))


def _take_alias(cursor: Cursor) -> str:
    """Step over an alias. Empty without one."""
    if cursor.take("AS"):
        return cursor.take_part() or ""
    return "" if cursor.keyword() in {"SET", "WHERE", "USING", "ON"} else cursor.take_part() or ""


def _take_assignments(cursor: Cursor, ends: Sequence[str]) -> tuple[Assignment, ...]:
    found = []
    while (target := cursor.take_name()) is not None:
        cursor.take_symbol("=")
        cursor.take_symbol("=")
        found.append(Assignment(target.parts, _take_text(cursor, ends, until_comma=True)))
        if not cursor.take_symbol(","):
            break
    return tuple(found)


def _take_targets(cursor: Cursor) -> Sequence[tuple[str, ...]]:
    found = []
    if cursor.take_symbol("("):
        while (name := cursor.take_name()) is not None:
            found.append(name.parts)
            if not cursor.take_symbol(","):
                break
        cursor.take_symbol(")")
    return found


def _take_values(cursor: Cursor) -> Sequence[str]:
    found = []
    if cursor.take_symbol("("):
        while cursor.current is not None and not cursor.is_symbol(")"):
            found.append(_take_text(cursor, (), until_comma=True))
            if not cursor.take_symbol(","):
                break
        cursor.take_symbol(")")
    return found


def _take_text(cursor: Cursor, ends: Sequence[str], *, until_comma: bool = False) -> str:
    """Step over an expression, and return its text.

    Args:
        cursor: A cursor at the first token of the expression.
        ends: The keywords before which the expression ends, unless they are part of ``CASE``.
        until_comma: Whether the expression ends before a comma or a closing bracket.
    """
    first, cases = cursor.current, 0
    while (token := cursor.current) is not None:
        if until_comma and cases == 0 and (token.is_symbol(",") or token.is_symbol(")")):
            break
        if cases == 0 and token.keyword in ends and token is not first:
            break
        if not cursor.take_brackets():
            is_member = cursor.is_symbol(".", -1) or cursor.is_symbol(".", 1)
            cases += 0 if is_member else (token.keyword == "CASE") - (token.keyword == "END" and cases > 0)
            cursor.position += 1
    return "" if first is None or first is cursor.current else cursor.text_from(first.start)
