"""Ends the sessions of a replica that have reached the idle timeout.

:class:`gateway.sessions.session.Session` counts the idle time. :mod:`gateway.sessions.session_ends` decides what
happens if the end fails.
"""

import asyncio
import time
from collections.abc import Sequence

from gateway.backends.backends import Backend
from gateway.blocking_work.futures import for_each
from gateway.sessions.backend_calls import Activity, find_activity
from gateway.sessions.pending_updates import log_failure
from gateway.sessions.record_updates import RecordUpdates
from gateway.sessions.served_sessions import ServedSessions
from gateway.sessions.session import Session
from gateway.sessions.session_ends import SessionEnds
from workspace.identifiers import RecordName
from workspace.record_store import StoredRecord

_CONCURRENT_CHECKS = 16
_FEWEST_LISTED = 100
"""The number of idle sessions from which their records are listed at once instead of read one by one."""

_PASS_SECONDS = 10.0
"""How long the end of idle sessions waits for a backend."""


class IdleSessions:
    """The sessions of a replica that have reached the idle timeout.

    If another replica also serves an idle session, the session does not end. This replica only leaves the session.

    If a backend does not respond, its sessions continue for a second idle timeout, because the backend may still be
    running their operations. If the backend reports a running operation in this time, the idle time starts again.

    Args:
        served: The sessions that this replica serves.
        records: Lists the records of these sessions.
        ends: Ends or leaves sessions.
        timeout_seconds: The idle timeout.
    """

    def __init__(
        self, served: ServedSessions, records: RecordUpdates, ends: SessionEnds, timeout_seconds: float
    ) -> None:
        self._served = served
        self._records = records
        self._ends = ends
        self._timeout_seconds = timeout_seconds
        self._passes: dict[Backend, asyncio.Task[None]] = {}

    async def end(self) -> None:
        """End all idle sessions.

        If a backend answers slowly, its sessions end in the background. Other backends do not wait for it.
        """
        self._passes = {backend: one for backend, one in self._passes.items() if not one.done()}
        idle: dict[Backend, list[Session]] = {}
        for session in self._served.all():
            if session.backend not in self._passes and session.is_idle(self._timeout_seconds):
                idle.setdefault(session.backend, []).append(session)
        records = dict[RecordName, StoredRecord]()
        if sum(map(len, idle.values())) >= _FEWEST_LISTED:
            with log_failure():
                records = await self._records.list_own()

        started = {
            backend: asyncio.create_task(self._end_of_backend(sessions, records)) for backend, sessions in idle.items()
        }
        self._passes |= started
        if started:
            await asyncio.wait(started.values(), timeout=_PASS_SECONDS)

    async def stop(self) -> None:
        """Stop what runs in the background."""
        for task in self._passes.values():
            task.cancel()
        await asyncio.gather(*self._passes.values(), return_exceptions=True)

    async def _end_of_backend(self, sessions: Sequence[Session], records: dict[RecordName, StoredRecord]) -> None:
        """End the idle sessions of one backend. If the backend does not respond to a check, no other checks follow.

        Args:
            sessions: The sessions.
            records: Known records of sessions, which are removed when they are used. Other records are read.
        """
        is_unreachable = False

        async def end(session: Session) -> None:
            nonlocal is_unreachable
            with session.log_context(), log_failure():
                activity = Activity.UNREACHABLE if is_unreachable else await find_activity(session)
                is_unreachable = activity is Activity.UNREACHABLE
                known = records.pop(session.record_name, None)
                if activity is Activity.POSSIBLE:
                    session.last_active_seconds = time.monotonic()
                    return
                await self._ends.end_if_idle(session, self._timeout_seconds * (2 if is_unreachable else 1), known)

        await for_each(sessions, end, workers=_CONCURRENT_CHECKS)
