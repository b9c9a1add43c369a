"""The gRPC servers of the gateway: their ports, and the limits for connections.

The options in this module concern connections only. Limits for requests belong to ``gateway/admission/``.

Guarantees:

1. The number of connections is bounded. While the limit is reached, new connections are closed at once, and clients
   connect again with a delay. Each server has its share of the limit.
2. A connection that does not complete its handshake is closed after ``HANDSHAKE_SECONDS``. A connection whose client
   does not answer a ping is closed after ``PING_SECONDS`` and ``PING_TIMEOUT_SECONDS``, and so is a connection that
   does not accept data for ``PING_TIMEOUT_SECONDS``.
3. A connection without an open stream is closed after the idle timeout. An old connection accepts no new streams; its
   open streams continue for the grace period. Clients open a new connection by themselves.
"""

import asyncio
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

import grpc

from gateway.connections.shared_port import SHARES_PORTS, SharedServers
from gateway.connections.tls import ServerCertificates, TlsFiles
from gateway.reloading.source_memory import SourceMemory

HANDSHAKE_SECONDS = 10
UNREAD_STREAM_BYTES = 256 * 1024
PENDING_REQUESTS = 10_000
PING_SECONDS = 15
PING_TIMEOUT_SECONDS = 12
SHORTEST_PING_INTERVAL_SECONDS = 5
MAX_METADATA_BYTES = 40 * 1024
_MAX_SERVERS = 4
_MIN_CONNECTIONS = 250
"""The smallest share of a server. The system does not divide connections evenly, which matters for small shares."""


class ListenError(OSError):
    """An error while the gateway starts to listen on the configured address."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits for connections of clients.

    Attributes:
        connections: The maximum number of connections to each port, including those in the handshake.
        streams: The maximum number of open streams of a connection. Clients delay further streams.
        idle_timeout_seconds: How long a connection without an open stream stays open.
        age_seconds: The age after which a connection accepts no new streams. None means no limit.
        age_grace_seconds: How long the open streams of such a connection may continue.
        metadata_bytes: The maximum size of the metadata of a request.
        unread_stream_bytes: How many bytes of a stream a client may send before Lodge reads them.
        handshake_seconds: How long a client may take for the TLS handshake and its first HTTP/2 frames.
        ping_seconds: How long a connection is silent before the gateway sends a ping.
        ping_timeout_seconds: How long a client may take to answer a ping or to accept data.
        shortest_ping_interval_seconds: The shortest time between two pings of a client. Go clients can send pings every
            10 seconds.
    """

    connections: int = 4000
    streams: int = 1000
    idle_timeout_seconds: float = 1800.0
    age_seconds: float | None = None
    age_grace_seconds: float = 600.0
    metadata_bytes: int = MAX_METADATA_BYTES
    unread_stream_bytes: int = UNREAD_STREAM_BYTES
    handshake_seconds: float = HANDSHAKE_SECONDS
    ping_seconds: float = PING_SECONDS
    ping_timeout_seconds: float = PING_TIMEOUT_SECONDS
    shortest_ping_interval_seconds: float = SHORTEST_PING_INTERVAL_SECONDS

    def divide(self) -> Sequence["ConnectionLimits"]:
        """Return the limits of each of the servers that share a port."""
        count = max(1, min(_MAX_SERVERS, self.connections // _MIN_CONNECTIONS)) if SHARES_PORTS else 1
        share, rest = divmod(self.connections, count)
        return [replace(self, connections=share + (number < rest)) for number in range(count)]

    def options(self) -> Sequence[tuple[str, int]]:
        """Return the options for a gRPC server."""
        options = [
            ("grpc.max_allowed_incoming_connections", self.connections),
            ("grpc.max_concurrent_streams", self.streams),
            ("grpc.max_connection_idle_ms", _milliseconds(self.idle_timeout_seconds)),
            # Equal values, because gRPC refuses requests between the two limits at random.
            ("grpc.max_metadata_size", self.metadata_bytes),
            ("grpc.absolute_max_metadata_size", self.metadata_bytes),
            # What a client may send before Lodge reads it. Otherwise, gRPC would buffer more for fast connections.
            ("grpc.http2.bdp_probe", 0),
            ("grpc.http2.lookahead_bytes", self.unread_stream_bytes),
            # Above the first limit, gRPC cancels requests at random, also those of other clients. The default is 1,000.
            ("grpc.server.max_pending_requests", PENDING_REQUESTS),
            ("grpc.server.max_pending_requests_hard_limit", PENDING_REQUESTS),
            ("grpc.server_handshake_timeout_ms", _milliseconds(self.handshake_seconds)),
            ("grpc.keepalive_time_ms", _milliseconds(self.ping_seconds)),
            ("grpc.keepalive_timeout_ms", _milliseconds(self.ping_timeout_seconds)),
            # Without this option, gRPC waits for at least a minute.
            ("grpc.http2.ping_timeout_ms", _milliseconds(self.ping_timeout_seconds)),
            # PySpark sends a ping every minute, also while no call is open.
            ("grpc.keepalive_permit_without_calls", 1),
            (
                "grpc.http2.min_ping_interval_without_data_ms",
                _milliseconds(self.shortest_ping_interval_seconds),
            ),
        ]
        if self.age_seconds is not None:
            options += [
                ("grpc.max_connection_age_ms", _milliseconds(self.age_seconds)),
                ("grpc.max_connection_age_grace_ms", _milliseconds(self.age_grace_seconds)),
            ]
        return options


@dataclass(frozen=True, slots=True)
class ServerTls:
    """TLS for the connections of clients.

    gRPC for Python either requires a client certificate on a port, or does not ask for one. If clients may also use
    other credentials, clients with certificates therefore need a port of their own.

    Attributes:
        files: The certificates.
        requires_client_certificate: Whether the main port requires a client certificate.
        certificate_listen: The address of a second port, which requires a client certificate. None if there is none.
        memory: Keeps the contents of the files for a gateway that replaces this one. None if no gateway can replace it.
    """

    files: TlsFiles
    requires_client_certificate: bool = False
    certificate_listen: str | None = None
    memory: SourceMemory | None = None


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses on which a gateway listens.

    Attributes:
        main: The main address, in the form ``host:port``.
        certificate: The address for clients with certificates. None if there is no second port.
        uses_tls: Whether the ports use TLS.
    """

    main: str
    certificate: str | None
    uses_tls: bool

    @property
    def url(self) -> str:
        """The main address as clients write it."""
        return self._url(self.main)

    @property
    def certificate_url(self) -> str | None:
        """The address for clients with certificates as clients write it."""
        return None if self.certificate is None else self._url(self.certificate)

    @property
    def ports(self) -> Set[int]:
        """The ports of all addresses."""
        return {int(address.rpartition(":")[2]) for address in (self.main, self.certificate) if address is not None}

    def _url(self, address: str) -> str:
        return f"sc://{address}/;use_ssl=true" if self.uses_tls else f"sc://{address}"


class Listener:
    """The gRPC servers of a gateway, which share its ports.

    Create it in the event loop.

    Args:
        listen: The main address, in the form ``host:port``. With port 0, the system chooses a port.
        limits: The limits for connections.
        tls: The TLS settings. None for connections without TLS.
        max_message_bytes: The maximum size of a message of a client.

    Attributes:
        server: The servers, to which the caller adds handlers.

    Raises:
        SourceError: If a TLS file cannot be used.
    """

    def __init__(self, listen: str, limits: ConnectionLimits, tls: ServerTls | None, max_message_bytes: int) -> None:
        self._listen = listen
        self._tls = tls
        self._certificates = None if tls is None else ServerCertificates(tls.files, tls.memory)
        # gRPC keeps no reference to credentials, although it calls their callback until the server has stopped.
        self._credentials: list[grpc.ServerCredentials] = []
        self.server = SharedServers(
            [
                [
                    ("grpc.max_receive_message_length", max_message_bytes),
                    ("grpc.max_send_message_length", -1),
                    *each.options(),
                ]
                for each in limits.divide()
            ]
        )

    @property
    def certificate_expires_at(self) -> float | None:
        """When the certificate expires, in seconds since the epoch. None without TLS."""
        return None if self._certificates is None else self._certificates.expires_at

    async def start(self) -> Addresses:
        """Start listening.

        Raises:
            ListenError: If an address is already in use, or is not an address of this host.
        """
        tls, certificate = self._tls, None
        main = self._add_port(
            self._listen, "--listen", require_client_certificate=tls is not None and tls.requires_client_certificate
        )
        if tls is not None and tls.certificate_listen is not None:
            certificate = self._add_port(
                tls.certificate_listen, "tls.client_certificate_listen", require_client_certificate=True
            )
        await self.server.start()
        return Addresses(main, certificate, tls is not None)

    async def reload_certificates(self) -> None:
        """Read the certificates again. New connections use them if they are valid."""
        if self._certificates is not None:
            await asyncio.to_thread(self._certificates.reload)

    def _add_port(self, address: str, setting: str, *, require_client_certificate: bool) -> str:
        host, _, _ = address.rpartition(":")

        def credentials() -> grpc.ServerCredentials | None:
            if self._certificates is None:
                return None
            self._credentials.append(
                self._certificates.credentials(require_client_certificate=require_client_certificate)
            )
            return self._credentials[-1]

        try:
            port = self.server.add_port(address, credentials)
        except OSError as error:
            raise ListenError(
                f"Cannot listen on [{address}]: the port may be in use, or the host may not be an address of this "
                f"machine. Set another address with {setting}."
            ) from error
        return f"{host}:{port}"


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
