"""A backend for the attackers: ``python -m tests.hostile.stub_backend``. It prints its port.

It answers every statement with a stream of large messages that never ends, at hardly any cost. So attackers cannot use
up Spark itself: to protect backends is not what the programme proves.
"""

import asyncio
import os
from contextlib import suppress
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from grpc import aio
from pyspark.sql.connect.proto import base_pb2

_STREAMS = frozenset({"ExecutePlan", "ReattachExecute"})
_MESSAGE = bytes([0x32, 0x80, 0x80, 0x80, 0x02]) + bytes(4 * 1024 * 1024)


async def _answer(requests: Any, context: Any) -> None:
    answer = b""
    async for request in requests:
        answer = _configuration(request)
    await context.write(answer)


def _configuration(data: bytes) -> bytes:
    """Return the default of each setting that a request names."""
    with suppress(DecodeError):
        request = base_pb2.ConfigRequest.FromString(data)
        answer = base_pb2.ConfigResponse(session_id=request.session_id)
        for pair in request.operation.get_with_default.pairs:
            answer.pairs.add(key=pair.key, value=pair.value)
        return answer.SerializeToString()
    return b""


async def _stream(requests: Any, context: Any) -> None:
    async for _ in requests:
        pass
    while True:
        await context.write(_MESSAGE)
        await asyncio.sleep(0.05)


class _Methods(grpc.GenericRpcHandler):  # type: ignore[misc] # grpc has no types
    def service(self, details: Any) -> Any:
        name = details.method.rpartition("/")[2]
        return grpc.stream_stream_rpc_method_handler(_stream if name in _STREAMS else _answer)


async def main() -> None:
    os.nice(19)
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    server = aio.server(options=options)
    server.add_generic_rpc_handlers((_Methods(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(main())
