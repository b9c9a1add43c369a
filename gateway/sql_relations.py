"""The SQL text in plans, and its parameters.

Source: [spark-connect-proto commands.proto], message ``SqlCommand``; [spark-connect-proto relations.proto], message
``SQL``.
"""

from collections.abc import Sequence

from pyspark.sql.connect.proto import base_pb2, commands_pb2, expressions_pb2, relations_pb2

from gateway.sql.parameters import Parameters


def find_sql_relation(plan: base_pb2.Plan) -> relations_pb2.Relation | None:
    """Return the relation of a SQL command. The caller must not change it.

    Returns:
        The relation; None if the plan is no SQL command.
    """
    if not plan.HasField("command") or not plan.command.HasField("sql_command"):
        return None
    relation = read_sql_command(plan.command.sql_command)
    return relation if find_sql(relation) is not None else None


def read_sql_command(command: commands_pb2.SqlCommand) -> relations_pb2.Relation:
    """Return the relation of a SQL command.

    Old clients send no relation, only a text and its parameters.
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
    """Return the SQL message of a relation, which may refer to other relations.

    Returns:
        The message; None if the relation has no SQL text.
    """
    if relation.HasField("with_relations"):
        relation = relation.with_relations.root
    return relation.sql if relation.HasField("sql") else None


def read_parameters(sql: relations_pb2.SQL) -> Parameters:
    """Return the parameters of a SQL text whose values are strings."""
    named = {name: _string(expression.literal) for name, expression in sql.named_arguments.items()}
    named |= {name: _string(literal) for name, literal in sql.args.items()}
    positional = [_string(expression.literal) for expression in sql.pos_arguments]
    positional += [_string(literal) for literal in sql.pos_args]
    return Parameters({name: value for name, value in named.items() if value is not None}, positional)


def remove_positional_parameters(sql: relations_pb2.SQL, positions: Sequence[int]) -> None:
    """Remove positional parameters whose markers a text no longer contains."""
    values = sql.pos_arguments or sql.pos_args
    for position in sorted(positions, reverse=True):
        del values[position]


def _string(literal: expressions_pb2.Expression.Literal) -> str | None:
    return literal.string if literal.WhichOneof("literal_type") == "string" else None
