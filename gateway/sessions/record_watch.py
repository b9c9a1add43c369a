"""The watch of session records that other processes change.

An operator ends a session by deleting its record (``kubectl delete connectsession``). Only the record tells this to
the replica that serves the session. A replica that stops leaves its sessions, and their clients may be silent for
longer than a session may be without a replica. So this replica ends the sessions that are over, and adopts those that
were left.

Guarantees:

1. Level-triggered: the record as it is read at that time decides, not the event that the watch reported.
2. An interrupted watch ends no session, and the next list makes up for missed events. A failed watch is restarted.
3. A failure for one session does not affect others, and is retried.
4. One replica adopts a session without holders. The sessions of a lost replica are left to the reaper.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable

import structlog

from gateway.sessions.record_updates import is_over
from gateway.sessions.registry import Sessions
from gateway.sessions.session import Session
from workspace.identifiers import RecordName
from workspace.record_store import (
    RecordChanged,
    RecordGone,
    RecordsEvent,
    RecordsListed,
    RecordsUnreachable,
    SessionRecords,
    StoredRecord,
)
from workspace.watch_loop import run_watch_loop

_WORKERS = 4
_RETRY_SECONDS = 5.0

log = structlog.get_logger(__name__)


class RecordWatch:
    """Follows the records of the sessions that this replica serves.

    Args:
        sessions: The sessions of this replica.
        records: The session records.
        end_operations: Ends the operations of a session.
    """

    def __init__(
        self, sessions: Sessions, records: SessionRecords, end_operations: Callable[[Session], Awaitable[object]]
    ) -> None:
        self._sessions = sessions
        self._records = records
        self._end_operations = end_operations
        self._queue: asyncio.Queue[Session | StoredRecord] = asyncio.Queue()
        self._is_interrupted = False

    async def run(self) -> None:
        """Watch until cancelled."""
        stop = threading.Event()
        loop = asyncio.get_running_loop()

        def take(event: RecordsEvent) -> None:
            if not stop.is_set():  # after the stop, the loop may be closed
                loop.call_soon_threadsafe(self._enqueue, event)

        def fail(error: Exception) -> None:
            log.exception("record_watch_failed")
            take(RecordsUnreachable(f"The watch of session records failed: {error}"))

        arguments = (self._records.watch, take, fail, stop)
        thread = threading.Thread(target=run_watch_loop, args=arguments, name="record-watch", daemon=True)
        thread.start()
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(_WORKERS):
                    group.create_task(self._work())
        finally:
            stop.set()

    def _enqueue(self, event: RecordsEvent) -> None:
        """Enqueue served sessions that may be over and sessions without holders."""
        match event:
            case RecordsListed(records):
                self._is_interrupted = False
                continuing = {stored.record.name for stored in records if not is_over(stored)}
                for session in self._sessions.all():
                    if session.record_name not in continuing:
                        self._queue.put_nowait(session)
                for stored in filter(_has_no_holders, records):
                    self._queue.put_nowait(stored)
            case RecordChanged(stored):
                if is_over(stored):
                    self._enqueue_served(stored.record.name)
                elif _has_no_holders(stored):
                    self._queue.put_nowait(stored)
            case RecordGone(name):
                self._enqueue_served(name)
            case RecordsUnreachable(reason):
                if not self._is_interrupted:
                    log.warning("record_watch_interrupted", reason=reason)
                self._is_interrupted = True

    def _enqueue_served(self, name: RecordName) -> None:
        session = self._sessions.find_by_record(name)
        if session is not None:
            self._queue.put_nowait(session)

    async def _work(self) -> None:
        while True:
            item = await self._queue.get()
            try:
                if isinstance(item, Session):
                    await self._end_if_over(item)
                else:
                    await self._sessions.adopt(item)
            except Exception as error:  # noqa: BLE001 - a top loop, see guarantee 3
                session_uuid = item.uuid if isinstance(item, Session) else item.record.session_uuid
                log.error("session_not_settled", session=session_uuid, reason=str(error))
                asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._queue.put_nowait, item)

    async def _end_if_over(self, session: Session) -> None:
        if self._sessions.find(session.key) is session and await self._sessions.is_over(session):
            await self._end_operations(session)
            await self._sessions.release_and_end(session, reason="asked for by its record")


def _has_no_holders(stored: StoredRecord) -> bool:
    return not is_over(stored) and not stored.record.holders
