"""``/healthz``, ``/readyz`` and ``/metrics`` over HTTP.

- ``/healthz`` says that the process works: it fails while a pass takes longer than any pass should.
- ``/readyz`` says that the reaper can do its work, or could if it were the one that acts: it fails before the first
  look, and while the reaper cannot read records or storage. Its text says what holds it back, also where that is a
  question to a person, which makes nothing unready.
- ``/metrics`` is for Prometheus.
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

from reaper.holds import MASS_EXPIRY
from reaper.operator import Operator

_Answer = tuple[http.HTTPStatus, list[str]]


@dataclass(frozen=True, slots=True)
class Health:
    """What the process tells of itself.

    Attributes:
        operator: The one that runs now, if one does.
        registry: Of its metrics.
    """

    operator: Callable[[], Operator | None]
    registry: CollectorRegistry

    def alive(self) -> _Answer:
        operator = self.operator()
        if operator is not None and operator.is_stuck():
            return http.HTTPStatus.SERVICE_UNAVAILABLE, ["a pass does not end; look after the storage"]
        return http.HTTPStatus.OK, ["ok"]

    def ready(self) -> _Answer:
        operator = self.operator()
        if operator is None:
            return http.HTTPStatus.SERVICE_UNAVAILABLE, ["starting"]
        reasons = operator.reaper.holds.reasons
        lines = [f"{kind}: {reason}" for kind, reason in sorted(reasons.items())]
        if not operator.has_completed_pass() and not lines:
            lines = ["not looked yet"]
        role = "acting" if operator.reaper.may_act() else "standing by"
        is_ready = operator.has_completed_pass() and reasons.keys() <= {MASS_EXPIRY}
        return http.HTTPStatus.OK if is_ready else http.HTTPStatus.SERVICE_UNAVAILABLE, [role, *lines]


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Server6(_Server):
    address_family = socket.AF_INET6


class _QuietHandler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Probes and scrapes are no news."""


@contextmanager
def serve_health(address: str, health: Health) -> Iterator[str]:
    """Serves for the time of the block.

    Args:
        address: ``HOST:PORT``; port 0 lets the system choose.
        health: What is served.

    Yields: The address that it listens at.
    Raises: OSError if it cannot listen there.
    """
    host, _, port = address.rpartition(":")
    server_class = _Server6 if ":" in host else _Server
    server = make_server(host.strip("[]"), int(port), _application(health), server_class, _QuietHandler)
    thread = threading.Thread(target=server.serve_forever, name="health", daemon=True)
    thread.start()
    try:
        yield f"{host}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def _application(health: Health) -> Any:
    metrics = make_wsgi_app(health.registry)
    probes: Mapping[str, Callable[[], _Answer]] = {"/healthz": health.alive, "/readyz": health.ready}

    def answer(environ: Any, start_response: Any) -> Any:
        path = environ["PATH_INFO"]
        if path == "/metrics":
            return metrics(environ, start_response)
        probe = probes.get(path)
        status, lines = (http.HTTPStatus.NOT_FOUND, ["not found"]) if probe is None else probe()
        start_response(f"{status.value} {status.phrase}", [("Content-Type", "text/plain; charset=utf-8")])
        return ["".join(f"{line}\n" for line in lines).encode()]

    return answer
