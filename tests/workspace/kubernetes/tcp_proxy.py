"""A TCP proxy that loses chosen answers and resets connections. It sees only bytes, as a network does."""

import selectors
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self

_BLOCK_BYTES = 65_536
_LOOK_SECONDS = 0.05


class TcpProxy:
    """A context manager that forwards bytes between clients and a server on loopback.

    Attributes:
        port: The port for clients.
        is_silent: Whether the proxy forwards nothing while connections stay open.
    """

    def __init__(self, server_port: int) -> None:
        self.is_silent = False
        self._server_port = server_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._losing: Callable[[], object] | None = None
        self._answers_before = 0
        self._asked: set[socket.socket] = set()
        self._open: set[socket.socket] = set()

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
        with (
            suppress(OSError, ValueError),
            selectors.DefaultSelector() as selector,
            client,
            socket.create_connection(("127.0.0.1", self._server_port)) as server,
        ):
            self._open |= {client, server}
            selector.register(client, selectors.EVENT_READ, server)
            selector.register(server, selectors.EVENT_READ, client)
            while self._hands_on(selector, server):
                pass

    def _hands_on(self, selector: selectors.BaseSelector, server: socket.socket) -> bool:
        """Forward some bytes, and return False when the connection has ended."""
        for key, _ in selector.select(_LOOK_SECONDS):
            if self.is_silent:
                threading.Event().wait(_LOOK_SECONDS)
                return True
            assert isinstance(key.fileobj, socket.socket)
            block = key.fileobj.recv(_BLOCK_BYTES)
            if not block or (key.fileobj is server and self._loses(server)):
                return False
            if key.fileobj is not server:
                self._asked.add(server)
            key.data.sendall(block)
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
