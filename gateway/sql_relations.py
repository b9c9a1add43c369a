"""SQL text in plans: where it is, and its parameters."""

from collections.abc import Sequence

from pyspark.sql.connect.proto import base_pb2, commands_pb2, expressions_pb2, relations_pb2

from gateway.sql.parameters import Parameters


def sql_input(plan: base_pb2.Plan) -> relations_pb2.Relation | None:
    """The relation of a SQL command, with its text and parameters, not to be changed; None if it is no SQL command."""
    if not plan.HasField("command") or not plan.command.HasField("sql_command"):
        return None
    relation = input_of(plan.command.sql_command)
    return relation if sql_of(relation) is not None else None


def input_of(command: commands_pb2.SqlCommand) -> relations_pb2.Relation:
    """The relation of a SQL command; older clients send the text alone."""
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


def sql_of(relation: relations_pb2.Relation) -> relations_pb2.SQL | None:
    """The text of a relation that is SQL, with or without references to others."""
    if relation.HasField("with_relations"):
        relation = relation.with_relations.root
    return relation.sql if relation.HasField("sql") else None


def parameters_of(sql: relations_pb2.SQL) -> Parameters:
    """The parameters of a text that are strings."""
    named = {name: _string(expression.literal) for name, expression in sql.named_arguments.items()}
    named |= {name: _string(literal) for name, literal in sql.args.items()}
    positional = [_string(expression.literal) for expression in sql.pos_arguments]
    positional += [_string(literal) for literal in sql.pos_args]
    return Parameters({name: value for name, value in named.items() if value is not None}, positional)


def remove_positions(sql: relations_pb2.SQL, positions: Sequence[int]) -> None:
    """Takes away the positional parameters whose places the text has no more."""
    values = sql.pos_arguments or sql.pos_args
    for position in sorted(positions, reverse=True):
        del values[position]


def _string(literal: expressions_pb2.Expression.Literal) -> str | None:
    return literal.string if literal.WhichOneof("literal_type") == "string" else None
