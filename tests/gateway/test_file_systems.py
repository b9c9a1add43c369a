"""Workspaces whose file system does not respond (gateway.blocking_work.file_systems)."""

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from gateway.blocking_work.file_systems import MAX_ACCESSES, MAX_LISTINGS, FileSystems
from gateway.blocking_work.principal_shares import calling_principal
from gateway.blocking_work.storage import READ_SECONDS, Storage
from gateway.errors import GatewayError
from tests.gateway.loop_clock import LoopClock
from tests.hung_file_system import HungFileSystem
from workspace.workspaces import Workspace

SECONDS = 60.0
WITH_ENDLESS_READS = """
import sys
from gateway.blocking_work import storage
from lodge.cli import main
storage.READ_SECONDS = 3600.0
sys.exit(main())
"""
"""A gateway that never abandons a read. If another read waits for it, that one does not end either."""


def workspace_at(path, name="dfs"):
    path.mkdir(exist_ok=True)
    return Workspace(name, path)


def refused(call):
    with pytest.raises(GatewayError, match=r"LODGE_STORAGE_UNAVAILABLE.*\[dfs\]"):
        call()


class Clock:
    """A clock that only the test sets forward.

    While it stands still, a caller that waits for time to pass never returns.

    Attributes:
        reads: How often it was read. An access that waits reads it again and again.
    """

    def __init__(self):
        self.seconds = 1000.0
        self.reads = 0

    def __call__(self):
        self.reads += 1
        return self.seconds


def wait_for_reads(clock, count, wait_until):
    expected = clock.reads + count
    wait_until(lambda: clock.reads >= expected, "the clock is read")


def test_hung_file_system_occupies_a_limited_number_of_threads(tmp_path):
    clock = Clock()
    systems = FileSystems(max_accesses=2, hung_seconds=5.0, monotonic=clock)
    hung, healthy = workspace_at(tmp_path / "hung"), workspace_at(tmp_path / "healthy", "other")
    inside = threading.Semaphore(0)

    def look(workspace):
        with systems.access(workspace):
            inside.release()
            return list(workspace.root.iterdir())

    with ThreadPoolExecutor(4) as threads, HungFileSystem(hung.root):
        looks = [threads.submit(look, hung) for _ in range(2)]
        assert all(inside.acquire(timeout=SECONDS) for _ in looks)
        later = [threads.submit(look, hung) for _ in range(2)]
        clock.seconds += 5.0
        errors = [each.exception(SECONDS) for each in later]
        assert all(isinstance(error, GatewayError) for error in errors)
        # The clock stands still, so each of these calls would wait without end, if it waited at all.
        threads.submit(refused, lambda: look(hung)).result(SECONDS)
        threads.submit(refused, lambda: systems.require_responsive(hung)).result(SECONDS)
        assert threads.submit(look, healthy).result(SECONDS) == []
        threads.submit(systems.require_responsive, healthy).result(SECONDS)
        assert not any(each.done() for each in looks)
    assert all(isinstance(each.exception(SECONDS), OSError) for each in looks)
    assert look(hung) == [], "the workspace can be used again"


def test_object_store_that_does_not_respond_occupies_a_limited_number_of_threads(wait_until):
    clock = Clock()
    systems = FileSystems(max_accesses=1, hung_seconds=0.0, hung_remote_seconds=20.0, monotonic=clock)
    lake, other = (Workspace.from_uri(name, f"s3://bucket/{name}") for name in ("dfs", "other"))
    inside, leave = threading.Event(), threading.Event()

    def stay():
        with systems.access(lake):
            inside.set()
            leave.wait(SECONDS)

    def use(workspace):
        with systems.access(workspace):
            pass

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(stay)
        assert inside.wait(SECONDS)
        second = threads.submit(use, lake)
        clock.seconds += 19.0
        wait_for_reads(clock, 2, wait_until)
        assert not second.done(), "the listing of a large directory is not considered hung at once"
        systems.require_responsive(lake)
        clock.seconds += 1.0
        refused(lambda: second.result(SECONDS))
        use(other)
        leave.set()
        first.result(SECONDS)
    use(lake)


def test_busy_file_system_delays_further_accesses(tmp_path, wait_until):
    clock = Clock()
    systems, workspace = FileSystems(max_accesses=1, monotonic=clock), workspace_at(tmp_path / "busy")
    inside, leave = threading.Event(), threading.Event()

    def stay():
        with systems.access(workspace):
            inside.set()
            leave.wait(SECONDS)

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(stay)
        assert inside.wait(SECONDS)
        inside.clear()
        second = threads.submit(stay)
        wait_for_reads(clock, 2, wait_until)
        assert not inside.is_set()
        leave.set()
        first.result(SECONDS)
        second.result(SECONDS)


def test_slow_listings_that_progress_delay_no_other_access(tmp_path, wait_until):
    clock = Clock()
    systems = FileSystems(max_accesses=3, max_listings=2, hung_seconds=5.0, monotonic=clock)
    workspace = workspace_at(tmp_path / "slow")
    ends, in_progress = threading.Event(), []

    def list_slowly():
        with systems.listing(workspace) as progress:
            in_progress.append(progress)
            ends.wait(SECONDS)

    def use():
        systems.require_responsive(workspace)
        with systems.access(workspace):
            return "used"

    with ThreadPoolExecutor(17) as threads:
        listings = [threads.submit(list_slowly) for _ in range(16)]
        wait_until(lambda: len(in_progress) == 2, "two threads list")
        for _ in range(4):
            clock.seconds += 4.0
            assert threads.submit(use).result(SECONDS) == "used"
            for progress in in_progress:
                progress()
        wait_for_reads(clock, 2 * len(listings), wait_until)
        assert not any(each.done() for each in listings), "the listings that wait do not consider the others hung"
        assert len(in_progress) == 2
        ends.set()
        for each in listings:
            each.result(SECONDS)


@pytest.mark.parametrize(("kind", "places"), [("access", MAX_ACCESSES), ("listing", MAX_LISTINGS)])
def test_principal_whose_accesses_hang_makes_no_workspace_unavailable_for_others(tmp_path, wait_until, kind, places):
    clock = Clock()
    systems, workspace = FileSystems(hung_seconds=5.0, monotonic=clock), workspace_at(tmp_path / "slow")
    leave, inside = threading.Event(), []

    def access_as(principal, hangs):
        calling_principal.set(principal)
        systems.require_responsive(workspace)
        with getattr(systems, kind)(workspace):
            if hangs:
                inside.append(principal)
                leave.wait(SECONDS)

    with ThreadPoolExecutor(1) as other, ThreadPoolExecutor(places) as threads:
        hanging = [threads.submit(access_as, "eve", True) for _ in range(places)]
        wait_until(lambda: len(inside) == places * 3 // 4, "the accesses hang")
        wait_for_reads(clock, 2 * (places - len(inside)), wait_until)
        assert len(inside) == places * 3 // 4, "the other accesses of the principal wait"
        other.submit(access_as, "ada", False).result(SECONDS)
        clock.seconds += 5.0
        wait_until(lambda: sum(each.done() for each in hanging) == places - len(inside), "the others are refused")
        other.submit(access_as, "ada", False).result(SECONDS)
        leave.set()
    errors = [each.exception() for each in hanging]
    assert sum(isinstance(error, GatewayError) for error in errors) == places - len(inside)
    assert sum(error is None for error in errors) == len(inside)


def test_listings_without_progress_are_hung(tmp_path):
    clock = Clock()
    systems = FileSystems(max_accesses=3, max_listings=2, hung_seconds=5.0, monotonic=clock)
    workspace = workspace_at(tmp_path / "slow")
    leave, inside = threading.Event(), threading.Barrier(3)

    def hang():
        with systems.listing(workspace):
            inside.wait(SECONDS)
            leave.wait(SECONDS)

    def list_at_once():
        with systems.listing(workspace):
            pass

    with ThreadPoolExecutor(2) as threads:
        hung = [threads.submit(hang) for _ in range(2)]
        inside.wait(SECONDS)
        clock.seconds += 5.0
        refused(list_at_once)
        with systems.access(workspace):
            refused(lambda: systems.require_responsive(workspace))
        leave.set()
        for each in hung:
            each.result(SECONDS)
    list_at_once()


def test_hung_reads_of_a_workspace_do_not_delay_other_reads(tmp_path):
    hung = workspace_at(tmp_path / "hung")

    async def run():
        clock, storage = LoopClock(), Storage(None, None, None)
        reads = [asyncio.create_task(storage.read_workspace(os.listdir, hung.root)) for _ in range(16)]
        await asyncio.sleep(0)
        assert await storage.run_location(os.listdir, tmp_path) == ["hung"]
        assert await storage.change_workspace(os.listdir, tmp_path) == ["hung"]
        await clock.skip(READ_SECONDS / 2)
        other = asyncio.create_task(storage.read_workspace(os.listdir, tmp_path))
        await asyncio.sleep(0)
        assert not any(each.done() for each in reads)
        await clock.skip(READ_SECONDS / 2)
        outcomes = await asyncio.gather(*reads, return_exceptions=True)
        assert {each.condition for each in outcomes} == {"LODGE_STORAGE_UNAVAILABLE"}
        assert await other == ["hung"], "the hung reads are abandoned, and their threads are replaced"
        return storage

    async def main():
        with HungFileSystem(hung.root):
            storage = await run()
        await storage.close()

    asyncio.run(main())


@pytest.mark.slow
def test_hung_workspace_does_not_stall_statements_of_others(start_lodge, spark_server, connect, wait_until, tmp_path):
    remote = tmp_path / "remote"
    remote.mkdir()
    option = ("--workspace", f"remote={remote.as_uri()}")
    gateway = start_lodge(*option, backend=spark_server, program=("-c", WITH_ENDLESS_READS))
    (gateway.files / "numbers.csv").write_text("a\n1\n2\n")
    users = [connect(gateway, user_id=f"user-{number}") for number in range(8)]
    other = connect(gateway, user_id="other")
    query = "select count(*) from dfs.`numbers.csv`"
    assert other.sql(query).collect()[0][0] == 3

    def outcome_of(session):
        try:
            return session.sql("select * from remote.`numbers.csv`").collect()
        except Exception as error:  # noqa: BLE001 - the test judges it
            return error

    with ThreadPoolExecutor(24) as threads, HungFileSystem(remote):
        hanging = [threads.submit(outcome_of, session) for session in users * 3]
        for number in range(3):
            assert other.sql(query).collect()[0][0] == 3
            other.sql(f"create temporary table t{number} as select {number} a").collect()
        may_be_refused = len(hanging) - MAX_ACCESSES
        wait_until(lambda: sum(each.done() for each in hanging) == may_be_refused, "the others are refused")
        assert "LODGE_STORAGE_UNAVAILABLE" in str(outcome_of(other))
        outcomes = [each.result() for each in hanging if each.done()]
    assert len(outcomes) == may_be_refused, "the other reads hang until the end"
    assert [each for each in outcomes if "LODGE_STORAGE_UNAVAILABLE" not in str(each)] == []
    assert "Traceback" not in gateway.log()
    assert gateway.stop() == 0
