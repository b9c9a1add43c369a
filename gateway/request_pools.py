"""The threads and the memory for work on large requests.

A request below ``INLINE_BYTES`` is processed on the event loop. All longer work happens here. Each kind of work has its
own threads, so that one kind does not delay the others.

Guarantees:

1. Plans that are decoded or decompressed at the same time use at most ``budget_bytes`` of memory, in total.
2. A plan waits at most ``_WAIT_SECONDS`` for memory. Then the request is refused, and the client may retry.
3. The work on a request is stopped when it has used ``_PROCESSOR_SECONDS``, and when the request is cancelled. A
   principal has at most one of the two threads of each kind (:mod:`gateway.pools`).
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import ParamSpec, TypeVar

from gateway.computations import ComputationPool
from gateway.errors import GatewayError, limit_exceeded
from gateway.pools import Pool

INLINE_BYTES = 128 * 1024
"""The maximum size of bytes that C code, such as a decoder or a search, processes on the event loop."""

INLINE_CHARACTERS = 2048
"""The maximum length of a text that Python code, such as the lexer, processes on the event loop."""

DEFAULT_MAX_PLAN_BYTES = 64 * 1024 * 1024

_FIELD_BYTES = 100  # the memory of a decoded field
_SPARE_BYTES = 256 * 1024 * 1024
_PROCESSOR_SECONDS = 30.0
_WAIT_SECONDS = 30.0
_RETRY_SECONDS = 1.0
_MAX_WAITING = 256

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


class RequestPools:
    """The pools for work on large requests, and the memory budget for plans.

    Args:
        max_plan_bytes: The maximum size of a decompressed plan.

    Attributes:
        max_plan_bytes: The maximum size of a decompressed plan.
        plans: The threads that decode, decompress and search plans.
        sql: The threads that parse SQL texts.
        budget: The memory for plans.
    """

    def __init__(self, max_plan_bytes: int = DEFAULT_MAX_PLAN_BYTES) -> None:
        self.max_plan_bytes = max_plan_bytes
        self.budget = ByteBudget(2 * max_plan_bytes + _SPARE_BYTES)
        self.plans = _computations("plans")
        self.sql = _computations("sql")

    async def decode(
        self,
        size_bytes: int,
        function: Callable[_Parameters, _Result],
        *args: _Parameters.args,
        **kwargs: _Parameters.kwargs,
    ) -> _Result:
        """Call a function that processes the given number of bytes of a plan, in a thread if the plan is large."""
        if size_bytes <= INLINE_BYTES:
            return function(*args, **kwargs)
        return await self.plans.run(function, *args, **kwargs)

    async def parse(
        self,
        length: int,
        function: Callable[_Parameters, _Result],
        *args: _Parameters.args,
        **kwargs: _Parameters.kwargs,
    ) -> _Result:
        """Call a function that parses SQL text of the given length, in a thread if the text is long."""
        if length <= INLINE_CHARACTERS:
            return function(*args, **kwargs)
        return await self.sql.run(function, *args, **kwargs)

    def reserve(self, plan_bytes: int, max_fields: int) -> AbstractAsyncContextManager[None]:
        """Return a block that reserves the memory of a decoded plan.

        Args:
            plan_bytes: The decompressed size of the plan.
            max_fields: The maximum number of fields in a plan.
        """
        if plan_bytes <= INLINE_BYTES:
            return nullcontext()
        return self.budget.reserve(2 * plan_bytes + min(plan_bytes // 2, max_fields) * _FIELD_BYTES)

    async def close(self) -> None:
        """Wait for running work for a limited time, and stop all threads."""
        for pool in (self.plans, self.sql):
            await pool.close()


class ByteBudget:
    """A number of bytes that concurrent tasks share.

    Tasks receive their bytes in the order in which they ask, so small plans cannot delay a large plan forever.

    Args:
        total_bytes: The budget. A task that asks for more gets the whole budget.

    Attributes:
        total_bytes: The budget.
        used_bytes: The bytes that are reserved at present.
    """

    def __init__(self, total_bytes: int) -> None:
        self.total_bytes = total_bytes
        self.used_bytes = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def reserve(self, size_bytes: int) -> AsyncIterator[None]:
        """Reserve bytes for the duration of the block.

        Raises:
            GatewayError: If the bytes are not free in time, or too many tasks wait.
        """
        size_bytes = min(size_bytes, self.total_bytes)
        await self._acquire(size_bytes)
        try:
            yield
        finally:
            self.used_bytes -= size_bytes
            self._wake()

    async def _acquire(self, size_bytes: int) -> None:
        if not self._waiting and self.used_bytes + size_bytes <= self.total_bytes:
            self.used_bytes += size_bytes
            return
        if len(self._waiting) >= _MAX_WAITING:
            raise _busy()
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((size_bytes, turn))
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self.used_bytes -= size_bytes
            self._waiting = deque(each for each in self._waiting if each[1] is not turn)
            self._wake()
            if isinstance(error, TimeoutError):
                raise _busy() from None
            raise

    def _wake(self) -> None:
        """Give free bytes to the tasks that wait."""
        while self._waiting and self.used_bytes + self._waiting[0][0] <= self.total_bytes:
            size_bytes, turn = self._waiting.popleft()
            if not turn.done():
                self.used_bytes += size_bytes
                turn.set_result(None)


def _computations(name: str) -> ComputationPool:
    return ComputationPool(Pool(name, 2, refusal=_busy, max_waiting=_MAX_WAITING), _PROCESSOR_SECONDS)


def _busy() -> GatewayError:
    return limit_exceeded("large requests", _MAX_WAITING, "the number of gateway replicas", _RETRY_SECONDS)
