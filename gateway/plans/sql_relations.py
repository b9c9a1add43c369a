"""Reads the SQL text and its parameters in a plan.

Source: [spark-connect-proto commands.proto], message ``SqlCommand``; [spark-connect-proto relations.proto], message
``SQL``.
"""

from collections.abc import Sequence
from typing import Any

from pyspark.sql.connect.proto import base_pb2, commands_pb2, expressions_pb2, relations_pb2

from gateway.messages.deep_messages import append_copies
from gateway.messages.sql_parameters import copy_parameters
from gateway.sql.parameters import Parameters

_COLLECTIONS = frozenset({"array", "map", "map_from_arrays", "map_from_entries", "named_struct", "struct"})


def find_statement(plan: base_pb2.Plan) -> relations_pb2.Relation | None:
    """Return the relation whose SQL text a plan executes as a statement. The caller must not change the relation.

    Most clients send a statement as a SQL command. Some send it as the root of a plan, for example the Swift client.

    Returns:
        The relation. None if the plan does not consist of a SQL text.
    """
    return find_sql_relation(plan) or find_sql_root(plan)


def find_sql_root(plan: base_pb2.Plan) -> relations_pb2.Relation | None:
    """Return the root of a plan. None if it is not a SQL text."""
    return plan.root if plan.HasField("root") and find_sql(plan.root) is not None else None


def find_sql_relation(plan: base_pb2.Plan) -> relations_pb2.Relation | None:
    """Return the relation of a SQL command. The caller must not change the relation.

    Returns:
        The relation. None if the plan is not a SQL command.
    """
    if not plan.HasField("command") or not plan.command.HasField("sql_command"):
        return None
    relation = read_sql_command(plan.command.sql_command)
    return relation if find_sql(relation) is not None else None


def read_sql_command(command: commands_pb2.SqlCommand) -> relations_pb2.Relation:
    """Return the relation of a SQL command.

    Older clients do not send a relation. For these clients, the relation is created from the SQL text and its
    parameters.
    """
    if command.HasField("input"):
        return command.input
    relation = relations_pb2.Relation()
    relation.sql.query = command.sql
    copy_parameters(command, relation.sql)
    return relation


def find_sql(relation: relations_pb2.Relation) -> relations_pb2.SQL | None:
    """Return the SQL message of a relation. The relation may have references.

    Returns:
        The SQL message. None if the relation does not contain SQL text.
    """
    if relation.HasField("with_relations"):
        relation = relation.with_relations.root
    return relation.sql if relation.HasField("sql") else None


def read_parameters(sql: relations_pb2.SQL) -> Parameters:
    """Return the string parameters of a SQL text."""
    arguments = {name: _unwrap(expression) for name, expression in sql.named_arguments.items()}
    named = {name: _string(expression.literal) for name, expression in arguments.items()}
    named |= {name: _string(literal) for name, literal in sql.args.items()}
    in_order = [_unwrap(expression) for expression in sql.pos_arguments]
    positional = [_string(expression.literal) for expression in in_order]
    positional += [_string(literal) for literal in sql.pos_args]
    strings = {name: value for name, value in named.items() if value is not None}
    has_unknown = not all(map(_is_known, (*arguments.values(), *in_order)))
    return Parameters.of_statement(sql.query, strings, positional, has_others=bool(named), has_unknown=has_unknown)


def remove_positional_parameters(sql: relations_pb2.SQL, positions: Sequence[int]) -> None:
    """Remove the positional parameters that a SQL text no longer contains."""
    values: Any = sql.pos_arguments or sql.pos_args
    removed = frozenset(positions)
    kept = [value for position, value in enumerate(values) if position not in removed]
    del values[:]
    append_copies(values, kept)


def keep_positional_parameters(sql: relations_pb2.SQL, positions: Sequence[int]) -> None:
    """Remove all positional parameters but those that a part of a SQL text contains."""
    kept = frozenset(positions)
    remove_positional_parameters(sql, [each for each in range(count_positional(sql)) if each not in kept])


def count_positional(sql: relations_pb2.SQL) -> int:
    """Return the number of the positional parameters of a SQL text."""
    return len(sql.pos_arguments or sql.pos_args)


def _unwrap(expression: expressions_pb2.Expression) -> expressions_pb2.Expression:
    """Return an argument without its aliases, which Spark ignores."""
    while expression.HasField("alias"):
        expression = expression.alias.expr
    return expression


def _is_known(argument: expressions_pb2.Expression) -> bool:
    """Return whether an argument is a literal or a collection, so that no string is hidden in it."""
    if argument.HasField("unresolved_function"):
        return argument.unresolved_function.function_name.lower() in _COLLECTIONS
    return argument.HasField("literal")


def _string(literal: expressions_pb2.Expression.Literal) -> str | None:
    return literal.string if literal.WhichOneof("literal_type") == "string" else None
