"""Plans that are nested deeper than the decoder follows, taken apart by their bytes.

Why it exists: a chain of fifty operations on a DataFrame is deeper than Python's decoder follows, and Spark takes more
than five hundred. Names in it must resolve all the same. So the way down is walked in the encoded form, until what is
left below is shallow enough to be decoded; what is changed there is put back in its place.

Guarantees:

1. Nothing but the parts that were changed, and the lengths of what they stand in, differs from the bytes that came.
2. What cannot be taken apart so is an :class:`UnreadablePlanError`, never a guess.

Source: Spark: ``spark.connect.grpc.marshallerRecursionLimit``; the Protocol Buffers encoding document.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from pyspark.sql.connect.proto import commands_pb2, relations_pb2

from gateway.errors import GatewayError
from gateway.names.plan_messages import fields_with_names
from gateway.plan_decoding import INLINE_BYTES, UnreadablePlanError
from gateway.requests import field_spans, varint

_COMMAND = commands_pb2.Command.DESCRIPTOR
_SQL_COMMAND = commands_pb2.SqlCommand.DESCRIPTOR
_WITH_RELATIONS = relations_pb2.WithRelations.DESCRIPTOR
_ALIAS = relations_pb2.SubqueryAlias.DESCRIPTOR


@dataclass(slots=True)
class _Node:
    """A message on the way down, or the end of it.

    Attributes:
        kind: Of the message.
        parent: The index of the node that it stands in; -1 for the request.
        tag_start: Offset of its tag.
        length_start: Offset of its length.
        start: Offset of its first byte.
        end: Offset after its last byte.
        message: Decoded, if this is where the way ends.
        growth_bytes: By how much its content has become longer.
    """

    kind: Descriptor
    parent: int
    tag_start: int
    length_start: int
    start: int
    end: int
    message: Message | None = None
    growth_bytes: int = 0


class DeepPlan:
    """A request whose plan is too deep.

    Args:
        request: The encoded request.
        kind: Of the request.

    Attributes:
        aliases: The names that the plan itself defines on the way down.

    Raises:
        UnreadablePlanError: It is too large, no plan, or deep where it is not understood.
    """

    def __init__(self, request: bytes, kind: type[Message]) -> None:
        if len(request) > INLINE_BYTES:
            raise UnreadablePlanError(request)
        self._data = request
        self._view = memoryview(request)
        self._nodes = [_Node(cast("Descriptor", kind.DESCRIPTOR), -1, 0, 0, 0, len(request))]
        self.aliases: list[str] = []
        try:
            position = 0
            while position < len(self._nodes):
                self._follow(position)
                position += 1
        except GatewayError as error:
            raise UnreadablePlanError(request) from error

    @property
    def parts(self) -> Sequence[Message]:
        """What is left of the plan below the way down."""
        return [node.message for node in self._nodes if node.message is not None]

    def command(self) -> commands_pb2.Command | None:
        """The plan's command without what may be too deep in it; None if it is a query."""
        index = next((i for i, node in enumerate(self._nodes) if node.kind is _COMMAND), None)
        operation = next((node for node in self._nodes if index is not None and node.parent == index), None)
        if operation is None:
            return None
        held = fields_with_names(operation.kind)
        spans = field_spans(self._view, operation.start, operation.end)
        left_out = [(tag_start, end) for number, tag_start, _, _, end in spans if number in held]
        pieces, position = [], operation.start
        for tag_start, end in left_out:
            pieces.append(self._data[position:tag_start])
            position = end
        content = b"".join([*pieces, self._data[position : operation.end]])
        encoded = self._data[operation.tag_start : operation.length_start] + varint(len(content)) + content
        return commands_pb2.Command.FromString(encoded)

    def encoded(self) -> bytes:
        """The request with its parts as they are now."""
        edits: list[tuple[int, int, bytes]] = []
        for node in reversed(self._nodes):
            if node.message is not None:
                content = node.message.SerializeToString()
                edits.append((node.start, node.end, content))
                node.growth_bytes = len(content) - (node.end - node.start)
            if node.parent < 0 or node.growth_bytes == 0:
                continue
            length = varint(node.end - node.start + node.growth_bytes)
            edits.append((node.length_start, node.start, length))
            parent = self._nodes[node.parent]
            parent.growth_bytes += node.growth_bytes + len(length) - (node.start - node.length_start)
        pieces, position = [], 0
        for start, end, content in sorted(edits):
            pieces += [self._data[position:start], content]
            position = end
        return b"".join([*pieces, self._data[position:]])

    def _follow(self, index: int) -> None:
        node = self._nodes[index]
        is_command = node.kind is _COMMAND  # whose names count, even if it is not deep itself
        if node.kind is _SQL_COMMAND:
            raise UnreadablePlanError(self._data)
        if index > 0 and not is_command and self._decode(node):
            return
        if node.kind is _WITH_RELATIONS:
            raise UnreadablePlanError(self._data)
        held = fields_with_names(node.kind)
        before = len(self._nodes)
        for number, tag_start, length_start, start, end in field_spans(self._view, node.start, node.end):
            kind = node.kind.fields_by_number[number].message_type if number in held else None
            if kind is not None:
                self._nodes.append(_Node(kind, index, tag_start, length_start, start, end))
            elif node.kind is _ALIAS:
                self.aliases.append(bytes(self._view[start:end]).decode(errors="replace"))
        if len(self._nodes) == before and not is_command:
            raise UnreadablePlanError(self._data)

    def _decode(self, node: _Node) -> bool:
        try:
            node.message = GetMessageClass(node.kind).FromString(self._data[node.start : node.end])
        except DecodeError:
            return False
        return True
