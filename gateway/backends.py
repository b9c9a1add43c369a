"""The Spark Connect servers behind a gateway, and the choice of one for a session."""

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
    """The address of a backend is not of the form ``sc://HOST:PORT``."""

    def __init__(self, address: str) -> None:
        super().__init__(f"Backend [{address}] is not of the form sc://HOST:PORT.")


class Backend:
    """One Spark Connect server, called with encoded messages.

    Each attribute that is a function returns what calls the method of a path, such as
    ``/spark.connect.SparkConnectService/Config``.

    Args:
        address: The address from the settings, ``sc://host:port``.

    Attributes:
        address: The address from the settings.
        unary: For a method with one request and one response.
        unary_stream: For a method with one request and a stream of responses.
        stream_unary: For a method with a stream of requests and one response.
        stream: For a method with streams of both.

    Raises:
        BackendAddressError: The address has another form.
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
        """Close the channel. Calls that run fail."""
        await self._channel.close()


class Backends:
    """All backends of a gateway.

    Guarantees:

    1. A new session of a principal with a backend of its own gets that backend. Any other session gets a shared one.
    2. If principals run on their own backends only, no session gets another, even if its record names another.

    Args:
        shared: The addresses of the backends for all principals.
        own: The address of the backend of each principal that has one of its own.
        own_only: Whether no principal may use the shared backends.

    Raises:
        BackendAddressError: An address is not of the form ``sc://host:port``.
    """

    def __init__(
        self, shared: Sequence[str], own: Mapping[Principal, str] = MappingProxyType({}), *, own_only: bool = False
    ) -> None:
        self._own = own
        self._own_only = own_only
        self._shared = () if own_only else tuple(shared)
        self._by_address = {address: Backend(address) for address in (*self._shared, *own.values())}

    def choose(self, session: RecordName, principal: Principal) -> Backend | None:
        """Choose the backend of a new session.

        Every replica chooses the same one (rendezvous hashing).

        Returns:
            The backend; None if there is none for the principal.
        """
        own = self._own.get(principal)
        if own is not None:
            return self._by_address[own]
        best = max(
            self._shared, key=lambda address: hashlib.sha256(f"{session} {address}".encode()).digest(), default=None
        )
        return None if best is None else self._by_address[best]

    def find(self, record: SessionRecord) -> Backend | None:
        """Return the backend that a session record names.

        Returns:
            The backend; None if it is no longer configured, or the principal may not use it.
        """
        if self._own_only and self._own.get(record.principal) != record.backend:
            return None
        return self._by_address.get(record.backend)

    async def close(self) -> None:
        """Close the channels to all backends."""
        for backend in self._by_address.values():
            await backend.close()
