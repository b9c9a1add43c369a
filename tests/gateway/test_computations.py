"""Computations in threads that can be stopped (guarantees: gateway.blocking_work.computations)."""

import asyncio
import subprocess
import sys
import threading

import pytest

from gateway.blocking_work.computations import ComputationPool, _Computation, _StoppedError
from gateway.blocking_work.pools import Pool
from gateway.errors import GatewayError, storage_unavailable

SECONDS = 60.0


def make_pool(processor_seconds: float = SECONDS, threads: int = 1) -> ComputationPool:
    return ComputationPool(Pool("test", threads, refusal=lambda: storage_unavailable("tests")), processor_seconds)


def compute_for_ever(began: threading.Event | None = None) -> None:
    number = 0
    if began is not None:
        began.set()
    while True:
        number += 1


async def test_results_and_errors_are_passed_on() -> None:
    pool = make_pool()
    assert await pool.run(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await pool.run(divmod, 7, 0)
    await pool.close()


async def test_guarantee_1_long_computation_is_refused_and_its_thread_is_free() -> None:
    pool = make_pool(processor_seconds=0.01)
    with pytest.raises(GatewayError, match=r"\[LODGE_REQUEST_TOO_COMPLEX\].* 0.01 s of processor time"):
        await pool.run(compute_for_ever)
    assert await pool.run(int) == 0
    await pool.close()


async def test_guarantee_1_time_in_which_a_thread_waits_does_not_count() -> None:
    pool, end = make_pool(processor_seconds=0.5), threading.Event()
    asyncio.get_running_loop().call_later(2.5, end.set)
    assert await pool.run(end.wait, SECONDS)
    await pool.close()


async def test_guarantee_2_cancelled_computation_is_stopped() -> None:
    pool, began = make_pool(), threading.Event()
    task = asyncio.create_task(pool.run(compute_for_ever, began))
    assert await asyncio.to_thread(began.wait, SECONDS)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.wait_for(pool.run(int), SECONDS) == 0
    await pool.close()


async def test_guarantee_2_cancelled_computation_does_not_begin() -> None:
    pool, began, calls = make_pool(), threading.Event(), list[int]()
    first = asyncio.create_task(pool.run(compute_for_ever, began))
    second = asyncio.create_task(pool.run(calls.append, 1))
    assert await asyncio.to_thread(began.wait, SECONDS)
    for task in (second, first):
        task.cancel()
    await asyncio.wait([first, second])
    assert await asyncio.wait_for(pool.run(int), SECONDS) == 0
    assert calls == []
    await pool.close()


def test_guarantee_3_stop_reaches_no_later_call() -> None:
    """Stop computations at random moments, many of them just when they end, and then use the thread for others."""
    computation, end, stops, wrong = _Computation(int), threading.Event(), 0, list[object]()

    def stop_often() -> None:
        while not end.is_set():
            computation.stop()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    stopper = threading.Thread(target=stop_often)
    stopper.start()
    try:
        for length in range(20_000):
            computation = _Computation(lambda length=length: sum(range(length % 50)))  # type: ignore[misc]
            try:
                if computation() != sum(range(length % 50)):
                    wrong.append(length)
            except _StoppedError:
                stops += 1
            for _ in range(20):  # a call of another request in the same thread
                pass
    except BaseException as error:  # noqa: BLE001 - a stop that reaches this thread is not an Exception
        wrong.append(error)
    finally:
        end.set()
        stopper.join()
        sys.setswitchinterval(before)
    assert wrong == []
    assert 0 < stops < 20_000


def test_interpreter_works_as_before_after_stops() -> None:
    """A stop that is withdrawn, for example, would keep the interpreter busy for ever while a profiler runs."""
    program = """
import sys, threading
from gateway.blocking_work.computations import _Computation, _StoppedError

for number in range(2_000):
    computation = _Computation(lambda: sum(range(50)))
    stopper = threading.Thread(target=computation.stop)
    stopper.start()
    try:
        computation()
    except _StoppedError:
        pass
    stopper.join()
_Computation(int)()
sys.setprofile(lambda *_: None)
print((lambda: sum(range(3)))())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=SECONDS, check=True)
    assert done.stdout == "3\n"
