"""The background task that repairs session records after a lapse of the lease or a failed update.

Each renewal of the lease starts the task if there is something to repair. The number of its subtasks does not depend on
the number of sessions.
"""

import asyncio

from gateway.blocking_work.futures import for_each
from gateway.sessions.pending_updates import PendingUpdate, PendingUpdates, log_failure
from gateway.sessions.served_sessions import ServedSessions
from gateway.sessions.session import Session
from gateway.sessions.session_ends import SessionEnds
from gateway.sessions.session_joins import SessionJoins

_CONCURRENT_UPDATES = 16


class Settlement:
    """Joins sessions again after a lapse of the lease, and applies the pending updates.

    Args:
        served: The sessions that this replica serves.
        joins: Joins sessions again.
        ends: Applies pending updates.
        pending: The pending updates.
    """

    def __init__(self, served: ServedSessions, joins: SessionJoins, ends: SessionEnds, pending: PendingUpdates) -> None:
        self._served = served
        self._joins = joins
        self._ends = ends
        self._pending = pending
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the task, unless it is already running, there is nothing to repair, or the replica stops."""
        if self._served.is_leaving:
            return
        if (self._pending.all() or self._joins.list_fenced()) and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._settle())

    async def stop(self) -> None:
        """Stop the task."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _settle(self) -> None:
        """Join sessions again after a lapse of the lease, and apply the pending updates.

        A step that fails is retried with the next renewal of the lease.
        """

        async def rejoin(session: Session) -> None:
            with session.log_context(), log_failure():
                await self._joins.rejoin(session)

        async def apply(update: PendingUpdate) -> None:
            with log_failure():
                async with self._served.lock(update.record):
                    await self._ends.apply(update)
                    self._pending.discard(update)

        await for_each(self._joins.list_fenced(), rejoin, workers=_CONCURRENT_UPDATES)
        await for_each(self._pending.all(), apply, workers=_CONCURRENT_UPDATES)
