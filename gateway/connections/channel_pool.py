"""Several connections to one backend.

Many HTTP/2 proxies accept at most 100 open streams of a connection, and gRPC delays further calls until one ends. A
running query is an open stream. Without further connections, 100 queries would therefore delay all other calls.

Guarantee: a call opens a further connection before a connection has more than ``CALLS_PER_CONNECTION`` open calls, up
to ``MAX_CONNECTIONS``. Above this number, it uses the connection with the fewest open calls.

Calls use the oldest connection with room. The others become idle when load decreases, and gRPC closes them.
"""

import asyncio
from collections.abc import Callable

from gateway.connections.backend_channel import BackendChannel

CALLS_PER_CONNECTION = 80
MAX_CONNECTIONS = 64


class ChannelPool:
    """The connections to a backend for calls of one kind.

    Args:
        connect: A function that creates a channel. Creating a channel opens no connection.
    """

    def __init__(self, connect: Callable[[], BackendChannel]) -> None:
        self._connect = connect
        self._channels = [connect()]

    @property
    def open_calls(self) -> int:
        """The number of calls that have not ended."""
        return sum(channel.open_calls for channel in self._channels)

    def choose(self) -> BackendChannel:
        """Return the channel for a new call. Start the call at once, so that the next choice counts it."""
        for channel in self._channels:
            if channel.open_calls < CALLS_PER_CONNECTION:
                return channel
        if len(self._channels) < MAX_CONNECTIONS:
            self._channels.append(self._connect())
            return self._channels[-1]
        return min(self._channels, key=lambda channel: channel.open_calls)

    async def close(self, grace_seconds: float | None) -> None:
        """Close all connections.

        Args:
            grace_seconds: How long running calls may continue.
        """
        await asyncio.gather(*(channel.close(grace_seconds) for channel in self._channels))
