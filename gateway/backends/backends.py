"""The Spark Connect servers of a gateway, and how sessions are assigned to them."""

import asyncio
import hashlib
import ipaddress
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

import structlog
from grpc import aio

from gateway.connections.backend_address import BackendAddress
from gateway.connections.backend_channel import KEEPALIVE_SECONDS, BackendChannel
from gateway.connections.backend_credentials import BackendAccess, BackendCredentials
from gateway.connections.channel_pool import ChannelPool
from gateway.errors import backend_failed
from workspace.identifiers import Principal, RecordName
from workspace.records import SessionRecord

SERVICE = "/spark.connect.SparkConnectService/"

_CONTROL_METHODS = frozenset(
    SERVICE + name for name in ("FetchErrorDetails", "GetStatus", "Interrupt", "ReleaseExecute", "ReleaseSession")
)
_OLD_CHANNEL_SECONDS = 3600.0
_NO_ACCESS = BackendAccess()

log = structlog.get_logger(__name__)


class Backend:
    """A Spark Connect server that is called with encoded messages.

    Calls that end or observe other calls use connections of their own, so that they do not wait behind large messages
    and many open streams. Every call carries the token of Lodge, if there is one.

    Given the path of a method, for example ``/spark.connect.SparkConnectService/Config``, the methods ``unary``,
    ``unary_stream``, ``stream_unary`` and ``stream`` return a function that calls it. The function has the parameters
    ``metadata`` and ``timeout`` of gRPC.

    Args:
        address: The configured address, in the form ``sc://host:port`` or ``sc://host:port/;use_ssl=true``.
        credentials: The credentials of Lodge.
        keepalive_seconds: How long a connection is silent before Lodge sends a ping.

    Attributes:
        address: The configured address.

    Raises:
        BackendAddressError: If the address has another form.
    """

    def __init__(
        self,
        address: str,
        credentials: BackendCredentials | None = None,
        *,
        keepalive_seconds: float = KEEPALIVE_SECONDS,
    ) -> None:
        self.address = address
        self._parsed = BackendAddress.parse(address)
        self._credentials = credentials or BackendCredentials(BackendAccess())
        self._keepalive_seconds = keepalive_seconds
        self._data, self._control = self._connect()
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def exposes_token(self) -> bool:
        """Whether a token for this backend can be read on the network."""
        return not (self._parsed.uses_tls or _is_loopback(self._parsed.host))

    @property
    def open_calls(self) -> int:
        """The number of calls that have not ended."""
        return self._data.open_calls + self._control.open_calls

    def unary(self, method: str) -> Callable[..., aio.UnaryUnaryCall]:
        """Return the function for a method with a single request and a single response."""
        return (self._control if method in _CONTROL_METHODS else self._data).choose().unary(method)

    def unary_stream(self, method: str) -> Callable[..., aio.UnaryStreamCall]:
        """Return the function for a method with a single request and a stream of responses."""
        return self._data.choose().unary_stream(method)

    def stream_unary(self, method: str) -> Callable[..., aio.StreamUnaryCall]:
        """Return the function for a method with a stream of requests and a single response."""
        return self._data.choose().stream_unary(method)

    def stream(self, method: str) -> Callable[..., aio.StreamStreamCall]:
        """Return the function for a method with a stream of requests and a stream of responses."""
        return self._data.choose().stream(method)

    def reconnect(self) -> None:
        """Use new connections for new calls, with the current TLS files. Running calls continue."""
        if self._parsed.uses_tls:
            for pool in (self._data, self._control):
                closing = asyncio.create_task(pool.close(_OLD_CHANNEL_SECONDS))
                self._closing.add(closing)
                closing.add_done_callback(self._closing.discard)
            self._data, self._control = self._connect()

    async def close(self) -> None:
        """Close all connections. Running calls fail."""
        for closing in tuple(self._closing):
            closing.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)
        await self._data.close(None)
        await self._control.close(None)

    def _connect(self) -> tuple[ChannelPool, ChannelPool]:
        connect = partial(BackendChannel, self._parsed, self._credentials, self._keepalive_seconds)
        return ChannelPool(connect), ChannelPool(connect)


def require_answer(response: bytes | None, backend: Backend) -> bytes:
    """Return the response, which gRPC leaves out if the backend ends a call without one.

    Raises:
        GatewayError: If there is none.
    """
    if not isinstance(response, bytes):
        raise backend_failed(backend.address, "it ended a call without an answer")
    return response


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Backends:
    """All backends of a gateway.

    Guarantees:

    1. A new session is assigned to the dedicated backend of its principal. If the principal has no dedicated backend,
       the session is assigned to a shared backend.
    2. If only dedicated backends are allowed, a session never runs on any backend except the dedicated backend of its
       principal, even if its session record contains another backend.

    Args:
        shared: The addresses of the shared backends.
        own: The addresses of the dedicated backends, by principal.
        own_only: If True, only dedicated backends are allowed.
        access: How Lodge authenticates to the backends.
        keepalive_seconds: How long a connection is silent before Lodge sends a ping.

    Raises:
        BackendAddressError: If an address does not have the form ``sc://host:port`` or
            ``sc://host:port/;use_ssl=true``.
        SourceError: If a file of the credentials cannot be used.
    """

    def __init__(
        self,
        shared: Sequence[str],
        own: Mapping[Principal, str] = MappingProxyType({}),
        *,
        own_only: bool = False,
        access: BackendAccess = _NO_ACCESS,
        keepalive_seconds: float = KEEPALIVE_SECONDS,
    ) -> None:
        self._own = own
        self._own_only = own_only
        self._shared = () if own_only else tuple(shared)
        self._credentials = BackendCredentials(access)
        self._by_address = {
            address: Backend(address, self._credentials, keepalive_seconds=keepalive_seconds)
            for address in (*self._shared, *own.values())
        }
        exposed = [address for address, backend in self._by_address.items() if backend.exposes_token]
        exposed = [address for address in exposed if self._credentials.metadata(address)]
        if exposed:
            log.warning("backend_token_exposed", backends=exposed)

    def choose(self, session: RecordName, principal: Principal) -> Backend | None:
        """Return the backend for a new session.

        All replicas choose the same backend for a session (rendezvous hashing).

        Returns:
            The backend. None if there is no backend for the principal.
        """
        own = self._own.get(principal)
        if own is not None:
            return self._by_address[own]
        best = max(
            self._shared, key=lambda address: hashlib.sha256(f"{session} {address}".encode()).digest(), default=None
        )
        return None if best is None else self._by_address[best]

    def find(self, record: SessionRecord) -> Backend | None:
        """Return the backend in a session record.

        Returns:
            The backend. None if the backend is no longer configured, or the principal is not allowed to use the
            backend.
        """
        if self._own_only and self._own.get(record.principal) != record.backend:
            return None
        return self._by_address.get(record.backend)

    async def reload_credentials(self) -> None:
        """Read the files of the credentials again. New calls and new connections use them if they are valid."""
        if await asyncio.to_thread(self._credentials.reload):
            for backend in self._by_address.values():
                backend.reconnect()

    async def close(self) -> None:
        """Close the channels to all backends."""
        for backend in self._by_address.values():
            await backend.close()
