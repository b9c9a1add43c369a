"""Serves ``/healthz``, ``/readyz`` and ``/metrics`` over HTTP, from a thread of its own.

The thread also responds while the rest of the process is stuck, so that ``/healthz`` can report it.

Guarantees:

1. A connection is closed at most ``_REQUEST_SECONDS`` after it was accepted, even if its client still sends or reads.
2. At most ``_MAX_CONNECTIONS`` connections are open. If there is a further one, the oldest that has not sent a complete
   request is closed. Therefore clients that send nothing cannot keep others out.
3. Metrics are collected for one request at a time. Probes do not wait for them.

Source: [http-1.1] for the form of a request and of an answer. Each connection serves one request.
"""

import asyncio
import http
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from workspace.background_thread import BackgroundThread

_REQUEST_SECONDS = 10.0
_MAX_CONNECTIONS = 256
_MAX_REQUEST_BYTES = 16 * 1024
_PLAIN = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """The answer to a probe.

    Attributes:
        is_ok: Whether the probe succeeds.
        lines: The lines of the body.
    """

    is_ok: bool
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HttpEndpoint:
    """The answers to probes and metric requests. The functions are called in other threads.

    Attributes:
        alive: A function that answers ``/healthz``. If it fails, the process should be restarted.
        ready: A function that answers ``/readyz``. If it fails, the process should not get work.
        registry: The registry of the metrics.
    """

    alive: Callable[[], ProbeAnswer]
    ready: Callable[[], ProbeAnswer]
    registry: CollectorRegistry


@contextmanager
def serve_http(address: str, endpoint: HttpEndpoint) -> Iterator[str]:
    """Serve probes and metrics for the duration of the block.

    Args:
        address: The address in the form ``HOST:PORT``. With port 0, the system chooses a port.
        endpoint: The answers to probes and metric requests.

    Yields:
        The address on which the server listens.

    Raises:
        OSError: If the server cannot listen on the address.
    """
    host, _, port = address.rpartition(":")
    loop = asyncio.new_event_loop()
    thread = BackgroundThread("health", loop.run_forever)
    thread.start()
    server = _Server(endpoint)
    try:
        starting = asyncio.run_coroutine_threadsafe(server.start(host.strip("[]"), int(port)), loop)
        yield f"{host}:{starting.result()}"
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@dataclass(frozen=True, slots=True)
class _HttpAnswer:
    status: http.HTTPStatus
    body: bytes
    content_type: str = _PLAIN

    def encode(self, *, with_body: bool = True) -> bytes:
        head = (
            f"HTTP/1.1 {self.status.value} {self.status.phrase}",
            f"Content-Type: {self.content_type}",
            f"Content-Length: {len(self.body)}",
            "Connection: close",
        )
        return "".join(f"{line}\r\n" for line in (*head, "")).encode("latin-1") + (self.body if with_body else b"")


_NOT_FOUND = _HttpAnswer(http.HTTPStatus.NOT_FOUND, b"not found\n")
_NOT_ALLOWED = _HttpAnswer(http.HTTPStatus.METHOD_NOT_ALLOWED, b"only GET and HEAD\n")
_BAD_REQUEST = _HttpAnswer(http.HTTPStatus.BAD_REQUEST, b"not a request of HTTP/1.1\n")


class _Server:
    def __init__(self, endpoint: HttpEndpoint) -> None:
        self._endpoint = endpoint
        self._collector = ThreadPoolExecutor(1, "metrics")
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._reading: dict[asyncio.Task[None] | None, None] = {}  # in the order in which they were accepted

    async def start(self, host: str, port: int) -> int:
        self._server = await asyncio.start_server(self._accept, host, port, limit=_MAX_REQUEST_BYTES)
        listening: int = self._server.sockets[0].getsockname()[1]
        return listening

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        self._collector.shutdown(wait=False, cancel_futures=True)

    def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        if len(self._serving) >= _MAX_CONNECTIONS:
            oldest = next(iter(self._reading), None) or next(iter(self._serving))
            self._end(oldest)
            oldest.cancel()
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._serving.add(task)
        self._reading[task] = None
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._serving.discard(task)
        self._reading.pop(task, None)

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                writer.write(await self._answer(reader))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()

    async def _answer(self, reader: StreamReader) -> bytes:
        try:
            request = await reader.readuntil(b"\r\n\r\n")
            line, *headers = request.decode("latin-1").rstrip().split("\r\n")
            method, target, version = line.split(" ")
        except (ValueError, asyncio.LimitOverrunError):
            return _BAD_REQUEST.encode()
        self._reading.pop(asyncio.current_task(), None)
        if not version.startswith("HTTP/1."):
            return _BAD_REQUEST.encode()
        if method not in ("GET", "HEAD"):
            return _NOT_ALLOWED.encode()
        answer = await self._answer_path(target.partition("?")[0], headers)
        return answer.encode(with_body=method == "GET")

    async def _answer_path(self, path: str, headers: list[str]) -> _HttpAnswer:
        if path == "/healthz":
            return _of_probe(self._endpoint.alive())
        if path == "/readyz":
            return _of_probe(self._endpoint.ready())
        if path != "/metrics":
            return _NOT_FOUND
        accepted = ",".join(value for name, _, value in (each.partition(":") for each in headers) if _is_accept(name))
        return await asyncio.get_running_loop().run_in_executor(self._collector, self._collect, accepted)

    def _collect(self, accepted: str) -> _HttpAnswer:
        encode, content_type = choose_encoder(accepted)
        return _HttpAnswer(http.HTTPStatus.OK, encode(self._endpoint.registry), content_type)


def _is_accept(name: str) -> bool:
    return name.strip().lower() == "accept"


def _of_probe(answer: ProbeAnswer) -> _HttpAnswer:
    status = http.HTTPStatus.OK if answer.is_ok else http.HTTPStatus.SERVICE_UNAVAILABLE
    return _HttpAnswer(status, "".join(f"{line}\n" for line in answer.lines).encode())
