"""Decodes and decompresses plans, and replaces the plan in a request.

Guarantees:

1. Compressed plans are supported everywhere. If a compressed plan is replaced, the new plan is compressed too.
2. If a plan cannot be decoded, :class:`UnreadablePlanError` is raised. The plan is not necessarily invalid, because
   Spark accepts plans that are nested more deeply than this decoder allows.

Source: [spark-connect-proto base.proto], messages ``Plan`` and ``CompressedOperation``.
"""

import asyncio
from typing import TypeVar

import zstandard
from google.protobuf.message import DecodeError, Message
from pyspark.sql.connect.proto import base_pb2

from gateway.errors import SparkError
from gateway.requests import Request
from gateway.wire import read_fields

INLINE_BYTES = 1024 * 1024
"""The maximum size of messages that are decoded on the event loop.

Larger messages are decoded in a thread, so that they do not block other sessions.
"""

_COMPRESSED_OPERATION = base_pb2.Plan.COMPRESSED_OPERATION_FIELD_NUMBER
_MAX_PLAN_BYTES = 512 * 1024 * 1024  # Spark: spark.connect.maxPlanSize
_FIELD_OF_OPERATION = {
    base_pb2.Plan.CompressedOperation.OP_TYPE_RELATION: "root",
    base_pb2.Plan.CompressedOperation.OP_TYPE_COMMAND: "command",
}

_Request = TypeVar("_Request", bound=Message)


class UnreadablePlanError(Exception):
    """A plan that is nested too deeply to decode, or that is not a plan.

    Attributes:
        data: The encoded plan, decompressed.
        was_compressed: Whether the plan was compressed in the request.
    """

    def __init__(self, data: bytes, *, was_compressed: bool = False) -> None:
        super().__init__("The plan is nested deeper than the decoder follows, or it is no plan.")
        self.data = data
        self.was_compressed = was_compressed


async def decode_plan(request: Request) -> base_pb2.Plan | None:
    """Return the decompressed plan of an ``ExecutePlan`` request.

    Returns:
        The plan. None if the request does not contain a plan.

    Raises:
        UnreadablePlanError: If the plan cannot be decoded.
        GatewayError: If the plan is compressed and cannot be decompressed.
    """
    if request.plan is None:
        return None
    data = bytes(request.plan)
    if len(data) > INLINE_BYTES or zstandard.FRAME_HEADER in data:
        return await asyncio.to_thread(_decode, data)
    return _decode(data)


def may_be_compressed(request: Request) -> bool:
    """Return whether the plan of an ``ExecutePlan`` request may be compressed.

    This function only looks for the field of the compressed operation. It does not decode the plan.
    """
    plan = request.plan
    return plan is not None and any(field.number == _COMPRESSED_OPERATION for field in read_fields(bytes(plan)))


def replace_plan(request: Request, plan: base_pb2.Plan) -> Request:
    """Return an ``ExecutePlan`` request with its plan replaced.

    If the original plan was compressed, the new plan is compressed too.

    Raises:
        LookupError: If the request does not contain a plan.
    """
    if request.plan is None:
        raise LookupError("The request has no plan.")
    if may_be_compressed(request):
        former = base_pb2.Plan.FromString(bytes(request.plan))
        if former.HasField("compressed_operation"):
            recompress(former, plan)
            plan = former
    return request.with_plan(plan.SerializeToString())


def decode_request(kind: type[_Request], request: bytes) -> _Request:
    """Decode a request of any type.

    Raises:
        UnreadablePlanError: If the request cannot be decoded.
    """
    try:
        return kind.FromString(request)
    except DecodeError as error:
        raise UnreadablePlanError(request) from error


def decompress(plan: base_pb2.Plan) -> base_pb2.Plan:
    """Return the plan in a compressed operation.

    Raises:
        UnreadablePlanError: If the plan cannot be decoded.
        GatewayError: If the operation cannot be decompressed.
    """
    operation = plan.compressed_operation
    data = _decompress(operation.data)
    field = _FIELD_OF_OPERATION.get(operation.op_type)
    if field is None:
        raise UnreadablePlanError(data, was_compressed=True)
    result = base_pb2.Plan()
    try:
        getattr(result, field).ParseFromString(data)
    except DecodeError as error:
        raise UnreadablePlanError(data, was_compressed=True) from error
    return result


def recompress(plan: base_pb2.Plan, changed: base_pb2.Plan) -> None:
    """Replace the compressed operation of a plan with the operation of a changed plan.

    Args:
        plan: A plan that contains a compressed operation.
        changed: The changed, decompressed plan.
    """
    operation = changed.root if changed.HasField("root") else changed.command
    plan.compressed_operation.data = zstandard.ZstdCompressor().compress(operation.SerializeToString())


def _decode(data: bytes) -> base_pb2.Plan:
    plan = decode_request(base_pb2.Plan, data)
    return decompress(plan) if plan.HasField("compressed_operation") else plan


def _decompress(data: bytes) -> bytes:
    try:
        if zstandard.frame_content_size(data) > _MAX_PLAN_BYTES:
            raise zstandard.ZstdError("the declared size is larger")
        return zstandard.ZstdDecompressor().decompress(data, max_output_size=_MAX_PLAN_BYTES, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise SparkError(
            "CONNECT_INVALID_PLAN.CANNOT_PARSE",
            f"The compressed plan cannot be decompressed ({error}), or is larger than {_MAX_PLAN_BYTES:,} bytes. Set "
            "spark.connect.session.planCompression.threshold to -1, or make the plan smaller.",
            errorMsg=str(error),
        ) from error
