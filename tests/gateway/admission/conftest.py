"""Calls without a network, for the tests of limits."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from gateway.admission.limits import AdmissionLimits, LimitKind, LimitReports


@dataclass(eq=False)
class FakeContext:
    """A call of a client, in place of ``grpc.aio.ServicerContext``.

    Attributes:
        messages: The messages that the client sends. A future stands for a message that has not arrived.
        reads: Set while the client reads. Without it, writes wait.
        written: The responses that the client has read.
        address: The network address of the client.
        callbacks: The functions to call when the call has ended.
    """

    messages: "list[bytes | asyncio.Future[bytes]]" = field(default_factory=list)
    reads: asyncio.Event = field(default_factory=asyncio.Event)
    written: list[bytes] = field(default_factory=list)
    address: str = "ipv4:192.0.2.1:50000"
    callbacks: "list[Callable[[FakeContext], object]]" = field(default_factory=list)

    async def read(self) -> bytes:
        message = self.messages.pop(0)
        return message if isinstance(message, bytes) else await message

    async def write(self, message: bytes) -> None:
        await self.reads.wait()
        self.written.append(message)

    def peer(self) -> str:
        return self.address

    def add_done_callback(self, callback: "Callable[[FakeContext], object]") -> None:
        self.callbacks.append(callback)

    def end(self) -> None:
        for callback in self.callbacks:
            callback(self)


@pytest.fixture
def reached() -> list[LimitKind]:
    """The limits that were reached."""
    return []


@pytest.fixture
def report(reached: list[LimitKind]) -> Callable[[AdmissionLimits], LimitReports]:
    return lambda limits: LimitReports(limits, reached.append)
