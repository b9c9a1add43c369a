"""Credentials of real calls, which the other tests simulate with ``Call``."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio

from gateway.authentication.credentials import Credentials, read_credentials
from tests.gateway.authentication.conftest import Call
from tests.identity.certificates import CertificateAuthority, CertificateFiles

CALL_SECONDS = 10


class Recording(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc has no types
    """A service that reads the credentials of each call, and those of an equal ``Call``."""

    def __init__(self) -> None:
        self.seen: list[tuple[Credentials, Credentials]] = []

    def service(self, _: Any) -> Any:
        async def answer(request: bytes, context: Any) -> bytes:
            real = read_credentials(context)
            metadata = [(key, value) for key, value in context.invocation_metadata() if isinstance(value, str)]
            same = read_credentials(Call(metadata, real.certificate))
            self.seen.append((real, Credentials(same.token, same.certificate, real.peer)))
            return request

        return grpc.unary_unary_rpc_method_handler(answer)


@asynccontextmanager
async def serving(credentials: grpc.ServerCredentials | None) -> AsyncIterator[tuple[Recording, int]]:
    server, recording = aio.server(), Recording()
    server.add_generic_rpc_handlers((recording,))
    address = "127.0.0.1:0"
    port = server.add_insecure_port(address) if credentials is None else server.add_secure_port(address, credentials)
    await server.start()
    try:
        yield recording, port
    finally:
        await server.stop(None)


async def send(channel: aio.Channel, *metadata: tuple[str, str]) -> None:
    async with channel:
        await channel.unary_unary("/service/Method")(b"", metadata=metadata, timeout=CALL_SECONDS)


@pytest.mark.parametrize("key", ["authorization", "authentication"])
async def test_token_is_read_from_metadata(key: str) -> None:
    async with serving(None) as (recording, port):
        await send(aio.insecure_channel(f"127.0.0.1:{port}"), (key, "Bearer sesame"), ("x-bin", b"\xff"))  # type: ignore[arg-type]
        await send(aio.insecure_channel(f"127.0.0.1:{port}"))
    (real, same), (without, _) = recording.seen
    assert real == same
    assert (real.token, real.certificate) == ("sesame", None)
    assert real.peer.startswith("ipv4:127.0.0.1:")
    assert (without.token, without.certificate) == ("", None)
    assert "sesame" not in repr(real)


def files_of(files: CertificateFiles) -> tuple[bytes, bytes]:
    return files.key.read_bytes(), files.certificate.read_bytes()


async def test_certificate_is_read_from_the_connection(tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path)
    ca = authority.certificate.read_bytes()
    client = files_of(authority.client("ada"))
    credentials = grpc.ssl_server_credentials([files_of(authority.server())], ca, require_client_auth=True)
    async with serving(credentials) as (recording, port):
        await send(aio.secure_channel(f"localhost:{port}", grpc.ssl_channel_credentials(ca, *client)))
    ((real, same),) = recording.seen
    assert real == same
    assert real.certificate == client[1]
    assert real.token == ""
