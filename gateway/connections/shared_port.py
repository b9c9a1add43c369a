"""Several gRPC servers that listen on one port of one gateway.

gRPC for Python accepts one call of a method at a time, and needs several turns of the event loop for each. If a client
begins calls faster, all calls of the server wait, before any login or limit. Therefore, a gateway has several servers,
and the system chooses one of them for each connection (``SO_REUSEPORT``). A flood of calls then delays the calls of
those connections that share its server, and the others wait for less.

Source: [architecture "Gateway"].
"""

import asyncio
import errno
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import grpc
from grpc import aio

SHARES_PORTS = sys.platform == "linux"
"""Whether the system divides the connections to a port between its listeners."""

_NOT_HERE = {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}


class SharedServers:
    """Several gRPC servers with the same handlers and ports. It has the methods of one server.

    Args:
        options: The options of each server.
    """

    def __init__(self, options: Sequence[Sequence[tuple[str, Any]]]) -> None:
        shares_ports = int(len(options) > 1)
        self._servers = [aio.server(options=[*each, ("grpc.so_reuseport", shares_ports)]) for each in options]

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        for server in self._servers:
            server.add_generic_rpc_handlers(handlers)

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, grpc.RpcMethodHandler]) -> None:
        for server in self._servers:
            server.add_registered_method_handlers(service, handlers)

    def add_port(self, address: str, credentials: Callable[[], grpc.ServerCredentials | None]) -> int:
        """Listen on a port with all servers.

        Args:
            address: The address, in the form ``host:port``. With port 0, the system chooses a port.
            credentials: Returns new credentials for a server, because each of them watches its own certificates. None
                for connections without TLS.

        Returns:
            The port.

        Raises:
            OSError: If the port is in use, or the host is not an address of this machine.
        """
        if len(self._servers) == 1:
            return _add_port(self._servers[0], address, credentials())
        with reserved_port(address) as port:
            host, _, _ = address.rpartition(":")
            for server in self._servers:
                _add_port(server, f"{host}:{port}", credentials())
            return port

    async def start(self) -> None:
        for server in self._servers:
            await server.start()

    async def stop(self, grace: float | None) -> None:
        """Refuse new calls, and end those that still run.

        Args:
            grace: How long running calls may continue, in seconds. None to end them at once.
        """
        await asyncio.gather(*(server.stop(grace) for server in self._servers))


def _add_port(server: aio.Server, address: str, credentials: grpc.ServerCredentials | None) -> int:
    try:
        if credentials is None:
            return int(server.add_insecure_port(address))
        return int(server.add_secure_port(address, credentials))
    except RuntimeError as error:
        raise OSError(str(error)) from error


@contextmanager
def reserved_port(address: str) -> Iterator[int]:
    """Reserve a port for this process, which can then listen on it several times.

    The first socket listens without ``SO_REUSEPORT``, so two gateways cannot get the same port, also if both start at
    the same moment. A connection to this socket is closed at the end of the block.

    Not guaranteed: a process of the same OS user can listen on the port later, and then receives some of the
    connections. Such a process can also read the files and the memory of the gateway.

    Raises:
        OSError: If the port is in use, or the host is not an address of this machine.
    """
    host, _, number = address.rpartition(":")
    port = int(number)
    error: OSError | None = OSError(errno.EADDRNOTAVAIL, "the host has no address")
    with ExitStack() as sockets:
        for family, target in _socket_addresses(host):
            try:
                reserved = sockets.enter_context(socket.socket(family, socket.SOCK_STREAM))
                reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                reserved.bind((target[0], port, *target[2:]))
                reserved.listen(1)
                reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            except OSError as found:
                # A name can have addresses of a kind that the machine does not use, such as ``::1``. gRPC ignores them.
                if found.errno not in _NOT_HERE:
                    raise
                error = found
            else:
                port, error = int(reserved.getsockname()[1]), None
        if error is not None:
            raise error
        yield port


def _socket_addresses(host: str) -> Iterable[tuple[socket.AddressFamily, Any]]:
    """Return the addresses of a host, each once. A host without IPv6 listens on ``0.0.0.0`` instead of ``[::]``."""
    name = host.strip("[]")
    if host == "[::]" and not socket.has_dualstack_ipv6():
        name = "0.0.0.0"  # noqa: S104 - as the operator has written
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return dict.fromkeys((family, target) for family, _, _, _, target in found)
