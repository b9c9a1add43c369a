"""The threads and the memory for work on large requests.

A request below ``INLINE_BYTES`` is processed on the event loop. All longer work happens here. Each kind of work has its
own threads, so that one kind does not delay the others. Texts of a moderate length do not wait for long ones.

Guarantees:

1. Plans that are decoded or decompressed at the same time use at most the memory of the two largest plans. The plans of
   one principal use at most the half of it.
2. A plan waits for memory for a limited time. Then the request is refused, and the client may retry.
3. The work on a request is stopped when it has used ``_PROCESSOR_SECONDS``, and when the request is cancelled. A
   principal has at most one of the two threads of each kind (:mod:`gateway.blocking_work.pools`).
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import ParamSpec, TypeVar

from gateway.blocking_work.byte_budget import ByteBudget
from gateway.blocking_work.computations import ComputationPool
from gateway.blocking_work.pools import Pool
from gateway.errors import GatewayError, limit_exceeded

INLINE_BYTES = 128 * 1024
"""The maximum size of bytes that C code, such as a decoder or a search, processes on the event loop."""

INLINE_CHARACTERS = 2048
"""The maximum length of a text that Python code, such as the lexer, processes on the event loop."""

MAX_FIELDS = 500_000
"""The maximum number of fields in a large plan. Decoding this many fields takes about 30 milliseconds."""

DEFAULT_MAX_PLAN_BYTES = 64 * 1024 * 1024

_FIELD_BYTES = 100  # the memory of a decoded field
_LONG_CHARACTERS = 64 * 1024
_PROCESSOR_SECONDS = 30.0
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
    """

    def __init__(self, max_plan_bytes: int = DEFAULT_MAX_PLAN_BYTES) -> None:
        self.max_plan_bytes = max_plan_bytes
        self.plans = _computations("plans")
        self._sql = _computations("sql")
        self._long_sql = _computations("long-sql")
        self._budget = ByteBudget(2 * _plan_memory(max_plan_bytes), _MAX_WAITING, _busy)

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
        pool = self._sql if length <= _LONG_CHARACTERS else self._long_sql
        return await pool.run(function, *args, **kwargs)

    def reserve(self, plan_bytes: int) -> AbstractAsyncContextManager[None]:
        """Return a block that reserves the memory of a decoded plan.

        Args:
            plan_bytes: The decompressed size of the plan.
        """
        if plan_bytes <= INLINE_BYTES:
            return nullcontext()
        return self._budget.reserve(_plan_memory(plan_bytes))

    async def close(self) -> None:
        """Wait for running work for a limited time, and stop all threads."""
        for pool in (self.plans, self._sql, self._long_sql):
            await pool.close()


def _plan_memory(plan_bytes: int) -> int:
    """Return the memory of a plan that is being decoded, in bytes."""
    return 2 * plan_bytes + min(plan_bytes // 2, MAX_FIELDS) * _FIELD_BYTES


def _computations(name: str) -> ComputationPool:
    return ComputationPool(Pool(name, 2, refusal=_busy, max_waiting=_MAX_WAITING), _PROCESSOR_SECONDS)


def _busy() -> GatewayError:
    return limit_exceeded("large requests", _MAX_WAITING, "the number of gateway replicas", _RETRY_SECONDS)
