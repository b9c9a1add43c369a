"""A gRPC service on a listener of the gateway, and clients for it."""

import asyncio
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
from cryptography import x509
from grpc import aio

from gateway.connections.listener import Addresses, ConnectionLimits, Listener, ServerTls

METHOD = "/echo/Unary"
STREAM = "/echo/Stream"
SECONDS = 60.0


class Echo(grpc.GenericRpcHandler):
    """Answers a unary call with the request, and a stream with each of its messages."""

    def service(self, handler_call_details: Any) -> Any:
        async def answer(request: bytes, context: Any) -> bytes:
            return request

        async def stream(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
            async for request in requests:
                yield request

        if handler_call_details.method == STREAM:
            return grpc.stream_stream_rpc_method_handler(stream)
        return grpc.unary_unary_rpc_method_handler(answer)


@asynccontextmanager
async def listening(
    tls: ServerTls | None = None, limits: ConnectionLimits | None = None, listen: str = "127.0.0.1:0"
) -> AsyncIterator[tuple[Listener, Addresses]]:
    """Run an echo service on a listener."""
    listener = Listener(listen, limits or ConnectionLimits(), tls, 1024 * 1024)
    listener.server.add_generic_rpc_handlers((Echo(),))
    addresses = await listener.start()
    try:
        yield listener, addresses
    finally:
        await listener.server.stop(None)


def client(
    address: str,
    ca: bytes | None = None,
    pair: tuple[bytes, bytes] | None = None,
    options: Sequence[tuple[str, int]] = (),
) -> aio.Channel:
    """Return a channel with a connection of its own.

    Args:
        address: The address of the listener.
        ca: The certificate authority of the server. None for a connection without TLS.
        pair: The key and the certificate of the client.
        options: Further options of the channel.
    """
    defaults = {"grpc.use_local_subchannel_pool": 1, "grpc.enable_retries": 0}
    all_options = list({**defaults, **dict(options)}.items())
    if ca is None:
        return aio.insecure_channel(address, options=all_options)
    key, certificate = pair or (None, None)
    return aio.secure_channel(address, grpc.ssl_channel_credentials(ca, key, certificate), options=all_options)


async def call(channel: aio.Channel, request: bytes = b"x", wait: bool = False) -> bytes:
    answer: bytes = await channel.unary_unary(METHOD)(request, timeout=SECONDS, wait_for_ready=wait)
    return answer


async def until(condition: Callable[[], bool], what: str, seconds: float = SECONDS) -> None:
    """Wait until a condition holds, or fail the test."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"Not within {seconds} s: {what}"
        await asyncio.sleep(0.02)


async def serial_number(address: str) -> int:
    """Return the serial number of the certificate that a listener shows to a new connection."""

    def connect() -> bytes:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])
        host, _, port = address.rpartition(":")
        with socket.create_connection((host, int(port)), SECONDS) as plain, context.wrap_socket(plain) as secure:
            return secure.getpeercert(binary_form=True) or b""

    return x509.load_der_x509_certificate(await asyncio.to_thread(connect)).serial_number
