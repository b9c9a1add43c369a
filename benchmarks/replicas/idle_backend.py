"""A gRPC server in the place of Spark for idle sessions: ``python -m benchmarks.replicas.idle_backend``.

The Java process of Spark needs several hundred kilobytes for each session. This server needs only the session's id. It
answers the calls that start, observe and end a session, and prints its port.
"""

import asyncio
from typing import Any

import grpc
from grpc import aio
from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc

_OPTIONS = (("grpc.http2.min_ping_interval_without_data_ms", 1_000), ("grpc.keepalive_permit_without_calls", 1))
"""Allow frequent pings, as Spark does since version 4.3."""


class _Service(base_pb2_grpc.SparkConnectServiceServicer):
    def __init__(self) -> None:
        self._sessions: set[str] = set()

    async def Config(self, request: base_pb2.ConfigRequest, _: Any) -> base_pb2.ConfigResponse:  # noqa: N802 - RPC
        self._sessions.add(request.session_id)
        return base_pb2.ConfigResponse(session_id=request.session_id)

    async def GetStatus(  # noqa: N802 - RPC
        self, request: base_pb2.GetStatusRequest, context: Any
    ) -> base_pb2.GetStatusResponse:
        if request.session_id not in self._sessions:
            await context.abort(grpc.StatusCode.INTERNAL, "[INVALID_HANDLE.SESSION_NOT_FOUND]")
        return base_pb2.GetStatusResponse(session_id=request.session_id)

    async def ReleaseSession(  # noqa: N802 - RPC
        self, request: base_pb2.ReleaseSessionRequest, _: Any
    ) -> base_pb2.ReleaseSessionResponse:
        self._sessions.discard(request.session_id)
        return base_pb2.ReleaseSessionResponse(session_id=request.session_id)


async def main() -> None:
    server = aio.server(options=_OPTIONS)
    base_pb2_grpc.add_SparkConnectServiceServicer_to_server(_Service(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(main())
