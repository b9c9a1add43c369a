"""Servers that misbehave while the gateway reads a JWKS."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from gateway.authentication import http_source
from gateway.authentication.http_source import read_url
from gateway.reloading.last_valid_value import SourceError

MAX_BYTES = 10_000
OK = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"


@contextmanager
def answering(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """Run a server that gives one answer to the first connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65536)
                try:
                    answer(connection)
                except OSError:
                    return

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/jwks.json"
        thread.join(60)
        assert not thread.is_alive()


def read(url: str) -> bytes:
    return read_url(url, ca_file=None, max_bytes=MAX_BYTES)


@pytest.mark.parametrize("header", [b"Content-Length: 5\r\n", b""])
def test_document_is_read(header: bytes) -> None:
    with answering(lambda connection: connection.sendall(OK + header + b"\r\nhello")) as url:
        assert read(url) == b"hello"


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", "HTTP status 302"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "HTTP status 404"),
        (OK + b"\r\n" + b"x" * (MAX_BYTES + 1), "more than 10,000 bytes"),
        (OK + b"Content-Length: 100\r\n\r\nshort", "cannot be read"),
        (b"SSH-2.0-OpenSSH\r\n", "cannot be read"),
        (b"", "cannot be read"),
    ],
)
def test_other_answers_are_refused(answer: bytes, problem: str) -> None:
    with answering(lambda connection: connection.sendall(answer)) as url, pytest.raises(SourceError) as error:
        read(url)
    assert problem in str(error.value)
    assert f"[{url}]" in str(error.value)


def test_compressed_bomb_is_refused() -> None:
    import gzip

    body = gzip.compress(b"x" * 50_000_000)

    def send(connection: socket.socket) -> None:
        connection.sendall(OK + b"Content-Encoding: gzip\r\n\r\n" + body)

    with answering(send) as url, pytest.raises(SourceError, match="more than 10,000 bytes"):
        read(url)


def test_slow_server_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_source, "_TOTAL_SECONDS", 0.5)

    def drip(connection: socket.socket) -> None:
        connection.sendall(OK + b"\r\n")
        while True:
            connection.sendall(b" ")
            time.sleep(0.05)

    with answering(drip) as url, pytest.raises(SourceError, match="is too slow"):
        read(url)  # would never return if it waited for the end of the answer
