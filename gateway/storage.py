"""Non-blocking access to the storage that all replicas share.

Functions that read or write session records, leases and session locations block, some of them for a long time. This
module runs them in bounded executors, so that they never block the event loop. Slow functions have their own threads.
Leases have their own thread too, so a replica that is deleting many files can still renew its lease.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

import structlog

from gateway.errors import storage_unavailable
from workspace.identifiers import RecordName
from workspace.leases import Leases
from workspace.locations import SessionLocations
from workspace.record_changes import update_record
from workspace.record_store import RecordsUnavailableError, SessionRecords, StoredRecord
from workspace.records import SessionRecord

_STORAGE_THREADS = 4

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")
log = structlog.get_logger(__name__)


class Storage:
    """Session records, leases and session locations, accessed in bounded executors.

    If a call is cancelled, CancelledError is raised only after the function has returned. The caller can then safely
    undo the effects of the function. All methods raise GatewayError if the storage of records or leases does not
    respond.

    Args:
        records: The session records.
        leases: The leases of all replicas.
        locations: The session locations.
    """

    def __init__(self, records: SessionRecords, leases: Leases, locations: SessionLocations) -> None:
        self.records = records
        self.leases = leases
        self.locations = locations
        self._executor = ThreadPoolExecutor(_STORAGE_THREADS, thread_name_prefix="storage")
        self._slow_executor = ThreadPoolExecutor(_STORAGE_THREADS, thread_name_prefix="slow-storage")
        self._lease_executor = ThreadPoolExecutor(1, thread_name_prefix="leases")

    async def run(
        self, function: Callable[_Parameters, _Result], *args: _Parameters.args, **kwargs: _Parameters.kwargs
    ) -> _Result:
        """Call a function that blocks for a short time."""
        return await _run(self._executor, partial(function, *args, **kwargs))

    async def run_slow(
        self, function: Callable[_Parameters, _Result], *args: _Parameters.args, **kwargs: _Parameters.kwargs
    ) -> _Result:
        """Call a function whose run time depends on the size of tables."""
        return await _run(self._slow_executor, partial(function, *args, **kwargs))

    async def run_lease(
        self, function: Callable[_Parameters, _Result], *args: _Parameters.args, **kwargs: _Parameters.kwargs
    ) -> _Result:
        """Call a function that reads or changes leases."""
        return await _run(self._lease_executor, partial(function, *args, **kwargs))

    async def update(
        self, name: RecordName, change: Callable[[SessionRecord], SessionRecord], *, must_write: bool = False
    ) -> StoredRecord:
        """Change a session record. See :func:`workspace.record_changes.update_record`."""
        return await self.run(update_record, self.records, name, change, must_write=must_write)

    def close(self) -> None:
        """Wait for running calls to finish, and stop all threads."""
        for executor in (self._executor, self._slow_executor, self._lease_executor):
            executor.shutdown()


async def _run(executor: Executor, call: Callable[[], _Result]) -> _Result:
    running = asyncio.get_running_loop().run_in_executor(executor, call)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        running.exception()
        raise
    except RecordsUnavailableError as error:
        log.error("storage_unavailable", reason=str(error))
        raise storage_unavailable("session records") from error
