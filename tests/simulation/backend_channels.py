"""Simulated channels from one gateway to backends.

They replace :class:`gateway.backends.backends.Backend`. The gateway's own code that calls a backend runs unchanged,
down to the bytes. These classes simulate what a gRPC channel does to calls: they take time, fail before or after they
took effect, and streams end early.
"""

import asyncio
import hashlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence
from typing import Any

import grpc
from grpc import aio

from gateway.backends.backends import SERVICE
from tests.simulation.event_loop import ModelLoop
from tests.simulation.network import Network
from tests.simulation.schedule import Process
from tests.simulation.spark import Reply, SparkServer, rpc_error
from workspace.identifiers import Principal, RecordName
from workspace.records import SessionRecord

Answer = Sequence[bytes] | Exception
_CUT_SHORT_SHARE = 0.1


class BackendChannels:
    """All backends of one gateway; replaces :class:`gateway.backends.backends.Backends`."""

    def __init__(self, process: Process, loop: ModelLoop, network: Network, servers: Mapping[str, SparkServer]) -> None:
        self._by_address = {
            address: BackendChannel(process, loop, network, server) for address, server in servers.items()
        }

    def choose(self, session: RecordName, principal: Principal) -> "BackendChannel":
        best = max(self._by_address, key=lambda each: hashlib.sha256(f"{session} {each}".encode()).digest())
        return self._by_address[best]

    def find(self, record: SessionRecord) -> "BackendChannel | None":
        return self._by_address.get(record.backend)

    async def reload_credentials(self) -> None:
        """Do nothing: simulated backends need no credentials."""

    async def close(self) -> None:
        """Do nothing: the simulation opens no connection."""


class BackendChannel:
    """The channel of one gateway to one backend."""

    def __init__(self, process: Process, loop: ModelLoop, network: Network, server: SparkServer) -> None:
        self.address = server.address
        self._process = process
        self._loop = loop
        self._network = network
        self._server = server
        self._random = process.schedule.random

    def unary(self, method: str) -> Callable[..., "_UnaryCall"]:
        def call(data: bytes, metadata: object = None, timeout: float | None = None) -> _UnaryCall:
            return _UnaryCall(self._send(method, data, timeout))

        return call

    def unary_stream(self, method: str) -> Callable[..., "_StreamCall"]:
        def call(data: bytes, metadata: object = None, timeout: float | None = None) -> _StreamCall:
            is_cut_short = self._network.fault_plan.rate > 0 and self._random.random() < _CUT_SHORT_SHARE
            return _StreamCall(self._send(method, data, timeout), is_cut_short)

        return call

    def _send(self, method: str, data: bytes, timeout_seconds: float | None) -> "asyncio.Future[Answer]":
        """Send a request, and return a future of the responses or of the failure."""
        schedule, fault_plan = self._process.schedule, self._network.fault_plan
        future: asyncio.Future[Answer] = self._loop.create_future()
        # below 0.2: request lost; 0.4: response lost; 0.6: response delayed; 0.7: backend crashes; above: no fault
        fault = self._random.random() if self._random.random() < fault_plan.rate else 1.0

        def settle(answer: Answer) -> None:
            if not future.done():
                future.set_result(answer)

        def deliver(answer: Answer) -> None:
            self._loop.call_soon(settle, answer)

        def answer(answer: Answer) -> None:
            travelled = self._network.travel_seconds() + (self._network.duration() if 0.4 < fault < 0.6 else 0.0)
            lost = 0.2 < fault < 0.4
            schedule.after(travelled, lambda: deliver(_create_unavailable_error() if lost else answer), self._process)

        def arrive() -> None:
            if self._server.down_until > schedule.now or fault < 0.2:
                schedule.after(0.01, lambda: deliver(_create_unavailable_error()), self._process)
                return
            if 0.6 < fault < 0.7:
                self._server.crash(self._network.duration() / 4)
                schedule.after(0.01, lambda: deliver(_create_unavailable_error()), self._process)
                return
            reply: Reply = answer
            self._server.serve(method.removeprefix(SERVICE), data, reply)

        schedule.after(self._network.travel_seconds(), arrive)
        if timeout_seconds is not None:
            late = rpc_error(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline exceeded")
            self._loop.call_later(timeout_seconds, settle, late)
        return future


class _Call:
    """The parts of a gRPC call besides its responses."""

    async def initial_metadata(self) -> tuple[()]:
        return ()

    async def trailing_metadata(self) -> tuple[()]:
        return ()


class _UnaryCall(_Call):
    def __init__(self, future: "asyncio.Future[Answer]") -> None:
        self._future = future

    def __await__(self) -> Generator[Any, None, bytes]:
        answer = yield from self._future.__await__()
        if isinstance(answer, Exception):
            raise answer
        return answer[0]


class _StreamCall(_Call):
    def __init__(self, future: "asyncio.Future[Answer]", is_cut_short: bool) -> None:
        self._future = future
        self._is_cut_short = is_cut_short
        self._responses: deque[bytes] | None = None
        self._error: aio.AioRpcError | None = None

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._each()

    async def _each(self) -> AsyncIterator[bytes]:
        while True:
            response = await self.read()
            if response is aio.EOF:
                break
            yield response

    async def read(self) -> Any:
        if self._responses is None:
            answer = await asyncio.shield(self._future)
            if isinstance(answer, aio.AioRpcError):
                self._error = answer
            no_responses = self._is_cut_short or not isinstance(answer, Sequence)
            self._responses = deque(() if no_responses else answer)
        if self._responses:
            return self._responses.popleft()
        if self._error is not None:
            raise self._error
        return aio.EOF

    async def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.OK if self._error is None else self._error.code()

    async def details(self) -> str:
        return "" if self._error is None else self._error.details() or ""

    async def trailing_metadata(self) -> Any:
        return () if self._error is None else tuple(self._error.trailing_metadata())

    def cancel(self) -> None:
        """Do nothing: the backend continues an operation that nobody follows."""


def _create_unavailable_error() -> Exception:
    return rpc_error(grpc.StatusCode.UNAVAILABLE, "The backend is unreachable.")
