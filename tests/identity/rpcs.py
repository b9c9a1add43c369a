"""A request for every RPC of ``SparkConnectService``, and for RPCs that do not exist yet.

Each request claims to come from the user `CLAIMED_USER`, in every place where a request can name a user.
"""

import threading
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message
from google.protobuf.wrappers_pb2 import StringValue
from pyspark.sql.connect.proto import base_pb2

SERVICE = "/spark.connect.SparkConnectService/"
CLAIMED_USER = "claimed-user"
CALL_SECONDS = 60
UNKNOWN_FIELD = b"\xfa\x7f\x03xyz"
"""The field 2047, which no request of this version of Spark has."""

Metadata = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Rpc:
    """An RPC, and how to call it.

    Attributes:
        name: The name of the method.
        request_type: The type of its requests. An unknown RPC has the type of another one.
        streams_requests: Whether the client sends a stream.
        streams_responses: Whether the server sends a stream.
    """

    name: str
    request_type: type[Message]
    streams_requests: bool
    streams_responses: bool
    is_known: bool = True

    def requests(self, session_id: str, *, user: str = CLAIMED_USER) -> Sequence[bytes]:
        """Return encoded requests of a session: one, or three if the client sends a stream.

        Args:
            session_id: The client session id.
            user: The user that the requests claim to come from.
        """
        suffix = b"" if self.is_known else UNKNOWN_FIELD
        number = 3 if self.streams_requests else 1
        return [_request(self, session_id, user).SerializeToString() + suffix for _ in range(number)]

    def call(self, channel: grpc.Channel, requests: Sequence[bytes], metadata: Metadata = ()) -> Sequence[bytes]:
        """Call the RPC and return all responses.

        Raises:
            grpc.RpcError: If the call fails.
        """
        method, arguments = SERVICE + self.name, {"metadata": metadata, "timeout": CALL_SECONDS}
        if self.streams_requests and self.streams_responses:
            return list(channel.stream_stream(method)(iter(requests), **arguments))
        if self.streams_requests:
            return [channel.stream_unary(method)(iter(requests), **arguments)]
        if self.streams_responses:
            return list(channel.unary_stream(method)(requests[0], **arguments))
        return [channel.unary_unary(method)(requests[0], **arguments)]

    def call_without_request(self, channel: grpc.Channel, metadata: Metadata, seconds: float) -> None:
        """Call the RPC, and send no request before the answer.

        Raises:
            grpc.RpcError: If the call fails, or if there is no answer in time.
        """
        silence = threading.Event()

        def nothing() -> Iterator[bytes]:
            silence.wait()
            yield from ()

        try:
            list(channel.stream_stream(SERVICE + self.name)(nothing(), metadata=metadata, timeout=seconds))
        finally:
            silence.set()

    def decode(self, request: bytes) -> Any:
        return self.request_type.FromString(request)


def _known() -> list[Rpc]:
    methods = base_pb2.DESCRIPTOR.services_by_name["SparkConnectService"].methods
    types = {method.name: getattr(base_pb2, method.input_type.name) for method in methods}
    return [Rpc(each.name, types[each.name], each.client_streaming, each.server_streaming) for each in methods]


UNKNOWN = (
    Rpc("UnaryMethodOfTomorrow", base_pb2.ConfigRequest, False, False, is_known=False),
    Rpc("StreamingMethodOfTomorrow", base_pb2.ConfigRequest, True, True, is_known=False),
)
RPCS = (*_known(), *UNKNOWN)
BY_NAME: Mapping[str, Rpc] = {rpc.name: rpc for rpc in RPCS}


def new_session_id() -> str:
    return str(uuid.uuid4())


def user_context(user: str) -> base_pb2.UserContext:
    """Return a user context that names the user in every field."""
    context = base_pb2.UserContext(user_id=user, user_name=user)
    extension = AnyMessage()
    extension.Pack(StringValue(value=user))
    context.extensions.append(extension)
    return context


def _request(rpc: Rpc, session_id: str, user: str) -> Message:
    message: Any = rpc.request_type(session_id=session_id, user_context=user_context(user))
    if rpc.is_known and rpc.name in _FILL:
        _FILL[rpc.name](message)
    return message  # type: ignore[no-any-return]


def _fill_execution(message: Any) -> None:
    message.plan.root.sql.query = "select 1"


def _fill_analysis(message: Any) -> None:
    message.spark_version.SetInParent()


def _fill_config(message: Any) -> None:
    message.operation.get_all.SetInParent()


def _fill_artifacts(message: Any) -> None:
    data = b"content"
    message.batch.artifacts.add(name=f"files/{uuid.uuid4().hex}.txt", data={"data": data, "crc": zlib.crc32(data)})


def _fill_artifact_names(message: Any) -> None:
    message.names.append("files/missing.txt")


def _fill_interrupt(message: Any) -> None:
    message.interrupt_type = base_pb2.InterruptRequest.INTERRUPT_TYPE_ALL


def _fill_operation(message: Any) -> None:
    message.operation_id = str(uuid.uuid4())


def _fill_release(message: Any) -> None:
    message.operation_id = str(uuid.uuid4())
    message.release_all.SetInParent()


def _fill_error(message: Any) -> None:
    message.error_id = str(uuid.uuid4())


def _fill_status(message: Any) -> None:
    message.operation_status.SetInParent()


_FILL: Mapping[str, Callable[[Any], None]] = {
    "ExecutePlan": _fill_execution,
    "AnalyzePlan": _fill_analysis,
    "Config": _fill_config,
    "AddArtifacts": _fill_artifacts,
    "ArtifactStatus": _fill_artifact_names,
    "Interrupt": _fill_interrupt,
    "ReattachExecute": _fill_operation,
    "ReleaseExecute": _fill_release,
    "FetchErrorDetails": _fill_error,
    "GetStatus": _fill_status,
}
