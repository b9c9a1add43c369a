"""Queries that return the rows of a table after ``UPDATE``, ``DELETE`` or ``MERGE INTO``.

Spark does not execute these statements for files. Lodge rewrites the rows instead: a query returns all rows as they are
after the statement, and its result replaces the rows of the table. The conditions and values of the statement occur in
the query as they are written.

Guarantee: In the query, each condition is evaluated once for each row.

Source: ``RewriteUpdateTable``, ``RewriteMergeIntoTable`` and ``AssignmentUtils`` of Spark.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    IntegralType,
    MapType,
    NullType,
    StructField,
    StructType,
)

from gateway.backends.session_settings import SessionSettings
from gateway.errors import SparkError, column_not_found
from gateway.sql.name_syntax import quote_name
from gateway.sql.row_changes import Action, Assignment, RowChange
from gateway.sql.statements import ModificationKind
from gateway.sql.string_literals import text_expression
from gateway.stored_tables.column_metadata import CURRENT_DEFAULT, sql_type
from gateway.stored_tables.insert_plans import PLACEHOLDER

ACTION, ROW, IS_SOURCE = "lodge_action", "lodge_row", "lodge_is_source"
"""Columns of joined rows: the number of the action, the number of the row of the table, and whether a source row fits.

The action 0 keeps the row, and -1 deletes it or, for a row of the source, does nothing.
"""

_MATCHED, _COPIES, _COPY = (f"lodge_{name}" for name in ("matched", "copies", "copy"))
_KEY, _VALUE = "lodge_key", "lodge_value"
KEEP, DELETE = 0, -1
OVERFLOW = "CAST_OVERFLOW_IN_TABLE_INSERT"
CARDINALITY = "MERGE_CARDINALITY_VIOLATION"

Comparable = Callable[[str], str]
"""A function that returns the normalized form of a name."""


@dataclass(frozen=True, slots=True)
class NewValue:
    """A new value of a column.

    Attributes:
        field: The column.
        text: The SQL text of the value.
        action: The number of the action that sets it.
    """

    field: StructField
    text: str
    action: int


class Rewriting:
    """The rows of a table after a statement.

    Args:
        change: The statement.
        table: The name of the table.
        schema: The columns of the table.
        rows: The name of a view of the rows that are rewritten.
        settings: The session settings, which determine how names are compared.

    Raises:
        SparkError: If the statement assigns a column twice.
    """

    def __init__(self, change: RowChange, table: str, schema: StructType, rows: str, settings: SessionSettings) -> None:
        self._change = change
        self._schema = schema
        self._rows = rows
        self._comparable = settings.comparable_name
        self._name = change.alias or (change.table.parts or (table,))[-1]
        self._alias = quote_name(self._name)
        self._source = quote_name(change.source_alias) if change.source_alias else IS_SOURCE + "_rows"
        self._numbered = list(enumerate(self._setting_actions(), start=1))
        self.values: Sequence[NewValue] = [
            value for number, action in self._numbered for value in self._values_of(action, number)
        ]

    @property
    def is_insertion(self) -> bool:
        """Whether the statement only adds rows, so that the rows of the table stay as they are."""
        change = self._change
        return change.kind is ModificationKind.MERGE and not (change.matched or change.not_matched_by_source)

    def assigns(self, columns: Sequence[str]) -> bool:
        """Return whether the statement sets one of the given columns."""
        names = set(map(self._comparable, columns))
        return any(self._comparable(value.field.name) in names for value in self.values)

    def values_query(self) -> str:
        """Return a query of all new values, for their types."""
        values = [f"{_bracketed(value.text)} AS c{number}" for number, value in enumerate(self.values)]
        return f"SELECT {', '.join(values)} {self._scope()}"

    def check_queries(self, numbers: Sequence[int]) -> Iterator[str]:
        """Yield insertions of no rows, for which Spark checks that new values can be stored.

        Args:
            numbers: The positions of the values in :attr:`values`.
        """
        for action, _ in self._numbered:
            chosen = [self.values[number] for number in numbers if self.values[number].action == action]
            if chosen:
                values = ", ".join(f"{_bracketed(each.text)} AS {quote_name(each.field.name)}" for each in chosen)
                yield f"SELECT {values} {self._scope()} WHERE FALSE"

    def query(self, types: Sequence[DataType]) -> str:
        """Return the query of the rows.

        Args:
            types: The types of :attr:`values`.
        """
        if self._change.kind is ModificationKind.DELETE:
            return f"SELECT * {self._scope()} WHERE NOT coalesce({_bracketed(self._change.condition or 'TRUE')}, FALSE)"
        values = [
            (value, _stored(value, found, self._comparable)) for value, found in zip(self.values, types, strict=True)
        ]
        columns = {field.name: self._column(field, values) for field in self._schema.fields}
        listed = ", ".join(f"{text} AS {quote_name(name)}" for name, text in columns.items())
        if self._change.kind is ModificationKind.UPDATE:
            return f"SELECT {listed} {self._scope()}"
        if self.is_insertion:
            return f"SELECT {listed} {self._scope()} WHERE {ACTION} > {KEEP}"
        names = ", ".join(quote_name(name) for name in columns)
        window = f"(PARTITION BY coalesce({ROW}, -1 - monotonically_increasing_id()))"
        both = f"{ROW} IS NOT NULL AND {IS_SOURCE}"
        checked = f"{ACTION} >= {KEEP}"
        counts = ""
        if self._checks_cardinality:
            counts = f", CASE WHEN {both} THEN count(*) OVER {window} ELSE 1 END AS {_COPIES}"
            checked = f"CASE WHEN {_COPIES} > 1 THEN {_raised(CARDINALITY, BooleanType())} ELSE {checked} END"
        elif not self._change.matched:
            counts = f", row_number() OVER ({window[1:-1]} ORDER BY {ACTION}) AS {_COPY}"
            checked = f"{checked} AND {_COPY} = 1"
        inner = f"SELECT {listed}, {ACTION}{counts} {self._scope()}"
        return f"SELECT {names} FROM ({inner}) WHERE {checked}"  # noqa: S608 - a client's own statement

    @property
    def touched_condition(self) -> str:
        """The condition of the rows that the statement changes. Empty for all rows, or if it is not known."""
        return "" if self._change.kind is ModificationKind.MERGE else self._change.condition

    @property
    def row_scope(self) -> str:
        """The ``FROM`` clause in which the condition of ``UPDATE`` and ``DELETE`` is evaluated."""
        return f"FROM {self._rows} AS {self._alias}"

    @property
    def _checks_cardinality(self) -> bool:
        """Whether a row of the table must not match several rows of the source."""
        matched = self._change.matched
        return bool(matched) and not (len(matched) == 1 and matched[0].deletes and not matched[0].condition)

    def _setting_actions(self) -> Iterator[Action]:
        change = self._change
        if change.kind is ModificationKind.UPDATE:
            yield Action(change.condition, change.assignments)
        for action in (*change.matched, *change.not_matched_by_source, *change.not_matched):
            if not action.deletes:
                yield action

    def _scope(self) -> str:
        """Return the ``FROM`` clause in which conditions and values are evaluated."""
        change = self._change
        if change.is_joined or change.kind is ModificationKind.DELETE:
            return self.row_scope
        if change.kind is ModificationKind.UPDATE:
            condition = f"coalesce({_bracketed(change.condition)}, FALSE)" if change.condition else "TRUE"
            return f"FROM (SELECT *, {condition} AS {_MATCHED} {self.row_scope}) AS {self._alias}"
        alias = "" if change.source_alias else f" AS {self._source}"
        source = f"({change.source}{alias} CROSS JOIN (SELECT TRUE AS {IS_SOURCE}) AS {IS_SOURCE}_mark)"
        numbered = f"SELECT *, monotonically_increasing_id() AS {ROW} FROM {self._rows}"  # noqa: S608 - a view
        table = f"({numbered}) AS {self._alias}"
        if self.is_insertion:
            join = f"{source} LEFT JOIN {table} ON {_bracketed(change.condition)}"
        else:
            kind = "FULL" if change.not_matched else "LEFT"
            join = f"{table} {kind} JOIN {source} ON {_bracketed(change.condition)}"
        return f"FROM {join}, LATERAL (SELECT {self._action()} AS {ACTION}) AS {ACTION}_row"

    def _action(self) -> str:
        """Return the SQL text of the number of the action for a joined row."""
        change = self._change
        alone = self._first(change.not_matched, DELETE)
        orphan = self._first(change.not_matched_by_source, KEEP)
        return (
            f"CASE WHEN {ROW} IS NULL THEN {alone} WHEN {IS_SOURCE} IS NULL THEN {orphan} "
            f"ELSE {self._first(change.matched, KEEP)} END"
        )

    def _first(self, actions: Sequence[Action], otherwise: int) -> str:
        """Return the SQL text of the number of the first action whose condition is true."""
        numbers = {id(action): number for number, action in self._numbered}
        whens = "".join(
            f" WHEN {_bracketed(action.condition or 'TRUE')} THEN {numbers.get(id(action), DELETE)}"
            for action in actions
        )
        return f"CASE{whens} ELSE {otherwise} END" if whens else str(otherwise)

    def _column(self, field: StructField, values: Sequence[tuple[NewValue, str]]) -> str:
        """Return the SQL text of a column of the query."""
        own = [(value.action, text) for value, text in values if value.field is field]
        old = f"{self._alias}.{quote_name(field.name)}"
        if not own:
            return old
        if self._change.kind is ModificationKind.UPDATE:
            return f"CASE WHEN {_MATCHED} THEN {own[0][1]} ELSE {old} END"
        whens = " ".join(f"WHEN {action} THEN {text}" for action, text in own)
        return f"CASE {ACTION} {whens} ELSE {old} END"

    def _values_of(self, action: Action, number: int) -> Iterator[NewValue]:
        """Yield the values that an action sets."""
        is_insert = any(action is each for each in self._change.not_matched)
        if action.assignments is None:
            for field in self._schema.fields:
                yield NewValue(field, f"{self._source}.{quote_name(field.name)}", number)
            return
        found: dict[str, dict[tuple[str, ...], str]] = {}
        for assignment in action.assignments:
            field, members = self._target(assignment)
            values = found.setdefault(field.name, {})
            if any(members[: len(each)] == each or each[: len(members)] == members for each in values):
                raise _assigned_twice(field.name, assignment)
            values[members] = assignment.value if members else self._value(field, assignment.value)
        for field in self._schema.fields:
            old = f"{self._alias}.{quote_name(field.name)}"
            if field.name in found:
                yield NewValue(field, _merged(old, field.dataType, found[field.name], self._comparable), number)
            elif is_insert:
                yield NewValue(field, self._value(field, "DEFAULT"), number)

    def _target(self, assignment: Assignment) -> tuple[StructField, tuple[str, ...]]:
        """Return the column that an assignment sets, and the members on the way to the value."""
        fields = {self._comparable(field.name): field for field in self._schema.fields}
        parts = tuple(map(self._comparable, assignment.target))
        start = next((n for n, part in enumerate(parts) if part in fields), None)
        if len(parts) > 1 and start == 0 and parts[0] == self._comparable(self._name) and parts[1] in fields:
            start = 1
        if start is None:
            raise column_not_found(assignment.target, self._schema.names)
        return fields[parts[start]], parts[start + 1 :]

    @staticmethod
    def _value(field: StructField, text: str) -> str:
        """Return the SQL text of a value, which may be ``DEFAULT``."""
        if text.upper() != "DEFAULT":
            return text
        return str((field.metadata or {}).get(CURRENT_DEFAULT, "NULL"))


def _merged(old: str, kind: DataType, values: Mapping[tuple[str, ...], str], comparable: Comparable) -> str:
    """Return the SQL text of a value of which some members have new values."""
    if () in values:
        return values[()]
    if not isinstance(kind, StructType):
        return old
    members = []
    for field in kind.fields:
        own = {key[1:]: text for key, text in values.items() if key[0] == comparable(field.name)}
        inner = f"{old}.{quote_name(field.name)}"
        text = _merged(inner, field.dataType, own, comparable) if own else inner
        members.append(f"{_bracketed(text)} AS {quote_name(field.name)}")
    return f"struct({', '.join(members)})"


def needs_conversion(value: NewValue, found: DataType) -> bool:
    """Return whether a new value has another type than its column. The type of NULL fits all columns."""
    return not isinstance(found, NullType) and found.simpleString() != value.field.dataType.simpleString()


def _stored(value: NewValue, found: DataType, comparable: Comparable) -> str:
    """Return the SQL text of a value in the type of its column. A number that is too large is an error."""
    return _converted(_bracketed(value.text), found, value.field.dataType, value.field.name, comparable)


def _converted(text: str, found: DataType, kind: DataType, column: str, comparable: Comparable) -> str:
    """Return the SQL text of a value in another type. Members of structs are matched by name."""
    if isinstance(found, NullType) or found.simpleString() == kind.simpleString():
        return text
    if isinstance(kind, StructType) and isinstance(found, StructType):
        own = {comparable(field.name): field for field in found.fields}
        members = []
        for field in kind.fields:
            old = own[comparable(field.name)]
            inner = f"{_VALUE}.{quote_name(old.name)}"
            converted = _converted(inner, old.dataType, field.dataType, column, comparable)
            members.append(f"{converted} AS {quote_name(field.name)}")
        built = f"CASE WHEN {_VALUE} IS NOT NULL THEN struct({', '.join(members)}) END"
        return f"transform(array({text}), {_VALUE} -> {built})[0]"
    if isinstance(kind, ArrayType) and isinstance(found, ArrayType):
        element = _converted(_VALUE, found.elementType, kind.elementType, column, comparable)
        return f"transform({text}, {_VALUE} -> {element})"
    if isinstance(kind, MapType) and isinstance(found, MapType):
        key = _converted(_KEY, found.keyType, kind.keyType, column, comparable)
        inner = _converted(_VALUE, found.valueType, kind.valueType, column, comparable)
        keys = f"transform_keys({text}, ({_KEY}, {_VALUE}) -> {key})"
        return f"transform_values({keys}, ({_KEY}, {_VALUE}) -> {inner})"
    if not isinstance(kind, IntegralType):
        return f"CAST({text} AS {sql_type(kind)})"
    fitting = f"try_cast({text} AS {sql_type(kind)})"
    parameters = {
        "sourceType": f'"{sql_type(found)}"',
        "targetType": f'"{sql_type(kind)}"',
        "columnName": quote_name(column),
    }
    error = _raised(OVERFLOW, kind, **parameters)
    return f"CASE WHEN {fitting} IS NULL AND {text} IS NOT NULL THEN {error} ELSE {fitting} END"


def read_raised(message: str) -> tuple[str, Mapping[str, str]] | None:
    """Return the condition and the parameters of an error that a query of this module raised.

    Args:
        message: The text with which Spark's function ``raise_error`` was called. None if it has another origin.
    """
    condition, _, parameters = message.removeprefix(PLACEHOLDER).partition(" ")
    if not message.startswith(PLACEHOLDER) or condition not in {OVERFLOW, CARDINALITY}:
        return None
    return condition, json.loads(parameters)


def _raised(condition: str, kind: DataType, **parameters: str) -> str:
    """Return the SQL text of an expression of a type that raises an error."""
    text = f"{PLACEHOLDER}{condition} {json.dumps(parameters)}"
    return f"CAST(raise_error({text_expression(text)}) AS {sql_type(kind)})"


def _bracketed(text: str) -> str:
    """Return an expression in brackets. A line break ends a comment at its end."""
    return f"({text}\n)"


def _assigned_twice(column: str, assignment: Assignment) -> SparkError:
    name = ".".join(map(quote_name, assignment.target))
    return SparkError(
        "DATATYPE_MISMATCH.INVALID_ROW_LEVEL_OPERATION_ASSIGNMENTS",
        f"The assignments of {quote_name(column)} conflict: {name} is set more than once.",
        sqlExpr=name,
        errors=f"\n- Multiple assignments for {quote_name(column)}",
    )
