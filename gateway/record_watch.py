"""Session records that others change: a session that is over elsewhere is given up here.

Why it exists: an operator ends a session by deleting its record (``kubectl delete connectsession``), and nothing else
tells the replica that serves it.

Guarantees:

1. Level-triggered: what is done follows from the record as it is read then, whatever a watch reported.
2. An interrupted watch ends nothing; the next list makes good what it missed.
3. What fails for one session does not keep others from their end, and is tried again.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable

import structlog

from gateway.sessions import Session, Sessions
from workspace.records import (
    Phase,
    RecordChanged,
    RecordGone,
    RecordsEvent,
    RecordsListed,
    RecordsUnreachable,
    SessionRecords,
    StoredRecord,
)

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
        self._doubtful: asyncio.Queue[Session] = asyncio.Queue()
        self._is_interrupted = False

    async def run(self) -> None:
        """Watches until cancelled."""
        stop = threading.Event()
        loop = asyncio.get_running_loop()

        def watch() -> None:
            for event in self._records.watch(stop):
                loop.call_soon_threadsafe(self._take, event)

        thread = threading.Thread(target=watch, name="record-watch", daemon=True)
        thread.start()
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(_AT_ONCE):
                    group.create_task(self._look_at_all())
        finally:
            stop.set()

    def _take(self, event: RecordsEvent) -> None:
        """Picks out the sessions that the event leaves in doubt."""
        match event:
            case RecordsListed(records):
                self._is_interrupted = False
                going_on = {stored.record.name for stored in records if not _is_over(stored)}
                for session in self._sessions.all_held():
                    if session.record_name not in going_on:
                        self._doubtful.put_nowait(session)
            case RecordChanged(stored):
                if _is_over(stored):
                    self._doubt(self._sessions.of_record(stored.record.name))
            case RecordGone(name):
                self._doubt(self._sessions.of_record(name))
            case RecordsUnreachable(reason):
                if not self._is_interrupted:
                    log.warning("record_watch_interrupted", reason=reason)
                self._is_interrupted = True

    def _doubt(self, session: Session | None) -> None:
        if session is not None:
            self._doubtful.put_nowait(session)

    async def _look_at_all(self) -> None:
        while True:
            await self._look_at(await self._doubtful.get())

    async def _look_at(self, session: Session) -> None:
        try:
            if self._sessions.held(session.key) is session and await self._sessions.is_over(session):
                await self._end_operations(session)
                await self._sessions.give_over(session)
        except Exception as error:  # noqa: BLE001 - a top loop, see guarantee 3
            log.error("session_not_ended", session=session.uuid, reason=str(error))
            asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._doubt, session)


def _is_over(stored: StoredRecord) -> bool:
    return stored.is_deletion_requested or stored.record.phase is Phase.ENDING
