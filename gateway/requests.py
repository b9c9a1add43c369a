"""Reads the head of an encoded request without decoding the rest.

The head consists of the fields that identify the session and the operation. A request can contain 100 MB of data, or a
plan that is nested too deeply to decode, whereas the gateway needs only a few short top-level fields. Every request of
``SparkConnectService`` has ``session_id`` as field 1 and ``user_context`` as field 2, including requests of newer Spark
versions.

Guarantees:

1. Reading the head passes over the request once, and copies only the fields that are returned. Their lengths are
   checked before they are copied.
2. A head with an invalid id still has the client type, because the client type determines the form of the error.

Source: [spark-connect-proto base.proto], [protobuf-encoding].
"""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from pyspark.sql.connect.proto import base_pb2

from gateway.errors import MAX_USER_ID_BYTES, invalid_handle, invalid_request, user_id_too_long
from workspace.identifiers import ClientSessionId, Principal

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_MAX_VARINT_BYTES = 10
_SESSION_ID, _USER_CONTEXT, _USER_ID = 1, 2, 1
_MAX_ID_BYTES = 64
_MAX_CLIENT_TYPE_BYTES = 2048
_CLIENT_TYPE = {
    method.name: method.input_type.fields_by_name["client_type"].number
    for method in base_pb2.DESCRIPTOR.services_by_name["SparkConnectService"].methods
}
_OPERATION_ID = {"ExecutePlan": 6, "ReattachExecute": 3, "ReleaseExecute": 3}


@dataclass(frozen=True, slots=True)
class SessionKey:
    """The identity of a session.

    A client session id is unique only among the sessions of one principal.
    """

    principal: Principal
    client_session_id: ClientSessionId


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a request, not copied and not checked yet."""

    _session_id: memoryview
    _user_id: memoryview
    _operation_id: memoryview
    _client_type: memoryview

    @property
    def key(self) -> SessionKey:
        """The principal and the client session id.

        Raises:
            GatewayError: If the session id is not a UUID, or the user id is too long.
        """
        if len(self._user_id) > MAX_USER_ID_BYTES:
            raise user_id_too_long(len(self._user_id))
        return _key(_id(self._session_id), bytes(self._user_id))

    @property
    def operation_id(self) -> str:
        """The operation that the request starts or refers to. Empty if the request does not contain an operation id.

        Raises:
            GatewayError: If the operation id is too long or not UTF-8.
        """
        return _text(_id(self._operation_id))

    @property
    def client_type(self) -> str:
        """The end of the client type, which contains the versions. Users can choose the beginning."""
        return bytes(self._client_type[-_MAX_CLIENT_TYPE_BYTES:]).decode(errors="replace")


def head(data: bytes, method: str = "") -> Head:
    """Return the head of a request.

    If a field is repeated, its last value is used, as in Spark.

    Args:
        data: The encoded request.
        method: The name of the method. The heads of unknown methods have neither an operation id nor a client type.

    Raises:
        GatewayError: If the bytes are not a request.
    """
    operation_field, client_type_field = _OPERATION_ID.get(method), _CLIENT_TYPE.get(method)
    session_id = user_id = operation_id = client_type = memoryview(b"")
    for number, value in fields(memoryview(data)):
        if number == _SESSION_ID:
            session_id = value
        elif number == _USER_CONTEXT:
            for field, text in fields(value):
                if field == _USER_ID:
                    user_id = text
        elif number == operation_field:
            operation_id = value
        elif number == client_type_field:
            client_type = value
    return Head(session_id, user_id, operation_id, client_type)


def _id(value: memoryview) -> bytes:
    if len(value) > _MAX_ID_BYTES:
        raise invalid_handle(bytes(value[:_MAX_ID_BYTES]).decode(errors="replace"))
    return bytes(value)


@lru_cache(maxsize=4096)
def _key(session_id: bytes, user_id: bytes) -> SessionKey:
    text = _text(session_id)
    try:
        canonical = str(uuid.UUID(text)) == text.lower()
    except ValueError:
        canonical = False
    if not canonical:
        raise invalid_handle(text)
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
