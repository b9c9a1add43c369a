"""Watches session records for changes by other processes.

The watch reports only the records that concern this replica. It handles five kinds of changes:

- Another process took this replica for lost, and removed it from the holders of a session that it serves. It joins the
  session again. Without this, the session would end with its other holders.
- An operator deletes a session record (``kubectl delete connectsession``), or a client of another replica closes a
  session (``CLOSE SESSION``). The replica that serves the session learns this only from the record, and then ends the
  session.
- A record has no holders any more. :mod:`gateway.sessions.adopter` adopts the session.
- Another gateway was lost while it worked on a request of a session (:mod:`gateway.sessions.suspects`).
- A session of this replica contains a change of a lost replica, or a change that another replica handed over. It is
  completed in the background.

Guarantees:

1. The watch is level-triggered: decisions depend on the current record, not on the reported event.
2. An interrupted watch does not end any session. The next list of records compensates for missed events. A failed watch
   is restarted, also if its thread does not start.
3. A failure in one session does not affect other sessions. The failed step is retried.
4. Records are decoded and selected in the thread of the watch. The event loop receives only what requires an action.
"""

import asyncio
from collections.abc import Awaitable, Callable, Set
from functools import partial

import structlog

from gateway.sessions.adopter import Adopter
from gateway.sessions.record_updates import is_over
from gateway.sessions.registry import Sessions
from gateway.sessions.session import Session
from workspace import record_store
from workspace.background_thread import BackgroundThread
from workspace.identifiers import RecordName
from workspace.watch_loop import run_watch_loop

_WORKERS = 4
_RETRY_SECONDS = 5.0
_OPENING_SECONDS = 1.0

log = structlog.get_logger(__name__)


class RecordWatch:
    """Ends sessions when their records change, and finds sessions for the adopter.

    Args:
        sessions: The sessions that this replica serves.
        records: The session records.
        end_operations: A function that ends all operations of a session.
        adopter: Adopts sessions. None if this replica does not adopt sessions.
    """

    def __init__(
        self,
        sessions: Sessions,
        records: record_store.SessionRecords,
        end_operations: Callable[[Session], Awaitable[object]],
        adopter: Adopter | None = None,
    ) -> None:
        self._sessions = sessions
        self._records = records
        self._end_operations = end_operations
        self._adopter = adopter
        self._queue: asyncio.Queue[Session] = asyncio.Queue()
        self._is_interrupted = False

    async def run(self) -> None:
        """Watch the session records until the task is cancelled."""
        self._thread = BackgroundThread("record-watch", partial(self._watch, asyncio.get_running_loop()))
        try:
            await self._start_thread()
            async with asyncio.TaskGroup() as group:
                for _ in range(_WORKERS):
                    group.create_task(self._work())
        finally:
            self._thread.stopping.set()

    async def _start_thread(self) -> None:
        """Start the thread of the watch. Try again until the system can start it."""
        while True:
            try:
                return self._thread.start()
            except (RuntimeError, MemoryError):
                log.exception("record_watch_failed")
                await asyncio.sleep(_RETRY_SECONDS)

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        stop = self._thread.stopping

        def take(event: record_store.RecordsEvent) -> None:
            action = self._action(event)
            if action is not None and not stop.is_set():  # the event loop may be closed after the stop
                loop.call_soon_threadsafe(action)

        def fail(error: Exception) -> None:
            log.exception("record_watch_failed")
            take(record_store.RecordsUnreachable(f"The watch of session records failed: {error}"))

        run_watch_loop(partial(self._records.watch, replica=self._sessions.replica), take, fail, stop)

    def _action(self, event: record_store.RecordsEvent) -> Callable[[], object] | None:
        """Return what the event loop has to do because of an event. Runs in the thread of the watch."""
        match event:
            case record_store.RecordsListed(records):
                continuing = frozenset(stored.record.name for stored in records if self._continues(stored))
                left = {stored.record.name: stored for stored in records if _is_left(stored)}
                tracked = list(filter(self._has_foreign_changes, records))
                suspected = [stored for stored in records if self._has_other_suspects(stored)]
                return partial(self._take_list, continuing, left, tracked, suspected)
            case record_store.RecordChanged(stored):
                return self._action_of_change(stored)
            case record_store.RecordGone(name):
                return partial(self._take_end, name)
            case record_store.RecordsUnreachable(reason):
                return partial(self._take_interruption, reason)

    def _continues(self, stored: record_store.StoredRecord) -> bool:
        """Return whether this replica is a holder of a session that is not over."""
        return not is_over(stored) and self._sessions.replica in stored.record.holders

    def _action_of_change(self, stored: record_store.StoredRecord) -> Callable[[], object] | None:
        action = self._end_or_adoption(stored)
        if not self._has_other_suspects(stored):
            return action

        def take_suspects_too() -> None:
            self._take_suspects(stored)
            if action is not None:
                action()

        return take_suspects_too

    def _has_other_suspects(self, stored: record_store.StoredRecord) -> bool:
        session = self._sessions.find_by_record(stored.record.name)
        if session is None:
            return bool(stored.record.suspects) and self._sessions.replica in stored.record.holders
        return session.suspects != stored.record.suspects

    def _end_or_adoption(self, stored: record_store.StoredRecord) -> Callable[[], object] | None:
        adopter, name = self._adopter, stored.record.name
        is_served = self._sessions.find_by_record(name) is not None
        if is_over(stored) or (is_served and not self._continues(stored)):
            return partial(self._take_end, name)
        if adopter is None:
            return None
        if _is_left(stored):
            return partial(adopter.offer, stored)
        if self._has_foreign_changes(stored):
            return partial(self._take_foreign_changes, stored)
        return partial(self._take_other_change, name) if name in adopter.left or name in adopter.tracked else None

    def _has_foreign_changes(self, stored: record_store.StoredRecord) -> bool:
        return self._adopter is not None and self._adopter.has_foreign_changes(stored)

    def _take_list(
        self,
        continuing: Set[RecordName],
        left: dict[RecordName, record_store.StoredRecord],
        tracked: list[record_store.StoredRecord],
        suspected: list[record_store.StoredRecord],
    ) -> None:
        self._is_interrupted = False
        for stored in suspected:
            self._take_suspects(stored)
        for session in self._sessions.all():
            if session.record_name not in continuing:
                self._queue.put_nowait(session)
        if self._adopter is not None:
            self._adopter.replace_left(left)
            self._adopter.replace_tracked(tracked)

    def _take_suspects(self, stored: record_store.StoredRecord, *, is_opening: bool = True) -> None:
        session = self._sessions.find_by_record(stored.record.name)
        if session is None and is_opening:  # this replica has joined the session, and is about to serve it
            again = partial(self._take_suspects, stored, is_opening=False)
            asyncio.get_running_loop().call_later(_OPENING_SECONDS, again)
        if session is not None and session.uuid == stored.record.session_uuid:
            session.suspects = stored.record.suspects

    def _take_end(self, name: RecordName) -> None:
        """Check a session that may have ended, or of which this replica may not be a holder any more."""
        self._take_other_change(name)
        session = self._sessions.find_by_record(name)
        if session is not None:
            self._queue.put_nowait(session)

    def _take_foreign_changes(self, stored: record_store.StoredRecord) -> None:
        if self._adopter is not None:
            self._adopter.withdraw(stored.record.name)
            self._adopter.track(stored)

    def _take_other_change(self, name: RecordName) -> None:
        if self._adopter is not None:
            self._adopter.withdraw(name)
            self._adopter.untrack(name)

    def _take_interruption(self, reason: str) -> None:
        if not self._is_interrupted:
            log.warning("record_watch_interrupted", reason=reason)
        self._is_interrupted = True

    async def _work(self) -> None:
        while True:
            session = await self._queue.get()
            try:
                await self._end_if_over(session)
            except Exception as error:  # noqa: BLE001 - a top loop, see guarantee 3
                log.error("session_not_settled", session=session.uuid, reason=str(error))
                asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._queue.put_nowait, session)

    async def _end_if_over(self, session: Session) -> None:
        """End a session that is over, and join one again from which another process removed this replica."""
        if self._sessions.find(session.key) is not session or not await self._sessions.joins.settle(session):
            return
        if self._sessions.find(session.key) is session:  # not the next session with its id
            await self._end_operations(session)
            await self._sessions.ends.release_and_end(session, reason="requested by its session record")


def _is_left(stored: record_store.StoredRecord) -> bool:
    return not is_over(stored) and not stored.record.holders
