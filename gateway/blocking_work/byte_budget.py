"""A number of bytes of memory that the requests of all principals share.

Guarantees:

1. The tasks in the blocks of :meth:`ByteBudget.reserve` have reserved at most ``total_bytes`` together.
2. The tasks of one principal have reserved at most half of it, so they never prevent the work of another principal.
3. Principals that wait take turns, and the tasks of a principal receive their bytes in the order in which they ask. So
   small tasks cannot delay a large one forever.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from gateway.blocking_work.principal_queues import PrincipalQueues
from gateway.blocking_work.principal_shares import calling_principal
from gateway.errors import GatewayError

_WAIT_SECONDS = 30.0

_Turn = tuple[int, "asyncio.Future[None]"]


class ByteBudget:
    """The bytes. They belong to one event loop.

    Args:
        total_bytes: All bytes. A task that asks for more than the half gets the half.
        max_waiting: The maximum number of tasks that wait. One principal has at most the half of them.
        refusal: A function that returns the error for tasks that are refused.

    Attributes:
        used_bytes: The bytes that are reserved at present.
    """

    def __init__(self, total_bytes: int, max_waiting: int, refusal: Callable[[], GatewayError]) -> None:
        self.used_bytes = 0
        self._total_bytes = total_bytes
        self._share_bytes = total_bytes // 2
        self._max_waiting = max_waiting
        self._refusal = refusal
        self._used_by: Counter[str | None] = Counter()
        self._turns = PrincipalQueues[_Turn]()

    @asynccontextmanager
    async def reserve(self, size_bytes: int) -> AsyncIterator[None]:
        """Reserve bytes for the duration of the block.

        Raises:
            GatewayError: If the bytes are not free in time, or too many tasks wait.
        """
        size_bytes = min(size_bytes, self._share_bytes)
        principal = calling_principal.get()
        await self._acquire(principal, size_bytes)
        try:
            yield
        finally:
            self._count(principal, -size_bytes)
            self._wake()

    async def _acquire(self, principal: str | None, size_bytes: int) -> None:
        if len(self._turns) >= self._max_waiting or self._turns.length_of(principal) >= self._max_waiting // 2:
            raise self._refusal()
        turn = asyncio.get_running_loop().create_future()
        self._turns.add(principal, (size_bytes, turn))
        self._wake()
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self._count(principal, -size_bytes)
            else:
                self._turns.remove(principal, (size_bytes, turn))
            self._wake()
            if isinstance(error, TimeoutError):
                raise self._refusal() from None
            raise

    def _wake(self) -> None:
        """Give free bytes to the tasks that wait."""
        while self._give():
            pass

    def _give(self) -> bool:
        """Give bytes to the task whose turn it is. Return False if there is none, or it has to wait for others."""
        for principal, (size_bytes, turn) in self._turns.first():
            if self._used_by[principal] + size_bytes > self._share_bytes:
                continue
            if self.used_bytes + size_bytes > self._total_bytes:
                return False
            self._turns.serve(principal)
            if not turn.done():  # its task can be cancelled
                self._count(principal, size_bytes)
                turn.set_result(None)
            return True
        return False

    def _count(self, principal: str | None, size_bytes: int) -> None:
        self.used_bytes += size_bytes
        self._used_by[principal] += size_bytes
        if not self._used_by[principal]:
            del self._used_by[principal]
