"""Closes connections of clients.

gRPC cannot end a single stream whose client does not read: the status waits behind the message that the client does not
read. It does not offer to close a connection either. Therefore, this module shuts down the socket of the connection,
which is a file of this process.
"""

import os
import socket
import stat
from collections.abc import Iterator, Set
from contextlib import suppress
from ipaddress import AddressValueError, IPv6Address, IPv6Network
from urllib.parse import unquote

_OPEN_FILES = "/dev/fd"

_Address = tuple[str, int]
"""A host and a port."""


def close_connection(peer: str) -> bool:
    """Close the connection of a client.

    All streams of the connection fail. The client sees the status ``UNAVAILABLE``, and may connect again.

    Args:
        peer: The network address of the client, as gRPC reports it, such as ``ipv4:127.0.0.1:50000``.

    Returns:
        Whether the connection was found.
    """
    address = _address(peer)
    if address is None:
        return False
    for connection in _sockets():
        with connection:
            if _remote_address(connection) == address:
                connection.shutdown(socket.SHUT_RDWR)
                return True
    return False


class IdleConnections:
    """Closes the connections of clients that have no open call.

    A call fails with ``UNAVAILABLE`` if the client sends it at the same moment, or if it has not been admitted.

    Args:
        ports: The ports on which the gateway listens.
    """

    def __init__(self, ports: Set[int]) -> None:
        self._ports = ports
        self._idle: Set[_Address] = frozenset()

    def refuse_new(self) -> None:
        """Refuse new connections from now on. Clients see the status ``UNAVAILABLE``. The method blocks.

        Raises:
            OSError: If this process has too many open files.
        """
        for listener in _sockets():
            with listener, suppress(OSError):  # the socket is no network socket
                if listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) and self._is_ours(listener):
                    listener.shutdown(socket.SHUT_RDWR)

    def close(self, busy_peers: Set[str], *, at_once: bool = False) -> int:
        """Make a pass over all connections. The method blocks.

        Args:
            busy_peers: The network addresses of clients with open calls, as gRPC reports them.
            at_once: Whether to close a connection that the last pass did not find idle. By default, it stays open until
                the next pass, so that the status of its last call reaches the client.

        Returns:
            The number of idle connections that are still open.

        Raises:
            OSError: If this process has too many open files.
        """
        busy = {_address(peer) for peer in busy_peers}
        idle = set[_Address]()
        for connection in _sockets():
            with connection, suppress(OSError):  # the client has closed it
                address = _remote_address(connection)
                if address is None or address in busy or not self._is_ours(connection):
                    continue
                if at_once or address in self._idle:
                    connection.shutdown(socket.SHUT_RDWR)
                else:
                    idle.add(address)
        self._idle = idle
        return len(idle)

    def _is_ours(self, end: socket.socket) -> bool:
        name = end.getsockname()
        return isinstance(name, tuple) and name[1] in self._ports


def host_of(peer: str) -> str:
    """Return the host in a network address that gRPC reports.

    A host can use all IPv6 addresses with the same first 64 bits, so they count as one host.
    """
    kind, _, rest = peer.partition(":")
    if kind == "ipv6":
        try:
            address = IPv6Address(unquote(rest).rpartition(":")[0].strip("[]").partition("%")[0])
        except AddressValueError:
            return peer.rpartition(":")[0]
        if address.ipv4_mapped is not None:
            return f"ipv4:{address.ipv4_mapped}"
        return f"ipv6:{IPv6Network((int(address), 64), strict=False)}"
    return peer.rpartition(":")[0] or peer


def _remote_address(connection: socket.socket) -> _Address | None:
    """Return the address of the other end. None if the socket is not connected, or is no network socket."""
    try:
        name = connection.getpeername()
    except OSError:
        return None
    return (_canonical(name[0]), name[1]) if isinstance(name, tuple) else None


def _address(peer: str) -> _Address | None:
    kind, _, rest = peer.partition(":")
    host, _, port = unquote(rest).rpartition(":")
    if kind not in {"ipv4", "ipv6"} or not port.isdigit():
        return None
    return _canonical(host.strip("[]")), int(port)


def _canonical(host: str) -> str:
    """Return an address without the prefix ``::ffff:`` of an IPv4-mapped IPv6 address."""
    return host.removeprefix("::ffff:")


def _sockets() -> Iterator[socket.socket]:
    """Yield copies of all sockets of this process. The caller closes them."""
    for name in os.listdir(_OPEN_FILES):  # noqa: PTH208 - the names are numbers, not paths
        try:
            number = int(name)
            if not stat.S_ISSOCK(os.fstat(number).st_mode):
                continue
            copy = os.dup(number)
        except OSError:  # it was closed since it was listed
            continue
        try:
            connection = socket.socket(fileno=copy)
        except OSError:  # it is of an unknown kind
            os.close(copy)
        else:
            yield connection
