"""Connections to a backend.

Guarantee: Lodge notices within ``KEEPALIVE_SECONDS`` and ``ANSWER_SECONDS`` that a backend has vanished silently, for
example because a firewall drops its packets. All calls on this connection then fail with ``UNAVAILABLE``.

Spark 4.3 and later permits a ping every ten seconds, also while no call is open. Earlier versions close a connection
after the third ping, unless five minutes lie between two pings, or the server has sent data since then. gRPC then
doubles the interval. For these versions, the interval is a setting.

Source: [spark-connect-server SparkConnectService].
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

from grpc import aio

from gateway.connections.backend_address import BackendAddress
from gateway.connections.backend_credentials import BackendCredentials, Metadata

KEEPALIVE_SECONDS = 15.0
"""How long a connection to a backend is silent before Lodge sends a ping."""

ANSWER_SECONDS = 12.0
"""How long a backend may take to answer a ping or to accept data. Otherwise, its connection is closed."""

_OLD_SPARK_SECONDS = 300.0
_CONNECT_SECONDS = 10.0
_CACHED_METHODS = 64
_MAX_ANSWER_BYTES = 256 * 1024 * 1024  # twice what clients accept in one message
_CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", _MAX_ANSWER_BYTES),
    ("grpc.max_send_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # The time for an attempt to connect. By default, an attempt on a network that loses packets takes 20 seconds.
    ("grpc.min_reconnect_backoff_ms", round(_CONNECT_SECONDS * 1000)),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
    # Otherwise, a fast backend fills a buffer of tens of megabytes for each stream that a client does not read.
    ("grpc.http2.bdp_probe", 0),
    # What a backend may send before Lodge reads it, in few frames: each frame costs processor time.
    ("grpc.http2.lookahead_bytes", 256 * 1024),
    ("grpc.http2.max_frame_size", 1024 * 1024),
]

_MakeCallable = Callable[[str], Callable[..., Any]]


def keepalive_options(keepalive_seconds: float) -> Sequence[tuple[str, int]]:
    """Return the options of a channel for pings.

    Args:
        keepalive_seconds: How long a connection is silent before Lodge sends a ping. From five minutes on, Lodge sends
            pings only while a call is open, as required by Spark before version 4.3.
    """
    return [
        ("grpc.keepalive_time_ms", round(keepalive_seconds * 1000)),
        # The timeout also applies to data that the peer does not acknowledge (TCP_USER_TIMEOUT).
        ("grpc.keepalive_timeout_ms", round(ANSWER_SECONDS * 1000)),
        # Without this option, gRPC waits for at least a minute.
        ("grpc.http2.ping_timeout_ms", round(ANSWER_SECONDS * 1000)),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.keepalive_permit_without_calls", int(keepalive_seconds < _OLD_SPARK_SECONDS)),
    ]


class BackendChannel:
    """A connection to a backend, which sends the token of Lodge with every call.

    Args:
        address: The address of the backend.
        credentials: The credentials of Lodge.
        keepalive_seconds: How long the connection is silent before Lodge sends a ping.

    Attributes:
        open_calls: The number of calls that have not ended.
        unary: Returns the callable of a method with a single request and a single response.
        unary_stream: Returns the callable of a method with a single request and a stream of responses.
        stream_unary: Returns the callable of a method with a stream of requests and a single response.
        stream: Returns the callable of a method with a stream of requests and a stream of responses.
    """

    def __init__(
        self, address: BackendAddress, credentials: BackendCredentials, keepalive_seconds: float = KEEPALIVE_SECONDS
    ) -> None:
        self.open_calls = 0
        options = [*_CHANNEL_OPTIONS, *keepalive_options(keepalive_seconds)]
        if address.uses_tls:
            self._channel = aio.secure_channel(address.target, credentials.channel_credentials(), options=options)
        else:
            self._channel = aio.insecure_channel(address.target, options=options)
        cache = lru_cache(_CACHED_METHODS)
        metadata = partial(credentials.metadata, str(address)) if credentials.has_tokens else None
        self.unary = cache(self._count(add_metadata(self._channel.unary_unary, metadata)))
        self.unary_stream = cache(self._count(add_metadata(self._channel.unary_stream, metadata)))
        self.stream_unary = cache(self._count(add_metadata(self._channel.stream_unary, metadata)))
        self.stream = cache(self._count(add_metadata(self._channel.stream_stream, metadata)))

    async def close(self, grace_seconds: float | None) -> None:
        """Close the connection.

        Args:
            grace_seconds: How long running calls may continue.
        """
        await self._channel.close(grace_seconds)

    def _count(self, make: _MakeCallable) -> _MakeCallable:
        """Wrap a method of the channel, so that its open calls are counted."""

        def make_counted(method: str) -> Callable[..., Any]:
            start = make(method)

            def start_counted(*request: Any, metadata: Metadata = (), timeout: float | None = None) -> Any:
                call = start(*request, metadata=metadata, timeout=timeout)
                self.open_calls += 1
                call.add_done_callback(self._end_call)
                return call

            return start_counted

        return make_counted

    def _end_call(self, _: object) -> None:
        self.open_calls -= 1


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
