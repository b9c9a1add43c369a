"""Pools of threads for blocking calls (gateway.blocking_work.pools)."""

import asyncio
import subprocess
import sys
import threading
import time
from contextlib import asynccontextmanager, contextmanager

import pytest
from structlog.testing import capture_logs

from gateway.blocking_work.pools import Pool
from gateway.blocking_work.principal_shares import calling_principal
from gateway.errors import GatewayError, storage_unavailable
from tests.gateway.loop_clock import LoopClock

SECONDS = 60.0
"""A timeout that passes only if a test sets the clock forward."""


def make_pool(threads=2, **settings):
    return Pool("test", threads, refusal=lambda: storage_unavailable("tests"), **settings)


@asynccontextmanager
async def hanging(pool, calls, run):
    """Occupy threads of a pool with calls that return only at the end of the block."""
    end, started = threading.Event(), threading.Semaphore(0)

    def hang():
        started.release()
        end.wait(2 * SECONDS)

    tasks = [asyncio.create_task(run(hang)) for _ in range(calls)]
    for _ in range(calls):
        assert await asyncio.to_thread(started.acquire, timeout=SECONDS)
    try:
        yield tasks
    finally:
        end.set()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until_calls_return(pool):
    """Wait until the pool has noticed that all its calls have returned."""
    deadline = time.monotonic() + SECONDS
    while pool.abandoned or pool._active:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


@contextmanager
def no_new_threads():
    """Let the system start no thread, for example because the process has as many as it may have."""

    def fail(_):
        raise RuntimeError("can't start new thread")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        yield


async def refused(call):
    with pytest.raises(GatewayError, match="LODGE_STORAGE_UNAVAILABLE"):
        await call


def test_run_bounds_the_calls_at_once():
    running, most, lock, three = 0, 0, threading.Lock(), threading.Barrier(3)

    def work():
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        three.wait(SECONDS)
        with lock:
            running -= 1

    async def run():
        pool = make_pool(threads=3)
        calls = [asyncio.create_task(pool.run(work)) for _ in range(21)]
        await asyncio.sleep(0)
        assert pool.waiting == 18
        await asyncio.gather(*calls)
        await pool.close()

    asyncio.run(run())
    assert most == 3


def test_run_passes_arguments_results_and_errors():
    async def run():
        pool = make_pool()
        assert await pool.run(divmod, 7, 2) == (3, 1)
        assert await pool.run_or_abandon(int, "ff", base=16) == 255
        with pytest.raises(ZeroDivisionError):
            await pool.run(divmod, 7, 0)
        await pool.close()

    asyncio.run(run())


def test_cancelled_run_returns_after_its_function():
    async def run():
        pool = make_pool()
        async with hanging(pool, 1, pool.run) as (task,):
            task.cancel()
            for _ in range(10):  # an event loop needs fewer steps for a task that does not wait
                await asyncio.sleep(0)
            assert not task.done()
        assert task.cancelled()
        await pool.close()

    asyncio.run(run())


def test_full_queue_is_refused():
    async def run():
        pool = make_pool(threads=1, max_waiting=1)
        async with hanging(pool, 1, pool.run):
            waits = asyncio.create_task(pool.run(int))
            await asyncio.sleep(0)
            await refused(pool.run(int))
        assert await waits == 0
        await pool.close()

    asyncio.run(run())


def test_cancelled_waiting_call_leaves_its_turn_to_the_next():
    async def run():
        pool = make_pool(threads=1)
        async with hanging(pool, 1, pool.run):
            first, second = (asyncio.create_task(pool.run(int)) for _ in range(2))
            await asyncio.sleep(0)
            first.cancel()
        assert await asyncio.wait_for(second, SECONDS) == 0
        assert await asyncio.wait_for(pool.run(int), SECONDS) == 0
        await pool.close()

    asyncio.run(run())


async def run_as(principal, call):
    calling_principal.set(principal)
    return await call


def test_principal_leaves_threads_to_others():
    async def run():
        pool = make_pool(threads=8)
        end = threading.Event()
        busy = [asyncio.create_task(run_as("ada", pool.run(end.wait, SECONDS))) for _ in range(100)]
        await asyncio.sleep(0)
        assert pool.waiting == 94
        bob, gateway = (asyncio.create_task(run_as(name, pool.run(int))) for name in ("bob", None))
        assert await asyncio.wait_for(bob, SECONDS) == 0
        assert await asyncio.wait_for(gateway, SECONDS) == 0
        assert pool.waiting == 94
        end.set()
        await asyncio.gather(*busy)
        await pool.close()

    asyncio.run(run())


def test_thread_works_for_the_principal_of_the_task():
    async def run():
        pool = make_pool(threads=1)
        for name in ("ada", None, "bob"):
            assert await asyncio.create_task(run_as(name, pool.run(calling_principal.get))) == name
        await pool.close()

    asyncio.run(run())


def test_waiting_principals_take_turns():
    order = []

    async def run():
        pool = make_pool(threads=1)
        async with hanging(pool, 1, pool.run):
            calls = [("ada", 5), ("bob", 2), (None, 1)]
            tasks = [
                asyncio.create_task(run_as(name, pool.run(order.append, name)))
                for name, count in calls
                for _ in range(count)
            ]
            await asyncio.sleep(0)
        await asyncio.gather(*tasks)
        await pool.close()

    asyncio.run(run())
    assert order == ["ada", "bob", None, "ada", "bob", "ada", "ada", "ada"]


def test_turns_that_nobody_takes_are_forgotten():
    async def run():
        pool = make_pool(threads=1, timeout_seconds=0.05)
        async with hanging(pool, 1, pool.run):
            for name in ("ada", "bob"):
                await refused(run_as(name, pool.run_or_abandon(int)))
                waits = asyncio.create_task(run_as(name, pool.run(int)))
                await asyncio.sleep(0)
                waits.cancel()
                await asyncio.wait([waits])
            assert (pool.waiting, len(pool._turns)) == (0, 0)
        await until_calls_return(pool)
        assert not pool._active_of
        await pool.close()

    asyncio.run(run())


def test_hung_calls_are_abandoned_and_do_not_block_later_calls():
    async def run():
        pool, clock = make_pool(threads=2, timeout_seconds=SECONDS, max_abandoned=4), LoopClock()
        async with hanging(pool, 2, pool.run_or_abandon) as tasks:
            await clock.skip(SECONDS)
            for task in tasks:
                await refused(task)
            assert pool.abandoned == 2
            assert await asyncio.wait_for(pool.run_or_abandon(int), SECONDS) == 0
        await pool.close()
        await asyncio.sleep(0)
        assert pool.abandoned == 0

    asyncio.run(run())


def test_cancelled_call_is_abandoned_only_if_it_does_not_return_in_time():
    async def run():
        pool, clock = make_pool(threads=1, timeout_seconds=SECONDS, max_abandoned=1), LoopClock()
        async with hanging(pool, 1, pool.run_or_abandon) as (task,):
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            later = asyncio.create_task(pool.run(int))
            await asyncio.sleep(0)
            assert (pool.abandoned, pool.waiting) == (0, 1)
            await clock.skip(SECONDS)
            assert await asyncio.wait_for(later, SECONDS) == 0, "runs when the cancelled call is abandoned"
            assert pool.abandoned == 1
        await until_calls_return(pool)
        async with hanging(pool, 1, pool.run_or_abandon) as (task,):
            task.cancel()
        await until_calls_return(pool)
        await clock.skip(SECONDS)
        assert pool.abandoned == 0, "the call has returned in time"
        await pool.close()

    asyncio.run(run())


def test_pool_refuses_calls_at_once_if_all_its_threads_hang():
    async def run():
        pool, clock = make_pool(threads=1, timeout_seconds=SECONDS, max_abandoned=1), LoopClock()
        async with hanging(pool, 1, pool.run_or_abandon) as (first,):
            await clock.skip(SECONDS)
            await refused(first)
            async with hanging(pool, 1, pool.run_or_abandon) as (second,):
                await clock.skip(SECONDS)
                await refused(second)
                later = asyncio.create_task(pool.run_or_abandon(int))
                await asyncio.sleep(0)
                assert pool.waiting == 0
                assert later.done(), "the call is refused in its first step"
                await refused(later)
        await until_calls_return(pool)
        assert await asyncio.wait_for(pool.run(int), SECONDS) == 0
        await pool.close()

    asyncio.run(run())


def test_waiting_call_ends_in_time():
    async def run():
        pool, clock = make_pool(threads=1, timeout_seconds=SECONDS), LoopClock()
        async with hanging(pool, 1, pool.run):
            call = asyncio.create_task(pool.run_or_abandon(int))
            await asyncio.sleep(0)
            assert pool.waiting == 1
            await clock.skip(SECONDS)
            await refused(call)
            assert pool.waiting == 0
        assert await asyncio.wait_for(pool.run_or_abandon(int), SECONDS) == 0
        await pool.close()

    asyncio.run(run())


@pytest.mark.parametrize("method", ["run", "run_or_abandon"])
def test_guarantee_6_call_without_a_thread_is_refused_and_never_runs(method):
    called = []

    async def run():
        pool = make_pool(threads=1, timeout_seconds=SECONDS)
        call = getattr(pool, method)
        with no_new_threads(), capture_logs() as logs:
            for number in range(3):
                await refused(call(called.append, number))
        assert [(line["event"], line["pool"]) for line in logs] == 3 * [("thread_not_started", "test")]
        await asyncio.wait_for(call(called.append, "later"), SECONDS)
        await pool.close()

    asyncio.run(run())
    assert called == ["later"]


def test_guarantee_6_refused_call_leaves_its_turn_to_the_next():
    async def run():
        pool = make_pool(threads=1, timeout_seconds=SECONDS, max_abandoned=2)
        async with hanging(pool, 1, pool.run_or_abandon) as (hung,):
            waiting = [asyncio.create_task(pool.run(int)) for _ in range(2)]
            with no_new_threads():
                await LoopClock().skip(SECONDS)
                await refused(hung)
                for each in waiting:
                    await refused(asyncio.wait_for(each, SECONDS))
            assert await asyncio.wait_for(pool.run(int), SECONDS) == 0
        await pool.close()

    asyncio.run(run())


def test_guarantee_6_call_waits_for_a_living_thread():
    async def run():
        pool = make_pool(threads=2)
        async with hanging(pool, 1, pool.run):
            with no_new_threads():
                waits = asyncio.create_task(pool.run(int))
                await asyncio.sleep(0)
                assert not waits.done()
        assert await asyncio.wait_for(waits, SECONDS) == 0
        async with hanging(pool, 1, pool.run):
            assert await asyncio.wait_for(pool.run(int), SECONDS) == 0, "a second thread starts when it can"
        await pool.close()

    asyncio.run(run())


def test_hung_thread_does_not_prevent_the_end_of_the_process():
    script = """
import asyncio, threading
from gateway.errors import storage_unavailable
from gateway.blocking_work.pools import Pool

async def run():
    pool = Pool("test", 1, refusal=lambda: storage_unavailable("tests"), timeout_seconds=0.05, max_abandoned=1)
    try:
        await pool.run_or_abandon(threading.Event().wait)
    except Exception as error:
        print(type(error).__name__)

asyncio.run(run())
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert ended.stdout.splitlines()[-1] == "GatewayError"
