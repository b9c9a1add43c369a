"""Plans that are nested deeper than the decoder allows, split by their bytes.

A chain of fifty operations on a DataFrame is deeper than Python's decoder allows. Spark accepts more than five hundred.
The names in such a plan must resolve all the same. ``DeepPlan`` therefore walks the encoded form down to the parts that
are shallow enough to decode, and puts changed parts back in their place.

Guarantees:

1. Only the changed parts, and the lengths of the messages around them, differ from the original bytes.
2. A plan that cannot be split raises :class:`UnreadablePlanError`.

Source: Spark's ``spark.connect.grpc.marshallerRecursionLimit``, [protobuf-encoding].
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
    """A message on the way down, or a decoded part at the end of it.

    Attributes:
        kind: The type of the message.
        parent: The index of the node that contains it; -1 for the request.
        tag_start: Offset of its tag.
        length_start: Offset of its length.
        start: Offset of its first byte.
        end: Offset after its last byte.
        message: The decoded message, if this is a part.
        growth_bytes: How much longer its content has become.
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
    """A request whose plan is too deep to decode.

    Args:
        request: The encoded request.
        kind: The type of the request.

    Attributes:
        aliases: The aliases that the plan defines above its parts.

    Raises:
        UnreadablePlanError: If the request is too large, contains no plan, or is deep at an unexpected place.
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
                self._split(position)
                position += 1
        except GatewayError as error:
            raise UnreadablePlanError(request) from error

    @property
    def parts(self) -> Sequence[Message]:
        """The parts of the plan that are shallow enough to decode."""
        return [node.message for node in self._nodes if node.message is not None]

    def decode_command(self) -> commands_pb2.Command | None:
        """Decode the plan's command without its relations and expressions.

        Returns:
            The command, or None if the plan is a query.
        """
        index = next((i for i, node in enumerate(self._nodes) if node.kind is _COMMAND), None)
        operation = next((node for node in self._nodes if index is not None and node.parent == index), None)
        if operation is None:
            return None
        left_out = fields_with_names(operation.kind)
        pieces, position = [], operation.start
        for number, tag_start, _, _, end in field_spans(self._view, operation.start, operation.end):
            if number in left_out:
                pieces.append(self._data[position:tag_start])
                position = end
        content = b"".join([*pieces, self._data[position : operation.end]])
        encoded = self._data[operation.tag_start : operation.length_start] + varint(len(content)) + content
        return commands_pb2.Command.FromString(encoded)

    def encode(self) -> bytes:
        """Return the request with its parts as they are now."""
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

    def _split(self, index: int) -> None:
        """Decode a node, or append the messages in it that may contain names."""
        node = self._nodes[index]
        is_command = node.kind is _COMMAND  # decode_command needs it, even if it is shallow
        if node.kind is _SQL_COMMAND:
            raise UnreadablePlanError(self._data)
        if index > 0 and not is_command and self._decode(node):
            return
        if node.kind is _WITH_RELATIONS:
            raise UnreadablePlanError(self._data)
        followed = fields_with_names(node.kind)
        count = len(self._nodes)
        for number, tag_start, length_start, start, end in field_spans(self._view, node.start, node.end):
            kind = node.kind.fields_by_number[number].message_type if number in followed else None
            if kind is not None:
                self._nodes.append(_Node(kind, index, tag_start, length_start, start, end))
            elif node.kind is _ALIAS:
                self.aliases.append(bytes(self._view[start:end]).decode(errors="replace"))
        if len(self._nodes) == count and not is_command:
            raise UnreadablePlanError(self._data)

    def _decode(self, node: _Node) -> bool:
        try:
            node.message = GetMessageClass(node.kind).FromString(self._data[node.start : node.end])
        except DecodeError:
            return False
        return True
