"""A TCP proxy that loses, delays and drops bytes, and resets connections. It sees only bytes, as a network does."""

import selectors
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self

_BLOCK_BYTES = 65_536
_LOOK_SECONDS = 1.0  # after which a connection notices that it was closed
_SILENT_SECONDS = 0.05


class TcpProxy:
    """A context manager that forwards bytes between clients and a server on loopback.

    Args:
        server_port: The port of the server, or a function that returns it for each new connection. If the function
            returns None, the connection is closed.

    Attributes:
        port: The port for clients.
        is_silent: Whether the proxy forwards nothing while connections stay open.
        delay_seconds: How long the proxy keeps each block of bytes.
        connections: The number of connections that clients have opened.
        forwarded_bytes: The number of forwarded bytes.
    """

    def __init__(self, server_port: int | Callable[[], int | None]) -> None:
        self.is_silent = False
        self.delay_seconds = 0.0
        self.connections = 0
        self.forwarded_bytes = 0
        self._server_port = server_port if callable(server_port) else lambda: server_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._losing: Callable[[], object] | None = None
        self._answers_before = 0
        self._asked: set[socket.socket] = set()
        self._open: set[socket.socket] = set()
        self._clients: set[socket.socket] = set()
        self._dropping: set[socket.socket] = set()
        self._reset_at_bytes: int | None = None

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        _close(self._listener)
        self.cut()

    def cut(self) -> None:
        """Close all connections."""
        for end in list(self._open):
            _close(end)

    def reset(self) -> None:
        """Reset all connections, as a load balancer does when it restarts."""
        for end in list(self._open):
            with suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.cut()

    def reset_after(self, more_bytes: int) -> None:
        """Reset all connections once, after a number of further bytes."""
        self._reset_at_bytes = self.forwarded_bytes + more_bytes

    @property
    def has_reset(self) -> bool:
        """Whether the reset of :meth:`reset_after` has happened."""
        return self._reset_at_bytes is None

    @property
    def open_connections(self) -> int:
        """The number of connections that clients have not closed."""
        return len(self._clients)

    def drop(self) -> None:
        """Discard all bytes on the open connections without closing them, as a firewall that has forgotten them.

        New connections work.
        """
        self._dropping |= self._open

    def half_close(self) -> None:
        """End the stream of bytes from the server to the client on all connections. The other direction stays open."""
        for end in list(self._clients):
            with suppress(OSError):
                end.shutdown(socket.SHUT_WR)

    def lose_answer(self, before_loss: Callable[[], object] = lambda: None, *, after: int = 0) -> None:
        """Close the connection instead of forwarding an answer, after a number of other answers.

        The client must have an open connection, because the first bytes of a server are no answer.
        """
        self._answers_before, self._losing = after, before_loss

    def _accept(self) -> None:
        with suppress(OSError):  # the listener is closed
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        ends = {client}
        with suppress(OSError, ValueError), selectors.DefaultSelector() as selector, client:
            port = self._server_port()
            if port is None:
                return
            with socket.create_connection(("127.0.0.1", port)) as server:
                ends.add(server)
                self.connections += 1
                self._open |= ends
                self._clients.add(client)
                selector.register(client, selectors.EVENT_READ, server)
                selector.register(server, selectors.EVENT_READ, client)
                while selector.get_map() and any(end.fileno() >= 0 for end in ends):
                    if not self._hands_on(selector, server):
                        break
        self._clients.discard(client)
        for ended in (self._open, self._dropping, self._asked):
            ended.difference_update(ends)

    def _hands_on(self, selector: selectors.BaseSelector, server: socket.socket) -> bool:
        """Forward some bytes, and return False when the connection has ended."""
        for key, _ in selector.select(_LOOK_SECONDS):
            assert isinstance(key.fileobj, socket.socket)
            if key.fileobj in self._dropping:
                if not key.fileobj.recv(_BLOCK_BYTES):
                    selector.unregister(key.fileobj)
                    key.fileobj.close()
                    self._clients.discard(key.fileobj)
                continue
            if self.is_silent:
                threading.Event().wait(_SILENT_SECONDS)
                return True
            block = key.fileobj.recv(_BLOCK_BYTES)
            if not block or (key.fileobj is server and self._loses(server)):
                return False
            if key.fileobj is not server:
                self._asked.add(server)
            if self.delay_seconds:
                threading.Event().wait(self.delay_seconds)
            key.data.sendall(block)
            self.forwarded_bytes += len(block)
            if self._reset_at_bytes is not None and self.forwarded_bytes >= self._reset_at_bytes:
                self._reset_at_bytes = None
                self.reset()
                return False
        return True

    def _loses(self, server: socket.socket) -> bool:
        """Return whether these bytes of the server are the answer to lose."""
        if self._losing is None or server not in self._asked:
            return False
        self._asked.discard(server)
        if self._answers_before:
            self._answers_before -= 1
            return False
        before_loss, self._losing = self._losing, None
        before_loss()
        return True


def _close(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
