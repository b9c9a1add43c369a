"""Decodes and decompresses plans.

Guarantees:

1. Compressed plans are supported everywhere. If a compressed plan is replaced, the new plan is compressed too.
2. Plans that are nested more deeply than protobuf's decoder follows are decoded too, in a thread (see
   :mod:`gateway.messages.deep_messages`).
3. Large plans are decoded and decompressed in threads, within the memory budget of
   :class:`gateway.blocking_work.request_pools.RequestPools`. The decompressed size counts. A plan that decompresses to
   more than ``max_plan_bytes``, or has more than ``MAX_FIELDS`` fields, is refused before it occupies memory. The
   compressed plans of one request count together.

Source: [spark-connect-proto base.proto], messages ``Plan`` and ``CompressedOperation``.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar, cast

import zstandard
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message
from pyspark.sql.connect.proto import base_pb2

from gateway.blocking_work.request_pools import INLINE_BYTES, MAX_FIELDS, RequestPools
from gateway.errors import GatewayError, SparkError, invalid_request
from gateway.messages.deep_messages import decode_into
from gateway.messages.requests import Request
from gateway.messages.wire import LENGTH, VARINT, Field, count_fields, encode_field, read_fields
from gateway.sql.sql_texts import SqlTexts

_MAX_PLAN_FIELDS = 64
_PIECE_BYTES = 64 * 1024
_MAX_UNKNOWN_BYTES = 4096
_ROOT, _COMMAND = base_pb2.Plan.ROOT_FIELD_NUMBER, base_pb2.Plan.COMMAND_FIELD_NUMBER
_COMPRESSED = base_pb2.Plan.COMPRESSED_OPERATION_FIELD_NUMBER
_Operation = base_pb2.Plan.CompressedOperation
_FIELD_OF_OPERATION = {_Operation.OP_TYPE_RELATION: _ROOT, _Operation.OP_TYPE_COMMAND: _COMMAND}
_WIRE_TYPES = {
    _Operation.DATA_FIELD_NUMBER: LENGTH,
    _Operation.OP_TYPE_FIELD_NUMBER: VARINT,
    _Operation.COMPRESSION_CODEC_FIELD_NUMBER: VARINT,
}

_Request = TypeVar("_Request", bound=Message)


@dataclass(frozen=True, slots=True)
class EncodedPlan:
    """The plan of a request, before decoding.

    Attributes:
        data: The encoded plan. If the plan is compressed, the compressed operation.
        size_bytes: The decompressed size.
        compressed: The compressed operation of the client, without its data. None if the plan is not compressed.
    """

    data: memoryview
    size_bytes: int
    compressed: base_pb2.Plan.CompressedOperation | None = None


@dataclass(slots=True)
class DecodedPlan:
    """A plan that was decoded.

    Attributes:
        plan: The plan, decompressed.
        size_bytes: The decompressed size of the encoded plan.
        compressed: The compressed operation of the client, without its data. None if the plan was not compressed.
        texts: The SQL texts of the plan.
    """

    plan: base_pb2.Plan
    size_bytes: int
    compressed: base_pb2.Plan.CompressedOperation | None = None
    texts: SqlTexts = field(default_factory=SqlTexts)

    @property
    def is_compressed(self) -> bool:
        """Whether the client's plan was compressed."""
        return self.compressed is not None

    def encode(self) -> bytes:
        """Encode the plan, compressed if the client's plan was compressed."""
        return self.to_plan().SerializeToString()

    def to_plan(self) -> base_pb2.Plan:
        """Return the plan, compressed if the client's plan was compressed."""
        if self.compressed is None:
            return self.plan
        operation = self.plan.root if self.plan.HasField("root") else self.plan.command
        compressed = base_pb2.Plan(compressed_operation=self.compressed)
        compressed.compressed_operation.data = zstandard.ZstdCompressor().compress(operation.SerializeToString())
        return compressed


@dataclass(frozen=True, slots=True)
class DecodedAnalysis:
    """An ``AnalyzePlan`` request that was decoded.

    Attributes:
        message: The request.
        size_bytes: The decompressed size of the encoded request.
        compressed: Each compressed plan in the request, with its decompressed plan.
        texts: The SQL texts of the request.
    """

    message: base_pb2.AnalyzePlanRequest
    size_bytes: int
    compressed: Sequence[tuple[base_pb2.Plan, DecodedPlan]] = ()
    texts: SqlTexts = field(default_factory=SqlTexts)

    @property
    def messages(self) -> Sequence[Message]:
        """The request, and the decompressed plans."""
        return [self.message, *(decoded.plan for _, decoded in self.compressed)]


class PlanDecoder:
    """Decodes the plans of requests.

    Args:
        pools: The threads and the memory for large plans.
    """

    def __init__(self, pools: RequestPools) -> None:
        self._pools = pools

    async def read(self, request: Request) -> "EncodedPlan | None":
        """Return the plan of an ``ExecutePlan`` request. None if the request does not contain a plan.

        Raises:
            GatewayError: If the plan is not canonical, or is larger than allowed.
        """
        if request.plan is None or request.plan_span is None:
            return None
        fields = read_fields(request.data, *request.plan_span, max_fields=_MAX_PLAN_FIELDS)
        operations = [field for field in fields if field.number in (_ROOT, _COMMAND, _COMPRESSED)]
        if len(operations) > 1 or any(field.wire_type != LENGTH for field in operations):
            raise invalid_request("the plan has more than one operation")
        if not operations or operations[0].number != _COMPRESSED:
            return EncodedPlan(request.plan, len(request.plan))
        data, header = _read_operation(request.data, operations[0])
        return EncodedPlan(data, await self._size(data), header)

    def reserve(self, plan: "EncodedPlan") -> AbstractAsyncContextManager[None]:
        """Return a block that reserves the memory of a plan.

        Raises:
            GatewayError: If the memory is not free in time.
        """
        return self._pools.reserve(plan.size_bytes)

    async def decode(self, plan: "EncodedPlan") -> DecodedPlan:
        """Return the decoded plan. The caller has reserved its memory.

        Raises:
            GatewayError: If the plan is no plan, is nested too deeply, has too many fields, or cannot be decompressed.
        """
        if plan.compressed is not None:
            return await self._decompress(plan.data, plan.compressed, plan.size_bytes)
        decoded = await self._decode(base_pb2.Plan, plan.data)
        return DecodedPlan(decoded, plan.size_bytes)

    async def encode(self, decoded: DecodedPlan) -> bytes:
        """Encode a plan, compressed if the client's plan was compressed."""
        return await self._pools.decode(decoded.size_bytes, decoded.encode)

    @asynccontextmanager
    async def decode_analysis(self, data: bytes) -> AsyncIterator["DecodedAnalysis"]:
        """Decode an ``AnalyzePlan`` request, and reserve its memory for the duration of the block.

        Args:
            data: The encoded request.

        Raises:
            GatewayError: If the request or a compressed plan in it is no plan, is nested too deeply, has too many
                fields, or cannot be decompressed.
        """
        async with self._pools.reserve(len(data)):
            message = await self._decode(base_pb2.AnalyzePlanRequest, data)
            plans = list(find_compressed_plans(message))
            if not plans:
                yield DecodedAnalysis(message, len(data))
                return
        sizes_bytes = [await self._size(plan.compressed_operation.data) for plan in plans]
        self._check_size(sum(sizes_bytes))
        async with self._pools.reserve(len(data) + sum(sizes_bytes)):
            decoded = []
            for plan, size_bytes in zip(plans, sizes_bytes, strict=True):
                header = base_pb2.Plan.CompressedOperation()
                header.CopyFrom(plan.compressed_operation)
                compressed = header.data
                header.ClearField("data")
                decompressed = await self._decompress(compressed, header, size_bytes)
                decoded.append((plan, decompressed))
            yield DecodedAnalysis(message, len(data) + sum(sizes_bytes), decoded)

    async def _size(self, data: bytes | memoryview) -> int:
        """Return the size of the decompressed data.

        Data that does not contain its size is decompressed for this, in small pieces. Otherwise, a small plan would
        have to reserve the memory of the largest one.

        Raises:
            GatewayError: If the data is not compressed, or the size is larger than allowed.
        """
        try:
            size_bytes = zstandard.frame_content_size(data)
            if size_bytes < 0:
                size_bytes = await self._pools.plans.run(self._measure, data)
        except zstandard.ZstdError as error:
            raise self._refused(error) from error
        self._check_size(size_bytes)
        return size_bytes

    def _check_size(self, size_bytes: int) -> None:
        """Refuse compressed plans of a request that are larger together than a plan may be, and empty ones.

        The decoder reads nothing after an empty frame, but Spark continues with the next frame.
        """
        if not size_bytes:
            raise self._refused(zstandard.ZstdError("it is empty"))
        if size_bytes > self._pools.max_plan_bytes:
            raise self._refused(zstandard.ZstdError(f"its size is at least {size_bytes:,} bytes"))

    def _measure(self, data: bytes | memoryview) -> int:
        """Return the size of the decompressed data, or a number above the maximum if the size is larger.

        Raises:
            zstandard.ZstdError: If the data cannot be decompressed.
        """
        size_bytes = 0
        with self._decompressor().stream_reader(data) as pieces:
            while size_bytes <= self._pools.max_plan_bytes and (piece := pieces.read(_PIECE_BYTES)):
                size_bytes += len(piece)
        return size_bytes

    def _decompressor(self) -> zstandard.ZstdDecompressor:
        return zstandard.ZstdDecompressor(max_window_size=max(self._pools.max_plan_bytes, 1024 * 1024))

    async def _decode(self, kind: type[_Request], encoded: bytes | memoryview) -> _Request:
        try:
            return await self._pools.decode(len(encoded), _decode_shallow, kind, encoded)
        except DecodeError:
            return await self._pools.plans.run(_decode_deep, kind, encoded)

    async def _decompress(
        self, compressed: bytes | memoryview, header: base_pb2.Plan.CompressedOperation, size_bytes: int
    ) -> DecodedPlan:
        encoded = await self._pools.decode(size_bytes, self._read_frame, compressed, header, size_bytes)
        return DecodedPlan(await self._decode(base_pb2.Plan, encoded), size_bytes, header)

    def _read_frame(
        self, compressed: bytes | memoryview, header: base_pb2.Plan.CompressedOperation, size_bytes: int
    ) -> bytes:
        """Return the encoded plan that contains the decompressed operation.

        Raises:
            GatewayError: If the data cannot be decompressed, or the operation is of an unknown type.
        """
        number = _FIELD_OF_OPERATION.get(header.op_type)
        if number is None:
            raise invalid_request("the compressed plan is neither a relation nor a command")
        try:
            data = self._decompressor().decompress(compressed, max_output_size=size_bytes, allow_extra_data=False)
        except zstandard.ZstdError as error:
            raise self._refused(error) from error
        if len(data) != size_bytes:  # a frame after an empty one, which Spark reads
            raise self._refused(zstandard.ZstdError("it has several frames"))
        return encode_field(number, data)

    def _refused(self, error: zstandard.ZstdError) -> GatewayError:
        return SparkError(
            "CONNECT_INVALID_PLAN.CANNOT_PARSE",
            f"The compressed plan cannot be decompressed ({error}), or is larger than {self._pools.max_plan_bytes:,} "
            "bytes. Set spark.connect.session.planCompression.threshold to -1, make the plan smaller, or ask the "
            "operator to increase max_plan_bytes.",
            errorMsg=str(error),
        )


def _read_operation(data: bytes, operation: Field) -> tuple[memoryview, base_pb2.Plan.CompressedOperation]:
    """Return the data of a compressed operation, and the operation without its data.

    Raises:
        GatewayError: If the operation is not canonical.
    """
    fields = read_fields(data, operation.start, operation.end, max_fields=_MAX_PLAN_FIELDS)
    known = [field.number for field in fields if field.number in _WIRE_TYPES]
    if len(set(known)) < len(known):
        raise invalid_request("a field of the compressed plan occurs more than once")
    if any(_WIRE_TYPES.get(field.number, field.wire_type) != field.wire_type for field in fields):
        raise invalid_request("a field of the compressed plan has the wrong wire type")
    if sum(field.end - field.tag_start for field in fields if field.number not in _WIRE_TYPES) > _MAX_UNKNOWN_BYTES:
        raise invalid_request("the compressed plan has large fields that the gateway does not know")
    content, header = memoryview(b""), b""
    for each in fields:
        if each.number == _Operation.DATA_FIELD_NUMBER:
            content = memoryview(data)[each.start : each.end]
        else:
            header += data[each.tag_start : each.end]
    try:
        return content, _Operation.FromString(header)
    except DecodeError as error:
        raise invalid_request(str(error)) from error


def find_compressed_plans(message: base_pb2.AnalyzePlanRequest) -> Iterator[base_pb2.Plan]:
    """Yield the compressed plans of an ``AnalyzePlan`` request."""
    kind = message.WhichOneof("analyze")
    for _, value in () if kind is None else getattr(message, kind).ListFields():
        if isinstance(value, base_pb2.Plan) and value.HasField("compressed_operation"):
            yield value


def decode_message(kind: type[_Request], data: bytes) -> _Request:
    """Decode a message of any size, depth and type.

    Raises:
        GatewayError: If the bytes are no message of this type, or the message is nested too deeply or has too many
            fields.
    """
    try:
        return _decode_shallow(kind, data)
    except DecodeError:
        return _decode_deep(kind, data)


def _decode_shallow(kind: type[_Request], encoded: bytes | memoryview) -> _Request:
    """Decode a message of any size.

    Raises:
        DecodeError: If the message is nested too deeply for protobuf's decoder, or is no message of this type.
        GatewayError: If the message has too many fields.
    """
    data = bytes(encoded)
    check_fields(data, cast("Descriptor", kind.DESCRIPTOR))
    return decode_request(kind, data)


def decode_request(kind: type[_Request], data: bytes) -> _Request:
    """Decode a message as protobuf does, up to 100 levels.

    Raises:
        DecodeError: If the message is nested more deeply, or is no message of this type.
    """
    return kind.FromString(data)


def _decode_deep(kind: type[_Request], encoded: bytes | memoryview) -> _Request:
    message = kind()
    try:
        decode_into(message, bytes(encoded))
    except DecodeError as error:
        raise invalid_request("a message cannot be decoded") from error
    return message


def check_fields(data: bytes, kind: Descriptor) -> None:
    """Check that a message does not have too many fields, at any depth.

    A decoded field can occupy 25 times the memory of its bytes, and the decoder holds the interpreter lock. Small
    messages are not checked, because they cannot have too many fields.

    Raises:
        GatewayError: If the message has too many fields, or is not canonical.
    """
    if len(data) <= INLINE_BYTES:
        return
    try:
        count_fields(data, kind, MAX_FIELDS)
    except GatewayError as error:
        raise _too_large(error) from None


def _too_large(error: GatewayError) -> GatewayError:
    return GatewayError(
        "LODGE_PLAN_TOO_LARGE",
        "54001",
        f"The gateway does not decode this plan: it has more than {MAX_FIELDS:,} fields, or it is not encoded in the "
        "standard way. Store long lists of values in a temporary table, and join with the table.",
        {"reason": error.text, "limit": str(MAX_FIELDS)},
    )
