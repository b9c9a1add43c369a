"""Splits plans that are nested too deeply to decode.

A chain of 50 DataFrame operations is already deeper than Python's decoder allows, whereas Spark accepts more than 500.
The names in such a plan must be resolved too. Therefore ``DeepPlan`` walks down the encoded plan to the parts that are
shallow enough to decode. After the caller has changed these parts, ``DeepPlan`` inserts them into the encoded plan
again.

Guarantees:

1. Only changed parts, and the lengths of the messages that contain them, differ from the original bytes.
2. If a plan cannot be split, :class:`UnreadablePlanError` is raised. This includes requests that contain a compressed
   plan beside a deep plan.
3. A plan with bytes that other decoders may read differently is refused.

Source: Spark's ``spark.connect.grpc.marshallerRecursionLimit``, [protobuf-encoding].
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from pyspark.sql.connect.proto import base_pb2, commands_pb2, relations_pb2

from gateway.messages.wire import LENGTH, encode_varint, read_fields
from gateway.names.plan_messages import fields_with_names
from gateway.plans.plan_decoding import UnreadablePlanError

_MAX_BYTES = 1024 * 1024
_COMMAND = commands_pb2.Command.DESCRIPTOR
_SQL_COMMAND = commands_pb2.SqlCommand.DESCRIPTOR
_WITH_RELATIONS = relations_pb2.WithRelations.DESCRIPTOR
_ALIAS = relations_pb2.SubqueryAlias.DESCRIPTOR


@dataclass(slots=True)
class _Node:
    """A message on the path to the decoded parts, or a decoded part.

    Attributes:
        kind: The type of the message.
        parent: The index of the node that contains the message. The request itself has -1.
        tag_start: Offset of the tag of the message.
        length_start: Offset of the length of the message.
        start: Offset of the first byte of the content.
        end: Offset after the last byte of the content.
        message: The decoded message if this node is a part. None otherwise.
        growth_bytes: How many bytes longer the content has become.
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
        aliases: The aliases that are defined in the plan outside the decoded parts.

    Raises:
        UnreadablePlanError: If the request is too large, does not contain a plan, or is nested in an unsupported way.
        GatewayError: If a message that contains the parts is not canonical. Other decoders may read it differently.
    """

    def __init__(self, request: bytes, kind: type[Message]) -> None:
        if len(request) > _MAX_BYTES:
            raise UnreadablePlanError(request)
        self._data = request
        self._nodes = [_Node(cast("Descriptor", kind.DESCRIPTOR), -1, 0, 0, 0, len(request))]
        self.aliases: list[str] = []
        position = 0
        while position < len(self._nodes):
            self._split(position)
            position += 1

    @property
    def parts(self) -> Sequence[Message]:
        """The parts of the plan that are shallow enough to decode."""
        return [node.message for node in self._nodes if node.message is not None]

    def decode_command(self) -> commands_pb2.Command | None:
        """Decode the command of the plan without its relations and expressions.

        Returns:
            The command. None if the plan is a query.
        """
        index = next((i for i, node in enumerate(self._nodes) if node.kind is _COMMAND), None)
        operation = next((node for node in self._nodes if index is not None and node.parent == index), None)
        if operation is None:
            return None
        left_out = fields_with_names(operation.kind)
        pieces, position = [], operation.start
        for field in read_fields(self._data, operation.start, operation.end):
            if field.number in left_out and field.wire_type == LENGTH:
                pieces.append(self._data[position : field.tag_start])
                position = field.end
        content = b"".join([*pieces, self._data[position : operation.end]])
        encoded = self._data[operation.tag_start : operation.length_start] + encode_varint(len(content)) + content
        return commands_pb2.Command.FromString(encoded)

    def encode(self) -> bytes:
        """Encode the request with the current content of its parts."""
        edits: list[tuple[int, int, bytes]] = []
        for node in reversed(self._nodes):
            if node.message is not None:
                content = node.message.SerializeToString()
                edits.append((node.start, node.end, content))
                node.growth_bytes = len(content) - (node.end - node.start)
            if node.parent < 0 or node.growth_bytes == 0:
                continue
            length = encode_varint(node.end - node.start + node.growth_bytes)
            edits.append((node.length_start, node.start, length))
            parent = self._nodes[node.parent]
            parent.growth_bytes += node.growth_bytes + len(length) - (node.start - node.length_start)
        pieces, position = [], 0
        for start, end, content in sorted(edits):
            pieces += [self._data[position:start], content]
            position = end
        return b"".join([*pieces, self._data[position:]])

    def _split(self, index: int) -> None:
        """Decode a node, or append its child messages that can contain names."""
        node = self._nodes[index]
        is_command = node.kind is _COMMAND  # decode_command needs this node, even if it is shallow
        if node.kind is _SQL_COMMAND:
            raise UnreadablePlanError(self._data)
        if index > 0 and not is_command and self._decode(node):
            return
        if node.kind is _WITH_RELATIONS:
            raise UnreadablePlanError(self._data)
        followed = fields_with_names(node.kind)
        count = len(self._nodes)
        for field in read_fields(self._data, node.start, node.end):
            number, wire_type, tag_start, length_start, start, end = field
            if wire_type != LENGTH:
                continue
            kind = node.kind.fields_by_number[number].message_type if number in followed else None
            if kind is not None:
                self._nodes.append(_Node(kind, index, tag_start, length_start, start, end))
            elif node.kind is _ALIAS:
                self.aliases.append(self._data[start:end].decode(errors="replace"))
        if len(self._nodes) == count and not is_command:
            raise UnreadablePlanError(self._data)

    def _decode(self, node: _Node) -> bool:
        try:
            node.message = GetMessageClass(node.kind).FromString(self._data[node.start : node.end])
        except DecodeError:
            return False
        if isinstance(node.message, base_pb2.Plan) and node.message.HasField("compressed_operation"):
            raise UnreadablePlanError(self._data)
        return True
