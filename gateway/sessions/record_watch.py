"""Session records that others change: a session that is over elsewhere is given up here, one that was left is taken up.

Why it exists: an operator ends a session by deleting its record (``kubectl delete connectsession``), and nothing else
tells the replica that serves it. And a replica that stops leaves its sessions, whose clients may be silent for longer
than a session may be without a replica.

Guarantees:

1. Level-triggered: what is done follows from the record as it is read then, whatever a watch reported.
2. An interrupted watch ends nothing; the next list makes good what it missed. One that failed is begun anew.
3. What fails for one session does not keep others from theirs, and is tried again.
4. A session that no replica holds is taken up by one; those of a replica that was lost are left to the reaper.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable

import structlog

from gateway.sessions.record_updates import is_over
from gateway.sessions.registry import Sessions
from gateway.sessions.session import Session
from workspace.records import (
    RecordChanged,
    RecordGone,
    RecordsEvent,
    RecordsListed,
    RecordsUnreachable,
    SessionRecords,
    StoredRecord,
)
from workspace.watch_loop import run_watch_loop

_AT_ONCE = 4
_RETRY_SECONDS = 5.0

log = structlog.get_logger(__name__)


class RecordWatch:
    """Follows the records of the sessions that a replica holds.

    Args:
        sessions: Those of the replica.
        records: Where their records are.
        end_operations: Ends what runs in a session.
    """

    def __init__(
        self, sessions: Sessions, records: SessionRecords, end_operations: Callable[[Session], Awaitable[object]]
    ) -> None:
        self._sessions = sessions
        self._records = records
        self._end_operations = end_operations
        self._work: asyncio.Queue[Session | StoredRecord] = asyncio.Queue()
        self._is_interrupted = False

    async def run(self) -> None:
        """Watches until cancelled."""
        stop = threading.Event()
        loop = asyncio.get_running_loop()

        def tell(event: RecordsEvent) -> None:
            if not stop.is_set():  # then the loop may be closed
                loop.call_soon_threadsafe(self._take, event)

        def failed(error: Exception) -> None:
            log.exception("record_watch_failed")
            tell(RecordsUnreachable(f"The watch of session records failed: {error}"))

        watching = (self._records.watch, tell, failed, stop)
        thread = threading.Thread(target=run_watch_loop, args=watching, name="record-watch", daemon=True)
        thread.start()
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(_AT_ONCE):
                    group.create_task(self._look_at_all())
        finally:
            stop.set()

    def _take(self, event: RecordsEvent) -> None:
        """Picks out the sessions that the event leaves in doubt, or without a replica."""
        match event:
            case RecordsListed(records):
                self._is_interrupted = False
                going_on = {stored.record.name for stored in records if not is_over(stored)}
                for session in self._sessions.all():
                    if session.record_name not in going_on:
                        self._work.put_nowait(session)
                for stored in filter(_is_left, records):
                    self._work.put_nowait(stored)
            case RecordChanged(stored):
                if is_over(stored):
                    self._doubt(self._sessions.find_by_record(stored.record.name))
                elif _is_left(stored):
                    self._work.put_nowait(stored)
            case RecordGone(name):
                self._doubt(self._sessions.find_by_record(name))
            case RecordsUnreachable(reason):
                if not self._is_interrupted:
                    log.warning("record_watch_interrupted", reason=reason)
                self._is_interrupted = True

    def _doubt(self, session: Session | None) -> None:
        if session is not None:
            self._work.put_nowait(session)

    async def _look_at_all(self) -> None:
        while True:
            work = await self._work.get()
            try:
                if isinstance(work, Session):
                    await self._look_at(work)
                else:
                    await self._sessions.adopt(work)
            except Exception as error:  # noqa: BLE001 - a top loop, see guarantee 3
                session_uuid = work.uuid if isinstance(work, Session) else work.record.session_uuid
                log.error("session_not_settled", session=session_uuid, reason=str(error))
                asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._work.put_nowait, work)

    async def _look_at(self, session: Session) -> None:
        if self._sessions.find(session.key) is session and await self._sessions.is_over(session):
            await self._end_operations(session)
            await self._sessions.release_and_end(session, reason="asked for by its record")


def _is_left(stored: StoredRecord) -> bool:
    return not is_over(stored) and not stored.record.holders
