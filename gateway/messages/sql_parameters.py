"""Copies the parameters of SQL texts.

Source: [spark-connect-proto commands.proto], message ``SqlCommand``; [spark-connect-proto relations.proto], message
``SQL``.
"""

from pyspark.sql.connect.proto import commands_pb2, relations_pb2

from gateway.messages.deep_messages import append_copies


def copy_parameters(source: commands_pb2.SqlCommand | relations_pb2.SQL, target: relations_pb2.SQL) -> None:
    """Add the parameters of a SQL text to those of another one."""
    append_copies(target.pos_args, source.pos_args)
    append_copies(target.pos_arguments, source.pos_arguments)
    for name, literal in source.args.items():
        target.args[name].CopyFrom(literal)
    for name, expression in source.named_arguments.items():
        target.named_arguments[name].CopyFrom(expression)
