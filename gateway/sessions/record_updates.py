"""Updates of session records when this replica joins, leaves or ends a session.

Guarantees:

1. Each update is a compare-and-swap against the version of the record that was read. After a conflict, the record is
   read again and the update is retried. The exception is :meth:`RecordUpdates.join`, which does not retry.
2. An update for one session never changes the record of a later session that has the same name.
3. :meth:`RecordUpdates.end` never leaves an active record without holders, because another replica would adopt such a
   session.

Source: [architecture "Session records, leases and the reaper"].
"""

import uuid
from collections.abc import Callable, Set
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial

import structlog

from gateway.auditing.audit import Audit
from gateway.backends.backends import Backend
from gateway.blocking_work.storage import Storage
from gateway.messages.requests import SessionKey
from gateway.sessions.replica_lease import ReplicaLease
from gateway.sessions.session import Session
from workspace.identifiers import RecordName, ReplicaId, SessionUuid, record_name
from workspace.record_changes import SessionEndingError, add_holder, remove_holders, update_record
from workspace.record_store import RecordConflictError, RecordExistsError, RecordNotFoundError, StoredRecord
from workspace.records import Phase, SessionRecord
from workspace.retries import retry_on
from workspace.session_end import EndedSession, end_session, log_session_end

IDLE = "idle"
"""The reason for the end of a session that has reached the idle timeout."""

_End = Callable[[StoredRecord], EndedSession | None]
"""Ends or leaves a session whose record was read."""

log = structlog.get_logger(__name__)


def is_over(stored: StoredRecord) -> bool:
    """Return whether a session is ending, or the deletion of its record is requested."""
    return stored.is_deletion_requested or stored.record.phase is Phase.ENDING


class RecordUpdates:
    """Updates of session records by this replica.

    Every method raises GatewayError if the storage of session records does not respond.

    Args:
        replica: The name of this replica.
        storage: The session records and session locations.
        lease: The lease of this replica. The replica can end sessions only while the lease is valid.
        audit: The audit events.
    """

    def __init__(self, replica: ReplicaId, storage: Storage, lease: ReplicaLease, audit: Audit) -> None:
        self._replica = replica
        self._storage = storage
        self._lease = lease
        self._audit = audit

    async def read(self, session: Session) -> StoredRecord | None:
        """Return the record of a session. None if the session has ended."""
        with suppress(RecordNotFoundError):
            stored = await self._storage.read(self._storage.records.read, session.record_name)
            if stored.record.session_uuid == session.uuid:
                return stored
        return None

    async def is_shared(self, session: Session) -> bool:
        """Return whether another replica also serves a session."""
        stored = await self.read(session)
        return stored is not None and self.has_other_holders(stored)

    def has_other_holders(self, stored: StoredRecord) -> bool:
        """Return whether a record names this replica and others as holders."""
        return stored.record.holders > {self._replica}

    async def join_or_create(
        self, key: SessionKey, backend: Backend, *, may_create: bool = True
    ) -> tuple[SessionRecord, bool] | None:
        """Join an existing session, or create the record of a new session.

        Args:
            key: The principal and the client session id.
            backend: The backend to use if the session is new.
            may_create: Whether a new session may start.

        Returns:
            The session record, and whether the session is new. None if the session does not exist and may not start.

        Raises:
            SessionEndingError: If the session is ending.
            RecordConflictError: If other processes changed the record during every attempt.
            RecordNotFoundError: If other processes created and deleted the record during every attempt.
        """
        if may_create:
            return await self._storage.run(self._join_or_create, key, backend)
        try:
            return await self._storage.run(self._join, record_name(key.principal, key.client_session_id)), False
        except RecordNotFoundError:
            return None

    async def join(self, stored: StoredRecord, lost: Set[ReplicaId] = frozenset()) -> bool:
        """Join a session if its record has not changed since the record was read.

        Args:
            stored: The record of the session.
            lost: The replicas to remove from the holders of the session, because they are lost.

        Returns:
            True if this replica joined the session. False if another process changed or deleted the record first.

        Raises:
            SessionEndingError: If the session is ending.
        """
        record = add_holder(remove_holders(stored.record, lost), self._replica)
        try:
            await self._storage.run(self._storage.records.replace, record, stored.version)
        except (RecordConflictError, RecordNotFoundError):
            return False
        return True

    async def rejoin(self, session: Session) -> bool:
        """Join a session again after a lapse of the lease.

        The record is always written, so that a process that read the earlier version gets a conflict.

        Returns:
            True if this replica joined the session. False if the session no longer exists.

        Raises:
            RecordConflictError: If other processes changed the record during every attempt.
        """

        def add_this_replica(record: SessionRecord) -> SessionRecord:
            if record.session_uuid != session.uuid:
                raise SessionEndingError(record)
            return add_holder(record, self._replica)

        try:
            await self._storage.update(session.record_name, add_this_replica, must_write=True)
        except (RecordNotFoundError, SessionEndingError):
            return False
        return True

    async def leave(self, name: RecordName) -> None:
        """Remove this replica from the holders of whichever session a record describes.

        Raises:
            RecordConflictError: If other processes changed the record during every attempt.
        """

        def remove_this_replica(record: SessionRecord) -> SessionRecord:
            return remove_holders(record, {self._replica})

        with suppress(RecordNotFoundError):
            await self._storage.update(name, remove_this_replica)

    async def list_own(self) -> dict[RecordName, StoredRecord]:
        """Return the records of all sessions of this replica, by record name."""
        found = await self._storage.read(self._storage.records.list_held, self._replica)
        return {stored.record.name: stored for stored in found}

    async def end(
        self, session: Session, reason: str, *, only_if_last: bool = False, known: StoredRecord | None = None
    ) -> bool:
        """End a session: delete its session record and its session location.

        Args:
            session: The session to end.
            reason: Why the session ends. The reason is logged.
            only_if_last: If True and another replica also serves the session, this replica only leaves the session.
            known: The record of the session as it was read earlier. By default, the record is read.

        Returns:
            Whether this call ended the session.

        Raises:
            GatewayError: If the lease has lapsed.
            RecordConflictError: If other processes changed the record during every attempt.
        """
        self._lease.require_valid()
        end = partial(self._end_at, session, self._lease.epoch, only_if_last=only_if_last)
        try:
            ended = await self._storage.run_end(self._end, session, known, end)
        except OSError as error:
            log.error("session_end_left_to_reaper", reason=str(error))
            return False
        if ended is not None:
            log_session_end(log, ended)
            log.info("session_ended", reason=reason)
            record = self._audit.session_expired if reason == IDLE else self._audit.session_closed
            record(
                session=session.key.client_session_id,
                principal=session.key.principal,
                location=session.uuid,
                reason=reason,
            )
        return ended is not None

    @retry_on(RecordNotFoundError)
    def _join_or_create(self, key: SessionKey, backend: Backend) -> tuple[SessionRecord, bool]:
        records = self._storage.records
        record = SessionRecord(
            session_uuid=SessionUuid(str(uuid.uuid4())),
            principal=key.principal,
            client_session_id=key.client_session_id,
            backend=backend.address,
            phase=Phase.ACTIVE,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            holders=frozenset({self._replica}),
        )
        try:
            return records.create(record).record, True
        except RecordExistsError:
            return self._join(record.name), False

    def _join(self, name: RecordName) -> SessionRecord:
        return update_record(
            self._storage.records, name, lambda stored: add_holder(stored, self._replica), must_write=True
        ).record

    def _end(self, session: Session, known: StoredRecord | None, end: _End) -> EndedSession | None:
        if known is not None:
            with suppress(RecordConflictError):
                return end(known)
        return self._read_and_end(session, end)

    @retry_on(RecordConflictError)
    def _read_and_end(self, session: Session, end: _End) -> EndedSession | None:
        try:
            stored = self._storage.records.read(session.record_name)
        except RecordNotFoundError:
            return None
        return end(stored)

    def _end_at(
        self, session: Session, lease_epoch: int, stored: StoredRecord, *, only_if_last: bool
    ) -> EndedSession | None:
        """End or leave a session whose record has not changed since it was read.

        Raises:
            GatewayError: If the lease has lapsed since the epoch began.
            RecordConflictError: If the record has changed.
        """
        self._lease.require_epoch(lease_epoch)  # after the wait for a thread, in which the lease may have lapsed
        records = self._storage.records
        if stored.record.session_uuid != session.uuid:
            return None
        if only_if_last and not self._is_last_holder(stored.record):
            without_this_replica = remove_holders(stored.record, {self._replica})
            if without_this_replica != stored.record:
                with suppress(RecordNotFoundError):
                    records.replace(without_this_replica, stored.version)
            return None
        return end_session(records, self._storage.locations, stored)

    def _is_last_holder(self, record: SessionRecord) -> bool:
        return record.holders <= {self._replica}
