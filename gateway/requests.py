"""The head of a request: the fields that say what it is for, read without decoding the rest.

A request may contain 100 MB of data, or a plan that is nested deeper than a decoder follows. The gateway needs only a
few short fields at its top level. Every request of ``SparkConnectService`` has ``session_id`` as field 1 and
``user_context`` as field 2, also in newer versions of Spark.

Guarantees:

1. Reading a head copies nothing but the fields that it returns, whatever the size of the request.
2. No session id and no user id is cached before its length is checked.

Source: [spark-connect-proto base.proto], [protobuf-encoding].
"""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from pyspark.sql.connect.proto import base_pb2

from gateway.errors import MAX_USER_ID_BYTES, GatewayError, invalid_request, invalid_session_id, user_id_too_long
from workspace.identifiers import ClientSessionId, Principal

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_MAX_VARINT_BYTES = 10
_SESSION_ID, _USER_CONTEXT, _USER_ID = 1, 2, 1
_MAX_SESSION_ID_BYTES = 64
_MAX_CLIENT_TYPE_BYTES = 2048
_CLIENT_TYPE = {
    method.name: method.input_type.fields_by_name["client_type"].number
    for method in base_pb2.DESCRIPTOR.services_by_name["SparkConnectService"].methods
}


@dataclass(frozen=True, slots=True)
class SessionKey:
    """A session's identity: a client's session id is unique per principal only."""

    principal: Principal
    client_session_id: ClientSessionId


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a request.

    Attributes:
        key: The session of the request.
        operation_id: The operation that the request starts or is about; empty if it names none.
    """

    key: SessionKey
    operation_id: str = ""


def head(data: bytes, operation_field: int | None = None) -> Head:
    """Return the head of a request. The last of repeated fields counts, as in Spark.

    Args:
        data: The encoded request.
        operation_field: The number of the field with the operation id; None if the request has no such field.

    Raises:
        GatewayError: The bytes are not a request, the session id is not a UUID, or the user id is too long.
    """
    session_id = user_id = operation_id = b""
    for number, value in fields(memoryview(data)):
        if number == _SESSION_ID:
            session_id = bytes(value)
        elif number == _USER_CONTEXT:
            for field, text in fields(value):
                if field == _USER_ID:
                    user_id = bytes(text)
        elif number == operation_field:
            operation_id = bytes(value)
    if len(user_id) > MAX_USER_ID_BYTES:
        raise user_id_too_long(len(user_id))
    if len(session_id) > _MAX_SESSION_ID_BYTES:
        raise invalid_session_id(session_id[:_MAX_SESSION_ID_BYTES].decode(errors="replace"))
    return Head(_key(session_id, user_id), _text(operation_id))


def client_type_of(method: str, request: bytes) -> str:
    """Return what the client says of itself in a request; empty if the request does not say it."""
    number = _CLIENT_TYPE.get(method)
    found = b""
    try:
        for field, value in fields(memoryview(request)):
            if field == number:
                found = bytes(value[:_MAX_CLIENT_TYPE_BYTES])
    except GatewayError:  # the request is the error
        return ""
    return found.decode(errors="replace")


@lru_cache(maxsize=4096)
def _key(session_id: bytes, user_id: bytes) -> SessionKey:
    text = _text(session_id)
    try:
        canonical = str(uuid.UUID(text)) == text.lower()
    except ValueError:
        canonical = False
    if not canonical:
        raise invalid_session_id(text)
    return SessionKey(Principal(_text(user_id)), ClientSessionId(text))


def message_field(data: bytes, wanted: int) -> memoryview | None:
    """Return the encoded form of a message at the top level.

    Raises:
        GatewayError: The field is repeated. Spark's decoder would merge the messages.
    """
    found = [value for number, value in fields(memoryview(data)) if number == wanted]
    if len(found) > 1:
        raise invalid_request(f"field {wanted} is there {len(found)} times")
    return found[0] if found else None


FieldSpan = tuple[int, int, int, int, int]
"""The number of a length-delimited field, and the offsets of its tag, its length, its value, and after its value."""


def fields(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Return the length-delimited fields of a message in their order, without fields of other kinds.

    Raises:
        GatewayError: The bytes are not an encoded message.
    """
    for number, _, _, start, end in field_spans(data, 0, len(data)):
        yield number, data[start:end]


def field_spans(data: memoryview, start: int, end: int) -> Iterator[FieldSpan]:
    """Return the spans of the length-delimited fields of the message between two offsets.

    Raises:
        GatewayError: The bytes are not an encoded message.
    """
    position = start
    while position < end:
        begin = position
        tag, position = _varint(data, position)
        number, kind = tag >> 3, tag & 7
        if number == 0:
            raise invalid_request("a field has the number 0")
        if kind == _LENGTH:
            length, value = _varint(data, position)
            if value + length > end:
                raise invalid_request(f"field {number} ends after the request")
            yield number, begin, position, value, value + length
            position = value + length
        elif kind == _VARINT:
            _, position = _varint(data, position)
        elif kind in (_FIXED64, _FIXED32):
            position += 8 if kind == _FIXED64 else 4
        else:
            raise invalid_request(f"field {number} has the unknown kind {kind}")
    if position > end:
        raise invalid_request("it is cut off")


def varint(number: int) -> bytes:
    """Return a number as a variable-length integer."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    result = 0
    for shift in range(0, 7 * _MAX_VARINT_BYTES, 7):
        if position >= len(data):
            raise invalid_request("it is cut off")
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
    raise invalid_request("a number has too many bytes")


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise invalid_request("a text is not UTF-8") from None
