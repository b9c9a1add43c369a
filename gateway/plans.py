"""Plans as Lodge reads them: decoded, and the SQL text of a command found in them.

Source: Spark: ``base.proto`` (Plan, CompressedOperation), ``commands.proto`` (SqlCommand).
"""

import asyncio

import zstandard
from google.protobuf.message import DecodeError
from pyspark.sql.connect.proto import base_pb2, relations_pb2

from gateway.requests import message_field

INLINE_BYTES = 1024 * 1024
"""A larger message is looked at in a thread of its own, so that other sessions do not wait for it."""

_PLAN = 3
_MAX_PLAN_BYTES = 512 * 1024 * 1024  # Spark: spark.connect.maxPlanSize


async def plan_of(request: bytes) -> base_pb2.Plan | None:
    """The plan of an ``ExecutePlan`` request; None if this decoder cannot follow it, and Spark must judge it."""
    field = message_field(request, _PLAN)
    if field is None:
        return None
    data = bytes(field)
    if len(data) > INLINE_BYTES:
        return await asyncio.to_thread(_decoded, data)
    return _decoded(data)


def sql_input(plan: base_pb2.Plan) -> relations_pb2.Relation | None:
    """A copy of the relation of a SQL command, with its text and parameters; None if it is no SQL command."""
    if not plan.HasField("command") or not plan.command.HasField("sql_command"):
        return None
    relation = relations_pb2.Relation()
    command = plan.command.sql_command
    if command.HasField("input"):
        relation.CopyFrom(command.input)
    else:  # older clients send the text alone
        relation.sql.query = command.sql
        relation.sql.pos_args.extend(command.pos_args)
        relation.sql.pos_arguments.extend(command.pos_arguments)
        for name, literal in command.args.items():
            relation.sql.args[name].CopyFrom(literal)
        for name, expression in command.named_arguments.items():
            relation.sql.named_arguments[name].CopyFrom(expression)
    return relation if sql_of(relation) is not None else None


def sql_of(relation: relations_pb2.Relation) -> relations_pb2.SQL | None:
    """The text of a relation that is SQL, with or without references to others."""
    if relation.HasField("with_relations"):
        relation = relation.with_relations.root
    return relation.sql if relation.HasField("sql") else None


def _decoded(data: bytes) -> base_pb2.Plan | None:
    """A plan, decompressed if it may be a SQL command; None if it is nested deeper than this decoder follows."""
    try:
        plan = base_pb2.Plan.FromString(data)
        operation = plan.compressed_operation
        if (
            plan.WhichOneof("op_type") == "compressed_operation"
            and operation.op_type == base_pb2.Plan.CompressedOperation.OP_TYPE_COMMAND
        ):
            command = zstandard.ZstdDecompressor().decompress(operation.data, max_output_size=_MAX_PLAN_BYTES)
            plan.command.ParseFromString(command)
    except (DecodeError, zstandard.ZstdError):
        return None
    return plan
