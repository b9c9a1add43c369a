"""The HTTP endpoints ``/healthz``, ``/readyz`` and ``/metrics``.

============
==========================================================================================================
Path          Response
============
==========================================================================================================
``/healthz``  503 while a pass is stuck, otherwise 200.
``/readyz``   503 before the first complete pass, and while the reaper cannot read records or storage, otherwise 200.
              The body lists all holds. A mass expiry does not make the reaper unready, because it waits for a person.
``/metrics``  The metrics for Prometheus.
============
==========================================================================================================
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
    """The responses to probes and metric requests.

    Attributes:
        operator: A function that returns the current operator, or None.
        registry: The registry of the reaper's metrics.
    """

    operator: Callable[[], Operator | None]
    registry: CollectorRegistry

    def alive(self) -> _Answer:
        """Return the response of ``/healthz``."""
        operator = self.operator()
        if operator is not None and operator.is_stuck():
            return http.HTTPStatus.SERVICE_UNAVAILABLE, ["A pass of the reaper is stuck. Check the storage."]
        return http.HTTPStatus.OK, ["ok"]

    def ready(self) -> _Answer:
        """Return the response of ``/readyz``."""
        operator = self.operator()
        if operator is None:
            return http.HTTPStatus.SERVICE_UNAVAILABLE, ["starting"]
        reasons = operator.reaper.holds.reasons
        lines = [f"{kind}: {reason}" for kind, reason in sorted(reasons.items())]
        if not operator.has_completed_pass() and not lines:
            lines = ["no pass has completed yet"]
        role = "acting" if operator.reaper.may_act() else "standing by"
        is_ready = operator.has_completed_pass() and reasons.keys() <= {MASS_EXPIRY}
        return http.HTTPStatus.OK if is_ready else http.HTTPStatus.SERVICE_UNAVAILABLE, [role, *lines]


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Server6(_Server):
    address_family = socket.AF_INET6


class _QuietHandler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Ignore requests, so that probes and metric requests are not logged."""


@contextmanager
def serve_health(address: str, health: Health) -> Iterator[str]:
    """Serve probes and metrics for the duration of the block.

    Args:
        address: The address in the form ``HOST:PORT``. With port 0, the system chooses a port.
        health: The responses to probes and metric requests.

    Yields:
        The address on which the server listens.

    Raises:
        OSError: If the server cannot listen on the address.
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
