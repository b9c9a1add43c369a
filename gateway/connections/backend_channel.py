"""Connections to a backend."""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from grpc import aio

from gateway.connections.backend_address import BackendAddress
from gateway.connections.backend_credentials import BackendCredentials, Metadata

_CACHED_METHODS = 64
_CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
    ("grpc.minimal_stack", 1),
    # Otherwise, a fast backend fills a buffer of tens of megabytes for each stream that a client does not read.
    ("grpc.http2.bdp_probe", 0),
    # What a backend may send before Lodge reads it, in few frames: each frame costs processor time.
    ("grpc.http2.lookahead_bytes", 256 * 1024),
    ("grpc.http2.max_frame_size", 1024 * 1024),
    # Spark before 4.3 closes a connection with more than one ping in five minutes, or with pings while no call is open.
    # The timeout also applies to data that the peer does not acknowledge (TCP_USER_TIMEOUT).
    ("grpc.keepalive_time_ms", 330_000),
    ("grpc.keepalive_timeout_ms", 60_000),
    ("grpc.http2.max_pings_without_data", 0),
]

_MakeCallable = Callable[[str], Callable[..., Any]]


class BackendChannel:
    """A connection to a backend, which sends the token of Lodge with every call.

    Args:
        address: The address of the backend.
        credentials: The credentials of Lodge.

    Attributes:
        unary: Returns the callable of a method with a single request and a single response.
        unary_stream: Returns the callable of a method with a single request and a stream of responses.
        stream_unary: Returns the callable of a method with a stream of requests and a single response.
        stream: Returns the callable of a method with a stream of requests and a stream of responses.
    """

    def __init__(self, address: BackendAddress, credentials: BackendCredentials) -> None:
        if address.uses_tls:
            tls = credentials.channel_credentials()
            self._channel = aio.secure_channel(address.target, tls, options=_CHANNEL_OPTIONS)
        else:
            self._channel = aio.insecure_channel(address.target, options=_CHANNEL_OPTIONS)
        cache = lru_cache(_CACHED_METHODS)
        metadata = partial(credentials.metadata, str(address)) if credentials.has_tokens else None
        self.unary = cache(add_metadata(self._channel.unary_unary, metadata))
        self.unary_stream = cache(add_metadata(self._channel.unary_stream, metadata))
        self.stream_unary = cache(add_metadata(self._channel.stream_unary, metadata))
        self.stream = cache(add_metadata(self._channel.stream_stream, metadata))

    async def close(self, grace_seconds: float | None) -> None:
        """Close the connection.

        Args:
            grace_seconds: How long running calls may continue.
        """
        await self._channel.close(grace_seconds)


def add_metadata(make: _MakeCallable, metadata: Callable[[], Metadata] | None) -> _MakeCallable:
    """Wrap a method of a channel, so that its calls send additional metadata.

    An interceptor or call credentials of gRPC would cost an additional task for each call, and gRPC refuses call
    credentials without TLS.

    Args:
        make: A method of a channel.
        metadata: A function that returns the current metadata. None if there is none.
    """
    if metadata is None:
        return make
    own = metadata

    def make_with_metadata(method: str) -> Callable[..., Any]:
        call = make(method)

        def start(*request: Any, metadata: Metadata = (), timeout: float | None = None) -> Any:
            return call(*request, metadata=(*metadata, *own()), timeout=timeout)

        return start

    return make_with_metadata
