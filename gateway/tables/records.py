"""A session's record, as the statements that change its tables read and change it.

Guarantee: a change is written only while the session is the same that the statement began in, and has not ended.
"""

from collections.abc import Callable

from gateway.errors import GatewayError, session_closed
from gateway.sessions.session import Session
from gateway.storage import Storage
from workspace.record_changes import SessionEndingError
from workspace.records import (
    Phase,
    Principal,
    RecordConflictError,
    RecordNotFoundError,
    RecordTooLargeError,
    SessionRecord,
)


class TableRecords:
    """The records of the sessions of this replica."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    async def read(self, session: Session) -> SessionRecord:
        """Raises: GatewayError if the session has ended, or the storage cannot answer."""
        try:
            stored = await self._storage.run(self._storage.records.read, session.record_name)
        except RecordNotFoundError as error:
            raise session_closed(session.key.client_session_id) from error
        if stored.record.session_uuid != session.uuid or stored.record.phase is Phase.ENDING:
            raise session_closed(session.key.client_session_id)
        return stored.record

    async def of_principal(self, principal: Principal) -> list[SessionRecord]:
        """All records of a principal; reads all there are."""
        records = await self._storage.run(self._storage.records.list)
        return [stored.record for stored in records if stored.record.principal == principal]

    async def change(self, session: Session, change: Callable[[SessionRecord], SessionRecord]) -> SessionRecord:
        """The record after a transition. What the transition raises is passed on.

        Raises: GatewayError if the session has ended, the storage cannot answer, or others change it all the time.
        """

        def checked(record: SessionRecord) -> SessionRecord:
            if record.session_uuid != session.uuid or record.phase is Phase.ENDING:
                raise SessionEndingError(record)
            return change(record)

        try:
            stored = await self._storage.update(session.record_name, checked)
        except (RecordNotFoundError, SessionEndingError) as error:
            raise session_closed(session.key.client_session_id) from error
        except RecordConflictError as error:
            raise GatewayError(
                "LODGE_SESSION_BUSY", "40001", "Too many statements change this session's tables. Try again."
            ) from error
        except RecordTooLargeError as error:
            raise GatewayError("LODGE_SESSION_RECORD_TOO_LARGE", "54000", str(error)) from error
        return stored.record
