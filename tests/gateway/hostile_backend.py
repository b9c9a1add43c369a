"""A backend that attacks its gateway, as a real gRPC server on loopback.

It answers like Spark, until a test chooses another answer for a method.
"""

from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
from grpc import aio
from pyspark.sql.connect.proto import base_pb2, types_pb2

from tests.gateway.spark_errors import error_metadata
from tests.identity.background_server import BackgroundServer

Answers = Callable[[bytes], AsyncIterator[bytes]]
"""The answers to a request."""


class SparkRefusal(Exception):  # noqa: N818 - an answer, which is no error of the test
    """Raised by answers that end a call with an error of Spark."""

    def __init__(self, condition: str) -> None:
        super().__init__(condition)
        self.condition = condition


class HostileBackend(BackgroundServer):
    """A backend. Use it as a context manager.

    Attributes:
        address: The address, ``sc://host:port``.
        answers: The answers of methods that do not answer like Spark, by the name of the method.
    """

    def __init__(self) -> None:
        self.answers: dict[str, Answers] = {}

    async def start(self) -> None:
        self._server = aio.server(options=[("grpc.max_send_message_length", -1)])
        self._server.add_generic_rpc_handlers((_Methods(self),))
        self.address = f"sc://127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop(0)


class _Methods(grpc.GenericRpcHandler):  # type: ignore[misc] # grpc has no types
    def __init__(self, backend: HostileBackend) -> None:
        self._backend = backend

    def service(self, details: Any) -> Any:
        name = details.method.rpartition("/")[2]

        async def handle(requests: Any, context: Any) -> None:
            messages = [message async for message in requests]
            try:
                async for answer in (_HONEST | self._backend.answers)[name](messages[0]):
                    await context.write(answer)
            except SparkRefusal as refusal:
                code, condition = grpc.StatusCode.INTERNAL, refusal.condition
                await context.abort(code, f"[{condition}]", error_metadata(condition, code))

        return grpc.stream_stream_rpc_method_handler(handle)


async def _config(data: bytes) -> AsyncIterator[bytes]:
    request = base_pb2.ConfigRequest.FromString(data)
    answer = base_pb2.ConfigResponse(session_id=request.session_id, server_side_session_id="server")
    for pair in request.operation.get_with_default.pairs:
        answer.pairs.add(key=pair.key, value=pair.value)
    yield answer.SerializeToString()


async def _analyze(data: bytes) -> AsyncIterator[bytes]:
    request = base_pb2.AnalyzePlanRequest.FromString(data)
    answer = base_pb2.AnalyzePlanResponse(session_id=request.session_id, server_side_session_id="server")
    field = types_pb2.DataType.StructField(name="id", data_type=types_pb2.DataType(long={}), nullable=True)
    answer.schema.schema.struct.fields.append(field)
    yield answer.SerializeToString()


async def _execute(data: bytes) -> AsyncIterator[bytes]:
    request = base_pb2.ExecutePlanRequest.FromString(data)
    answer = base_pb2.ExecutePlanResponse(
        session_id=request.session_id, server_side_session_id="server", operation_id=request.operation_id
    )
    answer.result_complete.SetInParent()
    yield answer.SerializeToString()


def _empty(kind: Callable[..., Any]) -> Answers:
    async def answer(_: bytes) -> AsyncIterator[bytes]:
        yield kind().SerializeToString()

    return answer


_HONEST: dict[str, Answers] = {
    "Config": _config,
    "AnalyzePlan": _analyze,
    "ExecutePlan": _execute,
    "ReattachExecute": _execute,
    "AddArtifacts": _empty(base_pb2.AddArtifactsResponse),
    "ArtifactStatus": _empty(base_pb2.ArtifactStatusesResponse),
    "Interrupt": _empty(base_pb2.InterruptResponse),
    "ReleaseExecute": _empty(base_pb2.ReleaseExecuteResponse),
    "ReleaseSession": _empty(base_pb2.ReleaseSessionResponse),
    "FetchErrorDetails": _empty(base_pb2.FetchErrorDetailsResponse),
}
