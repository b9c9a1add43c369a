"""Non-blocking access to the storage that all replicas share, and to the files of workspaces.

Functions that read or write session records, leases, session locations and workspaces block. If a file system or a
server does not respond, they block for a long time. This module runs them in bounded pools of threads, so that they
never block the event loop. Calls of different purposes have different pools, so storage that hangs delays only the
calls that need it:

=====================  ===========================================================  ==========================
Pool                   Calls                                                        If a call hangs
=====================  ===========================================================  ==========================
``records``            reads and changes of session records                         reads are abandoned
``leases``             reads, stops and deletions of leases                         abandoned
``locations``          changes of session locations that take a short time          waits
``large-locations``    changes of session locations that depend on their size       waits
``session-ends``       ends of sessions: their records and session locations        waits
``workspace-reads``    names of tables and files in workspaces                      abandoned
``workspace-changes``  creation and removal of permanent tables                     waits
``users``              look-ups of operating system users                           abandoned
=====================  ===========================================================  ==========================

A client whose call is abandoned receives the error ``LODGE_STORAGE_UNAVAILABLE``. A change is never abandoned, because
its caller must know its result.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

import structlog

from gateway.blocking_work.pools import Pool
from gateway.errors import storage_unavailable
from workspace.identifiers import RecordName
from workspace.leases import Leases
from workspace.locations import SessionLocations
from workspace.record_changes import update_record
from workspace.record_store import RecordsUnavailableError, SessionRecords, StoredRecord
from workspace.records import SessionRecord

READ_SECONDS = 30.0
"""How long a client waits for a read of the storage."""

_THREADS = 4
_RECORD_THREADS = 16
_READ_THREADS = 16
_LISTING_THREADS = 16
_END_THREADS = 8
_MAX_ABANDONED = 48

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")
log = structlog.get_logger(__name__)


class Storage:
    """Session records, leases, session locations and workspaces, accessed in bounded pools of threads.

    If a call of a ``run`` or ``change`` method is cancelled, CancelledError is raised only after the function has
    returned. The caller can then safely undo the effects of the function. A ``read`` method does not wait for its
    function for longer than ``READ_SECONDS``, and is cancelled at once.

    All methods raise GatewayError if the storage does not respond.

    Args:
        records: The session records.
        leases: The leases of all replicas.
        locations: The session locations.

    Attributes:
        workspace_reads: The pool for reads of the files in workspaces.
        listings: The pool for listings of directories, which can take long.
    """

    def __init__(self, records: SessionRecords, leases: Leases, locations: SessionLocations) -> None:
        self.records = records
        self.leases = leases
        self.locations = locations
        self._records = _pool("records", _RECORD_THREADS, "session records", max_abandoned=_RECORD_THREADS)
        self._leases = _pool("leases", 1, "leases", max_abandoned=_THREADS)
        self._locations = _pool("locations", _THREADS, "session locations")
        self._large_locations = _pool("large-locations", _THREADS, "session locations")
        self._session_ends = _pool("session-ends", _END_THREADS, "session records")
        self._workspace_changes = _pool("workspace-changes", _THREADS, "workspaces")
        self._users = _pool("users", _THREADS, "operating system users", max_abandoned=_THREADS)
        self.workspace_reads = make_workspace_reads()
        self.listings = _pool("listings", _LISTING_THREADS, "workspaces", max_abandoned=_MAX_ABANDONED)

    async def run(
        self, function: Callable[_Parameters, _Result], *args: _Parameters.args, **kwargs: _Parameters.kwargs
    ) -> _Result:
        """Call a function that changes session records."""
        return await _convert_errors(self._records.run(function, *args, **kwargs))

    async def read(
        self, function: Callable[_Parameters, _Result], *args: _Parameters.args, **kwargs: _Parameters.kwargs
    ) -> _Result:
        """Call a function that reads session records."""
        return await _convert_errors(self._records.run_or_abandon(function, *args, **kwargs))

    async def run_location(
        self, function: Callable[_Parameters, _Result], *args: _Parameters.args, **kwargs: _Parameters.kwargs
    ) -> _Result:
        """Call a function that reads or changes session locations, and takes a short time."""
        return await _convert_errors(self._locations.run(function, *args, **kwargs))

    async def run_slow(
        self, function: Callable[_Parameters, _Result], *args: _Parameters.args, **kwargs: _Parameters.kwargs
    ) -> _Result:
        """Call a function whose run time depends on the size of tables in session locations."""
        return await _convert_errors(self._large_locations.run(function, *args, **kwargs))

    async def run_end(
        self, function: Callable[_Parameters, _Result], *args: _Parameters.args, **kwargs: _Parameters.kwargs
    ) -> _Result:
        """Call a function that ends a session."""
        return await _convert_errors(self._session_ends.run(function, *args, **kwargs))

    async def run_lease(
        self, function: Callable[_Parameters, _Result], *args: _Parameters.args, **kwargs: _Parameters.kwargs
    ) -> _Result:
        """Call a function for leases. It can be abandoned, because it can be repeated."""
        return await _convert_errors(self._leases.run_or_abandon(function, *args, **kwargs))

    async def read_workspace(
        self, function: Callable[_Parameters, _Result], *args: _Parameters.args, **kwargs: _Parameters.kwargs
    ) -> _Result:
        """Call a function that reads files of a workspace."""
        return await self.workspace_reads.run_or_abandon(function, *args, **kwargs)

    async def change_workspace(
        self, function: Callable[_Parameters, _Result], *args: _Parameters.args, **kwargs: _Parameters.kwargs
    ) -> _Result:
        """Call a function that creates or removes files of a workspace."""
        return await self._workspace_changes.run(function, *args, **kwargs)

    async def read_users(
        self, function: Callable[_Parameters, _Result], *args: _Parameters.args, **kwargs: _Parameters.kwargs
    ) -> _Result:
        """Call a function that looks up users of the operating system, which may ask a directory service."""
        return await self._users.run_or_abandon(function, *args, **kwargs)

    async def update(
        self, name: RecordName, change: Callable[[SessionRecord], SessionRecord], *, must_write: bool = False
    ) -> StoredRecord:
        """Change a session record. See :func:`workspace.record_changes.update_record`."""
        return await self.run(update_record, self.records, name, change, must_write=must_write)

    async def close(self) -> None:
        """Wait for running calls to finish, for a limited time, and stop all threads."""
        pools = (
            self._records,
            self._leases,
            self._locations,
            self._large_locations,
            self._session_ends,
            self._workspace_changes,
            self._users,
            self.workspace_reads,
            self.listings,
        )
        await asyncio.gather(*(pool.close() for pool in pools))


def make_workspace_reads() -> Pool:
    """Return the pool for reads of the files in workspaces."""
    return _pool("workspace-reads", _READ_THREADS, "workspaces", max_abandoned=_MAX_ABANDONED)


def _pool(name: str, threads: int, what: str, *, max_abandoned: int = 0) -> Pool:
    return Pool(
        name,
        threads,
        refusal=lambda: storage_unavailable(what),
        timeout_seconds=READ_SECONDS,
        max_abandoned=max_abandoned,
    )


async def _convert_errors(call: Awaitable[_Result]) -> _Result:
    try:
        return await call
    except RecordsUnavailableError as error:
        log.error("storage_unavailable", reason=str(error))
        raise storage_unavailable("session records") from error
