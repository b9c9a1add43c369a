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
5. The replicas do not all try to adopt the same session at once. Each waits for a time that depends on its name and on
   the session, and does nothing if another replica has adopted the session by then.
"""

import asyncio
import hashlib
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
        adoption_spread_seconds: The maximum time to wait before this replica adopts a session.
    """

    def __init__(
        self,
        sessions: Sessions,
        records: record_store.SessionRecords,
        end_operations: Callable[[Session], Awaitable[object]],
        *,
        adopts: bool = True,
        adoption_spread_seconds: float = 2.0,
    ) -> None:
        self._adopts = adopts
        self._adoption_spread_seconds = adoption_spread_seconds
        self._left: dict[RecordName, record_store.StoredRecord] = {}
        self._sessions = sessions
        self._records = records
        self._end_operations = end_operations
        self._queue: asyncio.Queue[Session | RecordName] = asyncio.Queue()
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
                left = {stored.record.name: stored for stored in filter(self._is_left, records)}
                for name in self._left.keys() - left.keys():
                    del self._left[name]
                for stored in left.values():
                    self._adopt_later(stored)
            case record_store.RecordChanged(stored):
                if self._is_left(stored):
                    self._adopt_later(stored)
                    return
                self._left.pop(stored.record.name, None)
                if is_over(stored):
                    self._enqueue_served(stored.record.name)
            case record_store.RecordGone(name):
                self._left.pop(name, None)
                self._enqueue_served(name)
            case record_store.RecordsUnreachable(reason):
                if not self._is_interrupted:
                    log.warning("record_watch_interrupted", reason=reason)
                self._is_interrupted = True

    def _enqueue_served(self, name: RecordName) -> None:
        session = self._sessions.find_by_record(name)
        if session is not None:
            self._queue.put_nowait(session)

    def _adopt_later(self, stored: record_store.StoredRecord) -> None:
        """Adopt a session without holders, unless another replica adopts it first."""
        name = stored.record.name
        is_waiting = name in self._left
        self._left[name] = stored
        if is_waiting:
            return
        digest = hashlib.sha256(f"{self._sessions.replica} {name}".encode()).digest()
        share = int.from_bytes(digest[:4], "big") / 2**32
        loop = asyncio.get_running_loop()
        loop.call_later(share * self._adoption_spread_seconds, self._queue.put_nowait, name)

    async def _adopt(self, name: RecordName) -> None:
        stored = self._left.get(name)
        if stored is not None:
            await self._sessions.adopt(stored)
            if self._left.get(name) is stored:
                del self._left[name]
            else:
                self._queue.put_nowait(name)

    async def _work(self) -> None:
        while True:
            item = await self._queue.get()
            try:
                if isinstance(item, Session):
                    await self._end_if_over(item)
                else:
                    await self._adopt(item)
            except Exception as error:  # noqa: BLE001 - a top loop, see guarantee 3
                session = item.uuid if isinstance(item, Session) else item
                log.error("session_not_settled", session=session, reason=str(error))
                asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._queue.put_nowait, item)

    async def _end_if_over(self, session: Session) -> None:
        if self._sessions.find(session.key) is session and await self._sessions.is_over(session):
            await self._end_operations(session)
            await self._sessions.release_and_end(session, reason="requested by its session record")

    def _is_left(self, stored: record_store.StoredRecord) -> bool:
        return self._adopts and not is_over(stored) and not stored.record.holders
