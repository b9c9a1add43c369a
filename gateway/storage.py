"""What a replica shares with the others, called from its event loop.

Why it exists: records, leases and locations block, and may block for long; the event loop must not. What may take long
has threads of its own, and so have leases: a replica that removes much must not seem dead.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import structlog

from gateway.errors import storage_unavailable
from workspace.leases import Leases
from workspace.locations import SessionLocations
from workspace.record_changes import update_record
from workspace.records import RecordName, RecordsUnavailableError, SessionRecord, SessionRecords, StoredRecord

_STORAGE_THREADS = 4

_Result = TypeVar("_Result")
log = structlog.get_logger(__name__)


class Storage:
    """Records, leases and locations, through bounded executors.

    A call that is cancelled is waited for, so that who undoes it knows that it is over.

    Raises (all methods): GatewayError if the storage cannot answer.
    """

    def __init__(self, records: SessionRecords, leases: Leases, locations: SessionLocations) -> None:
        self.records = records
        self.leases = leases
        self.locations = locations
        self._executor = ThreadPoolExecutor(_STORAGE_THREADS, thread_name_prefix="storage")
        self._slow_executor = ThreadPoolExecutor(_STORAGE_THREADS, thread_name_prefix="slow-storage")
        self._lease_executor = ThreadPoolExecutor(1, thread_name_prefix="leases")

    async def run(self, function: Callable[..., _Result], *arguments: object) -> _Result:
        """Calls a blocking function that is quick."""
        return await self._run(self._executor, function, arguments)

    async def run_slow(self, function: Callable[..., _Result], *arguments: object) -> _Result:
        """Calls a blocking function whose time depends on the size of tables."""
        return await self._run(self._slow_executor, function, arguments)

    async def run_lease(self, function: Callable[..., _Result], *arguments: object) -> _Result:
        """Calls a blocking function about leases."""
        return await self._run(self._lease_executor, function, arguments)

    def close(self) -> None:
        for executor in (self._executor, self._slow_executor, self._lease_executor):
            executor.shutdown()

    @staticmethod
    async def _run(executor: Executor, function: Callable[..., _Result], arguments: Sequence[object]) -> _Result:
        call = asyncio.get_running_loop().run_in_executor(executor, partial(function, *arguments))
        try:
            return await asyncio.shield(call)
        except asyncio.CancelledError:
            await asyncio.wait([call])
            call.exception()
            raise
        except RecordsUnavailableError as error:
            log.error("storage_unavailable", reason=str(error))
            raise storage_unavailable("session records") from error

    async def update(
        self, name: RecordName, change: Callable[[SessionRecord], SessionRecord], *, must_write: bool = False
    ) -> StoredRecord:
        """See :func:`workspace.record_changes.update_record`."""
        return await self.run(partial(update_record, must_write=must_write), self.records, name, change)
