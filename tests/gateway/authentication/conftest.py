"""Credentials as a gRPC server passes them to a handler."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest

from gateway.authentication.authenticator import Authenticator
from gateway.authentication.method import Method
from gateway.errors import GatewayError
from gateway.messages.identity import Identity
from tests.identity.provider import IdentityProvider

WAIT_SECONDS = 60.0


@dataclass
class Call:
    """The part of ``grpc.aio.ServicerContext`` that authentication reads.

    ``test_real_calls.py`` compares it with real calls.
    """

    metadata: Sequence[tuple[str, str]] = ()
    certificate: bytes | None = None

    def invocation_metadata(self) -> Sequence[tuple[str, str]]:
        return self.metadata

    def auth_context(self) -> Mapping[str, Sequence[bytes]]:
        return {} if self.certificate is None else {"x509_pem_cert": [self.certificate]}

    def peer(self) -> str:
        return "ipv4:192.0.2.7:50000"


def call_with(token: str, key: str = "authorization") -> Call:
    return Call([(key, f"Bearer {token}")])


async def identify(authenticator: Authenticator, call: Call) -> Identity:
    identity = await authenticator.identify(call)
    assert identity is not None
    return identity


async def refusal(authenticator: Authenticator, call: Call) -> str:
    """Return the reason that the client receives."""
    with pytest.raises(GatewayError) as refused:
        await authenticator.identify(call)
    assert refused.value.code is grpc.StatusCode.UNAUTHENTICATED
    assert refused.value.condition == "LODGE_UNAUTHENTICATED"
    return refused.value.parameters["reason"]


async def eventually(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not await holds():
        assert time.monotonic() < deadline, f"not within {WAIT_SECONDS} s: {what}"
        await asyncio.sleep(0.02)


@asynccontextmanager
async def watching(*methods: Method) -> AsyncIterator[Authenticator]:
    """Return an authenticator that watches the sources of its methods."""
    authenticator = Authenticator(methods)
    await authenticator.start()
    try:
        yield authenticator
    finally:
        await authenticator.stop()


@pytest.fixture
def provider(tmp_path: Path) -> IdentityProvider:
    return IdentityProvider(tmp_path, algorithms=["ES256", "EdDSA", "ES384"])
