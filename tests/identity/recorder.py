"""A server between Lodge and Spark that records what reaches the backend.

It forwards every call without changes. RPCs that Spark does not have yet are answered here, with the requests as the
responses. Tests start the server in their own process, and read `Recorder.calls` while it runs.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
from grpc import aio
from pyspark.sql.connect.proto import base_pb2

from tests.identity.background_server import BackgroundServer

_KNOWN = frozenset(base_pb2.DESCRIPTOR.services_by_name["SparkConnectService"].methods_by_name)
_MAX_MESSAGE_BYTES = 256 * 1024 * 1024


@dataclass(slots=True)
class Call:
    """A call that reached the backend.

    Attributes:
        method: The name of the RPC, without the service.
        metadata: The metadata of the call.
        messages: The encoded requests so far.
    """

    method: str
    metadata: Sequence[tuple[str, str | bytes]]
    messages: list[bytes] = field(default_factory=list)

    @property
    def metadata_by_key(self) -> Mapping[str, str | bytes]:
        return dict(self.metadata)


class Recorder(BackgroundServer):
    """A context manager that runs the server in a thread of its own.

    Args:
        backend: The address of the backend that answers, ``sc://host:port``.

    Attributes:
        address: The address that Lodge uses, ``sc://host:port``.
        calls: The calls so far, in the order of their arrival.
    """

    def __init__(self, backend: str) -> None:
        self._backend = backend.removeprefix("sc://").rstrip("/")
        self.calls: list[Call] = []
        self.address = ""

    def since(self, position: int) -> list[Call]:
        """Return the calls that arrived after the first ``position`` calls."""
        return self.calls[position:]

    async def start(self) -> None:
        options = [
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
            ("grpc.max_send_message_length", -1),
        ]
        self._channel = aio.insecure_channel(self._backend, options=options)
        self._server = aio.server(options=options)
        self._server.add_generic_rpc_handlers((_Handler(self),))
        self.address = f"sc://127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop(None)
        await self._channel.close()

    async def forward(self, method: str, requests: AsyncIterator[bytes], context: Any) -> None:
        metadata = tuple(context.invocation_metadata() or ())
        call = Call(method.rpartition("/")[2], metadata)
        self.calls.append(call)
        if call.method not in _KNOWN:
            async for request in requests:
                call.messages.append(request)
                await context.write(request)
            return

        async def record() -> AsyncIterator[bytes]:
            async for request in requests:
                call.messages.append(request)
                yield request

        passed = [(key, value) for key, value in metadata if not key.startswith((":", "grpc-")) and key != "user-agent"]
        forwarded = self._channel.stream_stream(method)(record(), metadata=passed, timeout=context.time_remaining())
        async for response in forwarded:
            await context.write(response)
        context.set_trailing_metadata(tuple(await forwarded.trailing_metadata() or ()))
        code = await forwarded.code()
        if code is not grpc.StatusCode.OK:
            context.set_code(code)
            context.set_details(await forwarded.details() or "")


class _Handler(grpc.GenericRpcHandler):
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def service(self, handler_call_details: Any) -> Any:
        method = handler_call_details.method

        async def handle(requests: AsyncIterator[bytes], context: Any) -> None:
            try:
                await self._recorder.forward(method, requests, context)
            except aio.AioRpcError as error:
                context.set_trailing_metadata(tuple(error.trailing_metadata() or ()))
                context.set_code(error.code())
                context.set_details(error.details() or "")

        return grpc.stream_stream_rpc_method_handler(handle)
