"""The sessions that a replica serves: how they start, stay alive and end.

The session record is the source of truth about a session. The registry contains only the sessions that this replica
serves. Each request finds its session with one dictionary lookup.

Guarantees:

1. The session record is created before anything else that belongs to the session.
2. A session does not time out while one of its requests is being processed or one of its operations runs at the
   backend.
3. When this replica ends a session, the session ends for all replicas. The compare-and-swap of the session record
   decides which replica ends it, exactly once.
4. A replica without a valid lease does not change session locations. It does not change session records either, except
   to leave a session. After a lapse, the replica acts on a session only when it has joined the session again. Joining
   changes the record, so a process that acts on the earlier version gets a conflict.
5. With impersonation, a session starts only for a principal that has a dedicated backend and an OS user. The session
   location belongs to that OS user as soon as it is visible.
6. Opening and leaving a session never overlap. A session record does not keep listing this replica as a holder of a
   session that the replica does not serve: if an update of the record fails, the replica retries the update with each
   renewal of the lease. When the replica stops, it stops its lease instead, and the records keep listing it until other
   replicas adopt the sessions.
7. The number of tasks for joining, leaving and ending sessions does not depend on the number of sessions.

Source: [architecture "Gateway"], [architecture "Session records, leases and the reaper"],
[temporary-tables §5.1.10.2].
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence, Set
from contextlib import asynccontextmanager, contextmanager, nullcontext
from weakref import WeakValueDictionary

import structlog

from gateway.admission.session_quota import SessionQuota
from gateway.auditing.audit import Audit
from gateway.backends.backends import Backend, Backends
from gateway.blocking_work.futures import for_each, retrieve_error
from gateway.blocking_work.storage import Storage
from gateway.errors import SESSION_CLOSED, GatewayError, no_backend, not_impersonated, session_closed
from gateway.messages.requests import SessionKey
from gateway.sessions.backend_calls import release_session
from gateway.sessions.idle_sessions import IdleSessions, log_failure
from gateway.sessions.lease_thread import LeaseThread
from gateway.sessions.loop_monitor import LoopMonitor
from gateway.sessions.os_users import find_owner
from gateway.sessions.peers import Peers
from gateway.sessions.pending_updates import PendingUpdate, PendingUpdates
from gateway.sessions.record_updates import IDLE, RecordUpdates, is_over
from gateway.sessions.replica_lease import ReplicaLease
from gateway.sessions.session import NOT_JOINED, Session
from workspace.identifiers import Principal, RecordName, ReplicaId, record_name
from workspace.locations import Owner, OwnerError
from workspace.record_changes import SessionEndingError
from workspace.record_store import RecordConflictError, RecordError, RecordNotFoundError, StoredRecord
from workspace.records import Phase
from workspace.storage_paths import StoragePath

_CONCURRENT_UPDATES = 16
_STOP_SECONDS = 3.0

log = structlog.get_logger(__name__)


class Sessions:
    """All sessions that this replica serves.

    Args:
        replica: The name of this replica. Each start of the process has a new name.
        storage: The session records, leases and session locations.
        backends: The backends that can run sessions.
        idle_timeout_seconds: See ``GatewayConfig``.
        lease_duration_seconds: See ``GatewayConfig``.
        impersonation: See ``GatewayConfig``.
        audit: The audit events. By default, they are written nowhere.
        quota: The quota of sessions. By default, it has the default limits.

    Attributes:
        replica: The name of this replica.
        peers: The other replicas.
        idle: Ends idle sessions.
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
        audit: Audit | None = None,
        quota: SessionQuota | None = None,
    ) -> None:
        self._audit = Audit() if audit is None else audit
        self._quota = SessionQuota() if quota is None else quota
        self.replica = replica
        self._storage = storage
        self._backends = backends
        self.idle = IdleSessions(self.all, self._list_own_records, self._end_if_idle, idle_timeout_seconds)
        self._impersonation = impersonation
        self._lease = ReplicaLease(replica, storage, lease_duration_seconds)
        self.peers = Peers(replica, storage, lease_duration_seconds)
        self._records = RecordUpdates(replica, storage, self._lease, self._audit)
        self._pending = PendingUpdates()
        self._lease_thread = LeaseThread(self._lease, lease_duration_seconds, self._settle_soon)
        self._is_renewing = self._is_leaving = False
        self._settling: asyncio.Task[None] | None = None
        self._served: dict[SessionKey, Session] = {}
        self._by_record: dict[RecordName, Session] = {}
        self._opening: dict[tuple[SessionKey, bool], asyncio.Task[Session]] = {}
        self._locks: WeakValueDictionary[RecordName, asyncio.Lock] = WeakValueDictionary()

    @property
    def loop_monitor(self) -> LoopMonitor:
        """The delay of the event loop, as observed by the thread that renews the lease."""
        return self._lease_thread.loop_monitor

    @property
    def lease(self) -> ReplicaLease:
        """The lease of this replica."""
        return self._lease

    @property
    def count(self) -> int:
        """How many sessions this replica currently serves."""
        return len(self._served)

    @property
    def has_lease(self) -> bool:
        """Whether the lease of this replica is valid."""
        return self._lease.is_valid()

    def find(self, key: SessionKey) -> Session | None:
        """Return a session by its key. None if this replica does not serve the session."""
        return self._served.get(key)

    def find_by_record(self, name: RecordName) -> Session | None:
        """Return a session by its record name. None if this replica does not serve it."""
        return self._by_record.get(name)

    def all(self) -> Sequence[Session]:
        """Return all sessions that this replica currently serves."""
        return list(self._served.values())

    async def open(self, key: SessionKey) -> Session:
        """Return a session. Start or adopt the session first if necessary.

        Raises:
            GatewayError: If the session has ended, the principal has no backend or no OS user, a new session would
                exceed a limit, the lease has lapsed, or the storage does not respond.
        """
        return self._served.get(key) or await self._open_once(key, may_start=True)

    async def open_existing(self, key: SessionKey) -> Session | None:
        """Return a session that has already started at this or another replica.

        Returns:
            The session. None if no such session has started, or if the session is ending.

        Raises:
            GatewayError: If the session cannot be opened; see :meth:`open`.
        """
        if key in self._served or (key, True) in self._opening:
            return await self.open(key)
        try:
            stored = await self._storage.read(self._storage.records.read, _record_name(key))
        except RecordNotFoundError:
            return None
        if stored.record.phase is Phase.ENDING:
            return None
        try:
            return await self._open_once(key, may_start=False)
        except GatewayError as error:
            if error.condition == SESSION_CLOSED:  # it ended after its record was read
                return None
            raise

    async def open_clone(self, key: SessionKey, parent: Session) -> Session:
        """Start a session that a backend cloned. The clone uses the backend of its parent.

        The caller has reserved room for the clone; see :meth:`reserve_room`. If the session cannot be opened, the
        backend releases the clone.

        Raises:
            GatewayError: If the session cannot be opened; see :meth:`open`.
        """
        try:
            return self._served.get(key) or await self._open(key, parent.backend, has_room=True)
        except GatewayError:
            await release_session(Session(key, parent.uuid, parent.backend, parent.lease_epoch))
            raise

    @contextmanager
    def reserve_room(self, principal: Principal) -> Iterator[None]:
        """Count a session that starts in the block, so that concurrent requests cannot exceed the quota together.

        Raises:
            GatewayError: If the session would exceed a limit.
        """
        with self._quota.reserve(principal) as may_start:
            if not may_start:
                raise self._quota.refuse(principal)
            yield

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
        backend = self._backends.find(record)
        async with self._lock(record.name):
            if backend is None or key in self._served or self._is_leaving:
                return None
            self._lease.require_valid()
            lease_epoch = self._lease.epoch
            with self._pending.keep_on_failure(PendingUpdate(record.name)):
                if not await self._records.join(stored, lost):
                    return None
            session = self._serve(Session(key, record.session_uuid, backend, lease_epoch, record.suspects))
        with session.log_context():
            log.info("session_adopted", backend=backend.address, reason=reason)
            self._record_opening(session, adopted=True)
        return session

    def route(self, key: SessionKey) -> Backend:
        """Return the backend for a request of a session that may not have a record.

        Raises:
            GatewayError: If the principal has no backend.
        """
        session = self._served.get(key)
        return self._choose_backend(key) if session is None else session.backend

    def require_lease(self, session: Session) -> None:
        """Check that this replica may change the record and the location of a session.

        Raises:
            GatewayError: If the lease has lapsed since the replica joined the session. Other processes may have
                considered the replica lost, and may have ended or adopted the session.
        """
        self._lease.require_joined(session)

    async def ensure_joined(self, session: Session) -> None:
        """Join a session again if the lease has lapsed since this replica joined it.

        After a lapse, all sessions are joined again in the background, one after the other. A session with a request
        does not wait for its turn.

        Raises:
            GatewayError: If the lease is not valid, or the storage does not respond.
        """
        if session.lease_epoch != self._lease.epoch and self._lease.is_valid():
            try:
                await self._rejoin(session)
            except RecordError as error:
                log.warning("session_not_settled", reason=str(error))
        self._lease.require_joined(session)

    async def create_location(self, session: Session) -> StoragePath:
        """Create the session location if it does not exist, and return its path.

        Raises:
            GatewayError: If the lease has lapsed, or the existing location belongs to another OS user.
            OSError: If the storage of session locations fails.
        """
        owner = await self._find_owner(session.key.principal)

        def create() -> StoragePath:
            self.require_lease(session)  # after the wait for a thread, in which the lease may have lapsed
            return self._storage.locations.create(session.uuid, owner)

        try:
            return await self._storage.run_location(create)
        except OwnerError as error:
            log.error("location_of_another_owner", location=session.uuid, reason=str(error))
            raise not_impersonated(
                session.key.principal, "the session location belongs to another OS user. Start a new session"
            ) from error

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
        if self.replica not in stored.record.holders and self._lease.is_valid():
            session.lease_epoch = NOT_JOINED
            await self._rejoin(session)
            log.warning("session_joined_again", session=session.uuid)
        return False

    async def is_shared(self, session: Session) -> bool:
        """Return whether another replica also serves a session.

        Raises:
            GatewayError: If the storage of session records does not respond.
        """
        stored = await self._records.read(session)
        return stored is not None and stored.record.holders > {self.replica}

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

    async def leave_all(self, *, end: bool) -> None:
        """Stop serving all sessions, because the replica stops.

        The records of the sessions still name this replica. The replica stops its lease instead, which costs one
        request for all sessions. The other replicas then adopt the sessions at once.

        Args:
            end: Whether to end the sessions because their backends stop too.
        """
        self._is_leaving = True
        await self.idle.stop()
        if self._settling is not None:
            self._settling.cancel()
            await asyncio.gather(self._settling, return_exceptions=True)

        async def end_session(session: Session) -> None:
            try:
                await self.end(session, reason="gateway stopped")
            except (GatewayError, RecordError) as error:
                log.warning("session_left_to_reaper", location=session.uuid, reason=str(error))

        if end:
            await for_each(self.all(), end_session, workers=_CONCURRENT_UPDATES)
        if self._is_renewing:
            self._is_renewing = False
            self._lease_thread.request_stop()
            await self._storage.run_lease(self._lease_thread.join, _STOP_SECONDS)
        is_named = bool(self._served or self._opening or self._pending.all())
        for session in self.all():
            self._forget(session)
        try:
            await (self._lease.stop() if is_named else self._lease.delete())
        except GatewayError as error:
            log.warning("lease_not_stopped", reason=str(error))

    async def renew_lease(self) -> None:
        """Renew the lease once, and start retrying failed record updates in the background.

        Raises:
            GatewayError: If the storage of leases does not respond.
        """
        await self._lease.renew()
        self._settle_soon()

    def start_renewing(self) -> None:
        """Renew the lease in a thread until :meth:`leave_all`. See :mod:`gateway.sessions.lease_thread`."""
        self._is_renewing = True
        self._lease_thread.start()

    def _settle_soon(self) -> None:
        """Start retrying failed record updates in the background, unless this is already running."""
        if self._is_leaving:
            return
        if (self._pending.all() or self._list_fenced()) and (self._settling is None or self._settling.done()):
            self._settling = asyncio.create_task(self._settle())

    async def _settle(self) -> None:
        """Join sessions again after a lapse of the lease, and apply the pending updates.

        A step that fails is retried with the next renewal of the lease.
        """

        async def rejoin(session: Session) -> None:
            with session.log_context(), log_failure():
                await self._rejoin(session)

        async def apply(update: PendingUpdate) -> None:
            with log_failure():
                async with self._lock(update.record):
                    await self._apply(update)
                    self._pending.discard(update)

        await for_each(self._list_fenced(), rejoin, workers=_CONCURRENT_UPDATES)
        await for_each(self._pending.all(), apply, workers=_CONCURRENT_UPDATES)

    def _list_fenced(self) -> Sequence[Session]:
        """Return the sessions that this replica has not joined again after a lapse."""
        return [session for session in self._served.values() if session.lease_epoch != self._lease.epoch]

    async def _rejoin(self, session: Session) -> None:
        async with self._lock(session.record_name):
            lease_epoch = self._lease.epoch
            if self._served.get(session.key) is not session or session.lease_epoch == lease_epoch:
                return
            if await self._records.rejoin(session):
                session.lease_epoch = lease_epoch
            else:
                self._forget(session)
                log.warning("session_lost", reason="the lease lapsed and the session was reaped")

    async def _apply(self, update: PendingUpdate) -> None:
        """Apply a pending update, unless this replica serves the session again."""
        session, served = update.session, self._by_record.get(update.record)
        if served is not None and (session is None or session.uuid == served.uuid):
            return
        if session is None:
            await self._records.leave(update.record)
        else:
            await self._end_or_leave(session, "retry of an earlier end")

    async def _end_if_idle(self, session: Session, timeout_seconds: float, known: StoredRecord | None) -> None:
        async with self._lock(session.record_name):
            if session.is_idle(timeout_seconds) and self._served.get(session.key) is session:
                with self._stop_serving(session):
                    await self._end_or_leave(session, IDLE, known)

    async def _list_own_records(self) -> dict[RecordName, StoredRecord]:
        return await self._records.list_own()

    async def _end_or_leave(self, session: Session, reason: str, known: StoredRecord | None = None) -> None:
        """End a session for all replicas, or only leave it if another replica serves it."""
        if await self._records.end(session, reason, only_if_last=True, known=known):
            await release_session(session)

    @asynccontextmanager
    async def _ending(self, session: Session) -> AsyncIterator[None]:
        """Stop serving a session, and run the block that ends it, without concurrent changes of the session."""
        with session.log_context():
            async with self._lock(session.record_name):
                with self._stop_serving(session):
                    yield

    @contextmanager
    def _stop_serving(self, session: Session) -> Iterator[None]:
        """Stop serving a session, and run the block that ends it.

        If the block fails, the replica retries the end later.
        """
        self._forget(session)
        with self._pending.keep_on_failure(PendingUpdate(session.record_name, session)):
            yield

    def _forget(self, session: Session) -> None:
        if self._served.get(session.key) is session:
            del self._served[session.key], self._by_record[session.record_name]
            self._quota.remove(session.key.principal)

    def _serve(self, session: Session) -> Session:
        self._served[session.key] = self._by_record[session.record_name] = session
        self._quota.add(session.key.principal)
        return session

    async def _open_once(self, key: SessionKey, *, may_start: bool) -> Session:
        """Open a session. Concurrent calls share a task, which continues if a caller is cancelled."""
        opening = self._opening.get((key, may_start))
        if opening is None:
            opening = asyncio.create_task(self._open(key, self._choose_backend(key), may_start=may_start))
            self._opening[key, may_start] = opening
            opening.add_done_callback(lambda _: self._opening.pop((key, may_start), None))
            opening.add_done_callback(retrieve_error)
        return await asyncio.shield(opening)

    async def _open(
        self, key: SessionKey, backend: Backend, *, may_start: bool = True, has_room: bool = False
    ) -> Session:
        name = _record_name(key)
        async with self._lock(name):
            served = self._served.get(key)
            if served is not None:
                return served
            await self._find_owner(key.principal)
            self._lease.require_valid()
            lease_epoch = self._lease.epoch
            needs_room = may_start and not has_room
            try:
                with (
                    self._quota.reserve(key.principal) if needs_room else nullcontext(may_start) as may_create,
                    self._pending.keep_on_failure(PendingUpdate(name)),
                ):
                    found = await self._records.join_or_create(key, backend, may_create=may_create)
            except (SessionEndingError, RecordConflictError, RecordNotFoundError) as error:
                raise session_closed(key.client_session_id) from error
            if found is None:
                raise self._quota.refuse(key.principal) if may_start else session_closed(key.client_session_id)
            record, is_new = found
            backend = self._backends.find(record) or backend
            session = self._serve(Session(key, record.session_uuid, backend, lease_epoch, record.suspects))
            if is_new:
                self._quota.count_start(key.principal)
        with session.log_context():
            log.info("session_started" if is_new else "session_adopted", backend=session.backend.address)
            self._record_opening(session, adopted=not is_new)
        return session

    def _record_opening(self, session: Session, *, adopted: bool) -> None:
        self._audit.session_opened(
            session=session.key.client_session_id,
            principal=session.key.principal,
            location=session.uuid,
            backend=session.backend.address,
            adopted=adopted,
        )

    def _lock(self, name: RecordName) -> asyncio.Lock:
        """Return the lock to hold while this replica opens, joins or leaves a session."""
        lock = self._locks.get(name)
        if lock is None:
            lock = self._locks[name] = asyncio.Lock()
        return lock

    def _choose_backend(self, key: SessionKey) -> Backend:
        backend = self._backends.choose(_record_name(key), key.principal)
        if backend is not None:
            return backend
        if self._impersonation:
            raise not_impersonated(
                key.principal, "no backend runs as this user. Ask the operator for one (--principal-backend)"
            )
        raise no_backend()

    async def _find_owner(self, principal: Principal) -> Owner | None:
        """Return the OS user of a principal. None without impersonation."""
        return await self._storage.read_users(find_owner, principal) if self._impersonation else None


def _record_name(key: SessionKey) -> RecordName:
    return record_name(key.principal, key.client_session_id)
