"""The statements ``SHOW SESSIONS`` and ``CLOSE SESSION``.

Principals see and close their own sessions, and administrators those of all principals. A session of another principal
is treated as if it did not exist.

A session is closed through its record: the phase becomes ``ENDING``, and every replica that serves the session
interrupts its operations, releases it at the backend and ends it. If no replica serves the session, the reaper ends it.

Without an authentication method, user ids are only claims. The client session ids of other sessions are then not shown,
because a client could continue a session if it knew this id.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import structlog

from gateway.auditing.audit import Audit
from gateway.authorization.authorization import Authorization
from gateway.blocking_work.futures import retrieve_error
from gateway.blocking_work.storage import Storage
from gateway.errors import STORAGE_UNAVAILABLE, GatewayError
from gateway.messages.identity import Identity
from gateway.operations.operations import Operations
from gateway.operations.responses import Response, build_row_response, build_sql_response
from gateway.sessions.registry import Sessions
from gateway.sessions.session import Session
from gateway.tables.background import BackgroundTasks
from gateway.tables.statement_context import Execution
from workspace.identifiers import SessionUuid
from workspace.record_changes import SessionEndingError, mark_ending
from workspace.record_store import RecordConflictError, RecordError, RecordNotFoundError, SessionRecords
from workspace.records import SessionRecord, TableState

log = structlog.get_logger(__name__)


class SessionAdministration:
    """Lists and closes sessions.

    Args:
        storage: The session records.
        sessions: The sessions that this replica serves.
        operations: The operations of this replica.
        authorization: Decides who is an administrator.
        audit: The audit events of the replica.
    """

    def __init__(
        self, storage: Storage, sessions: Sessions, operations: Operations, authorization: Authorization, audit: Audit
    ) -> None:
        self._storage = storage
        self._sessions = sessions
        self._operations = operations
        self._authorization = authorization
        self._audit = audit
        self._ends = BackgroundTasks()
        self._listing_lock = asyncio.Lock()
        self._next_listing: asyncio.Task[Sequence[SessionRecord]] | None = None

    async def stop(self) -> None:
        """Wait until the closed sessions of this replica have ended."""
        await self._ends.wait()

    async def show(self, execution: Execution) -> Response:
        """Return the sessions that the client may see."""
        records = await self._visible(execution)
        if self._authorization.is_admin(execution.identity):
            self._audit.administrative_act("list_sessions", details={"sessions": len(records)})
        served = {session.uuid: session for session in self._sessions.all()}
        now = datetime.now(UTC)
        return await self._storage.run_slow(lambda: build_sql_response(_list_sessions(records, served, execution, now)))

    async def close(self, execution: Execution, session_id: str) -> Response:
        """Close a session. The session ends soon after the response.

        Args:
            execution: The statement.
            session_id: The UUID or the client session id of the session.

        Raises:
            GatewayError: If there is no such session, or the client may not close it.
        """
        record = _select(await self._visible(execution), session_id)
        if record.session_uuid == execution.session.uuid:
            raise GatewayError(
                "LODGE_OWN_SESSION",
                "0A000",
                "CLOSE SESSION cannot close the session in which it runs. Stop the client instead, for example with "
                "spark.stop().",
            )
        self._audit.administrative_act("close_session", target=record.session_uuid, owner=record.principal)
        log.info("session_close_requested", location=record.session_uuid, owner=record.principal)
        await self._mark_ending(record)
        session = self._sessions.find_by_record(record.name)
        if session is not None and session.uuid == record.session_uuid:
            self._ends.start(self._end(session))
        return build_row_response({"ok": True, "summary": f"Session [{record.session_uuid}] is closing."})

    async def _visible(self, execution: Execution) -> Sequence[SessionRecord]:
        """Return the records of the sessions that the client may see."""
        if self._next_listing is None:
            self._next_listing = asyncio.create_task(self._list())
            self._next_listing.add_done_callback(retrieve_error)
        records = await asyncio.shield(self._next_listing)
        if self._authorization.is_admin(execution.identity):
            return records
        return [record for record in records if record.principal == execution.session.key.principal]

    async def _list(self) -> Sequence[SessionRecord]:
        """Return all records in order. One listing runs at a time, and all statements that wait share the next one.

        A statement never gets a listing that began before the statement.
        """
        async with self._listing_lock:
            self._next_listing = None
            return await self._storage.run_slow(_list_records, self._storage.records)

    async def _mark_ending(self, record: SessionRecord) -> None:
        def end(current: SessionRecord) -> SessionRecord:
            if current.session_uuid != record.session_uuid:
                raise SessionEndingError(current)
            return mark_ending(current)

        try:
            await self._storage.update(record.name, end)
        except (RecordNotFoundError, SessionEndingError):
            return  # the session has ended already
        except RecordConflictError as error:
            raise GatewayError(
                STORAGE_UNAVAILABLE,
                "58030",
                f"Session [{record.session_uuid}] changes too often to be closed now. Try again.",
            ) from error

    async def _end(self, session: Session) -> None:
        try:
            if self._sessions.find(session.key) is session:
                await self._operations.end_session(session.key)
                await self._sessions.ends.release_and_end(session, reason="closed with CLOSE SESSION")
        except (GatewayError, RecordError) as error:  # the replica retries, or the reaper ends the session
            log.warning("session_not_ended", location=session.uuid, reason=str(error))


def _list_records(records: SessionRecords) -> Sequence[SessionRecord]:
    found = [each.record for each in records.list()]
    return sorted(found, key=lambda record: (record.principal, record.created_at, record.session_uuid))


def _select(records: Sequence[SessionRecord], session_id: str) -> SessionRecord:
    """Return the session with a UUID or client session id.

    Raises:
        GatewayError: If there is no such session, or if several principals use the client session id.
    """
    wanted = session_id.strip().lower()
    found = [record for record in records if record.session_uuid == wanted]
    found = found or [record for record in records if record.client_session_id.lower() == wanted]
    if not found:
        raise GatewayError(
            "LODGE_SESSION_NOT_FOUND",
            "42704",
            f"Session [{session_id}] does not exist. List your sessions with SHOW SESSIONS.",
            {"session": session_id},
        )
    if len(found) > 1:
        raise GatewayError(
            "LODGE_SESSION_NOT_FOUND",
            "42704",
            f"Several sessions have the client session id [{session_id}]. Use a session id from SHOW SESSIONS.",
            {"session": session_id},
        )
    return found[0]


def _list_sessions(
    records: Sequence[SessionRecord], served: Mapping[SessionUuid, Session], execution: Execution, now: datetime
) -> pa.Table:
    """Return the rows of ``SHOW SESSIONS``."""
    times, texts = pa.timestamp("us", tz="UTC"), pa.string()
    sessions = [served.get(record.session_uuid) for record in records]
    tables = [sum(table.state is TableState.READY for table in record.tables) for record in records]
    return pa.table(
        {
            "session_id": pa.array([record.session_uuid for record in records], texts),
            "client_session_id": pa.array([_client_session_id(record, execution) for record in records], texts),
            "principal": pa.array([record.principal for record in records], texts),
            "backend": pa.array([record.backend for record in records], texts),
            "phase": pa.array([record.phase.value for record in records], texts),
            "started_at": pa.array([_parse_time(record.created_at) for record in records], times),
            "last_active_at": pa.array([None if each is None else _last_active(each, now) for each in sessions], times),
            "tables": pa.array(tables, pa.int32()),
            "bytes": pa.array([sum(table.size_bytes for table in record.tables) for record in records], pa.int64()),
            "replicas": pa.array([sorted(record.holders) for record in records], pa.list_(texts)),
            "is_current": pa.array([record.session_uuid == execution.session.uuid for record in records], pa.bool_()),
        }
    )


def _client_session_id(record: SessionRecord, execution: Execution) -> str | None:
    identity: Identity | None = execution.identity
    is_shown = identity is not None or record.session_uuid == execution.session.uuid
    return record.client_session_id if is_shown else None


def _last_active(session: Session, now: datetime) -> datetime:
    """Return when the last request of a session ended. The current time while a request runs."""
    if not session.is_idle(0.0):
        return now
    return now - timedelta(seconds=time.monotonic() - session.last_active_seconds)


def _parse_time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
