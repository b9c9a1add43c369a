"""A gateway replica: its gRPC server and its background tasks."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import structlog
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from gateway.admission.admission import Admission
from gateway.admission.connections import IdleConnections
from gateway.auditing.audit import Audit
from gateway.auditing.statement_audit import StatementAudit
from gateway.authentication.authenticator import Authenticator
from gateway.authentication.method import Method
from gateway.backends.backends import SERVICE, Backends
from gateway.blocking_work.current_work import CurrentWork
from gateway.blocking_work.current_workspaces import CurrentWorkspaces
from gateway.blocking_work.futures import for_each
from gateway.blocking_work.request_pools import RequestPools
from gateway.blocking_work.storage import Storage
from gateway.calls.service import SparkConnectService
from gateway.config import GatewayConfig
from gateway.connections.listener import Addresses, Listener
from gateway.errors import GatewayError
from gateway.metrics import GatewayMetrics, GatewayState
from gateway.names.path_checks import PathChecks
from gateway.operations.drain import Drain
from gateway.operations.operations import Operation, Operations
from gateway.scans.planner import ScanPlanner
from gateway.scans.plannings import Plannings
from gateway.sessions.adopter import Adopter
from gateway.sessions.record_watch import RecordWatch
from gateway.sessions.registry import Sessions
from gateway.sessions.suspicions import Suspicion
from gateway.tables.changes import suspect_request
from gateway.tables.table_services import TableServices
from workspace.identifiers import ReplicaId
from workspace.leases import Leases
from workspace.locations import SessionLocations
from workspace.record_store import RecordError, SessionRecords
from workspace.schema_segments import SchemaSegments
from workspace.workspaces import Workspaces

_ADOPTION_SECONDS = 2.0  # for the first adoptions of a replica that lists the leases last
_CLOSE_SECONDS = 15.0  # for short calls that run when the gateway begins to stop
_CLOSE_PAUSE_SECONDS = 0.1
_CREDENTIALS_SECONDS = 2.0
_SUSPICION_WORKERS = 16
_LIST_SECONDS = 2.0  # for the list of leases with which a gateway that stops looks for other replicas
_END_SECONDS = 4.0  # for work that a drain did not end, so that the lease is stopped before the process is killed
_HANDOVER_SECONDS = 5.0  # the last part of the drain, in which writes are handed over and the rest is undone

log = structlog.get_logger(__name__)


class Gateway:
    """A gateway replica.

    Args:
        config: The configuration of the replica.
        records: The session records of the default temporary workspace.
        leases: The leases of all replicas.
        locations: The session locations of the default temporary workspace.
        audit: The audit events of the replica. By default, they are written nowhere.
        metrics: The counters of the replica. By default, they are served nowhere.
        authentication: The authentication methods. Without a method, the gateway trusts the user id of a request.
        schema_segments: The schemas of scanned files that replicas share. None to share none.
        before: The replica whose process has ended, and which this replica replaces. None if there was none.
        suspicions: The requests on which replicas worked whose processes have ended.
        work: The memory in which the replica notes on which requests it works.

    Attributes:
        replica: The name of this replica.
    """

    def __init__(
        self,
        config: GatewayConfig,
        records: SessionRecords,
        leases: Leases,
        locations: SessionLocations,
        audit: Audit | None = None,
        *,
        metrics: GatewayMetrics | None = None,
        authentication: Sequence[Method] = (),
        schema_segments: SchemaSegments | None = None,
        before: ReplicaId | None = None,
        suspicions: Sequence[Suspicion] = (),
        work: CurrentWork | None = None,
    ) -> None:
        self._config = config
        self._before = before
        self._suspicions = suspicions
        self._work = CurrentWork() if work is None else work
        self._schema_segments = schema_segments
        self._storage = Storage(records, leases, locations)
        self.replica = ReplicaId(f"gateway-{secrets.token_hex(6)}")
        self._audit = Audit() if audit is None else audit
        self._audit.replica = self.replica
        self._metrics = GatewayMetrics() if metrics is None else metrics
        self._authenticator = Authenticator(authentication, self._audit, self._metrics.count_denial)
        self._admission = Admission(config.admission, self._metrics.count_limit, self._metrics.count_request)
        self._is_serving = False
        self._operations = Operations(config.detached_timeout_seconds, self._may_be_followed_elsewhere)
        self._drain = Drain()
        self._workspaces = CurrentWorkspaces(config.workspaces, self._storage.workspace_reads)
        self._pools = RequestPools(config.max_plan_bytes)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> Addresses:
        """Start the replica.

        Returns:
            The addresses on which the gateway listens.

        Raises:
            ListenError: If the address is already in use, or is not an address of this host.
            GatewayError: If the storage of session records cannot be reached.
            RootError: If the default temporary workspace has changed since this replica was created.
            BackendAddressError: If the address of a backend does not have the form ``sc://host:port`` or
                ``sc://host:port/;use_ssl=true``.
            SourceError: If a file with a certificate, key or token cannot be used.
        """
        config = self._config
        self._backends = Backends(
            config.backends,
            config.principal_backends,
            own_only=config.impersonation,
            access=config.backend_access,
            keepalive_seconds=config.backend_keepalive_seconds,
        )
        self._listener = Listener(config.listen, config.connections, config.tls, config.max_message_bytes)
        self._sessions = Sessions(
            replica=self.replica,
            storage=self._storage,
            backends=self._backends,
            idle_timeout_seconds=config.session_idle_timeout_seconds,
            lease_duration_seconds=config.lease_duration_seconds,
            impersonation=config.impersonation,
            audit=self._audit,
            quota=self._admission.sessions,
        )
        try:
            await self._sessions.renew_lease()
            return await self._start_with_lease()
        except BaseException:
            with suppress(GatewayError):
                await self._storage.run_lease(self._storage.leases.delete, self.replica)
            raise

    async def _start_with_lease(self) -> Addresses:
        config = self._config
        # The lease is renewed before the roots are read. In this order, either this replica sees a concurrent move of
        # the home, or the move sees the lease of this replica.
        await self._read_roots()
        self._services = services = TableServices(
            replica=self.replica,
            storage=self._storage,
            sessions=self._sessions,
            operations=self._operations,
            workspaces=self._workspaces,
            config=config,
            audit=self._audit,
            drain=self._drain,
            work=self._work,
        )
        self._server = self._listener.server
        self._audited = StatementAudit(
            self._audit,
            detached_timeout_seconds=config.detached_timeout_seconds,
            log_query_text=config.log_query_text,
        )
        self._service = SparkConnectService(
            authenticator=self._authenticator,
            admission=self._admission,
            sessions=self._sessions,
            operations=self._operations,
            services=services,
            # With impersonation, this process may list directories that the principal may not.
            planner=ScanPlanner(
                self._workspaces.reads,
                self._metrics.count_scanned_files,
                lists_files=not config.impersonation,
                spark_readers=config.spark_readers,
                segments=self._schema_segments,
                listings=self._storage.listings,
            ),
            workspaces=self._workspaces,
            audited=self._audited,
            paths=PathChecks(self._workspaces, self._audit, self._pools),
            pools=self._pools,
            plannings=Plannings(self._drain),
            drain=self._drain,
            work=self._work,
            log_query_text=config.log_query_text,
        )
        # gRPC has a queue of new calls for each registered method. Therefore, a flood of calls of one method does not
        # delay the calls of other methods.
        self._server.add_registered_method_handlers(SERVICE.strip("/"), self._service.methods)
        self._server.add_generic_rpc_handlers((self._service,))
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        await for_each(self._suspicions, self._record, workers=_SUSPICION_WORKERS)
        await self._authenticator.start()
        self._addresses = addresses = await self._listener.start()
        if self._before is not None:
            await self._stop_lease_of(self._before)
        await self._set_health(health_pb2.HealthCheckResponse.SERVING)
        self._sessions.start_renewing()
        self._is_serving = True
        renewal_seconds = config.lease_duration_seconds / 3
        idle_check_seconds = min(max(config.session_idle_timeout_seconds / 4, 0.1), 10.0)
        self._tasks = [
            asyncio.create_task(_repeat(self._sessions.idle.end, idle_check_seconds, "idle_watch_failed")),
            asyncio.create_task(_repeat(self._read_roots, renewal_seconds, "roots_not_read")),
            asyncio.create_task(_repeat(self._reload_credentials, _CREDENTIALS_SECONDS, "credentials_not_reloaded")),
        ]
        adopter = None
        if not config.has_own_backend or self._before is not None:
            adopter = Adopter(
                self._sessions,
                self._storage,
                services.followed.complete_abandoned,
                patience_seconds=renewal_seconds + _ADOPTION_SECONDS,
            )
            self._tasks.append(asyncio.create_task(adopter.run()))
        watch = RecordWatch(
            self._sessions,
            self._storage.records,
            lambda session: self._operations.end_session(session.key),
            adopter,
        )
        self._tasks.append(asyncio.create_task(watch.run()))
        log.info("gateway_started", replica=self.replica, listen=addresses.main, backends=config.backends)
        return addresses

    @property
    def workspaces(self) -> Workspaces:
        """The configured workspaces, as of the last reload."""
        return self._workspaces.now

    def state(self) -> GatewayState | None:
        """Return the current state, for probes and metrics. None if the replica does not accept connections.

        This method can be called from any thread.
        """
        if not self._is_serving:
            return None
        sessions, total = self._sessions, self._admission.accounts.total
        return GatewayState(
            sessions=sessions.count,
            statements=total.statements,
            requests=total.requests,
            request_bytes=total.request_bytes,
            response_bytes=total.response_bytes,
            has_lease=sessions.has_lease,
            lease_renewals=sessions.lease.renewals,
            failed_lease_renewals=sessions.lease.failed_renewals,
            lease_lapses=max(0, sessions.lease.epoch - 1),
            event_loop_lag_seconds=sessions.loop_monitor.lag_seconds(time.monotonic()),
            unauthenticated_allowed=not self._authenticator.is_configured,
            failing_authentication_sources=len(self._authenticator.failing_methods),
            lost_audit_events=self._audit.log.lost_events,
            certificate_expires_at=self._listener.certificate_expires_at,
        )

    async def reload(self, workspaces: Workspaces, authentication: Sequence[Method] | None = None) -> None:
        """Replace the configured workspaces and the authentication methods while sessions continue.

        New temporary tables are created in the new default temporary workspace.

        Args:
            workspaces: The new workspaces.
            authentication: The new authentication methods. None if they have not changed.

        Raises:
            RootError: If the new root cannot be used. In this case, nothing changes.
            OSError: If the storage fails. In this case, nothing changes.
        """
        await self._storage.run_location(self._storage.locations.set_current_root, workspaces.temporary.storage_path)
        self._workspaces.now = workspaces.with_former_roots(self._workspaces.now.temporary_roots)
        if authentication is not None:
            await self._authenticator.replace(authentication)

    async def _read_roots(self) -> None:
        """Read the registered roots again, because another replica may have added a root."""
        roots = await self._storage.run_location(self._storage.locations.known_roots)
        self._workspaces.now = self._workspaces.now.with_former_roots(roots)

    async def _reload_credentials(self) -> None:
        """Read the files with certificates, keys and tokens again, because they may have been replaced."""
        await self._listener.reload_certificates()
        await self._backends.reload_credentials()

    async def stop(self, drain_seconds: float, *, backends_end: bool = False) -> None:
        """Stop the replica.

        If the backends stop too, running requests finish, and the sessions end. Otherwise, clients connect to another
        replica, which continues the running statements (see :mod:`gateway.operations.drain`) and adopts the sessions.
        If there is no other replica, running statements can finish here first.

        Args:
            drain_seconds: How long running requests and statements can continue. What is left is ended.
            backends_end: Whether the backends stop too.
        """
        begun_seconds = time.monotonic()
        self._is_serving = False
        await self._set_health(health_pb2.HealthCheckResponse.NOT_SERVING)
        log.info("gateway_draining", seconds=drain_seconds, sessions=self._sessions.count)
        hands_over, has_peers = not backends_end, False
        finish_seconds = begun_seconds + drain_seconds - _HANDOVER_SECONDS
        if hands_over:
            self._drain.refuse_calls()
            has_peers = await self._has_peers()
            if has_peers:
                self._drain.hand_over()
            await self._close_connections(min(begun_seconds + _CLOSE_SECONDS, finish_seconds))
        stop_seconds = max(0.0, begun_seconds + drain_seconds - time.monotonic())
        stopping = asyncio.create_task(self._server.stop(stop_seconds))
        if hands_over:
            if not has_peers:
                await self._finish(stopping, finish_seconds)
                self._drain.hand_over()
            await self._finish(stopping, finish_seconds)
            self._drain.give_up()
        await self._finish(stopping, begun_seconds + max(drain_seconds, _HANDOVER_SECONDS))
        if hands_over:
            self._drain.end()
        try:
            async with asyncio.timeout(_END_SECONDS if hands_over else None):
                await stopping
                await self._end_work()
        except TimeoutError:
            log.warning("gateway_stopped_with_unfinished_work")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._sessions.leave_all(end=backends_end)
        await self._backends.close()
        await self._storage.close()
        self._audited.close()
        await self._pools.close()
        self._audit.close()
        log.info("gateway_stopped", replica=self.replica)

    async def _may_be_followed_elsewhere(self, operation: Operation) -> bool:
        """Return whether another replica serves the session of an operation, because its client may have moved."""
        session = self._sessions.find(operation.session_key)
        if session is None:
            return False
        try:
            return await self._sessions.records.is_shared(session)
        except GatewayError as error:
            log.warning("statement_not_abandoned", location=session.uuid, reason=str(error))
            return True

    async def _finish(self, stopping: "asyncio.Task[None]", end_seconds: float) -> None:
        """Wait until all requests and statements have finished, at most until the given monotonic time."""
        await asyncio.wait([stopping], timeout=max(end_seconds - time.monotonic(), 0))
        await self._operations.wait(end_seconds - time.monotonic())

    async def _end_work(self) -> None:
        """End what still runs after the drain."""
        await self._authenticator.stop()
        await self._operations.end_all()
        await self._service.stop()
        await self._services.stop()

    async def _record(self, suspicion: Suspicion) -> None:
        """Write a suspicion to the record of its session, so that no gateway runs the request."""
        record, request = suspicion.record, suspicion.request
        try:
            await self._storage.update(record, lambda found: suspect_request(found, request))
        except (GatewayError, RecordError) as error:
            log.warning("suspected_request_not_recorded", record=record, reason=str(error))
            return
        log.warning("request_suspected", record=record, operation=request.operation_id, refused=request.refusal)

    async def _stop_lease_of(self, replica: ReplicaId) -> None:
        """Let all replicas adopt the sessions of a replica whose process has ended, without a wait for its lease."""
        try:
            await self._storage.run_lease(self._storage.leases.stop, replica)
        except GatewayError as error:
            log.warning("former_lease_not_stopped", former_replica=replica, reason=str(error))

    async def _has_peers(self) -> bool:
        """Return whether another replica is running, as far as this replica knows."""
        peers = self._sessions.peers
        with suppress(GatewayError, TimeoutError):  # the last list is good enough
            async with asyncio.timeout(_LIST_SECONDS):
                await peers.observe()
        return peers.living != {self.replica}

    async def _close_connections(self, end_seconds: float) -> None:
        """Refuse new connections, and close the others, each as soon as it has no open call.

        The connections that are busy at the given monotonic time stay open.
        """
        connections = IdleConnections(self._addresses.ports)
        try:
            await asyncio.to_thread(connections.refuse_new)
            while time.monotonic() < end_seconds:
                busy = self._admission.busy_peers
                if not await asyncio.to_thread(connections.close, busy) and not busy:
                    break
                await asyncio.sleep(_CLOSE_PAUSE_SECONDS)
            await asyncio.to_thread(connections.close, self._admission.busy_peers, at_once=True)
        except OSError as error:
            log.warning("connections_not_closed", reason=str(error))

    async def _set_health(self, status: int) -> None:
        for name in ("", SERVICE.strip("/")):
            await self._health.set(name, status)


async def _repeat(action: Callable[[], Awaitable[None]], period_seconds: float, failure_event: str) -> None:
    """Run an action periodically until the task is cancelled.

    Args:
        action: The action to run.
        period_seconds: How long to wait before each run.
        failure_event: The log event for failures of the action.
    """
    while True:
        await asyncio.sleep(period_seconds)
        try:
            await action()
        except Exception as error:
            is_expected = isinstance(error, (GatewayError, OSError))
            log.error(failure_event, reason=str(error), exc_info=not is_expected)
