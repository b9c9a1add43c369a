"""The Spark Connect servers of a gateway, and how sessions are assigned to them."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from urllib.parse import urlsplit

from grpc import aio

from workspace.identifiers import Principal, RecordName
from workspace.records import SessionRecord

SERVICE = "/spark.connect.SparkConnectService/"

_CACHED_METHODS = 64
_CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
    ("grpc.minimal_stack", 1),
]


class BackendAddressError(ValueError):
    """A backend address that does not have the form ``sc://HOST:PORT``."""

    def __init__(self, address: str) -> None:
        super().__init__(f"Backend [{address}] is not of the form sc://HOST:PORT.")


class Backend:
    """A Spark Connect server that is called with encoded messages.

    The attributes ``unary``, ``unary_stream``, ``stream_unary`` and ``stream`` are functions. Given the path of a
    method, for example ``/spark.connect.SparkConnectService/Config``, each function returns a gRPC callable for this
    method.

    Args:
        address: The configured address, in the form ``sc://host:port``.

    Attributes:
        address: The configured address.
        unary: For methods with a single request and a single response.
        unary_stream: For methods with a single request and a stream of responses.
        stream_unary: For methods with a stream of requests and a single response.
        stream: For methods with a stream of requests and a stream of responses.

    Raises:
        BackendAddressError: If the address has another form.
    """

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        try:
            port = parts.port
        except ValueError:
            port = None
        if parts.scheme != "sc" or not parts.hostname or port is None or parts.path not in {"", "/"}:
            raise BackendAddressError(address)
        self.address = address
        self._channel = aio.insecure_channel(parts.netloc, options=_CHANNEL_OPTIONS)
        cache = lru_cache(_CACHED_METHODS)
        self.unary: Callable[[str], aio.UnaryUnaryMultiCallable] = cache(self._channel.unary_unary)
        self.unary_stream: Callable[[str], aio.UnaryStreamMultiCallable] = cache(self._channel.unary_stream)
        self.stream_unary: Callable[[str], aio.StreamUnaryMultiCallable] = cache(self._channel.stream_unary)
        self.stream: Callable[[str], aio.StreamStreamMultiCallable] = cache(self._channel.stream_stream)

    async def close(self) -> None:
        """Close the channel. Running calls fail."""
        await self._channel.close()


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

    Raises:
        BackendAddressError: If an address does not have the form ``sc://host:port``.
    """

    def __init__(
        self, shared: Sequence[str], own: Mapping[Principal, str] = MappingProxyType({}), *, own_only: bool = False
    ) -> None:
        self._own = own
        self._own_only = own_only
        self._shared = () if own_only else tuple(shared)
        self._by_address = {address: Backend(address) for address in (*self._shared, *own.values())}

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

    async def close(self) -> None:
        """Close the channels to all backends."""
        for backend in self._by_address.values():
            await backend.close()
