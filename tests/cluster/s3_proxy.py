"""A proxy in front of an S3 server that counts requests for reading, and makes them fail."""

import http.client
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.parse import parse_qs, urlsplit

RESET, TRUNCATE, HANG = "reset", "truncate", "hang"
ERRORS = {"InternalError": 500, "SlowDown": 503, "ExpiredToken": 400, "AccessDenied": 403}
"""Errors of S3, with their HTTP status."""


class S3Proxy:
    """A context manager of a proxy.

    Args:
        endpoint: The address of the server, ``host:port``.

    Attributes:
        fault: Returns how a request fails: one of the words above, the code of an error, or None. It gets the operation
            and the path of the request.
        operations: How often each operation was requested: ``list``, ``head`` or ``get``.
    """

    def __init__(self, endpoint: str) -> None:
        self.fault: Callable[[str, str], str | None] = lambda operation, path: None
        self.operations: Counter[str] = Counter()
        self.upstream = endpoint
        self.is_closed = threading.Event()
        self._server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"proxy": self}))
        self._thread = threading.Thread(target=self._server.serve_forever, name="s3-proxy")

    @property
    def endpoint(self) -> str:
        """The address for clients, ``host:port``."""
        return f"127.0.0.1:{self._server.server_port}"

    def fail(self, fault: str, *, times: int = 1_000_000, operation: str = "") -> None:
        """Make the next requests fail.

        Args:
            fault: How they fail.
            times: How many of them fail.
            operation: Their operation; empty for any.
        """
        left = [times]

        def decide(requested: str, _: str) -> str | None:
            if operation not in {"", requested} or left[0] == 0:
                return None
            left[0] -= 1
            return fault

        self.fault = decide

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.is_closed.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proxy: S3Proxy

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        is_list = "list-type" in parse_qs(parts.query)
        operation = "list" if is_list else self.command.lower()
        self.proxy.operations[operation] += 1
        fault = self.proxy.fault(operation, parts.path)
        if fault == HANG:
            self.proxy.is_closed.wait()
            self.close_connection = True
        elif fault == RESET:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
        elif fault in ERRORS:
            body = f"<Error><Code>{fault}</Code><Message>m</Message></Error>".encode()
            self._send(ERRORS[fault], {"content-type": "application/xml", "content-length": str(len(body))}, body)
        else:
            self._forward(is_cut=fault == TRUNCATE)

    def _forward(self, *, is_cut: bool) -> None:
        upstream = http.client.HTTPConnection(self.proxy.upstream)
        upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            upstream.putheader(name, value)
        upstream.endheaders()
        answer = upstream.getresponse()
        body = answer.read()
        headers = {name: value for name, value in answer.getheaders() if name.lower() != "connection"}
        self._send(answer.status, headers, body[: len(body) // 2] if is_cut else body)
        self.close_connection = self.close_connection or is_cut
        upstream.close()

    def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
