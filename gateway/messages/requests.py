"""Reads the top-level fields of requests.

The gateway reads each request once, into a :class:`Request`. The other modules use this value, and do not search the
bytes again. A request can contain 100 MB of data, or a plan that is nested too deeply to decode. Therefore only its
top-level fields are read. Every request of ``SparkConnectService`` has ``session_id`` as field 1 and ``user_context``
as field 2, including requests of newer Spark versions.

Guarantees:

1. The gateway and Spark read the same values from a request. The gateway refuses a request if its top-level fields or
   its user context are not canonical (:mod:`gateway.messages.wire`), if a singular field is repeated, or if a known
   field has the wrong wire type.
2. If an authentication method is configured, :attr:`Request.data` contains exactly one user context, which the gateway
   made from the identity. The gateway uses nothing from the client's user context.
3. Reading a request takes a few milliseconds at most, regardless of its size, and copies only short fields. Rewriting
   the user context copies the request once. The event loop copies later messages of a stream, so their size is limited.
4. A request with an invalid id still has a client type, because the client type determines the form of the error.

Source: [spark-connect-proto base.proto], [protobuf-encoding].
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message
from pyspark.sql.connect.proto import base_pb2

from gateway.errors import MAX_USER_ID_BYTES, invalid_handle, invalid_request, user_id_too_long
from gateway.messages.identity import Identity
from gateway.messages.statement_request import StatementRequest
from gateway.messages.wire import FIXED32, FIXED64, LENGTH, VARINT, Field, encode_field, read_fields
from workspace.identifiers import ClientSessionId, Principal

MAX_FOLLOWING_BYTES = 16 * 1024 * 1024
"""The maximum size of a message after the first one in a stream. Spark's clients upload chunks of 32 KiB."""

_SESSION_ID, _USER_CONTEXT, _USER_ID = 1, 2, 1
_MAX_FIELDS = 4096
_MAX_USER_CONTEXT_FIELDS = 256
_MAX_ID_BYTES = 64
_MAX_CLIENT_TYPE_BYTES = 2048
_MAX_CONTROL_BYTES = 256 * 1024
_CONTROL_METHODS = frozenset(
    {
        *("CloneSession", "ExecutePlan", "FetchErrorDetails", "GetStatus", "Interrupt", "ReattachExecute"),
        *("ReleaseExecute", "ReleaseSession"),
    }
)
"""The methods whose requests are short, apart from the plan. The gateway may keep them longer than the call."""
_MAX_CACHED = 4096
_FIXED64_TYPES = frozenset({FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FIXED64, FieldDescriptor.TYPE_SFIXED64})
_FIXED32_TYPES = frozenset({FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_FIXED32, FieldDescriptor.TYPE_SFIXED32})
_LENGTH_TYPES = frozenset({FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES, FieldDescriptor.TYPE_MESSAGE})

_Message = TypeVar("_Message", bound=Message)
Span = tuple[int, int]
"""The offsets of the first byte and after the last byte."""


class SessionKey(NamedTuple):
    """The identity of a session.

    A client session id is unique only among the sessions of one principal. Each request looks up its key several times,
    so the key is a tuple, which hashes and compares faster than a dataclass.
    """

    principal: Principal
    client_session_id: ClientSessionId


class Request(NamedTuple):
    """A request of a client.

    Attributes:
        method: The name of the method, for example ``ExecutePlan``.
        identity: The authenticated client. None if no authentication method is configured.
        key: The session.
        operation_id: The operation that the request starts or refers to. Empty if there is none.
        client_type: The end of the client type, which contains the versions. Users can choose the beginning.
        tags: The operation tags of an ``ExecutePlan`` request.
        data: The encoded request for the backend.
        user_context_span: The span of the user context in :attr:`data`. None if the request has no user context.
        plan_tag_start: The offset of the tag of the plan in :attr:`data`.
        plan_span: The span of the plan in :attr:`data`. None if the request has no plan.
        continues_session: Whether the client has received a response in this session before.
    """

    method: str
    identity: Identity | None
    key: SessionKey
    operation_id: str
    client_type: str
    tags: tuple[str, ...]
    data: bytes
    user_context_span: Span | None
    plan_tag_start: int
    plan_span: Span | None
    continues_session: bool

    def __repr__(self) -> str:
        """Return a text without the data of the client, for tracebacks and logs."""
        return f"Request(method={self.method!r}, key={self.key!r}, operation_id={self.operation_id!r})"

    @property
    def plan(self) -> memoryview | None:
        """The encoded plan of an ``ExecutePlan`` request. None if the request has no plan."""
        return None if self.plan_span is None else memoryview(self.data)[slice(*self.plan_span)]

    @property
    def user_context(self) -> base_pb2.UserContext:
        """The user context for the backend."""
        return _decode(
            base_pb2.UserContext, b"" if self.user_context_span is None else self.data[slice(*self.user_context_span)]
        )

    def decode(self, kind: type[_Message]) -> _Message:
        """Return the decoded request.

        Raises:
            GatewayError: If the bytes are not a request of this kind.
        """
        return _decode(kind, self.data)

    def read_statement(self) -> StatementRequest:
        """Return what Lodge needs of an ``ExecutePlan`` request.

        This also works for plans that cannot be decoded.

        Raises:
            GatewayError: If the rest of the request cannot be decoded.
        """
        data = self.data
        if self.plan_span is not None:
            data = data[: self.plan_tag_start] + data[self.plan_span[1] :]
        return StatementRequest.read(_decode(base_pb2.ExecutePlanRequest, data))

    def following(self, data: bytes) -> bytes:
        """Return the bytes for the backend of a later message in the stream that this request starts.

        A later message may omit the session.

        Raises:
            GatewayError: If the message is invalid, names another session, or has more than
                :data:`MAX_FOLLOWING_BYTES`.
        """
        if len(data) > MAX_FOLLOWING_BYTES:
            raise invalid_request(
                f"a message after the first message of a stream has more than {MAX_FOLLOWING_BYTES:,} bytes"
            )
        index = index_request(data, self.method)
        session_id = index.id(_SESSION_ID)
        if session_id and _text(session_id) != self.key.client_session_id:
            raise invalid_request("a message names another session than the first message of its stream")
        return data if self.identity is None else index.rewrite(self.identity.principal).data

    def with_plan(self, plan: bytes) -> "Request":
        """Return the request with another encoded plan.

        Raises:
            LookupError: If the request has no plan.
        """
        if self.plan_span is None:
            raise LookupError("The request has no plan.")
        encoded = encode_field(base_pb2.ExecutePlanRequest.PLAN_FIELD_NUMBER, plan)
        data = b"".join([self.data[: self.plan_tag_start], encoded, self.data[self.plan_span[1] :]])
        return self.with_data(data)

    def with_data(self, data: bytes) -> "Request":
        """Return the request with other bytes for the backend.

        The offsets of the former bytes do not apply to the new bytes. Therefore the new request must only be sent.
        """
        return self._replace(data=data, user_context_span=None, plan_span=None)


class Rewritten(NamedTuple):
    """A request with another user context.

    Attributes:
        data: The encoded request.
        user_context: The span of the user context.
        moved_bytes: How many bytes the fields after the user context have moved.
    """

    data: bytes
    user_context: Span
    moved_bytes: int


class RequestIndex:
    """The fields of a request that are not checked yet.

    Args:
        data: The encoded request.
        method: The name of the method.

    Attributes:
        client_type: The end of the client type. See :attr:`Request.client_type`.

    Raises:
        GatewayError: If the bytes are not a request, or not canonical.
    """

    __slots__ = ("_data", "_fields", "_method", "_shape", "_tags", "client_type")

    def __init__(self, data: bytes, method: str) -> None:
        self._data = data
        self._method = method
        self._shape = shape = _SHAPES.get(method, _UNKNOWN_METHOD)
        fields = read_fields(data, max_fields=_MAX_FIELDS)
        self._fields = found = _check(fields, shape)
        self._tags = tuple(each for each in fields if each.number == shape.tags) if shape.tags else ()
        client_type = found.get(shape.client_type)
        self.client_type = ""
        if client_type is not None:
            start = max(client_type.start, client_type.end - _MAX_CLIENT_TYPE_BYTES)
            self.client_type = data[start : client_type.end].decode(errors="replace")

    def to_request(self, identity: Identity | None = None) -> Request:
        """Return the checked request, with the identity as its user context.

        Args:
            identity: The authenticated client. None if no authentication method is configured. In this case, the user
                context of the client applies, and the bytes remain unchanged.

        Raises:
            GatewayError: If the session id is not a UUID, another id is too long or not UTF-8, or the request is too
                large without its plan.
        """
        shape, data = self._shape, self._data
        context, plan = self._fields.get(_USER_CONTEXT), self._fields.get(shape.plan)
        size_bytes = len(data) - (0 if plan is None else plan.end - plan.start)
        if self._method in _CONTROL_METHODS and size_bytes > _MAX_CONTROL_BYTES:
            raise invalid_request(f"the request has more than {_MAX_CONTROL_BYTES:,} bytes without its plan")
        principal = self._user_id(context) if identity is None else identity.principal
        key = SessionKey(principal, _session_id(self.id(_SESSION_ID)))
        operation_id = _text(self.id(shape.operation_id))
        tags = tuple(_text(data[tag.start : tag.end]) for tag in self._tags)
        observed = self._fields.get(shape.observed)
        span = None if context is None else (context.start, context.end)
        plan_tag_start, plan_span = (0, None) if plan is None else (plan.tag_start, (plan.start, plan.end))
        if identity is not None:
            data, span, moved = self.rewrite(principal)
            if plan_span is not None and (context is None or plan_tag_start > context.tag_start):
                plan_tag_start, plan_span = plan_tag_start + moved, (plan_span[0] + moved, plan_span[1] + moved)
        return Request(
            method=self._method,
            identity=identity,
            key=key,
            operation_id=operation_id,
            client_type=self.client_type,
            tags=tags,
            data=data,
            user_context_span=span,
            plan_tag_start=plan_tag_start,
            plan_span=plan_span,
            continues_session=observed is not None and observed.end > observed.start,
        )

    def rewrite(self, principal: Principal) -> "Rewritten":
        """Return the request with a user context that contains only the principal."""
        context = self._fields.get(_USER_CONTEXT)
        start, end = (0, 0) if context is None else (context.tag_start, context.end)
        encoded, content_bytes = _user_context(principal)
        span = (start + len(encoded) - content_bytes, start + len(encoded))
        if self._data[start:end] == encoded:
            return Rewritten(self._data, span, 0)
        view = memoryview(self._data)
        return Rewritten(b"".join([view[:start], encoded, view[end:]]), span, len(encoded) - (end - start))

    def id(self, number: int) -> bytes:
        """Return the bytes of an id. Empty if it is missing.

        Raises:
            GatewayError: If the id is too long.
        """
        found = self._fields.get(number)
        if found is None:
            return b""
        if found.end - found.start > _MAX_ID_BYTES:
            raise invalid_handle(self._data[found.start : found.start + _MAX_ID_BYTES].decode(errors="replace"))
        return self._data[found.start : found.end]

    def _user_id(self, context: Field | None) -> Principal:
        if context is None:
            return Principal("")
        inner = read_fields(self._data, context.start, context.end, max_fields=_MAX_USER_CONTEXT_FIELDS)
        found = _check(inner, _USER_CONTEXT_SHAPE).get(_USER_ID)
        if found is None:
            return Principal("")
        if found.end - found.start > MAX_USER_ID_BYTES:
            raise user_id_too_long(found.end - found.start)
        return Principal(_text(self._data[found.start : found.end]))


def index_request(data: bytes, method: str = "") -> RequestIndex:
    """Return the index of a request.

    Args:
        data: The encoded request.
        method: The name of the method. Of unknown methods, only the session and the user context are read.

    Raises:
        GatewayError: If the bytes are not a request, or not canonical.
    """
    return RequestIndex(data, method)


def read_request(data: bytes, method: str = "", identity: Identity | None = None) -> Request:
    """Return the request in encoded bytes.

    Raises:
        GatewayError: If the bytes are not a request, are not canonical, or contain an invalid id.
    """
    return index_request(data, method).to_request(identity)


@dataclass(frozen=True, slots=True)
class _Shape:
    """The known top-level fields of a message.

    Attributes:
        wire_types: The wire type of each known field.
        singular: The numbers of the fields that can occur only once.
        operation_id: The number of the operation id. 0 if there is none.
        client_type: The number of the client type. 0 if there is none.
        tags: The number of the operation tags. 0 if there are none.
        plan: The number of the plan. 0 if there is none.
        observed: The number of the id of the session at the backend that the client has observed. 0 if there is none.
    """

    wire_types: Mapping[int, int]
    singular: frozenset[int]
    operation_id: int = 0
    client_type: int = 0
    tags: int = 0
    plan: int = 0
    observed: int = 0


def _shape(message: Any) -> _Shape:
    descriptor: Descriptor = message
    known = [each for each in descriptor.fields if not (each.is_repeated and each.type not in _LENGTH_TYPES)]
    numbers = {each.name: each.number for each in descriptor.fields}
    is_execution = descriptor is base_pb2.ExecutePlanRequest.DESCRIPTOR
    has_operation = is_execution or descriptor in _REFER_TO_OPERATION
    return _Shape(
        wire_types={each.number: _wire_type(each) for each in known},
        singular=frozenset(each.number for each in known if not each.is_repeated),
        operation_id=numbers["operation_id"] if has_operation else 0,
        client_type=numbers.get("client_type", 0),
        tags=numbers["tags"] if is_execution else 0,
        plan=numbers["plan"] if is_execution else 0,
        observed=numbers.get("client_observed_server_side_session_id", 0),
    )


def _wire_type(descriptor: FieldDescriptor) -> int:
    if descriptor.type in _LENGTH_TYPES:
        return LENGTH
    if descriptor.type in _FIXED64_TYPES:
        return FIXED64
    return FIXED32 if descriptor.type in _FIXED32_TYPES else VARINT


def _check(fields: list[Field], shape: _Shape) -> Mapping[int, Field]:
    """Return the singular fields by number.

    Raises:
        GatewayError: If a singular field is repeated, or a known field has the wrong wire type.
    """
    found: dict[int, Field] = {}
    wire_types, singular = shape.wire_types, shape.singular
    for each in fields:
        number, wire_type = each[0], each[1]
        expected = wire_types.get(number)
        if expected is None:
            continue
        if wire_type != expected:
            raise invalid_request(f"field {number} has the wrong wire type {wire_type}")
        if number in singular:
            if number in found:
                raise invalid_request(f"field {number} occurs more than once")
            found[number] = each
    return found


@lru_cache(maxsize=_MAX_CACHED)
def _session_id(data: bytes) -> ClientSessionId:
    text = _text(data)
    try:
        canonical = str(uuid.UUID(text)) == text.lower()
    except ValueError:
        canonical = False
    if not canonical:
        raise invalid_handle(text)
    return ClientSessionId(text)


@lru_cache(maxsize=_MAX_CACHED)
def _user_context(principal: Principal) -> tuple[bytes, int]:
    """Return the encoded field with the user context of a principal, and the size of the user context in it."""
    content = base_pb2.UserContext(user_id=principal, user_name=principal).SerializeToString()
    return encode_field(_USER_CONTEXT, content), len(content)


def _decode(kind: type[_Message], data: bytes) -> _Message:
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise invalid_request(str(error)) from error


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise invalid_request("a string is not valid UTF-8") from None


_METHODS = base_pb2.DESCRIPTOR.services_by_name["SparkConnectService"].methods
_REFER_TO_OPERATION = frozenset({base_pb2.ReattachExecuteRequest.DESCRIPTOR, base_pb2.ReleaseExecuteRequest.DESCRIPTOR})
_SHAPES: Mapping[str, _Shape] = MappingProxyType({method.name: _shape(method.input_type) for method in _METHODS})
_UNKNOWN_METHOD = _Shape(
    wire_types={_SESSION_ID: LENGTH, _USER_CONTEXT: LENGTH},
    singular=frozenset({_SESSION_ID, _USER_CONTEXT}),
)
_USER_CONTEXT_SHAPE = _shape(base_pb2.UserContext.DESCRIPTOR)
