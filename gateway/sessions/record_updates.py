"""Updates of session records when this replica joins, leaves or ends a session.

Guarantees:

1. Each update is a compare-and-swap of the record as it was read. Except in :meth:`RecordUpdates.join`, a conflict is
   retried with the record read again.
2. An update about a session never changes the record of a later session of the same name.
3. :meth:`RecordUpdates.end` never leaves an active record without holders: another replica would adopt the session.

Source: [architecture "Session records, leases and the reaper"].
"""

import uuid
from contextlib import suppress
from datetime import UTC, datetime

import structlog

from gateway.backends import Backend
from gateway.requests import SessionKey
from gateway.sessions.replica_lease import ReplicaLease
from gateway.sessions.session import Session
from gateway.storage import Storage
from workspace.identifiers import RecordName, ReplicaId, SessionUuid
from workspace.record_changes import SessionEndingError, add_holder, remove_holders, update_record
from workspace.record_store import RecordConflictError, RecordExistsError, RecordNotFoundError, StoredRecord
from workspace.records import Phase, SessionRecord
from workspace.retries import retry_on
from workspace.session_end import EndedSession, end_session, log_session_end

log = structlog.get_logger(__name__)


def is_over(stored: StoredRecord) -> bool:
    """Return whether a session is ending, or someone asked for its end."""
    return stored.is_deletion_requested or stored.record.phase is Phase.ENDING


class RecordUpdates:
    """The updates of session records by this replica.

    Every method raises GatewayError if the storage of records cannot answer.

    Args:
        replica: The name of this replica.
        storage: Contains records and session locations.
        lease: The lease of this replica. Without it, no session ends.
    """

    def __init__(self, replica: ReplicaId, storage: Storage, lease: ReplicaLease) -> None:
        self._replica = replica
        self._storage = storage
        self._lease = lease

    async def read(self, session: Session) -> StoredRecord | None:
        """Return the record of a session; None if the session has ended."""
        with suppress(RecordNotFoundError):
            stored = await self._storage.run(self._storage.records.read, session.record_name)
            if stored.record.session_uuid == session.uuid:
                return stored
        return None

    async def join_or_create(self, key: SessionKey, backend: Backend) -> tuple[SessionRecord, bool]:
        """Join a session, or create its record if the session does not exist.

        Args:
            key: The identity of the session.
            backend: The backend of a new session.

        Returns:
            The record, and whether the session is new.

        Raises:
            SessionEndingError: The session is ending.
            RecordConflictError: Others changed the record too often.
        """
        record = SessionRecord(
            session_uuid=SessionUuid(str(uuid.uuid4())),
            principal=key.principal,
            client_session_id=key.client_session_id,
            backend=backend.address,
            phase=Phase.ACTIVE,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            holders=frozenset({self._replica}),
        )
        return await self._storage.run(self._join_or_create, record)

    async def join(self, stored: StoredRecord) -> bool:
        """Join a session whose record has not changed since it was read.

        Returns:
            Whether this replica joined it. If not, another process was faster.

        Raises:
            SessionEndingError: The session is ending.
        """
        record = add_holder(stored.record, self._replica)
        try:
            await self._storage.run(self._storage.records.replace, record, stored.version)
        except (RecordConflictError, RecordNotFoundError):
            return False
        return True

    async def rejoin(self, session: Session) -> bool:
        """Join a session again after a lapse of the lease. Always writes the record.

        Returns:
            Whether the session still exists.

        Raises:
            RecordConflictError: Others changed the record too often.
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

    async def leave(self, name: RecordName, session: Session | None) -> None:
        """Remove this replica from the holders of a session.

        Args:
            name: The record.
            session: The session. None for any session of that name.

        Raises:
            RecordConflictError: Others changed the record too often.
        """

        def remove_this_replica(record: SessionRecord) -> SessionRecord:
            if session is not None and record.session_uuid != session.uuid:
                return record
            return remove_holders(record, {self._replica})

        with suppress(RecordNotFoundError):
            await self._storage.update(name, remove_this_replica)

    async def end(self, session: Session, reason: str, *, only_if_last: bool = False) -> bool:
        """End a session and delete its record and its session location.

        Args:
            session: The session.
            reason: Why it ends, for the log.
            only_if_last: Whether to leave the session instead if another replica serves it.

        Returns:
            Whether this call ended it.

        Raises:
            GatewayError: The lease has lapsed.
            RecordConflictError: Others changed the record too often.
        """
        self._lease.require_valid()
        try:
            ended = await self._storage.run_slow(self._end, session, only_if_last=only_if_last)
        except OSError as error:
            log.error("session_end_left_to_reaper", reason=str(error))
            return False
        if ended is not None:
            log_session_end(log, ended)
            log.info("session_ended", reason=reason)
        return ended is not None

    @retry_on(RecordNotFoundError)
    def _join_or_create(self, record: SessionRecord) -> tuple[SessionRecord, bool]:
        records = self._storage.records
        try:
            return records.create(record).record, True
        except RecordExistsError:
            joined = update_record(
                records, record.name, lambda stored: add_holder(stored, self._replica), must_write=True
            )
            return joined.record, False

    @retry_on(RecordConflictError)
    def _end(self, session: Session, *, only_if_last: bool) -> EndedSession | None:
        records = self._storage.records
        try:
            stored = records.read(session.record_name)
            if stored.record.session_uuid != session.uuid:
                return None
            if only_if_last and not self._is_last_holder(stored.record):
                without_this_replica = remove_holders(stored.record, {self._replica})
                if without_this_replica != stored.record:
                    records.replace(without_this_replica, stored.version)
                return None
        except RecordNotFoundError:
            return None
        return end_session(records, self._storage.locations, stored)

    def _is_last_holder(self, record: SessionRecord) -> bool:
        return record.holders <= {self._replica}
