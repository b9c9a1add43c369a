"""Watches session records for changes by other processes.

The watch handles two kinds of changes:

- An operator deletes a session record (``kubectl delete connectsession``), or a client of another replica closes a
  session (``CLOSE SESSION``). The replica that serves the session learns this only from the record, and then ends the
  session.
- A replica stops and leaves its sessions. Their clients may not send a request for longer than a session may exist
  without a replica. Therefore this replica adopts sessions without holders.

Guarantees:

1. The watch is level-triggered: decisions depend on the current record, not on the reported event.
2. An interrupted watch does not end any session. The next list of records compensates for missed events. A failed watch
   is restarted.
3. A failure in one session does not affect other sessions. The failed step is retried.
4. Only one replica adopts a session without holders. The sessions of a lost replica are left to the reaper.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable

import structlog

from gateway.sessions.record_updates import is_over
from gateway.sessions.registry import Sessions
from gateway.sessions.session import Session
from workspace import record_store
from workspace.identifiers import RecordName
from workspace.watch_loop import run_watch_loop

_WORKERS = 4
_RETRY_SECONDS = 5.0

log = structlog.get_logger(__name__)


class RecordWatch:
    """Ends and adopts sessions when their records change.

    Args:
        sessions: The sessions that this replica serves.
        records: The session records.
        end_operations: A function that ends all operations of a session.
        adopts: Whether to adopt sessions without holders.
    """

    def __init__(
        self,
        sessions: Sessions,
        records: record_store.SessionRecords,
        end_operations: Callable[[Session], Awaitable[object]],
        *,
        adopts: bool = True,
    ) -> None:
        self._adopts = adopts
        self._sessions = sessions
        self._records = records
        self._end_operations = end_operations
        self._queue: asyncio.Queue[Session | record_store.StoredRecord] = asyncio.Queue()
        self._is_interrupted = False

    async def run(self) -> None:
        """Watch the session records until the task is cancelled."""
        stop = threading.Event()
        loop = asyncio.get_running_loop()

        def take(event: record_store.RecordsEvent) -> None:
            if not stop.is_set():  # the event loop may be closed after the stop
                loop.call_soon_threadsafe(self._enqueue, event)

        def fail(error: Exception) -> None:
            log.exception("record_watch_failed")
            take(record_store.RecordsUnreachable(f"The watch of session records failed: {error}"))

        arguments = (self._records.watch, take, fail, stop)
        thread = threading.Thread(target=run_watch_loop, args=arguments, name="record-watch", daemon=True)
        thread.start()
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(_WORKERS):
                    group.create_task(self._work())
        finally:
            stop.set()

    def _enqueue(self, event: record_store.RecordsEvent) -> None:
        """Enqueue served sessions that may have ended, and sessions without holders."""
        match event:
            case record_store.RecordsListed(records):
                self._is_interrupted = False
                continuing = {stored.record.name for stored in records if not is_over(stored)}
                for session in self._sessions.all():
                    if session.record_name not in continuing:
                        self._queue.put_nowait(session)
                for stored in filter(self._is_left, records):
                    self._queue.put_nowait(stored)
            case record_store.RecordChanged(stored):
                if is_over(stored):
                    self._enqueue_served(stored.record.name)
                elif self._is_left(stored):
                    self._queue.put_nowait(stored)
            case record_store.RecordGone(name):
                self._enqueue_served(name)
            case record_store.RecordsUnreachable(reason):
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
            await self._sessions.release_and_end(session, reason="requested by its session record")

    def _is_left(self, stored: record_store.StoredRecord) -> bool:
        return self._adopts and not is_over(stored) and not stored.record.holders
