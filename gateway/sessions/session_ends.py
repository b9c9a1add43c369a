"""The end of a session, and the leaving of one that another replica also serves.

Before this replica ends a session, it stops serving it. A request that arrives before the end has finished waits, and
then opens the session again. If the end fails, the replica retries it later. An idle session whose end has not begun is
served again instead.
"""

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import structlog

from gateway.sessions.backend_calls import release_session
from gateway.sessions.pending_updates import PendingUpdate, PendingUpdates
from gateway.sessions.record_updates import IDLE, RecordUpdates, is_over
from gateway.sessions.replica_lease import ReplicaLease
from gateway.sessions.served_sessions import ServedSessions
from gateway.sessions.session import NOT_JOINED, Session
from workspace.record_store import StoredRecord

log = structlog.get_logger(__name__)


class SessionEnds:
    """Ends the sessions of this replica.

    Args:
        served: The sessions that this replica serves.
        lease: The lease of this replica.
        records: Updates session records.
        pending: The updates of session records that failed.
    """

    def __init__(
        self, served: ServedSessions, lease: ReplicaLease, records: RecordUpdates, pending: PendingUpdates
    ) -> None:
        self._served = served
        self._lease = lease
        self._records = records
        self._pending = pending

    async def end(self, session: Session, *, reason: str, only_if_last: bool = False) -> None:
        """End a session that has already ended at its backend.

        Args:
            session: The session to end.
            reason: Why the session ends. The reason is logged.
            only_if_last: If True and another replica also serves the session, this replica only leaves the session.

        Raises:
            GatewayError: If the lease has lapsed, or the storage does not respond. The replica retries the update
                later.
        """
        async with self._ending(session):
            await self._records.end(session, reason, only_if_last=only_if_last)

    async def release_and_end(self, session: Session, *, reason: str) -> None:
        """End a session at its backend and then for all replicas.

        After the backend has released the session, no statement can write to the session location.

        Raises:
            GatewayError: If the lease has lapsed, or the storage does not respond. The replica retries the update
                later.
        """
        async with self._ending(session):
            if await self._records.read(session) is None:
                log.warning("session_lost", reason="another process ended the session")
                return
            await release_session(session)
            await self._records.end(session, reason)

    async def discard(self, session: Session, *, reason: str) -> None:
        """End a session that no client has used yet, also at its backend.

        The backend releases the session even if its record is gone. The process that deleted the record may have
        released the session before the backend created it.

        Raises:
            GatewayError: If the lease has lapsed, or the storage does not respond. The replica retries the update
                later.
        """
        async with self._ending(session):
            await release_session(session)
            await self._records.end(session, reason)

    async def end_if_idle(self, session: Session, timeout_seconds: float, known: StoredRecord | None) -> None:
        """End or leave a session that has had no request for the given time.

        Args:
            session: The session.
            timeout_seconds: The time.
            known: The record of the session as it was read earlier. None if it was not read.

        Raises:
            GatewayError: If the lease lapses, or the storage does not respond. If the end has not begun, the replica
                serves the session again later, with a new idle time. The same failure may have kept requests of the
                client from every replica.
        """
        async with self._served.lock(session.record_name):
            if not session.is_idle(timeout_seconds) or self._served.find(session.key) is not session:
                return
            if not self._lease.has_joined(session):
                return
            self._served.remove(session)
            with self._pending.keep_on_failure(PendingUpdate(session.record_name, session, is_idle=True)):
                await self._end_or_leave(session, IDLE, known)

    async def apply(self, update: PendingUpdate) -> None:
        """Apply a pending update, unless this replica serves the session again.

        The caller holds the lock of the record.
        """
        session, served = update.session, self._served.find_by_record(update.record)
        if served is not None and (session is None or session.uuid == served.uuid):
            return
        if session is None:
            await self._records.leave(update.record)
        elif update.is_idle:
            await self._serve_again(session)
        else:
            await self._end_or_leave(session, "retry of an earlier end")

    async def _serve_again(self, session: Session) -> None:
        """Serve a session again whose end as idle has failed.

        If the end has begun, complete it. If another replica serves the session, leave it.
        """
        stored = await self._records.read(session)
        if stored is None or is_over(stored):
            await self._end_or_leave(session, "retry of an earlier end")
        elif self._records.has_other_holders(stored):
            await self._records.leave(session.record_name)
        else:
            session.lease_epoch = NOT_JOINED
            session.last_active_seconds = time.monotonic()
            self._served.add(session)

    async def _end_or_leave(self, session: Session, reason: str, known: StoredRecord | None = None) -> None:
        """End a session for all replicas, or leave it if another replica serves it."""
        if await self._records.end(session, reason, only_if_last=True, known=known):
            await release_session(session)

    @asynccontextmanager
    async def _ending(self, session: Session) -> AsyncIterator[None]:
        """Stop serving a session, and run the block that ends it under its lock."""
        with session.log_context():
            async with self._served.lock(session.record_name):
                with self._stop_serving(session):
                    yield

    @contextmanager
    def _stop_serving(self, session: Session) -> Iterator[None]:
        """Stop serving a session, and run the block that ends it.

        If the block fails, the replica retries the end later.
        """
        self._served.remove(session)
        with self._pending.keep_on_failure(PendingUpdate(session.record_name, session)):
            yield
