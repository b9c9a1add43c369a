"""Work under keys; see the guarantees of :mod:`reaper.work_queue`."""

import threading
from collections.abc import Callable

import structlog

from reaper.work_queue import Rest, WorkKey, WorkQueue
from tests.reaper.passes import run_waiting

A, B = WorkKey("a"), WorkKey("b")
DEADLINE_SECONDS = 60


class Clock:
    def __init__(self) -> None:
        self.now_seconds = 0.0

    def __call__(self) -> float:
        return self.now_seconds


def a_queue(clock: Clock, may_run: Callable[[], bool] = lambda: True) -> WorkQueue:
    return WorkQueue(monotonic=clock, log=structlog.get_logger(), longest_delay_seconds=4.0, may_run=may_run)


def test_work_runs_in_the_order_of_offers() -> None:
    queue, done = a_queue(Clock()), list[str]()
    for name in "abc":
        queue.offer(WorkKey(name), lambda name=name: done.append(name) is None)
    queue.offer(A, lambda: done.append("a again") is None)
    run_waiting(queue)
    assert done == ["a again", "b", "c"], "a later offer replaces the waiting work"


def test_guarantee_1_offer_under_a_running_key_is_ignored() -> None:
    queue, done = a_queue(Clock()), list[str]()

    def work() -> bool:
        queue.offer(A, lambda: done.append("again") is None)
        assert not queue.is_ready(A)
        return done.append("once") is None

    queue.offer(A, work)
    run_waiting(queue)
    assert done == ["once"]


def test_guarantee_1_different_keys_run_at_the_same_time() -> None:
    queue, both = a_queue(Clock()), threading.Barrier(2)
    for key in (A, B):
        queue.offer(key, lambda: both.wait(DEADLINE_SECONDS) >= 0)
    threads = [threading.Thread(target=queue.run_next, args=[0]) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_SECONDS)
    assert queue.counts() == (0, 0)
    assert queue.done_since(0.0) == {A, B}


def test_guarantee_1_rest_runs_after_waiting_work_and_blocks_its_key() -> None:
    queue, done = a_queue(Clock()), list[str]()

    def with_a_rest() -> Rest:
        done.append("a")
        return lambda: done.append("rest of a") is None

    queue.offer(A, with_a_rest)
    queue.offer(B, lambda: done.append("b") is None)
    assert queue.run_next(0)
    assert not queue.is_ready(A)
    queue.offer(A, lambda: done.append("again") is None)
    queue.retain(frozenset({B}))
    assert queue.counts() == (2, 0)
    assert not queue.done_since(0.0)
    run_waiting(queue)
    assert done == ["a", "b", "rest of a"]
    assert queue.done_since(0.0) == {A, B}


def test_guarantee_2_failed_rest_is_a_failure() -> None:
    queue = a_queue(Clock())
    queue.offer(A, lambda: lambda: False)
    run_waiting(queue)
    assert queue.failures()[A].attempts == 1
    assert not queue.is_ready(A)


def test_guarantee_2_delay_doubles_up_to_a_limit() -> None:
    clock, attempts = Clock(), list[float]()
    queue = a_queue(clock)

    def fail() -> bool:
        attempts.append(clock())
        return False

    while clock.now_seconds < 20:
        queue.offer(A, fail)
        run_waiting(queue)
        clock.now_seconds += 0.25
    assert attempts == [0, 0.5, 1.5, 3.5, 7.5, 11.5, 15.5, 19.5]
    assert queue.failures()[A].attempts == len(attempts)
    assert queue.retry_seconds() == 23.5


def test_guarantee_2_success_resets_failures() -> None:
    clock = Clock()
    queue = a_queue(clock)
    queue.offer(A, lambda: False)
    run_waiting(queue)
    clock.now_seconds = 1.0
    queue.offer(A, lambda: True)
    run_waiting(queue)
    assert not queue.failures()
    assert queue.retry_seconds() == float("inf")


def test_guarantee_2_old_failures_are_forgotten() -> None:
    clock = Clock()
    queue = a_queue(clock)
    queue.offer(A, lambda: False)
    run_waiting(queue)
    clock.now_seconds = 100.0
    queue.offer(B, lambda: True)
    run_waiting(queue)
    assert not queue.failures()


def test_guarantee_3_unexpected_error_fails_only_its_own_work() -> None:
    queue, done = a_queue(Clock()), list[str]()

    def fail() -> bool:
        raise RuntimeError("unexpected")

    queue.offer(A, fail)
    queue.offer(B, lambda: done.append("b") is None)
    with structlog.testing.capture_logs() as logs:
        run_waiting(queue)
    assert done == ["b"]
    assert queue.failures().keys() == {A}
    assert [(log["event"], log["key"]) for log in logs] == [("reaper_work_failed", A)]


def test_guarantee_4_waiting_work_is_dropped_when_it_may_not_run() -> None:
    may_run, done = [True], list[str]()
    queue = a_queue(Clock(), lambda: may_run[0])
    queue.offer(A, lambda: done.append("a") is None)
    may_run[0] = False
    run_waiting(queue)
    may_run[0] = True
    run_waiting(queue)
    assert not done


def test_guarantee_4_rests_are_dropped_when_they_may_not_run() -> None:
    may_run, done = [True], list[str]()
    queue = a_queue(Clock(), lambda: may_run[0])
    queue.offer(A, lambda: lambda: done.append("rest of a") is None)
    assert queue.run_next(0)
    may_run[0] = False
    run_waiting(queue)
    may_run[0] = True
    run_waiting(queue)
    assert not done
    assert queue.is_ready(A), "a later pass may offer it again"


def test_retain_drops_other_keys() -> None:
    queue, done = a_queue(Clock()), list[str]()
    for key in (A, B):
        queue.offer(key, lambda key=key: done.append(key) is None)
    queue.retain({B})
    run_waiting(queue)
    assert done == [B]


def test_waiting_threads_are_woken_by_work_and_by_its_end() -> None:
    queue, go_on = a_queue(Clock()), threading.Event()
    thread = threading.Thread(target=queue.run_next, args=[DEADLINE_SECONDS])
    thread.start()
    queue.offer(A, lambda: go_on.wait(DEADLINE_SECONDS))
    while queue.counts() != (0, 1):
        threading.Event().wait(0.001)
    assert not queue.wait_until_idle(0.01)
    go_on.set()
    assert queue.wait_until_idle(DEADLINE_SECONDS)
    thread.join(DEADLINE_SECONDS)
