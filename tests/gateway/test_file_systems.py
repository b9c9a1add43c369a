"""Workspaces whose file system does not respond (gateway.file_systems)."""

import asyncio
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from gateway import storage as gateway_storage
from gateway.errors import GatewayError
from gateway.file_systems import HUNG_SECONDS, FileSystems
from gateway.storage import READ_SECONDS, Storage
from tests.hung_file_system import HungFileSystem
from workspace.workspaces import Workspace


def workspace_at(path, name="dfs"):
    path.mkdir(exist_ok=True)
    return Workspace(name, path)


def refused(call):
    with pytest.raises(GatewayError, match=r"LODGE_STORAGE_UNAVAILABLE.*\[dfs\]"):
        call()


def test_hung_file_system_occupies_a_limited_number_of_threads(tmp_path):
    systems = FileSystems(max_accesses=2, hung_seconds=0.3)
    hung, healthy = workspace_at(tmp_path / "hung"), workspace_at(tmp_path / "healthy", "other")
    inside = threading.Semaphore(0)

    def look(workspace):
        with systems.access(workspace):
            inside.release()
            return list(workspace.root.iterdir())

    with ThreadPoolExecutor(4) as threads, HungFileSystem(hung.root):
        looks = [threads.submit(look, hung) for _ in range(2)]
        assert all(inside.acquire(timeout=10) for _ in looks)
        errors = [threads.submit(look, hung).exception(10) for _ in range(2)]
        assert all(isinstance(error, GatewayError) for error in errors)
        begun = time.monotonic()
        refused(lambda: look(hung))
        refused(lambda: systems.require_responsive(hung))
        assert look(healthy) == []
        systems.require_responsive(healthy)
        assert time.monotonic() - begun < 0.3, "nothing waits for the hung file system"
        assert not any(each.done() for each in looks)
    assert all(isinstance(each.exception(10), OSError) for each in looks)
    assert look(hung) == [], "the workspace can be used again"


def test_object_store_that_does_not_respond_occupies_a_limited_number_of_threads():
    systems = FileSystems(max_accesses=1, hung_seconds=0.0, hung_remote_seconds=0.3)
    lake, other = (Workspace.from_uri(name, f"s3://bucket/{name}") for name in ("dfs", "other"))
    inside, leave = threading.Event(), threading.Event()

    def stay():
        with systems.access(lake):
            inside.set()
            leave.wait(10)

    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(stay)
        inside.wait(10)
        begun = time.monotonic()
        with pytest.raises(GatewayError, match=r"LODGE_STORAGE_UNAVAILABLE.*\[dfs\]"), systems.access(lake):
            pass
        assert time.monotonic() - begun >= 0.2, "the listing of a large directory is not considered hung at once"
        with systems.access(other):
            pass
        leave.set()
        first.result(10)
    with systems.access(lake):
        pass


def test_busy_file_system_delays_further_accesses(tmp_path):
    systems, workspace = FileSystems(max_accesses=1, hung_seconds=10), workspace_at(tmp_path / "busy")
    inside, leave = threading.Event(), threading.Event()

    def stay():
        with systems.access(workspace):
            inside.set()
            leave.wait(10)

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(stay)
        inside.wait(10)
        second = threads.submit(stay)
        assert not second.done()
        leave.set()
        first.result(10)
        second.result(10)


def test_slow_listings_that_progress_delay_no_other_access(tmp_path):
    systems, workspace = FileSystems(max_accesses=3, max_listings=2, hung_seconds=0.2), workspace_at(tmp_path / "slow")
    ends = threading.Event()

    def list_slowly():
        with systems.listing(workspace) as progress:
            while not ends.wait(0.02):
                progress()

    with ThreadPoolExecutor(16) as threads:
        listings = [threads.submit(list_slowly) for _ in range(16)]
        begun = time.monotonic()
        while time.monotonic() - begun < 0.8:
            before = time.monotonic()
            systems.require_responsive(workspace)
            with systems.access(workspace):
                assert time.monotonic() - before < 0.2
            time.sleep(0.02)
        ends.set()
        for listing in listings:
            listing.result(10)


def test_listings_without_progress_are_hung(tmp_path):
    systems, workspace = FileSystems(max_accesses=3, max_listings=2, hung_seconds=0.2), workspace_at(tmp_path / "slow")
    leave, inside = threading.Event(), threading.Barrier(3)

    def hang():
        with systems.listing(workspace):
            inside.wait(10)
            leave.wait(10)

    def list_at_once():
        with systems.listing(workspace):
            pass

    with ThreadPoolExecutor(2) as threads:
        hung = [threads.submit(hang) for _ in range(2)]
        inside.wait(10)
        refused(list_at_once)
        with systems.access(workspace):
            refused(lambda: systems.require_responsive(workspace))
        leave.set()
        for each in hung:
            each.result(10)
    list_at_once()


def test_hung_reads_of_a_workspace_do_not_delay_other_reads(tmp_path, monkeypatch):
    monkeypatch.setattr(gateway_storage, "READ_SECONDS", 1.0)
    hung = workspace_at(tmp_path / "hung")

    async def run():
        storage = Storage(None, None, None)
        reads = [asyncio.create_task(storage.read_workspace(os.listdir, hung.root)) for _ in range(16)]
        await asyncio.sleep(0)
        async with asyncio.timeout(30):
            assert await storage.read_workspace(os.listdir, tmp_path) == ["hung"]
            assert await storage.run_location(os.listdir, tmp_path) == ["hung"]
            assert await storage.change_workspace(os.listdir, tmp_path) == ["hung"]
            outcomes = await asyncio.gather(*reads, return_exceptions=True)
        assert {each.condition for each in outcomes} == {"LODGE_STORAGE_UNAVAILABLE"}
        return storage

    async def main():
        with HungFileSystem(hung.root):
            storage = await run()
        await storage.close()

    asyncio.run(main())


@pytest.mark.slow
def test_hung_workspace_does_not_stall_statements_of_others(start_lodge, spark_server, connect, tmp_path):
    remote = tmp_path / "remote"
    remote.mkdir()
    gateway = start_lodge("--workspace", f"remote={remote.as_uri()}", backend=spark_server)
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
        seconds = []
        for number in range(10):
            begun = time.monotonic()
            assert other.sql(query).collect()[0][0] == 3
            other.sql(f"create temporary table t{number} as select {number} a").collect()
            seconds.append(time.monotonic() - begun)
        outcomes = [each.result(90) for each in hanging]
        begun = time.monotonic()
        assert "LODGE_STORAGE_UNAVAILABLE" in str(outcome_of(other))
        assert time.monotonic() - begun < READ_SECONDS + 10
    assert [each for each in outcomes if "LODGE_STORAGE_UNAVAILABLE" not in str(each)] == []
    assert max(seconds[1:]) < HUNG_SECONDS + 5, seconds
    log = gateway.log()
    assert "Traceback" not in log
    assert gateway.stop() == 0
