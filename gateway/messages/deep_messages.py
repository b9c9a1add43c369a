"""Decodes messages that are nested deeper than the decoder of protobuf follows.

The decoder stops after 100 levels. A chain of 50 DataFrame operations is already deeper, whereas Spark accepts more
than 500. All other functions of protobuf accept any depth. Therefore, a deep message is divided: the messages on the
way down are built one by one, and the parts that are shallow enough are decoded as a whole.

Guarantees:

1. A message of at most ``MAX_DEPTH`` levels is decoded. A message that is more than 100 levels deeper is refused.
2. A message in which a single field, or a oneof, occurs twice is refused, because decoders read it differently.
3. Each byte is read at most ``MAX_DEPTH / 64 + log2(size)`` times, wherever the deep parts are.

A deep message can be put into another one only with ``CopyFrom``, or with :func:`append_copies`. An argument of a
constructor, ``MergeFrom``, ``append`` and ``extend`` decode it again.

Source: Spark's ``spark.connect.grpc.marshallerRecursionLimit``, [protobuf-encoding].
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from gateway.errors import GatewayError, invalid_request
from gateway.messages.wire import LENGTH, MAX_DEPTH, Field, read_fields

_LEVELS = 64
"""After so many levels, the rest of a deep message is tried as a whole. The decoder follows more."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A message that was not decoded yet.

    Attributes:
        message: The message, in its place. It is empty.
        start: Offset of the first byte.
        end: Offset after the last byte.
        depth: How many messages contain it.
        is_main: Whether it is the largest of the messages beside it. It is then the most likely to be deep.
    """

    message: Message
    start: int
    end: int
    depth: int = 0
    is_main: bool = False

    @property
    def is_tried(self) -> bool:
        """Whether to try to decode the message as a whole."""
        return not self.is_main or self.depth % _LEVELS == 0


def decode_into(message: Message, data: bytes) -> None:
    """Decode a message of any depth into an empty message.

    Raises:
        DecodeError: If the bytes are not a message of this type.
        GatewayError: If the message is too deep, or a part of it has two meanings.
    """
    pending = [_Part(message, 0, len(data))]  # tried first as a whole
    while pending:
        part = pending.pop()
        if part.depth > MAX_DEPTH:
            raise _too_deep()
        if not (part.is_tried and _decode(part, data)):
            pending += _divide(part, data)


def append_copies(container: Any, messages: Iterable[Message]) -> None:
    """Append copies of messages of any depth to a repeated field."""
    for each in messages:
        container.add().CopyFrom(each)


def _decode(part: _Part, data: bytes) -> bool:
    """Decode a part as a whole. Return whether it was shallow enough."""
    try:
        part.message.MergeFromString(data[part.start : part.end])
    except DecodeError:
        part.message.Clear()
        return False
    return True


def _divide(part: _Part, data: bytes) -> list[_Part]:
    """Decode the shallow fields of a part, and return the messages in the others."""
    flat: list[bytes] = []
    inner: list[tuple[Any, Field]] = []
    seen: set[str] = set()
    known_fields = part.message.DESCRIPTOR.fields_by_number
    for field in read_fields(data, part.start, part.end):
        known = known_fields.get(field.number)
        if known is not None and not known.is_repeated:
            name = known.full_name if known.containing_oneof is None else known.containing_oneof.full_name
            if name in seen:
                raise invalid_request(f"[{name}] occurs twice in a message")
            seen.add(name)
        if known is None or known.message_type is None or field.wire_type != LENGTH:
            flat.append(data[field.tag_start : field.end])
        else:
            inner.append((known, field))
    main = max(inner, key=lambda each: each[1].end - each[1].start, default=None)
    if main is not None and not main[0].is_repeated:  # otherwise, its place among the others would be lost
        beside = [data[field.tag_start : field.end] for known, field in inner if field is not main[1]]
        try:
            part.message.MergeFromString(b"".join(flat + beside))
        except DecodeError:
            part.message.Clear()  # one of them is deep too
        else:
            return list(_child(part, *main, data, is_main=True))
    part.message.MergeFromString(b"".join(flat))
    return [each for known, field in inner for each in _child(part, known, field, data, is_main=(known, field) == main)]


def _child(part: _Part, known: Any, field: Field, data: bytes, *, is_main: bool) -> Iterator[_Part]:
    """Create the message of a field in its place. Decode the entry of a map whose values are no messages.

    Args:
        part: The part that contains the field.
        known: The descriptor of the field.
        field: The field.
        data: The encoded message.
        is_main: Whether the message is the largest of the messages beside it.
    """
    value = getattr(part.message, known.name)
    if not known.message_type.GetOptions().map_entry:
        if known.is_repeated:
            value = value.add()
        else:
            value.SetInParent()
        yield _Part(value, field.start, field.end, part.depth + 1, is_main)
        return
    if known.message_type.fields_by_name["value"].message_type is None:
        part.message.MergeFromString(data[field.tag_start : field.end])
        return
    entry = read_fields(data, field.start, field.end)
    if [each.number for each in entry] != [1, 2] or entry[1].wire_type != LENGTH:
        raise invalid_request(f"an entry of [{known.full_name}] is not a key and a value")
    decoded: Any = GetMessageClass(known.message_type).FromString(data[entry[0].tag_start : entry[0].end])
    key = decoded.key
    if key in value:
        raise invalid_request(f"[{known.full_name}] has two values for a key")
    yield _Part(value[key], entry[1].start, entry[1].end, part.depth + 2, is_main)


def _too_deep() -> GatewayError:
    return GatewayError(
        "LODGE_PLAN_TOO_DEEP",
        "54001",
        f"The plan has more than {MAX_DEPTH:,} levels. Split it: create a temporary view of a part with "
        "df.createOrReplaceTempView(...), and continue with spark.table(...).",
    )
