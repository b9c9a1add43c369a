"""Bounded pools of threads for blocking calls, one pool for each purpose.

The event loop must never wait for a file, a library or a long computation. A pool runs such calls in threads of its
own. Calls of different purposes never share a pool, so calls that hang delay only calls of the same purpose.

Guarantees:

1. At most ``threads`` calls of a pool run at the same time, and at most ``max_waiting`` further calls wait. A pool
   refuses any further call.
2. :meth:`Pool.run` returns only after the function has returned, even if the caller is cancelled. The caller can then
   safely undo the effects of the function.
3. :meth:`Pool.run_or_abandon` raises an error if the function has not returned after ``timeout_seconds``. The call is
   then *abandoned*: its thread continues, but no longer counts as one of the ``threads``, so hung calls do not block
   later calls. A pool has at most ``max_abandoned`` such threads. After that, it refuses further calls until some of
   them return.
4. A thread that hangs does not prevent the end of the process.
5. The calls of a principal occupy at most three quarters of the threads of a pool, rounded down but at least one, so a
   principal whose calls are slow or hang leaves threads to the others. The same holds for the calls that wait.
   Principals with waiting calls take turns.
6. If the system cannot start a thread, the call waits for a thread of the pool that lives. If none lives or all hang,
   the pool refuses the call, and the function does not run.
"""

import asyncio
import threading
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextvars import copy_context
from functools import partial
from typing import Any, ParamSpec, TypeVar

import structlog

from gateway.blocking_work.current_work import noted_call
from gateway.blocking_work.futures import retrieve_error
from gateway.blocking_work.principal_queues import PrincipalQueues
from gateway.blocking_work.principal_shares import calling_principal, share_of_principal
from gateway.errors import GatewayError
from workspace.background_thread import BackgroundThread

_MAX_WAITING = 10_000
_CLOSE_SECONDS = 10.0

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")
log = structlog.get_logger(__name__)


class Pool:
    """A bounded pool of threads.

    A pool belongs to one event loop.

    Args:
        name: The name of the pool. Threads and log events contain it.
        threads: The maximum number of calls that run at the same time.
        refusal: A function that returns the error for calls that the pool refuses or abandons.
        timeout_seconds: How long :meth:`run_or_abandon` waits. None means without a limit.
        max_abandoned: The maximum number of threads that run abandoned calls.
        max_waiting: The maximum number of calls that wait for a thread.
    """

    def __init__(
        self,
        name: str,
        threads: int,
        *,
        refusal: Callable[[], GatewayError],
        timeout_seconds: float | None = None,
        max_abandoned: int = 0,
        max_waiting: int = _MAX_WAITING,
    ) -> None:
        self._name = name
        self._threads = threads
        self._refusal = refusal
        self._timeout_seconds = timeout_seconds
        self._max_abandoned = max_abandoned
        self._max_waiting = max_waiting
        self._executor = DaemonExecutor(threads + max_abandoned, name, count_hung=lambda: self.abandoned)
        self._share = share_of_principal(threads)
        self._waiting_share = share_of_principal(max_waiting)
        self._active = 0
        self._active_of: Counter[str] = Counter()
        self._abandoned: set[asyncio.Future[Any]] = set()
        self._turns = PrincipalQueues[asyncio.Future[None]]()

    @property
    def abandoned(self) -> int:
        """The number of threads that run abandoned calls."""
        return len(self._abandoned)

    @property
    def waiting(self) -> int:
        """The number of calls that wait for a thread."""
        return len(self._turns)

    async def run(
        self, function: Callable[_Parameters, _Result], /, *args: _Parameters.args, **kwargs: _Parameters.kwargs
    ) -> _Result:
        """Call a function, and wait until it has returned, even if the caller is cancelled.

        Raises:
            GatewayError: If the pool refuses the call.
        """
        principal = await self._acquire()
        running = self._start(principal, partial(function, *args, **kwargs))
        running.add_done_callback(lambda _: self._release(principal))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.wait([running])
            retrieve_error(running)
            raise
        finally:
            del running  # its error refers to this frame; the two would keep the arguments in memory

    async def run_or_abandon(
        self, function: Callable[_Parameters, _Result], /, *args: _Parameters.args, **kwargs: _Parameters.kwargs
    ) -> _Result:
        """Call a function that can be abandoned safely, for example because it only reads.

        If the caller is cancelled, CancelledError is raised at once, although the function may still run.

        Raises:
            GatewayError: If the pool refuses the call, or the function does not return in time.
        """
        principal = await self._acquire(self._timeout_seconds)
        running = self._start(principal, partial(function, *args, **kwargs))
        running.add_done_callback(partial(self._end, principal))
        if self._timeout_seconds is not None:
            timer = asyncio.get_running_loop().call_later(self._timeout_seconds, self._abandon, principal, running)
            running.add_done_callback(lambda _: timer.cancel())
        try:
            if not (await asyncio.wait([running], timeout=self._timeout_seconds))[0]:
                raise self._refusal()
            return running.result()
        finally:
            del running  # as in run

    async def close(self) -> None:
        """Wait for running calls for a limited time, and stop all threads."""
        ended = asyncio.get_running_loop().run_in_executor(None, self._executor.close, _CLOSE_SECONDS)
        if not await ended:
            log.warning("calls_abandoned", pool=self._name)

    async def _acquire(self, timeout_seconds: float | None = None) -> str | None:
        """Wait until a thread is free for the principal of this task, and return the principal.

        Raises:
            GatewayError: If the pool refuses the call, or no thread becomes free in time.
        """
        principal = calling_principal.get()
        waiting_of_principal = self._turns.length_of(principal)
        if not waiting_of_principal and self._may_start(principal):
            self._count(principal, 1)
            return principal
        is_full = self.waiting >= self._max_waiting or waiting_of_principal >= self._waiting_share
        if is_full or self._is_stuck(principal):
            raise self._refusal()
        turn = asyncio.get_running_loop().create_future()
        self._turns.add(principal, turn)
        try:
            await asyncio.wait([turn], timeout=timeout_seconds)
        except asyncio.CancelledError:
            if turn.done():
                self._release(principal)
            else:
                self._turns.remove(principal, turn)
            raise
        if not turn.done():
            self._turns.remove(principal, turn)
            raise self._refusal()
        return principal

    def _is_stuck(self, principal: str | None) -> bool:
        """Return whether the calls of a principal use its threads, and those that hang can no longer be replaced."""
        has_threads = self._active < self._threads if principal is None else self._active_of[principal] < self._share
        return 0 < self._max_abandoned <= len(self._abandoned) and not has_threads

    def _may_start(self, principal: str | None) -> bool:
        is_within_share = principal is None or self._active_of[principal] < self._share
        return is_within_share and self._active < self._threads

    def _count(self, principal: str | None, calls: int) -> None:
        self._active += calls
        if principal is None:
            return
        self._active_of[principal] += calls
        if not self._active_of[principal]:
            del self._active_of[principal]

    def _release(self, principal: str | None) -> None:
        """Free the thread of a call, and pass it to a waiting call of the principal whose turn it is."""
        self._count(principal, -1)
        for following, turn in self._turns.first():
            if self._may_start(following):
                self._turns.serve(following)
                self._count(following, 1)
                turn.set_result(None)
                return

    def _start(self, principal: str | None, call: Callable[[], _Result]) -> "asyncio.Future[_Result]":
        """Start a call for which a principal has acquired a thread.

        Raises:
            GatewayError: If no thread can execute the call. The acquired thread is then released.
        """
        call = partial(copy_context().run, noted_call(call))
        try:
            return asyncio.get_running_loop().run_in_executor(self._executor, call)
        except (RuntimeError, MemoryError) as error:
            self._release(principal)
            log.warning("thread_not_started", pool=self._name, reason=str(error))
            raise self._refusal() from error

    def _abandon(self, principal: str | None, running: "asyncio.Future[Any]") -> None:
        """Replace the thread of a call that has not returned in time."""
        if running.done() or len(self._abandoned) >= self._max_abandoned:
            return
        self._abandoned.add(running)
        log.warning("call_abandoned", pool=self._name, abandoned=len(self._abandoned))
        self._release(principal)

    def _end(self, principal: str | None, running: "asyncio.Future[Any]") -> None:
        retrieve_error(running)
        if running in self._abandoned:
            self._abandoned.remove(running)
        else:
            self._release(principal)


class DaemonExecutor(Executor):
    """An executor whose threads do not prevent the end of the process.

    The interpreter waits at its exit for the threads of a ``ThreadPoolExecutor``, even for a thread that hangs in a
    system call.

    Args:
        max_workers: The maximum number of threads. A thread starts when it is needed.
        name: The beginning of the names of the threads.
        count_hung: A function that returns the number of threads that may never return from their calls.
    """

    def __init__(self, max_workers: int, name: str, count_hung: Callable[[], int]) -> None:
        self._max_workers = max_workers
        self._name = name
        self._count_hung = count_hung
        self._changed = threading.Condition()
        self._calls: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._threads = 0
        self._idle = 0
        self._is_closed = False

    def submit(self, fn: Callable[..., _Result], /, *args: Any, **kwargs: Any) -> "Future[_Result]":
        """Call a function in a thread.

        Raises:
            RuntimeError: If the executor is closed, or the system cannot start a thread and no other will be free.
            MemoryError: The same, if the system lacks memory.
        """
        future: Future[_Result] = Future()
        with self._changed:
            if self._is_closed:
                raise RuntimeError(f"The threads [{self._name}] have been stopped.")
            if self._idle > len(self._calls):
                self._changed.notify()
            elif self._threads < self._max_workers:
                self._add_thread()
            self._calls.append((future, partial(fn, *args, **kwargs)))
        return future

    def _add_thread(self) -> None:
        """Start a thread, unless the system cannot start it and another thread will be free."""
        try:
            BackgroundThread(f"{self._name}-{self._threads + 1}", self._work).start()
        except (RuntimeError, MemoryError):
            if self._threads <= self._count_hung():
                raise
        else:
            self._threads += 1

    def close(self, timeout_seconds: float) -> bool:
        """Stop all threads after the submitted calls.

        Returns:
            Whether all calls have returned in time.
        """
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            return self._changed.wait_for(lambda: self._threads == 0, timeout_seconds)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._idle += 1
                self._changed.wait_for(lambda: self._calls or self._is_closed)
                self._idle -= 1
                if not self._calls:
                    self._threads -= 1
                    self._changed.notify_all()
                    return
                future, call = self._calls.popleft()
            if future.set_running_or_notify_cancel():
                try:
                    result = call()
                except BaseException as error:  # noqa: BLE001 - an executor passes on every exception
                    future.set_exception(error)
                else:
                    future.set_result(result)
            del future, call
