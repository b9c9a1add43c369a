"""An asyncio event loop in virtual time, for one simulated process.

The gateway is asyncio code that makes blocking calls in threads. Its coroutines run unchanged; each run of the loop
continues until no callback is ready. Its threads are workers of the schedule. Other processes therefore act only
where a real loop waits.

A fault can stop the loop between two callbacks for a time, while its threads continue
(:meth:`tests.simulation.schedule.Process.stall_loop`).

The loop does not simulate that other processes act in the middle of a callback. A callback could notice them only
through a call, and each call is a step of its own.
"""

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from greenlet import GreenletExit

from tests.simulation.schedule import Process

_DEFAULT_THREADS = 8
_STALL_CHECK_SECONDS = 0.5


class _ThreadPool:
    """The threads of one executor."""

    def __init__(self, threads: int) -> None:
        self.free = threads
        self.waiting: deque[Callable[[], None]] = deque()


class ModelLoop(asyncio.AbstractEventLoop):
    """The event loop of a process.

    Args:
        process: The process.
        on_error: Called with an exception that nobody handles.
        is_fenced: Returns whether the process knows that its lease has lapsed.
    """

    def __init__(
        self,
        process: Process,
        on_error: Callable[[str, BaseException | None], None],
        is_fenced: Callable[[], bool] = lambda: False,
    ) -> None:
        self._process = process
        self._schedule = process.schedule
        self._on_error = on_error
        self._is_fenced = is_fenced
        self._ready: deque[asyncio.Handle] = deque()
        self._thread_pools: dict[object, _ThreadPool] = {}
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._is_running = False
        self._runs_after_stall = False
        self._is_closed = False

    def time(self) -> float:
        return self._process.monotonic()

    def call_soon(self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None) -> Any:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        if not self._is_running and len(self._ready) == 1:
            self._schedule.at(self._schedule.now, self._run, self._process)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any, context: Any = None) -> Any:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Callable[..., object], *args: Any, context: Any = None) -> Any:
        handle = asyncio.TimerHandle(when, callback, args, self, context)

        def due() -> None:
            if not handle.cancelled():
                self._ready.append(handle)
                self._run()

        self._schedule.at(max(self._process.to_true_seconds(when), self._schedule.now), due, self._process)
        return handle

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: Any = None) -> Any:
        if self._is_closed:
            coro.close()
            raise RuntimeError("The process of this loop has died.")
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
        return task

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        future = self.create_future()
        was_fenced = self._is_fenced()
        threads = getattr(executor, "_max_workers", _DEFAULT_THREADS)
        pool = self._thread_pools.setdefault(executor, _ThreadPool(threads))

        def work() -> None:
            try:
                result = func(*args)
            except GreenletExit:
                raise
            except BaseException as error:  # noqa: BLE001 - an executor passes on every exception
                self.call_soon(_set_result, future, None, error)
            else:
                self.call_soon(_set_result, future, result, None)
            pool.free += 1
            if pool.waiting:
                pool.waiting.popleft()()

        def begin() -> None:
            pool.free -= 1
            self._process.start(work).was_fenced = was_fenced

        if pool.free:
            begin()
        else:
            pool.waiting.append(begin)
        return future

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self._is_running

    def is_closed(self) -> bool:
        return self._is_closed

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self._on_error(str(context.get("message")), context.get("exception"))

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: a cancelled timer is skipped when it is due."""

    def _run(self) -> None:
        if self._process.loop_stalled_until > self._schedule.now:
            if not self._runs_after_stall:
                self._runs_after_stall = True
                self._schedule.after(_STALL_CHECK_SECONDS, self._run_after_stall, self._process)
            return
        self._is_running = True
        asyncio._set_running_loop(self)
        try:
            while self._ready:
                handle = self._ready.popleft()
                if not handle.cancelled():
                    handle._run()
        finally:
            asyncio._set_running_loop(None)
            self._is_running = False

    def _run_after_stall(self) -> None:
        self._runs_after_stall = False
        self._run()

    def close(self) -> None:
        """Unwind the waiting tasks of a dead process."""
        self._is_closed = True
        asyncio._set_running_loop(self)
        for task in list(self._tasks):
            task._log_destroy_pending = False
            coroutine = task.get_coro()
            with suppress(BaseException):
                coroutine.close()
        asyncio._set_running_loop(None)
        self._tasks.clear()
        self._ready.clear()


def _set_result(future: "asyncio.Future[Any]", result: object, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
