"""Computations on what clients send, in threads, with a limit of processor time.

Each computation already has a limit of steps or bytes. This limit is the last one: it also ends what takes too long on
a machine that is too slow, or because of a defect.

Guarantees:

1. A computation that has used ``processor_seconds`` of processor time is stopped, and the request is refused. Time in
   which its thread waits for a processor does not count.
2. The computation of a request that was cancelled is stopped, or does not begin.
3. A stop reaches only the computation for which it is meant, and never a later one in the same thread.

Not guaranteed: that a computation stops inside a call of a function in C. It stops when the function returns.

Source: [python-c-api PyThreadState_SetAsyncExc].
"""

import asyncio
import ctypes
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Generic, ParamSpec, TypeVar

from gateway.blocking_work.futures import retrieve_error
from gateway.blocking_work.pools import Pool
from gateway.errors import GatewayError

_CHECK_SECONDS = 1.0
_ARRIVAL_STEPS = 1000
"""More than Python executes before it raises an exception of another thread, which is one step of a loop."""

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


class _Stop(BaseException):
    """Raised in the thread of a computation that is stopped."""


class _StoppedError(Exception):
    """Raised by a computation that was stopped."""


class _Computation(Generic[_Result]):
    """A computation that another thread can stop.

    Args:
        function: The function that computes.
    """

    def __init__(self, function: Callable[[], _Result]) -> None:
        self._function = function
        self._lock = threading.Lock()
        self._thread: int | None = None
        self._began_seconds = 0.0
        self._is_stopped = False
        self._sent = 0

    def __call__(self) -> _Result:
        """Compute.

        Raises:
            _StoppedError: If the computation was stopped.
        """
        arrived = 0
        try:
            with self._lock:
                if self._is_stopped:
                    raise _StoppedError
                self._began_seconds = time.thread_time()
                self._thread = threading.get_ident()
            result = self._function()
        except _Stop:
            arrived += 1
            raise _StoppedError from None
        finally:
            while True:  # not in a function, because a stop can arrive before its first line
                try:
                    with self._lock:
                        self._thread = None
                    for _ in range(_ARRIVAL_STEPS if self._sent > arrived else 0):
                        pass  # here, a stop arrives that was sent when the function had returned
                    break
                except _Stop:
                    arrived += 1
        return result

    def stop(self) -> None:
        """Stop the computation, or prevent that it begins."""
        with self._lock:
            if self._thread is not None:  # again, because a finalizer can swallow the exception
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread), ctypes.py_object(_Stop))
                self._sent += 1
            self._is_stopped = True

    def processor_seconds(self) -> float:
        """Return the processor time that the computation has used. 0 if it does not run."""
        with self._lock:
            if self._thread is None:
                return 0.0
            return time.clock_gettime(time.pthread_getcpuclockid(self._thread)) - self._began_seconds


class ComputationPool:
    """A pool of threads for computations.

    Args:
        pool: The threads.
        processor_seconds: The maximum processor time of a computation.
    """

    def __init__(self, pool: Pool, processor_seconds: float) -> None:
        self._pool = pool
        self._processor_seconds = processor_seconds

    async def run(
        self, function: Callable[_Parameters, _Result], /, *args: _Parameters.args, **kwargs: _Parameters.kwargs
    ) -> _Result:
        """Call a function that computes and has no effects, so that it can be stopped at any place.

        Raises:
            GatewayError: If the pool refuses the call, or the computation takes too long.
        """
        computation = _Computation(partial(function, *args, **kwargs))
        running = asyncio.create_task(self._pool.run(computation))
        try:
            while not (await asyncio.wait([running], timeout=_CHECK_SECONDS))[0]:
                if computation.processor_seconds() >= self._processor_seconds:
                    computation.stop()
            return running.result()
        except asyncio.CancelledError:
            computation.stop()
            running.cancel()
            running.add_done_callback(retrieve_error)
            await asyncio.wait([running])  # its memory is in use until then
            raise
        except _StoppedError:
            raise _too_complex(self._processor_seconds) from None
        finally:
            del running  # its error refers to this frame; the two would keep the arguments in memory

    async def close(self) -> None:
        """Wait for running computations for a limited time, and stop all threads."""
        await self._pool.close()


def _too_complex(processor_seconds: float) -> GatewayError:
    return GatewayError(
        "LODGE_REQUEST_TOO_COMPLEX",
        "54001",
        f"Reading this request takes more than {processor_seconds:g} s of processor time. Split the statement, or "
        "store long lists of values in a temporary table.",
    )
