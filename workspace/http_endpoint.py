"""Serves ``/healthz``, ``/readyz`` and ``/metrics`` over HTTP, from a thread of its own.

The thread also responds while the rest of the process is stuck, so that ``/healthz`` can report it.
"""

import http
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app

_REQUEST_SECONDS = 10.0
_MAX_THREADS = 16
_HttpAnswer = tuple[http.HTTPStatus, tuple[str, ...]]
_NOT_FOUND: _HttpAnswer = (http.HTTPStatus.NOT_FOUND, ("not found",))


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


class _Server(ThreadingMixIn, WSGIServer):
    """A server with a bounded number of threads. Further connections wait or are closed."""

    daemon_threads = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._slots = threading.BoundedSemaphore(_MAX_THREADS)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._slots.acquire(timeout=_REQUEST_SECONDS):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()


class _Server6(_Server):
    address_family = socket.AF_INET6


class _QuietHandler(WSGIRequestHandler):
    timeout = _REQUEST_SECONDS

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Ignore requests, so that probes and metric requests are not logged."""


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
    server_class = _Server6 if ":" in host else _Server
    server = make_server(host.strip("[]"), int(port), _application(endpoint), server_class, _QuietHandler)
    thread = threading.Thread(target=server.serve_forever, name="health", daemon=True)
    thread.start()
    try:
        yield f"{host}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def _status(answer: ProbeAnswer) -> _HttpAnswer:
    return http.HTTPStatus.OK if answer.is_ok else http.HTTPStatus.SERVICE_UNAVAILABLE, answer.lines


def _application(endpoint: HttpEndpoint) -> Any:
    metrics = make_wsgi_app(endpoint.registry)
    probes: Mapping[str, Callable[[], ProbeAnswer]] = {"/healthz": endpoint.alive, "/readyz": endpoint.ready}

    def answer(environ: Any, start_response: Any) -> Any:
        path = environ["PATH_INFO"]
        if path == "/metrics":
            return metrics(environ, start_response)
        probe = probes.get(path)
        status, lines = _NOT_FOUND if probe is None else _status(probe())
        start_response(f"{status.value} {status.phrase}", [("Content-Type", "text/plain; charset=utf-8")])
        return ["".join(f"{line}\n" for line in lines).encode()]

    return answer
