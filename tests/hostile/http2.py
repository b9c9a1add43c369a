"""A connection that sends HTTP/2 frames as an attacker does: slowly, in part, or wrong."""

import socket
import struct
import time
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType
from typing import Self

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, END_HEADERS = 0x1, 0x4
INITIAL_WINDOW_SIZE = 4
_SERVICE = "/spark.connect.SparkConnectService/"
Header = tuple[str, str]


def frame(kind: int, stream: int = 0, payload: bytes = b"", flags: int = 0, length: int | None = None) -> bytes:
    """Return a frame, perhaps with a wrong length."""
    size = len(payload) if length is None else length
    return struct.pack(">BHBBI", size >> 16, size & 0xFFFF, kind, flags, stream) + payload


def settings(**values: int) -> bytes:
    """Return a frame with the window size of new streams."""
    size = values.get("window", 65535)
    return frame(SETTINGS, payload=struct.pack(">HI", INITIAL_WINDOW_SIZE, size))


def encode_headers(headers: Iterable[Header]) -> bytes:
    """Encode headers as literals that are not indexed."""
    return b"".join(b"\x10" + _text(name) + _text(value) for name, value in headers)


def _text(text: str) -> bytes:
    data = text.encode()
    if len(data) < 127:
        return bytes([len(data)]) + data
    rest, encoded = len(data) - 127, bytearray([127])
    while rest >= 128:
        encoded.append(rest & 127 | 128)
        rest >>= 7
    return bytes([*encoded, rest]) + data


def request_headers(method: str, authority: str, token: str | None) -> list[Header]:
    headers = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", _SERVICE + method),
        (":authority", authority),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
    ]
    return headers if token is None else [*headers, ("authorization", f"Bearer {token}")]


def message(data: bytes, *, length: int | None = None, compressed: bool = False) -> bytes:
    """Return a gRPC message, perhaps with a wrong length."""
    return struct.pack(">BI", compressed, len(data) if length is None else length) + data


class RawConnection:
    """A TCP connection to a gateway.

    Args:
        target: The address ``host:port``.
        token: The token for requests.
        window: The window size of streams. With 0, the gateway cannot send any response.
    """

    def __init__(self, target: str, token: str | None = None, window: int = 65535) -> None:
        host, _, port = target.rpartition(":")
        self._authority = target
        self._token = token
        self._next_stream = 1
        self.socket = socket.create_connection((host, int(port)), timeout=5)
        self.socket.setblocking(True)
        self.socket.settimeout(5)
        self._window = window
        self._buffer = b""
        self._initial_window = 65535
        self._windows: dict[int, int] = {0: 65535}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def greet(self) -> Self:
        """Send what every client sends first."""
        self.socket.sendall(PREFACE + settings(window=self._window) + frame(SETTINGS, flags=1))
        return self

    def open_stream(self, method: str, *, more: Iterable[Header] = ()) -> int:
        """Begin a request, and return the number of its stream."""
        stream, self._next_stream = self._next_stream, self._next_stream + 2
        headers = encode_headers([*request_headers(method, self._authority, self._token), *more])
        self.socket.sendall(frame(HEADERS, stream, headers, END_HEADERS))
        self._windows[stream] = self._initial_window
        return stream

    def send_within_window(self, stream: int, data: bytes, seconds: float) -> None:
        """Send a part of a request as fast as the gateway permits, for at most the given time."""
        deadline = time.monotonic() + seconds
        self.socket.settimeout(0.2)
        while data and time.monotonic() < deadline:
            size = min(len(data), 16384, self._windows[0], self._windows[stream])
            if size <= 0:
                self._receive()
                continue
            self.socket.sendall(frame(DATA, stream, data[:size]))
            data = data[size:]
            self._windows[0] -= size
            self._windows[stream] -= size

    def _receive(self) -> None:
        """Read what the gateway has sent, and note how much it permits."""
        with suppress(TimeoutError):
            received = self.socket.recv(65536)
            if not received:
                raise ConnectionError
            self._buffer += received
        while len(self._buffer) >= 9:
            size = int.from_bytes(self._buffer[:3])
            kind, flags, stream = self._buffer[3], self._buffer[4], int.from_bytes(self._buffer[5:9])
            if len(self._buffer) < 9 + size:
                return
            payload, self._buffer = self._buffer[9 : 9 + size], self._buffer[9 + size :]
            if kind == WINDOW_UPDATE and stream in self._windows:
                self._windows[stream] += int.from_bytes(payload)
            elif kind == SETTINGS and not flags & 1:
                for begin in range(0, size, 6):
                    key, value = struct.unpack_from(">HI", payload, begin)
                    if key == INITIAL_WINDOW_SIZE:
                        self._enlarge(value)

    def _enlarge(self, window: int) -> None:
        """Apply the initial window of streams that the gateway has chosen."""
        for stream in range(1, self._next_stream, 2):
            self._windows[stream] += window - self._initial_window
        self._initial_window = window

    def send(self, stream: int, data: bytes, *, ends: bool = False) -> None:
        """Send a part of a request, in frames of the usual size."""
        for begin in range(0, len(data) or 1, 16384):
            part = data[begin : begin + 16384]
            is_last = begin + 16384 >= len(data)
            self.socket.sendall(frame(DATA, stream, part, END_STREAM if ends and is_last else 0))
