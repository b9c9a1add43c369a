"""The sessions that a replica serves: how they start, stay alive and end.

The session record is the source of truth about a session. The registry contains only the sessions that this replica
serves. Each request finds its session with one dictionary lookup.

Guarantees:

1. The session record is created before anything else that belongs to the session.
2. A session does not time out while one of its requests is being processed or one of its operations runs at the
   backend. Its idle time starts again after a lapse of the lease, and if its end fails before it has begun. Such a
   failure of the storage may keep the requests of its client from every replica.
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

The registry composes the modules that keep them: ``session_joins`` (1, 4 and 6), ``session_ends`` (3 and 6),
``idle_sessions`` (2), ``owned_locations`` and ``backend_choice`` (5), ``pending_updates`` (6), and ``settlement`` (6
and 7).

Source: [architecture "Gateway"], [architecture "Session records, leases and the reaper"],
[temporary-tables §5.1.10.2].
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import structlog

from gateway.admission.session_quota import SessionQuota
from gateway.auditing.audit import Audit
from gateway.backends.backends import Backend, Backends
from gateway.blocking_work.futures import for_each, retrieve_error
from gateway.blocking_work.storage import Storage
from gateway.errors import SESSION_CLOSED, GatewayError
from gateway.messages.requests import SessionKey
from gateway.sessions.backend_calls import release_session
from gateway.sessions.backend_choice import BackendChoice
from gateway.sessions.idle_sessions import IdleSessions
from gateway.sessions.lease_thread import LeaseThread
from gateway.sessions.loop_monitor import LoopMonitor
from gateway.sessions.owned_locations import OwnedLocations
from gateway.sessions.peers import Peers
from gateway.sessions.pending_updates import PendingUpdates
from gateway.sessions.record_updates import RecordUpdates
from gateway.sessions.replica_lease import ReplicaLease
from gateway.sessions.served_sessions import ServedSessions
from gateway.sessions.session import Session
from gateway.sessions.session_ends import SessionEnds
from gateway.sessions.session_joins import SessionJoins
from gateway.sessions.settlement import Settlement
from workspace.identifiers import Principal, RecordName, ReplicaId, record_name
from workspace.record_store import RecordError, RecordNotFoundError
from workspace.records import Phase

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
        lease: The lease of this replica.
        peers: The other replicas.
        records: Updates session records.
        locations: Creates session locations.
        joins: Joins sessions.
        ends: Ends sessions.
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
        audit = Audit() if audit is None else audit
        self.replica = replica
        self._storage = storage
        self._choice = BackendChoice(backends, impersonation=impersonation)
        self._served = ServedSessions(SessionQuota() if quota is None else quota)
        self._pending = PendingUpdates()
        self.lease = ReplicaLease(replica, storage, lease_duration_seconds)
        self.peers = Peers(replica, storage, lease_duration_seconds)
        self.records = RecordUpdates(replica, storage, self.lease, audit)
        self.locations = OwnedLocations(storage, self.lease, impersonation=impersonation)
        self.joins = SessionJoins(
            replica=replica,
            served=self._served,
            lease=self.lease,
            records=self.records,
            pending=self._pending,
            choice=self._choice,
            locations=self.locations,
            audit=audit,
        )
        self.ends = SessionEnds(self._served, self.lease, self.records, self._pending)
        self.idle = IdleSessions(self._served, self.records, self.ends, idle_timeout_seconds)
        self._settlement = Settlement(self._served, self.joins, self.ends, self._pending)
        self._lease_thread = LeaseThread(self.lease, lease_duration_seconds, self._settlement.start)
        self._is_renewing = False
        self._opening: dict[tuple[SessionKey, bool], asyncio.Task[Session]] = {}

    @property
    def loop_monitor(self) -> LoopMonitor:
        """The delay of the event loop, as observed by the thread that renews the lease."""
        return self._lease_thread.loop_monitor

    @property
    def count(self) -> int:
        """How many sessions this replica currently serves."""
        return len(self._served)

    @property
    def has_lease(self) -> bool:
        """Whether the lease of this replica is valid."""
        return self.lease.is_valid()

    def find(self, key: SessionKey) -> Session | None:
        """Return a session by its key. None if this replica does not serve the session."""
        return self._served.find(key)

    def find_by_record(self, name: RecordName) -> Session | None:
        """Return a session by its record name. None if this replica does not serve it."""
        return self._served.find_by_record(name)

    def all(self) -> Sequence[Session]:
        """Return all sessions that this replica currently serves."""
        return self._served.all()

    async def open(self, key: SessionKey) -> Session:
        """Return a session. Start or adopt the session first if necessary.

        Raises:
            GatewayError: If the session has ended, the principal has no backend or no OS user, a new session would
                exceed a limit, the lease has lapsed, or the storage does not respond.
        """
        return self._served.find(key) or await self._open_once(key, may_start=True)

    async def open_existing(self, key: SessionKey) -> Session | None:
        """Return a session that has already started at this or another replica.

        Returns:
            The session. None if no such session has started, or if the session is ending.

        Raises:
            GatewayError: If the session cannot be opened; see :meth:`open`.
        """
        if self._served.find(key) is not None or (key, True) in self._opening:
            return await self.open(key)
        try:
            stored = await self._storage.read(
                self._storage.records.read, record_name(key.principal, key.client_session_id)
            )
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
            return self._served.find(key) or await self.joins.open(key, parent.backend, has_room=True)
        except GatewayError:
            await release_session(Session(key, parent.uuid, parent.backend, parent.lease_epoch))
            raise

    @contextmanager
    def reserve_room(self, principal: Principal) -> Iterator[None]:
        """Count a session that starts in the block, so that concurrent requests cannot exceed the quota together.

        Raises:
            GatewayError: If the session would exceed a limit.
        """
        with self._served.quota.reserve(principal) as may_start:
            if not may_start:
                raise self._served.quota.refuse(principal)
            yield

    def route(self, key: SessionKey) -> Backend:
        """Return the backend for a request of a session that may not have a record.

        Raises:
            GatewayError: If the principal has no backend.
        """
        session = self._served.find(key)
        return self._choice.choose(key) if session is None else session.backend

    async def leave_all(self, *, end: bool) -> None:
        """Stop serving all sessions, because the replica stops.

        The records of the sessions still name this replica. The replica stops its lease instead, which costs one
        request for all sessions. The other replicas then adopt the sessions at once.

        Args:
            end: Whether to end the sessions because their backends stop too.
        """
        self._served.is_leaving = True
        await self.idle.stop()
        await self._settlement.stop()

        async def end_session(session: Session) -> None:
            try:
                await self.ends.end(session, reason="gateway stopped")
            except (GatewayError, RecordError) as error:
                log.warning("session_left_to_reaper", location=session.uuid, reason=str(error))

        if end:
            await for_each(self.all(), end_session, workers=_CONCURRENT_UPDATES)
        if self._is_renewing:
            self._is_renewing = False
            self._lease_thread.stopping.set()
            await self._storage.run_lease(self._lease_thread.join, _STOP_SECONDS)
        is_named = bool(len(self._served) or self._opening or self._pending.all())
        for session in self.all():
            self._served.remove(session)
        try:
            await (self.lease.stop() if is_named else self.lease.delete())
        except GatewayError as error:
            log.warning("lease_not_stopped", reason=str(error))

    async def renew_lease(self) -> None:
        """Renew the lease once, and start retrying failed record updates in the background.

        Raises:
            GatewayError: If the storage of leases does not respond.
        """
        await self.lease.renew()
        self._settlement.start()

    def start_renewing(self) -> None:
        """Renew the lease in a thread until :meth:`leave_all`. See :mod:`gateway.sessions.lease_thread`."""
        self._is_renewing = True
        self._lease_thread.start()

    async def _open_once(self, key: SessionKey, *, may_start: bool) -> Session:
        """Open a session. Concurrent calls share a task, which continues if a caller is cancelled."""
        opening = self._opening.get((key, may_start))
        if opening is None:
            opening = asyncio.create_task(self.joins.open(key, self._choice.choose(key), may_start=may_start))
            self._opening[key, may_start] = opening
            opening.add_done_callback(lambda _: self._opening.pop((key, may_start), None))
            opening.add_done_callback(retrieve_error)
        return await asyncio.shield(opening)
