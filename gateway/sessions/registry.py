"""The sessions that a replica serves: how they start, stay alive and end.

Why it exists: the truth of a session is its record; this is a replica's share in it. Every RPC passes by here, so what
is asked for each is one look into a dictionary.

Guarantees:

1. A session's record exists before anything else of the session does.
2. A session with a request under way, or with an operation that runs at its backend, never times out.
3. A session that ended here is ended for all: the compare-and-swap on the record decides, once.
4. A replica whose lease is not valid changes no record and touches no location. After a lapse that holds for each
   session until the replica has joined it anew, by a change of its record: who had judged by the record before then
   finds that it has changed.
5. With impersonation, a session starts only for a principal that has a backend and an OS user of its own; its location
   belongs to that user from the first moment that its name can be seen.
6. Of one session, opening and leaving never overlap. A record does not go on naming this replica as a holder of what it
   does not serve: what could not be written is tried again with each renewal of the lease.

Source: design, "Gateway" and "Session records, leases and the reaper"; seed 001, 5.1.10.2.
"""

import asyncio
import pwd
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from weakref import WeakValueDictionary

import structlog
from grpc import aio
from pyspark.sql.connect.proto import base_pb2

from gateway.backends import SERVICE, Backend, Backends
from gateway.errors import GatewayError, fenced, no_backend, not_impersonated, session_closed
from gateway.requests import SessionKey
from gateway.sessions.session import Session
from gateway.storage import Storage
from workspace.leases import OwnLease
from workspace.locations import Owner, OwnerError
from workspace.record_changes import SessionEndingError, add_holder, remove_holders, update_record
from workspace.records import (
    Phase,
    Principal,
    RecordConflictError,
    RecordError,
    RecordExistsError,
    RecordName,
    RecordNotFoundError,
    ReplicaId,
    SessionRecord,
    SessionUuid,
    StoredRecord,
    record_name,
)
from workspace.session_end import EndedSession, end_session, log_session_end
from workspace.storage_paths import StoragePath

_BACKEND_CALL_SECONDS = 10.0
_LEFT_AT_ONCE = 16
_RUNNING = {
    base_pb2.GetStatusResponse.OperationStatus.OPERATION_STATE_RUNNING,
    base_pb2.GetStatusResponse.OperationStatus.OPERATION_STATE_TERMINATING,
}

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Owed:
    """What this replica still has to write into a record: that it left the session, or that the session ended.

    Attributes:
        session: Which; None if the record may name this replica although opening failed.
        ends: Whether the session ended.
    """

    session: Session | None
    ends: bool


class _LastHolderError(Exception):
    """No other replica holds the session that was to be left to others."""


class Sessions:
    """All sessions that this replica holds.

    Args:
        replica: This replica's name; new at each start.
        storage: Records, leases and locations.
        backends: Where sessions may run.
        idle_timeout_seconds: See ``GatewayConfig``.
        lease_duration_seconds: See ``GatewayConfig``.
        impersonation: See ``GatewayConfig``.
    """

    def __init__(
        self,
        *,
        replica: ReplicaId,
        storage: Storage,
        backends: Backends,
        idle_timeout_seconds: float,
        lease_duration_seconds: float,
        impersonation: bool = False,
    ) -> None:
        self._replica = replica
        self._storage = storage
        self._backends = backends
        self._idle_timeout_seconds = idle_timeout_seconds
        self._lease_duration_seconds = lease_duration_seconds
        self._impersonation = impersonation
        self._lease = OwnLease(lease_duration_seconds)
        self._held: dict[SessionKey, Session] = {}
        self._by_record: dict[RecordName, Session] = {}
        self._locks: WeakValueDictionary[RecordName, asyncio.Lock] = WeakValueDictionary()
        self._lapses = 0
        self._to_rejoin: dict[RecordName, Session] = {}
        self._owed: dict[RecordName, _Owed] = {}
        self._settling: asyncio.Task[None] | None = None
        self._opening: dict[SessionKey, asyncio.Task[Session]] = {}

    def find(self, key: SessionKey) -> Session | None:
        return self._held.get(key)

    def all(self) -> Sequence[Session]:
        return list(self._held.values())

    def find_by_record(self, name: RecordName) -> Session | None:
        """The session that this replica holds under that record."""
        return self._by_record.get(name)

    async def open(self, key: SessionKey) -> Session:
        """The session, started or adopted if this replica does not hold it yet.

        Raises: GatewayError.
        """
        session = self._held.get(key)
        if session is not None:
            return session
        opening = self._opening.get(key)
        if opening is None:
            opening = self._opening[key] = asyncio.create_task(self._open(key, self._backend_for(key)))
            opening.add_done_callback(lambda _: self._opening.pop(key, None))
        return await asyncio.shield(opening)

    async def open_existing(self, key: SessionKey) -> Session | None:
        """The session if it has started, here or at another replica."""
        if key in self._held or key in self._opening:
            return await self.open(key)
        try:
            stored = await self._storage.run(self._storage.records.read, self._name(key))
        except RecordNotFoundError:
            return None
        return None if stored.record.phase is Phase.ENDING else await self.open(key)

    async def adopt(self, stored: StoredRecord) -> None:
        """Takes up a session that its replica has left, if it is still as it was then, so that it goes on until it is
        idle for too long although its client sends nothing for now.

        Raises: GatewayError, RecordError.
        """
        record = stored.record
        key = SessionKey(record.principal, record.client_session_id)
        backend = self._backends.of_record(record)
        async with self._lock(record.name):
            if backend is None or key in self._held:
                return
            self._require_valid_lease()
            lapses = self._lapses
            with self._owing(record.name, _Owed(None, ends=False)):
                try:
                    await self._storage.run(self._storage.records.replace, self._joined(record), stored.version)
                except (RecordConflictError, RecordNotFoundError):
                    return  # somebody else was faster
            session = self._hold(key, record.session_uuid, backend, lapses)
        with self._log_context(session):
            log.info("session_adopted", backend=backend.address, reason="its replica left it")

    async def open_clone(self, key: SessionKey, parent: Session) -> Session:
        """Starts the session that a backend made as a clone, where its parent is."""
        return self._held.get(key) or await self._open(key, parent.backend)

    async def give_up(self, session: Session) -> None:
        """Ends a session that could not be made whole, here and at its backend."""
        await self.end(session, reason="incomplete")
        await self._release_at_backend(session)

    def route(self, key: SessionKey) -> Backend:
        """Where to send a request of a session that has no record."""
        session = self._held.get(key)
        return self._backend_for(key) if session is None else session.backend

    def require_lease(self, session: Session) -> None:
        """Raises: GatewayError if this replica may have been taken for dead, and the session for another's."""
        self._require_valid_lease()
        if session.record_name in self._to_rejoin:
            raise fenced()

    async def create_location(self, session: Session) -> StoragePath:
        """Makes the session location, or takes the one that is there.

        Raises: GatewayError if this replica may not, or the location cannot be the principal's; OSError.
        """
        owner = await self._owner_for(session.key.principal)
        self.require_lease(session)
        try:
            return await self._storage.run(self._storage.locations.create, session.uuid, owner)
        except OwnerError as error:
            log.error("location_of_another_owner", location=session.uuid, reason=str(error))
            raise not_impersonated(
                session.key.principal, "the session location belongs to another OS user; start a new session"
            ) from error

    async def end(self, session: Session, *, reason: str) -> None:
        """Ends a session that its backend has ended; for all replicas."""
        with self._log_context(session):
            async with self._lock(session.record_name):
                await self._end(session, reason)

    async def is_over(self, session: Session) -> bool:
        """Whether the session was ended elsewhere, or somebody asked for its end by its record."""
        stored = await self._stored(session)
        return stored is None or stored.record.phase is Phase.ENDING or stored.is_deletion_requested

    async def give_over(self, session: Session) -> None:
        """Ends a session that is over: at its backend first, if it is there, so that nothing is written any more."""
        with self._log_context(session):
            async with self._lock(session.record_name):
                self._drop(session)
                with self._owing(session.record_name, _Owed(session, ends=True)):
                    if await self._stored(session) is None:
                        log.warning("session_lost", reason="it was ended elsewhere")
                        return
                    await self._release_at_backend(session)
                    await self._end_record(session, lambda record: True, "asked for by its record")

    async def end_idle(self) -> None:
        """Leaves the sessions that were idle for too long, or ends those that no other replica holds."""
        for session in self.all():
            if self._is_idle(session):
                with self._log_context(session), self._left_for_later():
                    await self._end_idle(session)

    async def leave_all(self, *, end: bool) -> None:
        """Gives all sessions up, when the replica stops.

        Args:
            end: The backends stop too, so the sessions end; else another replica may adopt them.
        """
        if self._settling is not None:
            self._settling.cancel()
            await asyncio.gather(self._settling, return_exceptions=True)
        at_once = asyncio.Semaphore(_LEFT_AT_ONCE)

        async def leave(session: Session) -> None:
            async with at_once:
                try:
                    if end:
                        await self.end(session, reason="gateway stopped")
                    else:
                        await self._leave(session)
                except (GatewayError, RecordError) as error:
                    log.warning("session_left_to_reaper", location=session.uuid, reason=str(error))

        async with asyncio.TaskGroup() as group:
            for session in self.all():
                group.create_task(leave(session))
        await self._storage.run_lease(self._storage.leases.delete, self._replica)

    async def renew_lease(self) -> None:
        """Renews the lease; after a lapse, others may have acted on it, so every session is joined anew."""
        begun_seconds = time.monotonic()
        await self._storage.run_lease(self._storage.leases.renew, self._replica)
        if not self._lease.is_valid(time.monotonic()):
            self._lapses += 1
            self._to_rejoin.update(self._by_record)
        self._lease.record_renewal(begun_seconds)
        if (self._to_rejoin or self._owed) and (self._settling is None or self._settling.done()):
            self._settling = asyncio.create_task(self._settle())

    async def _settle(self) -> None:
        """Does what a lapse or the storage had kept from being done; what fails again waits for the next renewal."""
        for name, session in list(self._to_rejoin.items()):
            with self._log_context(session), self._left_for_later():
                async with self._lock(name):
                    await self._rejoin(session)
                    if self._to_rejoin.get(name) is session:
                        del self._to_rejoin[name]
        for name, owed in list(self._owed.items()):
            with self._left_for_later():
                async with self._lock(name):
                    await self._pay(name, owed)

    async def _pay(self, name: RecordName, owed: _Owed) -> None:
        held = self._by_record.get(name)
        if held is None or (owed.session is not None and owed.session.uuid != held.uuid):
            if owed.session is not None and owed.ends:  # who holds it by now hears from the backend that it is over
                await self._end_or_leave(owed.session, "ended before")
            else:
                await self._leave_record(name, owed.session)
        if self._owed.get(name) is owed:
            del self._owed[name]

    @contextmanager
    def _left_for_later(self) -> Iterator[None]:
        try:
            yield
        except (GatewayError, RecordError) as error:
            log.warning("session_not_settled", reason=str(error))

    @contextmanager
    def _owing(self, name: RecordName, owed: _Owed) -> Iterator[None]:
        """Keeps in mind what must be written in the block, if it does not come to its end."""
        try:
            yield
        except BaseException:
            self._owed[name] = owed
            raise

    def _lock(self, name: RecordName) -> asyncio.Lock:
        """Held while this replica opens or leaves a session; there is none while nobody asks for it."""
        lock = self._locks.get(name)
        if lock is None:
            lock = self._locks[name] = asyncio.Lock()
        return lock

    def _require_valid_lease(self) -> None:
        if not self._lease.is_valid(time.monotonic()):
            raise fenced()

    async def _stored(self, session: Session) -> StoredRecord | None:
        """The session's record, unless there is none, or that of another session."""
        try:
            stored = await self._storage.run(self._storage.records.read, session.record_name)
        except RecordNotFoundError:
            return None
        return stored if stored.record.session_uuid == session.uuid else None

    def _drop(self, session: Session) -> None:
        if self._held.get(session.key) is session:
            del self._held[session.key], self._by_record[session.record_name]

    async def _rejoin(self, session: Session) -> None:
        if self._held.get(session.key) is not session:
            return

        def rejoined(record: SessionRecord) -> SessionRecord:
            if record.session_uuid != session.uuid:  # a later session of the same name
                raise SessionEndingError(record)
            return self._joined(record)

        try:
            await self._storage.update(session.record_name, rejoined, must_write=True)
        except (RecordNotFoundError, SessionEndingError):
            self._drop(session)
            log.warning("session_lost", reason="the lease lapsed and the session was reaped")

    def _is_nobody_elses(self, record: SessionRecord) -> bool:
        return record.holders <= {self._replica}

    def _joined(self, record: SessionRecord) -> SessionRecord:
        return add_holder(record, self._replica)

    def _is_idle(self, session: Session) -> bool:
        idle_seconds = time.monotonic() - session.last_active_seconds
        return not session.is_busy and idle_seconds >= self._idle_timeout_seconds

    async def _end_idle(self, session: Session) -> None:
        if await self._runs_operations(session):
            session.last_active_seconds = time.monotonic()
            return
        async with self._lock(session.record_name):
            if not self._is_idle(session) or self._held.get(session.key) is not session:
                return
            self._drop(session)
            with self._owing(session.record_name, _Owed(session, ends=True)):
                await self._end_or_leave(session, "idle")

    async def _end_or_leave(self, session: Session, reason: str) -> None:
        """Ends a session that no other replica holds, here and at its backend, or leaves it to those that do.

        Its record is never without holders meanwhile: another replica would adopt it.
        """
        while not await self._end_record(session, self._is_nobody_elses, reason):
            with suppress(_LastHolderError):
                await self._leave_record(session.record_name, session, to_others=True)
                return
        await self._release_at_backend(session)

    async def _leave(self, session: Session) -> None:
        self._drop(session)
        with self._owing(session.record_name, _Owed(session, ends=False)):
            await self._leave_record(session.record_name, session)

    async def _leave_record(self, name: RecordName, session: Session | None, *, to_others: bool = False) -> None:
        """Leaves a session, if it is still the same; ``to_others`` raises _LastHolderError if there are none."""

        def leave(record: SessionRecord) -> SessionRecord:
            if session is not None and record.session_uuid != session.uuid:
                return record
            if to_others and record.phase is Phase.ACTIVE and self._is_nobody_elses(record):
                raise _LastHolderError
            return remove_holders(record, {self._replica})

        with suppress(RecordNotFoundError):
            await self._storage.update(name, leave)

    async def _end(self, session: Session, reason: str) -> None:
        self._drop(session)
        with self._owing(session.record_name, _Owed(session, ends=True)):
            await self._end_record(session, lambda record: True, reason)

    async def _end_record(self, session: Session, condition: Callable[[SessionRecord], bool], reason: str) -> bool:
        """Ends the session's record if it is still the same session and the condition holds."""
        self._require_valid_lease()
        try:
            result = await self._storage.run_slow(self._end_stored, session, condition)
        except OSError as error:
            log.error("session_end_left_to_reaper", reason=str(error))
            return False
        if result is None:
            return False
        log_session_end(log, result)
        log.info("session_ended", reason=reason)
        return True

    def _end_stored(self, session: Session, condition: Callable[[SessionRecord], bool]) -> EndedSession | None:
        while True:
            try:
                stored = self._storage.records.read(session.record_name)
            except RecordNotFoundError:
                return None
            if stored.record.session_uuid != session.uuid or not condition(stored.record):
                return None
            try:
                return end_session(self._storage.records, self._storage.locations, stored)
            except RecordConflictError:
                continue

    async def _open(self, key: SessionKey, backend: Backend) -> Session:
        name = self._name(key)
        async with self._lock(name):
            session = self._held.get(key)
            if session is not None:
                return session
            await self._owner_for(key.principal)
            self._require_valid_lease()
            lapses = self._lapses
            try:
                with self._owing(name, _Owed(None, ends=False)):
                    stored, is_new = await self._storage.run(self._join_or_create, key, backend)
            except (SessionEndingError, RecordConflictError) as error:
                raise session_closed(key.client_session_id) from error
            backend = self._backends.of_record(stored.record) or backend
            session = self._hold(key, stored.record.session_uuid, backend, lapses)
        with self._log_context(session):
            log.info("session_started" if is_new else "session_adopted", backend=session.backend.address)
        return session

    def _hold(self, key: SessionKey, session_uuid: SessionUuid, backend: Backend, lapses: int) -> Session:
        """Serves a session that this replica has joined.

        Args:
            key: Whose, and which.
            session_uuid: Its own.
            backend: Where it runs.
            lapses: How often the lease had lapsed before it was joined.
        """
        session = Session(key, session_uuid, backend)
        self._held[key] = self._by_record[session.record_name] = session
        if lapses != self._lapses:
            self._to_rejoin[session.record_name] = session
        return session

    def _join_or_create(self, key: SessionKey, backend: Backend) -> tuple[StoredRecord, bool]:
        records = self._storage.records
        while True:
            try:
                return records.create(self._new_record(key, backend)), True
            except RecordExistsError:
                pass
            with suppress(RecordNotFoundError):
                return update_record(records, self._name(key), self._joined, must_write=True), False

    def _new_record(self, key: SessionKey, backend: Backend) -> SessionRecord:
        return SessionRecord(
            session_uuid=SessionUuid(str(uuid.uuid4())),
            principal=key.principal,
            client_session_id=key.client_session_id,
            backend=backend.address,
            phase=Phase.ACTIVE,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            holders=frozenset({self._replica}),
        )

    async def _runs_operations(self, session: Session) -> bool:
        request = base_pb2.GetStatusRequest(session_id=session.key.client_session_id)
        request.user_context.user_id = session.key.principal
        request.operation_status.SetInParent()
        try:
            data = await session.backend.unary(SERVICE + "GetStatus")(
                request.SerializeToString(), timeout=_BACKEND_CALL_SECONDS
            )
        except aio.AioRpcError:
            return False
        statuses = base_pb2.GetStatusResponse.FromString(data).operation_statuses
        return any(status.state in _RUNNING for status in statuses)

    async def _release_at_backend(self, session: Session) -> None:
        request = base_pb2.ReleaseSessionRequest(session_id=session.key.client_session_id)
        request.user_context.user_id = session.key.principal
        try:
            await session.backend.unary(SERVICE + "ReleaseSession")(
                request.SerializeToString(), timeout=_BACKEND_CALL_SECONDS
            )
        except aio.AioRpcError as error:
            log.warning("backend_session_release_failed", reason=error.details())

    def _backend_for(self, key: SessionKey) -> Backend:
        """Raises: GatewayError"""
        backend = self._backends.choose(self._name(key), key.principal)
        if backend is not None:
            return backend
        if self._impersonation:
            raise not_impersonated(key.principal, "no backend runs as that user; ask for one (--principal-backend)")
        raise no_backend()

    async def _owner_for(self, principal: Principal) -> Owner | None:
        """The OS user whose files the principal's are; None if that is the user of this process.

        Raises: GatewayError if there is none of that name.
        """
        if not self._impersonation:
            return None
        try:
            user = await self._storage.run(pwd.getpwnam, principal)
        except (KeyError, ValueError) as error:  # a name that no user can have is a ValueError
            raise not_impersonated(principal, "there is no OS user of that name") from error
        return Owner(user.pw_uid, user.pw_gid)

    @staticmethod
    def _name(key: SessionKey) -> RecordName:
        return record_name(key.principal, key.client_session_id)

    @staticmethod
    @contextmanager
    def _log_context(session: Session) -> Iterator[None]:
        with structlog.contextvars.bound_contextvars(
            session=session.key.client_session_id, principal=session.key.principal, location=session.uuid
        ):
            yield


async def keep_lease(sessions: Sessions, lease_duration_seconds: float) -> None:
    """Renews the replica's lease, a third of its duration apart, until cancelled."""
    while True:
        await asyncio.sleep(lease_duration_seconds / 3)
        try:
            await sessions.renew_lease()
        except Exception as error:  # noqa: BLE001 - a top loop: the lease must be tried again
            log.error("lease_renewal_failed", reason=str(error))


async def watch_idle(sessions: Sessions, idle_timeout_seconds: float) -> None:
    """Ends idle sessions until cancelled."""
    while True:
        await asyncio.sleep(min(max(idle_timeout_seconds / 4, 0.1), 10.0))
        try:
            await sessions.end_idle()
        except Exception:
            log.exception("idle_watch_failed")
