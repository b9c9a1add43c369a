"""The drain of a gateway that stops: who it waits for, and what it hands over.

A stop must not lose more than a kill. A killed gateway loses nothing that is recorded: the client sends
``ReattachExecute`` to another gateway, which follows the operation at the backend, or takes over the Lodge statement.
Therefore, a stopping gateway does not interrupt what can continue elsewhere. It ends the streams with an error after
which every client reattaches.

A gRPC server that stops ends a call with ``CANCELLED`` if the call arrives before the client knows of the stop. Clients
do not repeat such a call. Therefore, the gateway first refuses new calls and new connections, and closes connections
without open calls. Clients repeat a call that was refused, or whose connection was closed.

Guarantees:

1. After :meth:`Drain.hand_over`, each stream of results that the client can reattach to ends with
   :class:`GatewayStoppingError`. The operation at the backend continues.
2. A statement about a temporary table is not undone. While the backend writes rows, the statement is handed over at
   once: the operation at the backend continues, and another gateway completes the statement. All other steps are short,
   and finish here. If they do not, because the storage does not respond, the statement is handed over at the end of the
   drain. It is also handed over if the lease of this gateway has lapsed, as it does while the gateway is frozen.
3. Only this gateway can create a permanent table that it has begun to create. The statement can finish until
   :meth:`Drain.give_up`. Then it is undone.
4. A Lodge statement that has not begun does not begin after the handover.

After :class:`GatewayStoppingError`, a client reattaches at another gateway. If that gateway finds neither the statement
nor its answer, as in guarantees 3 and 4, the client sends the statement again. A client that has received progress of a
discovery receives ``LODGE_DISCOVERY_LOST`` instead.

Source: [architecture "Session records, leases and the reaper"].
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import grpc

from gateway.errors import GatewayError

_RETRY_SECONDS = 0.3
"""The delay after which a client repeats its call. In this time, the gateway closes its connection."""


class GatewayStoppingError(GatewayError):
    """The error of a call that the client can continue at another gateway."""

    code = grpc.StatusCode.UNAVAILABLE
    retry_after_seconds = _RETRY_SECONDS

    def __init__(self) -> None:
        super().__init__(
            "LODGE_GATEWAY_STOPPING", "57P01", "This gateway is stopping. Reattach to the operation to continue it."
        )


class Drain:
    """What a stopping gateway hands over.

    Attributes:
        is_handing_over: Whether :meth:`hand_over` was called.
    """

    def __init__(self) -> None:
        self._is_refusing = False
        self.is_handing_over = self._has_given_up = self._has_ended = False
        self._open: dict[object, Callable[[], object]] = {}
        self._unfinished: dict[object, Callable[[], object]] = {}

    def refuse_calls(self) -> None:
        """Refuse new calls from now on."""
        self._is_refusing = True

    def require_open(self) -> None:
        """Refuse a new call.

        Raises:
            GatewayStoppingError: If new calls are refused.
        """
        if self._is_refusing:
            raise GatewayStoppingError

    def require_not_stopping(self) -> None:
        """Refuse to begin what this gateway would not finish.

        Raises:
            GatewayStoppingError: If the gateway hands over its statements.
        """
        if self.is_handing_over:
            raise GatewayStoppingError

    def hand_over(self) -> None:
        """End everything that continues elsewhere."""
        self.is_handing_over = True
        for end in list(self._open.values()):
            end()

    def give_up(self) -> None:
        """End everything that only this gateway could finish."""
        self._has_given_up = True
        for end in list(self._unfinished.values()):
            end()

    def end(self) -> None:
        """End the drain: what is cancelled from now on is handed over."""
        self._has_ended = True

    def hands_over(self, error: BaseException) -> bool:
        """Return whether another gateway can continue a statement that ends with an error."""
        is_cancelled = isinstance(error, asyncio.CancelledError) and self._has_ended
        return is_cancelled or isinstance(error, GatewayStoppingError)

    @contextmanager
    def handing_over(self, end: Callable[[], object]) -> Iterator[None]:
        """Run a block whose work continues elsewhere after the handover.

        Args:
            end: A function that cancels what the block waits for. It is called at the handover.

        Raises:
            GatewayStoppingError: If the handover ended the block.
        """
        with _ending(self._open, end, lambda: self.is_handing_over):
            yield

    @contextmanager
    def finishing(self, end: Callable[[], object]) -> Iterator[None]:
        """Run a block whose work cannot continue elsewhere.

        Args:
            end: A function that cancels what the block waits for. It is called when the gateway gives up.

        Raises:
            GatewayStoppingError: If the gateway gave up while the block ran.
        """
        with _ending(self._unfinished, end, lambda: self._has_given_up):
            yield


@contextmanager
def _ending(
    registry: dict[object, Callable[[], object]], end: Callable[[], object], has_ended: Callable[[], bool]
) -> Iterator[None]:
    key = object()
    registry[key] = end
    try:
        if has_ended():
            end()
        yield
    except asyncio.CancelledError:
        current = asyncio.current_task()
        if not has_ended() or (current is not None and current.cancelling()):
            raise
        raise GatewayStoppingError from None
    finally:
        del registry[key]
