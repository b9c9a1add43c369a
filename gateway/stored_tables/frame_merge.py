"""Joins the rows of a table with a DataFrame, for ``DataFrame.mergeInto``.

The conditions and values of a DataFrame are expressions of a plan, not texts. Therefore, a plan joins the rows and
computes which action concerns each of them, and the new values of this action. The rest is done as for ``MERGE INTO``,
with the names of these columns as the texts of the values.

Guarantee: a value is evaluated only for the rows that its action concerns.

Source: [spark-connect-proto commands.proto], message ``MergeIntoTableCommand``; ``MergeIntoWriter`` of Spark.
"""

from collections.abc import Sequence
from itertools import count, starmap

from pyspark.sql.connect.proto import commands_pb2, expressions_pb2, relations_pb2
from pyspark.sql.types import StructType

from gateway.sql.name_syntax import parse_plan_name, quote_name
from gateway.sql.row_changes import Action, Assignment, RowChange
from gateway.sql.statements import ModificationKind, Name
from gateway.stored_tables.rewriting import ACTION, DELETE, IS_SOURCE, KEEP, ROW
from gateway.stored_tables.table_plans import call_function

_Expression = expressions_pb2.Expression
_Merge = expressions_pb2.MergeAction
_Join = relations_pb2.Join
_COLUMN, _MEMBER, _VALUE = "lodge_column_", "lodge_source_", "lodge_new_"
_STARS = frozenset({_Merge.ACTION_TYPE_INSERT_STAR, _Merge.ACTION_TYPE_UPDATE_STAR})


class FrameMerge:
    """A merge of a DataFrame into a table.

    Args:
        command: The command, in which all names are resolved.
        name: The name of the table.
        schema: The columns of the table.

    Attributes:
        change: The statement, as it applies to the joined rows.
    """

    def __init__(self, command: commands_pb2.MergeIntoTableCommand, name: str, schema: StructType) -> None:
        self._command = command
        self._name = name
        self._schema = schema
        self._values: list[tuple[_Expression, int]] = []
        number = count(1)
        self._numbers: list[list[int]] = []
        actions = []
        for group in (command.match_actions, command.not_matched_by_source_actions, command.not_matched_actions):
            numbers = [DELETE if _is_delete(each) else next(number) for each in group]
            self._numbers.append(numbers)
            actions.append(tuple(self._action(each.merge_action, n) for each, n in zip(group, numbers, strict=True)))
        matched, not_matched_by_source, not_matched = actions
        self.change = RowChange(
            ModificationKind.MERGE,
            Name((name,), 0, 0),
            matched=matched,
            not_matched=not_matched,
            not_matched_by_source=not_matched_by_source,
            is_joined=True,
        )

    def rows(self, contents: relations_pb2.Relation) -> relations_pb2.Relation:
        """Return the joined rows: the columns of the table, the action that concerns each row, and the new values.

        Args:
            contents: The rows of the table.
        """
        names = self._schema.names
        own = [_alias(_attribute(self._name, name), f"{_COLUMN}{n}") for n, name in enumerate(names)]
        table = _project(
            _aliased(contents, self._name), _star(), *own, _alias(call_function("monotonically_increasing_id"), ROW)
        )
        copies = [_alias(_attribute(name), f"{_MEMBER}{n}") for n, name in enumerate(names) if self._has_stars]
        true = _Expression()
        true.literal.boolean = True
        source = _project(self._command.source_table_plan, _star(), *copies, _alias(true, IS_SOURCE))
        joined = self._join(table, source)
        matched, orphan, alone = (
            self._first(group, numbers, otherwise)
            for group, numbers, otherwise in zip(
                (
                    self._command.match_actions,
                    self._command.not_matched_by_source_actions,
                    self._command.not_matched_actions,
                ),
                self._numbers,
                (KEEP, KEEP, DELETE),
                strict=True,
            )
        )
        is_alone, is_orphan = (call_function("isnull", _attribute(name)) for name in (ROW, IS_SOURCE))
        action = call_function("when", is_alone, alone, is_orphan, orphan, matched)
        decided = _project(joined, _star(), _alias(action, ACTION))
        columns = [_alias(_attribute(f"{_COLUMN}{n}"), name) for n, name in enumerate(names)]
        marks = [_attribute(name) for name in (ROW, IS_SOURCE, ACTION)]
        values = [_alias(_of_action(number, value), f"{_VALUE}{n}") for n, (value, number) in enumerate(self._values)]
        return _project(decided, *columns, *marks, *values)

    @property
    def _has_stars(self) -> bool:
        actions = (*self._command.match_actions, *self._command.not_matched_actions)
        return any(each.merge_action.action_type in _STARS for each in actions)

    def _join(self, table: relations_pb2.Relation, source: relations_pb2.Relation) -> relations_pb2.Relation:
        joined = relations_pb2.Relation()
        is_insertion = not (self._command.match_actions or self._command.not_matched_by_source_actions)
        left, right = (source, table) if is_insertion else (table, source)
        joined.join.left.CopyFrom(left)
        joined.join.right.CopyFrom(right)
        joined.join.join_condition.CopyFrom(self._command.merge_condition)
        is_full = self._command.not_matched_actions and not is_insertion
        joined.join.join_type = _Join.JOIN_TYPE_FULL_OUTER if is_full else _Join.JOIN_TYPE_LEFT_OUTER
        return joined

    def _action(self, action: _Merge, number: int) -> Action:
        if number == DELETE:
            return Action("", deletes=True)
        if action.action_type in _STARS:
            sources = (_attribute(f"{_MEMBER}{n}") for n in range(len(self._schema.names)))
            values = [self._value(each, number) for each in sources]
            targets = [(name,) for name in self._schema.names]
            return Action("", tuple(starmap(Assignment, zip(targets, values, strict=True))))
        return Action("", tuple(self._assignment(each, number) for each in action.assignments))

    def _assignment(self, assignment: _Merge.Assignment, number: int) -> Assignment:
        key = assignment.key
        target = parse_plan_name(key.unresolved_attribute.unparsed_identifier or key.expression_string.expression)
        return Assignment(tuple(target or ("",)), self._value(assignment.value, number))

    def _value(self, value: _Expression, number: int) -> str:
        """Return the name of the column with a new value."""
        self._values.append((value, number))
        return f"{_VALUE}{len(self._values) - 1}"

    @staticmethod
    def _first(actions: Sequence[_Expression], numbers: Sequence[int], otherwise: int) -> _Expression:
        """Return the number of the first action whose condition is true."""
        arguments = []
        for each, number in zip(actions, numbers, strict=True):
            condition = _Expression()
            condition.literal.boolean = True
            if each.merge_action.HasField("condition"):
                condition = each.merge_action.condition
            arguments += [condition, _integer(number)]
        return call_function("when", *arguments, _integer(otherwise)) if arguments else _integer(otherwise)


def _is_delete(action: _Expression) -> bool:
    return action.merge_action.action_type == _Merge.ACTION_TYPE_DELETE


def _aliased(relation: relations_pb2.Relation, name: str) -> relations_pb2.Relation:
    aliased = relations_pb2.Relation()
    aliased.subquery_alias.input.CopyFrom(relation)
    aliased.subquery_alias.alias = name
    return aliased


def _project(relation: relations_pb2.Relation, *columns: _Expression) -> relations_pb2.Relation:
    projected = relations_pb2.Relation()
    projected.project.input.CopyFrom(relation)
    projected.project.expressions.extend(columns)
    return projected


def _attribute(*parts: str) -> _Expression:
    attribute = _Expression()
    attribute.unresolved_attribute.unparsed_identifier = ".".join(map(quote_name, parts))
    return attribute


def _star() -> _Expression:
    star = _Expression()
    star.unresolved_star.SetInParent()
    return star


def _integer(number: int) -> _Expression:
    literal = _Expression()
    literal.literal.integer = number
    return literal


def _of_action(number: int, value: _Expression) -> _Expression:
    """Return a value for the rows that an action concerns, and NULL for all others."""
    return call_function("when", call_function("==", _attribute(ACTION), _integer(number)), value)


def _alias(expression: _Expression, name: str) -> _Expression:
    alias = _Expression()
    alias.alias.expr.CopyFrom(expression)
    alias.alias.name.append(name)
    return alias
