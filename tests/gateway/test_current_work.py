"""What a gateway notes about its work, and what its watcher reads. Numbers are guarantees of the module."""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable

import pytest
from pyspark.sql.connect.proto import relations_pb2

from gateway.blocking_work.current_work import CurrentWork, NotedRequest, Work, digest_of, noted, noted_call
from workspace.identifiers import RecordName

ONE, OTHER = (NotedRequest(RecordName(40 * each), 32 * each, f"operation-{each}\nx") for each in "ab")
NOTHING = Work(None, [])
WITHOUT_OPERATION = NotedRequest(RecordName(40 * "c"), 32 * "c", "")


async def test_request_is_noted_in_its_steps_and_not_while_it_waits() -> None:
    work, found = CurrentWork(), []

    async def process() -> int:
        found.append(work.read())
        await asyncio.sleep(0)
        found.append(work.read())
        return 7

    task = asyncio.create_task(work.note(ONE, process()))
    await asyncio.sleep(0)
    assert work.read() == NOTHING
    assert await task == 7
    assert work.read() == NOTHING
    assert found == [Work(ONE, []), Work(ONE, [])]


async def test_each_step_belongs_to_its_own_request() -> None:
    work, found = CurrentWork(), []

    async def process(request: NotedRequest) -> None:
        for _ in range(3):
            found.append((request, work.read()))
            await asyncio.sleep(0)

    await asyncio.gather(*(work.note(each, process(each)) for each in (ONE, OTHER, WITHOUT_OPERATION)))
    assert len(found) == 9
    assert all(read == Work(request, []) for request, read in found)


async def test_errors_and_cancellations_reach_the_work() -> None:
    work = CurrentWork()
    seen: list[str] = []

    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError("x")

    async def wait() -> None:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            seen.extend(each.operation_id for each in [work.read().in_loop] if each)
            raise

    with pytest.raises(ValueError, match="x"):
        await work.note(ONE, fail())
    task = asyncio.create_task(work.note(OTHER, wait()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == [OTHER.operation_id]
    assert work.read() == NOTHING


async def test_tasks_and_threads_of_a_request_are_noted() -> None:
    work, found, in_thread, go_on = CurrentWork(), [], threading.Event(), threading.Event()

    async def child() -> None:
        await asyncio.sleep(0)
        found.append(work.read())

    def compute() -> None:
        in_thread.set()
        go_on.wait(60)

    async def process() -> None:
        await asyncio.create_task(noted(child()))
        await asyncio.get_running_loop().run_in_executor(None, noted_call(compute))

    task = asyncio.create_task(work.note(ONE, process()))
    await asyncio.to_thread(in_thread.wait, 60)
    assert found == [Work(ONE, [])]
    assert work.read() == Work(None, [ONE]), "the thread works, while the event loop waits"
    go_on.set()
    await task
    assert work.read() == NOTHING


async def test_work_without_a_request_is_not_noted() -> None:
    work = CurrentWork()

    async def process() -> bool:
        return noted_call(lambda: work.read() == NOTHING)()

    assert await noted(process())


async def test_note_that_was_replaced_is_not_read() -> None:  # 3
    work, calls = CurrentWork(), []

    async def process() -> None:
        calls.append(noted_call(work.read))

    await work.note(ONE, process())
    assert calls.pop()() == Work(None, [ONE]), "the call outlived the request, and no other request has taken its place"
    for _ in range(10_000):
        await work.note(OTHER, asyncio.sleep(0))
    await work.note(ONE, process())
    late = calls.pop()
    for _ in range(10_000):
        await work.note(OTHER, asyncio.sleep(0))
    assert late() == NOTHING


async def test_more_requests_than_places_are_processed() -> None:
    work, waiting = CurrentWork(), asyncio.Event()
    tasks = [asyncio.create_task(work.note(ONE, waiting.wait())) for _ in range(9_000)]
    await asyncio.sleep(0)
    assert work.read() == NOTHING
    waiting.set()
    assert all(await asyncio.gather(*tasks))


def test_watcher_reads_what_a_killed_process_did() -> None:
    work = CurrentWork()

    async def hang() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    _run_in_fork(lambda: asyncio.run(work.note(ONE, hang())))
    assert work.read() == Work(ONE, [])
    work.clear()
    assert work.read() == NOTHING


def test_process_that_is_killed_while_it_writes_leaves_no_wrong_note() -> None:  # 2
    """Kill forks at random moments of a loop that does nothing but note."""
    work, wrong = CurrentWork(), []

    async def note_for_ever() -> None:
        while True:
            await work.note(ONE, asyncio.sleep(0))
            await work.note(OTHER, asyncio.sleep(0))

    for number in range(30):
        _run_in_fork(lambda: asyncio.run(note_for_ever()), kill_after_seconds=0.02 + number * 0.001)
        wrong += [each for each in [work.read().in_loop] if each not in (None, ONE, OTHER)]
        work.clear()
    assert wrong == []


@pytest.mark.parametrize("text", ["select 1", "select 'ä'", "x" * 10_000])
def test_digest_is_equal_for_equal_plans_only(text: str) -> None:
    def digest(query: str, plan_id: int, limit: int = 7, method: str = "ExecutePlan") -> str:
        plan = relations_pb2.Relation()
        plan.common.plan_id, plan.limit.limit = plan_id, limit
        plan.limit.input.common.plan_id, plan.limit.input.sql.query = plan_id + 1, query
        return digest_of(method, memoryview(plan.SerializeToString()))

    same = digest(text, 1)
    assert {digest(text, plan_id) for plan_id in (2, 16, 65, 126)} == {same}
    assert len({digest(text, plan_id) for plan_id in (128, 3000, 16_000)}) == 1
    assert same not in {
        digest(f"-{text}", 1),
        digest(text.upper(), 1),
        digest(text, 1, 8),
        digest(text, 1, 7, "Config"),
    }


def _run_in_fork(run: Callable[[], object], kill_after_seconds: float | None = None) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            run()
        finally:
            sys.stderr.flush()
            os._exit(1)
    if kill_after_seconds is not None:
        threading.Timer(kill_after_seconds, os.kill, (pid, signal.SIGKILL)).start()
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
