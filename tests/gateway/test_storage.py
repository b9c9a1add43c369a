"""Calls of the storage from an event loop (gateway.blocking_work.storage)."""

import asyncio
import threading

import pytest

from gateway.blocking_work.storage import Storage


def test_lease_call_runs_while_all_other_threads_are_busy():
    release = threading.Event()

    async def run():
        storage = Storage(None, None, None)
        busy = [asyncio.create_task(storage.run_slow(release.wait, 120)) for _ in range(16)]
        busy += [asyncio.create_task(storage.run(release.wait, 120)) for _ in range(16)]
        await asyncio.sleep(0)
        assert await asyncio.wait_for(storage.run_lease(lambda: "renewed"), 60) == "renewed"
        release.set()
        await asyncio.gather(*busy)
        await storage.close()

    asyncio.run(run())


def test_cancelled_call_has_ended_when_its_caller_continues():
    started, release, done = threading.Event(), threading.Event(), []

    def change():
        started.set()
        release.wait(120)
        done.append(True)

    async def run():
        storage = Storage(None, None, None)
        call = asyncio.create_task(storage.run(change))
        await asyncio.to_thread(started.wait, 60)
        call.cancel()
        asyncio.get_running_loop().call_later(0.05, release.set)
        with pytest.raises(asyncio.CancelledError):
            await call
        assert done == [True]
        await storage.close()

    asyncio.run(run())
