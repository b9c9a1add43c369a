"""Plans as Lodge reads them: decoded, decompressed, and the SQL text of a command found in them.

Guarantees:

1. A plan that was compressed is looked at like others, and compressed again if it was changed.
2. What this decoder does not follow is told apart from what is no plan (:class:`UnreadablePlanError`): a plan may be
   nested deeper than a decoder follows, and Spark still takes it.

Source: Spark: ``base.proto`` (Plan, CompressedOperation), ``commands.proto`` (SqlCommand), CompressionUtils.
"""

import asyncio
from typing import TypeVar

import zstandard
from google.protobuf.message import DecodeError, Message
from pyspark.sql.connect.proto import base_pb2

from gateway.errors import GatewayError
from gateway.requests import field_spans, fields, message_field

INLINE_BYTES = 1024 * 1024
"""A larger message is looked at in a thread of its own, so that other sessions do not wait for it."""

_PLAN = base_pb2.ExecutePlanRequest.PLAN_FIELD_NUMBER
_COMPRESSED_OPERATION = base_pb2.Plan.COMPRESSED_OPERATION_FIELD_NUMBER
_MAX_PLAN_BYTES = 512 * 1024 * 1024  # Spark: spark.connect.maxPlanSize
_FIELD_OF_OPERATION = {
    base_pb2.Plan.CompressedOperation.OP_TYPE_RELATION: "root",
    base_pb2.Plan.CompressedOperation.OP_TYPE_COMMAND: "command",
}

_Request = TypeVar("_Request", bound=Message)


class UnreadablePlanError(Exception):
    """This decoder does not follow the plan.

    Attributes:
        data: Its bytes, decompressed.
        was_compressed: Whether they came otherwise.
    """

    def __init__(self, data: bytes, *, was_compressed: bool = False) -> None:
        super().__init__("The plan is nested deeper than the decoder follows, or it is no plan.")
        self.data = data
        self.was_compressed = was_compressed


async def plan_of(request: bytes) -> base_pb2.Plan | None:
    """The plan of an ``ExecutePlan`` request, decompressed; None if it has none.

    Raises:
        UnreadablePlanError.
        GatewayError: It is compressed, and cannot be decompressed.
    """
    field = message_field(request, _PLAN)
    if field is None:
        return None
    data = bytes(field)
    if len(data) > INLINE_BYTES or zstandard.FRAME_HEADER in data:
        return await asyncio.to_thread(_decoded, data)
    return _decoded(data)


def may_be_compressed(request: bytes) -> bool:
    """Return whether the plan of an ``ExecutePlan`` request may be compressed, without decoding it."""
    plan = message_field(request, _PLAN)
    return plan is not None and any(number == _COMPRESSED_OPERATION for number, _ in fields(plan))


def with_plan(request: bytes, plan: base_pb2.Plan) -> bytes:
    """An ``ExecutePlan`` request with another plan, compressed if the first one was."""
    for number, tag_start, _, start, end in field_spans(memoryview(request), 0, len(request)):
        if number == _PLAN:
            if may_be_compressed(request):
                first = base_pb2.Plan.FromString(request[start:end])
                if first.HasField("compressed_operation"):
                    compress_again(first, plan)
                    plan = first
            rest = request[:tag_start] + request[end:]
            return rest + base_pb2.ExecutePlanRequest(plan=plan).SerializeToString()
    raise LookupError("The request has no plan.")


def without_plan(request: bytes) -> base_pb2.ExecutePlanRequest:
    """All else that an ``ExecutePlan`` request says; its plan may be as deep as the decoder follows, and no deeper."""
    for number, tag_start, _, _, end in field_spans(memoryview(request), 0, len(request)):
        if number == _PLAN:
            return base_pb2.ExecutePlanRequest.FromString(request[:tag_start] + request[end:])
    return base_pb2.ExecutePlanRequest.FromString(request)


def decoded(kind: type[_Request], request: bytes) -> _Request:
    """A request of another kind.

    Raises: UnreadablePlanError.
    """
    try:
        return kind.FromString(request)
    except DecodeError as error:
        raise UnreadablePlanError(request) from error


def decompressed(plan: base_pb2.Plan) -> base_pb2.Plan:
    """A plan whose operation was compressed.

    Raises:
        UnreadablePlanError.
        GatewayError: It cannot be decompressed.
    """
    operation = plan.compressed_operation
    data = _decompressed(operation.data)
    field = _FIELD_OF_OPERATION.get(operation.op_type)
    if field is None:
        raise UnreadablePlanError(data, was_compressed=True)
    result = base_pb2.Plan()
    try:
        getattr(result, field).ParseFromString(data)
    except DecodeError as error:
        raise UnreadablePlanError(data, was_compressed=True) from error
    return result


def compress_again(plan: base_pb2.Plan, changed: base_pb2.Plan) -> None:
    """Puts what was decompressed and changed in the place of a plan's compressed operation."""
    plan.compressed_operation.data = _compressed(changed)


def _decoded(data: bytes) -> base_pb2.Plan:
    plan = decoded(base_pb2.Plan, data)
    return decompressed(plan) if plan.HasField("compressed_operation") else plan


def _decompressed(data: bytes) -> bytes:
    try:
        if zstandard.frame_content_size(data) > _MAX_PLAN_BYTES:
            raise zstandard.ZstdError("it says that it is larger")
        return zstandard.ZstdDecompressor().decompress(data, max_output_size=_MAX_PLAN_BYTES, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise GatewayError(
            "CONNECT_INVALID_PLAN.CANNOT_PARSE",
            "56K00",
            f"The compressed plan cannot be decompressed ({error}), or is larger than {_MAX_PLAN_BYTES:,} bytes. Set "
            "spark.connect.session.planCompression.threshold to -1, or make the plan smaller.",
        ) from error


def _compressed(plan: base_pb2.Plan) -> bytes:
    operation = plan.root if plan.HasField("root") else plan.command
    return zstandard.ZstdCompressor().compress(operation.SerializeToString())
