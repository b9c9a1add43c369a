"""Access to session records for statements that change temporary tables.

Guarantees:

1. A change is written only if the session has not ended since the statement started.
2. No statement adds a table or rows if the record would have more than ``MAX_RECORD_BYTES``, because every change
   writes and reads the whole record. Other changes, such as drops, are always possible.
"""

from collections.abc import Callable

from gateway.blocking_work.storage import Storage
from gateway.errors import GatewayError, session_closed
from gateway.sessions.session import Session
from workspace.identifiers import Principal
from workspace.record_changes import SessionEndingError
from workspace.record_json import encode_record
from workspace.record_store import RecordConflictError, RecordNotFoundError, RecordTooLargeError
from workspace.records import Phase, SessionRecord

MAX_RECORD_BYTES = 4 * 1024 * 1024


class TableRecords:
    """Reads and changes session records.

    Args:
        storage: The storage of session records.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    async def read(self, session: Session) -> SessionRecord:
        """Return the record of a session.

        Raises:
            GatewayError: If the session has ended, or the storage fails.
        """
        try:
            stored = await self._storage.read(self._storage.records.read, session.record_name)
        except RecordNotFoundError as error:
            raise session_closed(session.key.client_session_id) from error
        if stored.record.session_uuid != session.uuid or stored.record.phase is Phase.ENDING:
            raise session_closed(session.key.client_session_id)
        return stored.record

    async def of_principal(self, principal: Principal) -> list[SessionRecord]:
        """Return all session records of a principal, as of now.

        Raises:
            GatewayError: If the storage fails.
        """
        records = await self._storage.read(self._storage.records.list_of_principal, principal)
        return [stored.record for stored in records]

    async def change(self, session: Session, change: Callable[[SessionRecord], SessionRecord]) -> SessionRecord:
        """Apply a transition to the record of a session.

        Args:
            session: The session.
            change: A function that returns the changed record. It can be called more than once. Errors that it raises
                are passed on to the caller.

        Returns:
            The record after the transition.

        Raises:
            GatewayError: If the session has ended, the storage fails, the record becomes too large, or other statements
                changed the record during every attempt.
        """

        def checked(record: SessionRecord) -> SessionRecord:
            if record.session_uuid != session.uuid or record.phase is Phase.ENDING:
                raise SessionEndingError(record)
            changed = change(record)
            _check_size(record, changed)
            return changed

        try:
            stored = await self._storage.update(session.record_name, checked)
        except (RecordNotFoundError, SessionEndingError) as error:
            raise session_closed(session.key.client_session_id) from error
        except RecordConflictError as error:
            raise GatewayError(
                "LODGE_SESSION_BUSY",
                "40001",
                "Too many statements change the temporary tables of this session at once. Run the statement again.",
            ) from error
        except RecordTooLargeError as error:
            raise GatewayError("LODGE_SESSION_RECORD_TOO_LARGE", "54000", str(error)) from error
        return stored.record


def _check_size(before: SessionRecord, after: SessionRecord) -> None:
    """Check that a change that adds a table or a write does not make a record too large.

    Raises:
        RecordTooLargeError: If the record becomes too large.
    """
    if _count_parts(after) <= _count_parts(before):
        return
    size_bytes = len(encode_record(after))
    if size_bytes > MAX_RECORD_BYTES:
        raise RecordTooLargeError(
            after.name,
            f"The record of session [{after.session_uuid}] with {len(after.tables)} temporary tables would have "
            f"{size_bytes:,} bytes. The maximum is {MAX_RECORD_BYTES:,}. Drop temporary tables, or create tables in "
            "separate sessions.",
        )


def _count_parts(record: SessionRecord) -> int:
    return len(record.tables) + len(record.writes) + sum(len(table.writes) for table in record.tables)
