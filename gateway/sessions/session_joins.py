"""The joining of sessions.

This replica becomes a holder in the session record, and then serves the session.

This replica reads its lease epoch before it changes the record. If the lease lapses before the change, the session
therefore stays fenced until the replica joins it again.
"""

import time
from collections.abc import Sequence, Set
from contextlib import nullcontext

import structlog

from gateway.auditing.audit import Audit
from gateway.backends.backends import Backend
from gateway.errors import session_closed
from gateway.messages.requests import SessionKey
from gateway.sessions.backend_choice import BackendChoice
from gateway.sessions.owned_locations import OwnedLocations
from gateway.sessions.pending_updates import PendingUpdate, PendingUpdates
from gateway.sessions.record_updates import RecordUpdates, is_over
from gateway.sessions.replica_lease import ReplicaLease
from gateway.sessions.served_sessions import ServedSessions
from gateway.sessions.session import NOT_JOINED, Session
from workspace.identifiers import ReplicaId, record_name
from workspace.record_changes import SessionEndingError
from workspace.record_store import RecordConflictError, RecordError, RecordNotFoundError, StoredRecord

log = structlog.get_logger(__name__)


class SessionJoins:
    """Joins sessions.

    Args:
        replica: The name of this replica.
        served: The sessions that this replica serves.
        lease: The lease of this replica.
        records: Updates session records.
        pending: The updates of session records that failed.
        choice: Chooses the backend of a session.
        locations: The session locations.
        audit: The audit events.
    """

    def __init__(
        self,
        *,
        replica: ReplicaId,
        served: ServedSessions,
        lease: ReplicaLease,
        records: RecordUpdates,
        pending: PendingUpdates,
        choice: BackendChoice,
        locations: OwnedLocations,
        audit: Audit,
    ) -> None:
        self._replica = replica
        self._served = served
        self._lease = lease
        self._records = records
        self._pending = pending
        self._choice = choice
        self._locations = locations
        self._audit = audit

    async def open(
        self, key: SessionKey, backend: Backend, *, may_start: bool = True, has_room: bool = False
    ) -> Session:
        """Join a session, or start it.

        Args:
            key: The principal and the client session id.
            backend: The backend to use if the session is new.
            may_start: Whether a new session may start.
            has_room: Whether the caller has already counted the session for the quota.

        Raises:
            GatewayError: If the session cannot be opened; see :meth:`gateway.sessions.registry.Sessions.open`.
        """
        name = record_name(key.principal, key.client_session_id)
        async with self._served.lock(name):
            served = self._served.find(key)
            if served is not None:
                return served
            await self._locations.find_owner(key.principal)
            self._lease.require_valid()
            lease_epoch = self._lease.epoch
            needs_room = may_start and not has_room
            try:
                with (
                    self._served.quota.reserve(key.principal) if needs_room else nullcontext(may_start) as may_create,
                    self._pending.keep_on_failure(PendingUpdate(name)),
                ):
                    found = await self._records.join_or_create(key, backend, may_create=may_create)
            except (SessionEndingError, RecordConflictError, RecordNotFoundError) as error:
                raise session_closed(key.client_session_id) from error
            if found is None:
                raise self._served.quota.refuse(key.principal) if may_start else session_closed(key.client_session_id)
            record, is_new = found
            backend = self._choice.find(record) or backend
            session = self._served.add(Session(key, record.session_uuid, backend, lease_epoch, record.suspects))
            if is_new:
                self._served.quota.count_start(key.principal)
        with session.log_context():
            log.info("session_started" if is_new else "session_adopted", backend=session.backend.address)
            self._record_opening(session, adopted=not is_new)
        return session

    async def adopt(
        self, stored: StoredRecord, lost: Set[ReplicaId] = frozenset(), *, reason: str = "its replica left the session"
    ) -> Session | None:
        """Adopt a session that no living replica serves.

        Without a replica, the session would end before its idle timeout. The adoption is a single change of the record.

        Args:
            stored: The record of the session.
            lost: The lost replicas, which are removed from the record.
            reason: Why the session is adopted. The reason is logged.

        Returns:
            The session. None if the record has changed since it was read, or if this replica cannot serve the session.

        Raises:
            GatewayError: If the lease has lapsed, or the storage does not respond.
            SessionEndingError: If the session is ending.
        """
        record = stored.record
        key = SessionKey(record.principal, record.client_session_id)
        backend = self._choice.find(record)
        async with self._served.lock(record.name):
            if backend is None or self._served.find(key) is not None or self._served.is_leaving:
                return None
            self._lease.require_valid()
            lease_epoch = self._lease.epoch
            with self._pending.keep_on_failure(PendingUpdate(record.name)):
                if not await self._records.join(stored, lost):
                    return None
            session = self._served.add(Session(key, record.session_uuid, backend, lease_epoch, record.suspects))
        with session.log_context():
            log.info("session_adopted", backend=backend.address, reason=reason)
            self._record_opening(session, adopted=True)
        return session

    async def ensure_joined(self, session: Session) -> None:
        """Join a session again if the lease has lapsed since this replica joined it.

        After a lapse, all sessions are joined again in the background, one after the other. A session with a request
        does not wait for its turn.

        Raises:
            GatewayError: If the lease is not valid, or the storage does not respond.
        """
        if session.lease_epoch != self._lease.epoch and self._lease.is_valid():
            try:
                await self.rejoin(session)
            except RecordError as error:
                log.warning("session_not_settled", reason=str(error))
        self._lease.require_joined(session)

    async def settle(self, session: Session) -> bool:
        """Join a session again if another process has removed this replica from its holders.

        Returns:
            Whether another process has ended the session or requested its end.

        Raises:
            GatewayError: If the storage of session records does not respond.
            RecordConflictError: If other processes changed the record during every attempt.
        """
        stored = await self._records.read(session)
        if stored is None or is_over(stored):
            return True
        if self._replica not in stored.record.holders and self._lease.is_valid():
            session.lease_epoch = NOT_JOINED
            await self.rejoin(session)
            log.warning("session_joined_again", session=session.uuid)
        return False

    def list_fenced(self) -> Sequence[Session]:
        """Return the sessions that this replica has not joined again after a lapse."""
        return [session for session in self._served.all() if session.lease_epoch != self._lease.epoch]

    async def rejoin(self, session: Session) -> None:
        """Join a session again after a lapse of the lease.

        If the session no longer exists, stop serving it.

        Raises:
            GatewayError: If the storage of session records does not respond.
            RecordConflictError: If other processes changed the record during every attempt.
        """
        async with self._served.lock(session.record_name):
            lease_epoch = self._lease.epoch
            if self._served.find(session.key) is not session or session.lease_epoch == lease_epoch:
                return
            if await self._records.rejoin(session):
                session.lease_epoch = lease_epoch
                session.last_active_seconds = time.monotonic()  # requests of its client may have failed elsewhere
            else:
                self._served.remove(session)
                log.warning("session_lost", reason="the lease lapsed and the session was reaped")

    def _record_opening(self, session: Session, *, adopted: bool) -> None:
        self._audit.session_opened(
            session=session.key.client_session_id,
            principal=session.key.principal,
            location=session.uuid,
            backend=session.backend.address,
            adopted=adopted,
        )
