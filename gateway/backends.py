"""Backends: the Spark Connect servers behind a gateway, and which of them a new session gets."""

import hashlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from urllib.parse import urlsplit

from grpc import aio

from workspace.records import Principal, RecordName, SessionRecord

SERVICE = "/spark.connect.SparkConnectService/"

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
    def __init__(self, address: str) -> None:
        super().__init__(f"Backend [{address}] is not of the form sc://HOST:PORT.")


class Backend:
    """One Spark Connect server. Calls carry bytes both ways and are made once per method.

    Args:
        address: As configured, ``sc://host:port``.

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
        self._unary: dict[str, aio.UnaryUnaryMultiCallable] = {}
        self._unary_stream: dict[str, aio.UnaryStreamMultiCallable] = {}
        self._stream_unary: dict[str, aio.StreamUnaryMultiCallable] = {}
        self._stream: dict[str, aio.StreamStreamMultiCallable] = {}

    def unary(self, method: str) -> aio.UnaryUnaryMultiCallable:
        call = self._unary.get(method)
        if call is None:
            call = self._unary[method] = self._channel.unary_unary(method)
        return call

    def unary_stream(self, method: str) -> aio.UnaryStreamMultiCallable:
        call = self._unary_stream.get(method)
        if call is None:
            call = self._unary_stream[method] = self._channel.unary_stream(method)
        return call

    def stream_unary(self, method: str) -> aio.StreamUnaryMultiCallable:
        call = self._stream_unary.get(method)
        if call is None:
            call = self._stream_unary[method] = self._channel.stream_unary(method)
        return call

    def stream(self, method: str) -> aio.StreamStreamMultiCallable:
        call = self._stream.get(method)
        if call is None:
            call = self._stream[method] = self._channel.stream_stream(method)
        return call

    async def close(self) -> None:
        await self._channel.close()


class Backends:
    """All backends of a gateway.

    Guarantees:

    1. A principal with a backend of its own gets that one for a new session, any other a shared one.
    2. If principals run on their own backends only, no session ever gets another, whatever its record says.

    Args:
        shared: The addresses of those for all principals.
        own: The address of a principal's own backend, by principal.
        own_only: Whether the shared ones are for nobody.

    Raises:
        BackendAddressError: An address is of no known form.
    """

    def __init__(
        self, shared: Sequence[str], own: Mapping[Principal, str] = MappingProxyType({}), *, own_only: bool = False
    ) -> None:
        self._own = own
        self._own_only = own_only
        self._shared = () if own_only else tuple(shared)
        self._by_address = {address: Backend(address) for address in (*self._shared, *own.values())}

    def choose(self, session: RecordName, principal: Principal) -> Backend | None:
        """The backend of a new session: the same on every replica (rendezvous hashing). None if there is none for the
        principal."""
        own = self._own.get(principal)
        if own is not None:
            return self._by_address[own]
        best = max(
            self._shared,
            key=lambda address: hashlib.sha256(f"{session} {address}".encode()).digest(),
            default=None,
        )
        return None if best is None else self._by_address[best]

    def of_record(self, record: SessionRecord) -> Backend | None:
        """The backend that has a session; None if the principal may not use it, or it is no longer configured."""
        if self._own_only and self._own.get(record.principal) != record.backend:
            return None
        return self._by_address.get(record.backend)

    async def close(self) -> None:
        for backend in self._by_address.values():
            await backend.close()
