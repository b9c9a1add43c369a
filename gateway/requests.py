"""Reads the head of an encoded request without decoding the rest.

The head consists of the fields that identify the session and the operation. A request can contain 100 MB of data, or a
plan that is nested too deeply to decode, whereas the gateway needs only a few short top-level fields. Every request of
``SparkConnectService`` has ``session_id`` as field 1 and ``user_context`` as field 2, including requests of newer Spark
versions.

Guarantees:

1. Reading the head copies only the fields that are returned, regardless of the size of the request.
2. The lengths of session ids and user ids are checked before they are cached.

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
    """The identity of a session.

    A client session id is unique only among the sessions of one principal.
    """

    principal: Principal
    client_session_id: ClientSessionId


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a request.

    Attributes:
        key: The principal and the client session id.
        operation_id: The operation that the request starts or refers to. Empty if the request does not contain an
            operation id.
    """

    key: SessionKey
    operation_id: str = ""


def head(data: bytes, operation_field: int | None = None) -> Head:
    """Return the head of a request.

    If a field is repeated, its last value is used, as in Spark.

    Args:
        data: The encoded request.
        operation_field: The field number of the operation id. None if requests of this type have no operation id.

    Raises:
        GatewayError: If the bytes are not a request, the session id is not a UUID, or the user id is too long.
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
    """Return the client type in a request. Empty if there is none."""
    number = _CLIENT_TYPE.get(method)
    found = b""
    try:
        for field, value in fields(memoryview(request)):
            if field == number:
                found = bytes(value[:_MAX_CLIENT_TYPE_BYTES])
    except GatewayError:  # the malformed request is the error that is being handled
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
    """Return the encoded value of a top-level message field. None if it is missing.

    Raises:
        GatewayError: If the field is repeated. In this case, Spark's decoder would merge the messages.
    """
    found = [value for number, value in fields(memoryview(data)) if number == wanted]
    if len(found) > 1:
        raise invalid_request(f"field {wanted} occurs {len(found)} times")
    return found[0] if found else None


FieldSpan = tuple[int, int, int, int, int]
"""The span of a length-delimited field.

The items are the field number and four offsets: the start of the tag, of the length and of the value, and the end of
the value.
"""


def fields(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield the length-delimited fields of a message in order. Skip all other fields.

    Raises:
        GatewayError: If the bytes are not an encoded message.
    """
    for number, _, _, start, end in field_spans(data, 0, len(data)):
        yield number, data[start:end]


def field_spans(data: memoryview, start: int, end: int) -> Iterator[FieldSpan]:
    """Yield the spans of the length-delimited fields of a message.

    The message is between the offsets ``start`` and ``end``.

    Raises:
        GatewayError: If the bytes are not an encoded message.
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
            raise invalid_request(f"field {number} has the unknown wire type {kind}")
    if position > end:
        raise invalid_request("the request is truncated")


def varint(number: int) -> bytes:
    """Encode a number as a variable-length integer."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    result = 0
    for shift in range(0, 7 * _MAX_VARINT_BYTES, 7):
        if position >= len(data):
            raise invalid_request("the request is truncated")
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
        raise invalid_request("a string is not valid UTF-8") from None
