"""Probes and metrics while others misuse the address."""

import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from prometheus_client import CollectorRegistry, Counter

from workspace import http_endpoint
from workspace.http_endpoint import HttpEndpoint, ProbeAnswer, serve_http

SECONDS = 60.0


@pytest.fixture
def registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    Counter("seen", "What was seen.", registry=registry).inc()
    return registry


@pytest.fixture
def address(registry: CollectorRegistry) -> Iterator[str]:
    ready = ProbeAnswer(False, ("no backend", "no lease"))
    with serve_http("127.0.0.1:0", HttpEndpoint(lambda: ProbeAnswer(True, ("ok",)), lambda: ready, registry)) as each:
        yield each


def get(address: str, path: str, accept: str = "*/*") -> tuple[int, str, str]:
    request = urllib.request.Request(f"http://{address}{path}", headers={"Accept": accept})
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:  # noqa: S310 - an address on loopback
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read().decode()


def connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), SECONDS)


def exchange(address: str, request: bytes) -> bytes:
    with connect(address) as connection:
        connection.sendall(request)
        answer = b""
        while received := connection.recv(4096):
            answer += received
        return answer


def test_probes_and_metrics(address: str) -> None:
    plain = "text/plain; charset=utf-8"
    assert get(address, "/healthz") == (200, plain, "ok\n")
    assert get(address, "/readyz?verbose") == (503, plain, "no backend\nno lease\n")
    assert get(address, "/other") == (404, plain, "not found\n")
    status, content_type, body = get(address, "/metrics")
    assert (status, content_type.partition(";")[0]) == (200, "text/plain")
    assert "seen_total 1.0" in body.splitlines()


def test_metrics_have_the_form_that_the_client_accepts(address: str) -> None:
    _, content_type, body = get(address, "/metrics", accept="application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert body.endswith("# EOF\n")


def test_head_has_no_body(address: str) -> None:
    answer = exchange(address, b"HEAD /healthz HTTP/1.1\r\nHost: lodge\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Content-Length: 3\r\n" in answer
    assert answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"POST /healthz HTTP/1.1\r\nContent-Length: 0\r\n\r\n", b"405 "),
        (b"hello\r\n\r\n", b"400 "),
        (b"GET /healthz SPDY/3\r\n\r\n", b"400 "),
        (b"GET /healthz HTTP/1.1\r\nA: " + 20_000 * b"a" + b"\r\n\r\n", b"400 "),
        (b"\xff\xfe /\x00 HTTP/1.1\r\n\r\n", b"405 "),
    ],
)
def test_other_requests_are_refused(address: str, request_bytes: bytes, status: bytes) -> None:
    assert exchange(address, request_bytes).startswith(b"HTTP/1.1 " + status)


def test_clients_that_send_nothing_do_not_keep_others_out(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_endpoint, "_REQUEST_SECONDS", 10 * SECONDS)
    with ExitStack() as stack:
        for _ in range(2 * http_endpoint._MAX_CONNECTIONS):
            stack.enter_context(connect(address)).send(b"GET /healthz HTTP/1.1\r\n")
        assert get(address, "/healthz")[0] == 200
        assert get(address, "/metrics")[0] == 200


def test_client_that_sends_byte_by_byte_is_disconnected(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_endpoint, "_REQUEST_SECONDS", 0.5)
    with connect(address) as connection, pytest.raises(OSError):
        while True:
            connection.sendall(b"a")
            connection.settimeout(0.1)
            try:
                if connection.recv(1) == b"":
                    raise ConnectionResetError
            except TimeoutError:
                continue


def test_probes_are_answered_while_metrics_are_collected(registry: CollectorRegistry) -> None:
    begun, may_end = threading.Event(), threading.Event()

    class Slow:
        def collect(self) -> Iterator[object]:
            begun.set()
            may_end.wait(SECONDS)
            yield from ()

    registry.register(Slow())  # type: ignore[arg-type]
    is_ok = ProbeAnswer(True, ("ok",))
    with serve_http("127.0.0.1:0", HttpEndpoint(lambda: is_ok, lambda: is_ok, registry)) as address:
        begun.clear()
        asking = threading.Thread(target=get, args=(address, "/metrics"))
        asking.start()
        assert begun.wait(SECONDS)
        assert get(address, "/healthz")[0] == 200
        may_end.set()
        asking.join()
