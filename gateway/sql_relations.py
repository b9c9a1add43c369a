"""Reads the SQL text and its parameters in a plan.

Source: [spark-connect-proto commands.proto], message ``SqlCommand``; [spark-connect-proto relations.proto], message
``SQL``.
"""

from collections.abc import Sequence

from pyspark.sql.connect.proto import base_pb2, commands_pb2, expressions_pb2, relations_pb2

from gateway.sql.parameters import Parameters


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
    relation.sql.pos_args.extend(command.pos_args)
    relation.sql.pos_arguments.extend(command.pos_arguments)
    for name, literal in command.args.items():
        relation.sql.args[name].CopyFrom(literal)
    for name, expression in command.named_arguments.items():
        relation.sql.named_arguments[name].CopyFrom(expression)
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
    named = {name: _string(expression.literal) for name, expression in sql.named_arguments.items()}
    named |= {name: _string(literal) for name, literal in sql.args.items()}
    positional = [_string(expression.literal) for expression in sql.pos_arguments]
    positional += [_string(literal) for literal in sql.pos_args]
    strings = {name: value for name, value in named.items() if value is not None}
    return Parameters.of_statement(sql.query, strings, positional)


def remove_positional_parameters(sql: relations_pb2.SQL, positions: Sequence[int]) -> None:
    """Remove the positional parameters that a SQL text no longer contains."""
    values = sql.pos_arguments or sql.pos_args
    for position in sorted(positions, reverse=True):
        del values[position]


def _string(literal: expressions_pb2.Expression.Literal) -> str | None:
    return literal.string if literal.WhichOneof("literal_type") == "string" else None
