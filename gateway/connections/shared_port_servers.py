"""Several gRPC servers on the same ports, so that a flood of calls on one connection delays fewer others.

gRPC for asyncio accepts one call of a method at a time, which takes several turns of the event loop. All calls of a
method that arrive on the connections of a server wait in one queue. The kernel assigns each connection to one of the
servers, so the calls of a client wait only behind those of connections at the same server.

Guarantees:

1. A port is not shared with another program. A port that is in use is refused.
2. There are together at most as many connections as configured. As each server has an equal part of them, connections
   can be refused while a server has reached its part.

Source: [linux-socket] (``SO_REUSEPORT``).
"""

import asyncio
import errno
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import grpc
from grpc import aio

_SERVERS = 4
_CONNECTIONS_OF_SERVER = 250
"""The fewest connections of a server. With fewer, chance would decide too often which client is refused."""


class SharedPortServers:
    """A gRPC server that consists of several servers.

    Create it in the event loop.

    Args:
        options: The options of each server.
        connections: The maximum number of connections of all servers together.
    """

    def __init__(self, options: Sequence[tuple[str, int]], connections: int) -> None:
        count = max(1, min(_SERVERS, connections // _CONNECTIONS_OF_SERVER))
        limits = [
            ("grpc.so_reuseport", int(count > 1)),
            ("grpc.max_allowed_incoming_connections", connections // count),
        ]
        self._servers = [aio.server(options=[*options, *limits]) for _ in range(count)]

    # The names of these methods are those of a gRPC server, because generated code calls them.

    def add_generic_rpc_handlers(self, generic_rpc_handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        for server in self._servers:
            server.add_generic_rpc_handlers(generic_rpc_handlers)

    def add_registered_method_handlers(self, service_name: str, method_handlers: Mapping[str, Any]) -> None:
        for server in self._servers:
            server.add_registered_method_handlers(service_name, method_handlers)

    def add_port(self, address: str, create_credentials: Callable[[], grpc.ServerCredentials] | None) -> int:
        """Listen on an address, and return its port.

        Args:
            address: The address, in the form ``host:port``. With port 0, the system chooses a port.
            create_credentials: A function that returns new credentials. gRPC uses the first certificate of credentials
                only once, so each server needs its own. None for connections without TLS.

        Raises:
            RuntimeError: If the address is already in use, or is not an address of this host.
        """
        _require_free(address)
        host, _, port = address.rpartition(":")
        for server in self._servers:
            if create_credentials is None:
                port = server.add_insecure_port(f"{host}:{port}")
            else:
                port = server.add_secure_port(f"{host}:{port}", create_credentials())
        return int(port)

    async def start(self) -> None:
        """Start to accept connections."""
        for server in self._servers:
            await server.start()

    async def stop(self, grace_seconds: float | None) -> None:
        """Stop to accept connections and calls, and cancel the calls that run after the grace period."""
        await asyncio.gather(*(server.stop(grace_seconds) for server in self._servers))


def _require_free(address: str) -> None:
    """Check that no other program listens on an address, also if it would share its port.

    Raises:
        RuntimeError: If another program listens on the address.
    """
    host, _, port = address.rpartition(":")
    if port == "0":
        return
    with suppress(socket.gaierror):  # gRPC reports it
        found = socket.getaddrinfo(host.strip("[]") or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, each in found:
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind(each)
                except OSError as error:
                    if error.errno == errno.EADDRINUSE:
                        raise RuntimeError(f"Another program listens on {address}") from error
