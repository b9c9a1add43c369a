"""A replica of the gateway as a simulated process.

It runs the real :class:`gateway.server.Gateway` without sockets.
Real is everything between the gRPC server and the stores :class:`~workspace.record_store.SessionRecords`,
:class:`~workspace.leases.Leases` and :class:`~workspace.locations.SessionLocations`: sessions, fencing, statements, the
protocol of table writes, operations, and the record watch.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import grpc
from grpc import aio

from gateway.backends.backends import SERVICE
from gateway.config import GatewayConfig
from gateway.connections.listener import Addresses
from gateway.errors import GatewayError
from gateway.messages.requests import SessionKey
from gateway.server import Gateway
from gateway.sessions.peers import Peers
from gateway.sessions.session import Session
from tests.simulation.event_loop import ModelLoop
from tests.simulation.locations import ModelLocations
from tests.simulation.records import ModelLeases, ModelSessionRecords
from tests.simulation.schedule import Action, Process
from workspace.identifiers import ReplicaId, SessionUuid
from workspace.leases import UNRESPONSIVE_LEASES


@dataclass(slots=True)
class Outcome:
    """The result of a client's call.

    Attributes:
        is_over: Whether the client has the result.
        responses: The responses before the end.
        error: The code and text of the failure; None for a success.
        wake: Lets the client continue.
    """

    is_over: bool = False
    responses: list[bytes] = field(default_factory=list)
    error: "tuple[grpc.StatusCode, str] | None" = None
    wake: Action = lambda: None

    def end(self, error: "tuple[grpc.StatusCode, str] | None" = None) -> None:
        if not self.is_over:
            self.is_over = True
            self.error = error
            self.wake()


class _AbortedError(aio.AbortError):
    pass


class _Context:
    """Replaces gRPC's context of a call."""

    def __init__(self, request: bytes, outcome: Outcome) -> None:
        self._requests = [request]
        self._outcome = outcome
        self.failure: tuple[grpc.StatusCode, str] | None = None

    def invocation_metadata(self) -> tuple[()]:
        return ()

    def time_remaining(self) -> None:
        return None

    def peer(self) -> str:
        return "ipv4:192.0.2.1:50000"

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        callback(self)

    async def read(self) -> Any:
        return self._requests.pop() if self._requests else aio.EOF

    async def write(self, response: bytes) -> None:
        self._outcome.responses.append(response)

    async def send_initial_metadata(self, metadata: object) -> None:
        """Do nothing: simulated clients ignore metadata."""

    def set_trailing_metadata(self, metadata: object) -> None:
        """Do nothing: simulated clients ignore metadata."""

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing: Any = ()) -> None:
        classes = " ".join(value.decode("ascii", "replace") for _, value in trailing if isinstance(value, bytes))
        self.failure = code, f"{details} {classes}"
        raise _AbortedError


class ModelServer:
    """Replaces ``grpc.aio.server``; passes calls to the gateway's handlers."""

    def __init__(self, on_error: Callable[[str, BaseException | None], None]) -> None:
        self._service: Any = None
        self._on_error = on_error
        self.is_open = False
        self.calls: dict[asyncio.Task[None], Outcome] = {}

    def add_generic_rpc_handlers(self, handlers: Sequence[Any]) -> None:
        """Keep the first handler, which is the gateway's own."""
        self._service = self._service or handlers[0]

    def add_registered_method_handlers(self, name: str, handlers: object) -> None:
        """Do nothing: the first generic handler also handles the registered methods of the gateway."""

    async def start(self) -> None:
        self.is_open = True

    async def stop(self, grace_seconds: float) -> None:
        self.is_open = False
        if self.calls:
            await asyncio.wait(list(self.calls), timeout=grace_seconds)
        for call in list(self.calls):
            call.cancel()

    def begin(self, method: str, request: bytes, outcome: Outcome) -> asyncio.Task[None]:
        handler = self._service.service(SimpleNamespace(method=SERVICE + method))
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(self._handle(handler, request, outcome))
        self.calls[task] = outcome
        task.add_done_callback(lambda done: self.calls.pop(done, None))
        return task

    async def _handle(self, handler: Any, request: bytes, outcome: Outcome) -> None:
        context = _Context(request, outcome)
        try:
            if handler.response_streaming:
                await handler.stream_stream(None, context)
            else:
                outcome.responses.append(await handler.stream_unary(None, context))
        except aio.AbortError:
            outcome.end(context.failure)
        except asyncio.CancelledError:
            outcome.end((grpc.StatusCode.CANCELLED, "The call was cancelled."))
            raise
        except Exception as error:  # noqa: BLE001 - the checker judges every unexpected error
            self._on_error("a handler of a gateway", error)
        else:
            outcome.end()


@dataclass(frozen=True, slots=True)
class Stores:
    """The shared stores, as one process reaches them."""

    records: ModelSessionRecords
    leases: ModelLeases
    locations: ModelLocations


class ModelListener:
    """Replaces :class:`gateway.connections.listener.Listener`; opens no port."""

    certificate_expires_at = None

    def __init__(self, server: ModelServer) -> None:
        self.server = server

    async def start(self) -> Addresses:
        await self.server.start()
        return Addresses("127.0.0.1:15002", None, uses_tls=False)

    async def reload_certificates(self) -> None:
        """Do nothing: simulated connections have no certificates."""


class _CheckedLeases:
    """The leases, as a gateway renews them. Reports renewals while the event loop has stalled for too long.

    Args:
        leases: The leases.
        process: The process of the gateway.
        limit_seconds: The longest stall during which the gateway may renew its lease.
        on_error: Called with each renewal that is too late.
    """

    def __init__(
        self,
        leases: ModelLeases,
        process: Process,
        limit_seconds: float,
        on_error: Callable[[str, BaseException | None], None],
    ) -> None:
        self._process = process
        self._limit_seconds = limit_seconds
        self._on_error = on_error
        self._leases = leases
        self._stalled_since = 0.0
        self._renewing_seconds = 0.0
        self.list = leases.list
        self.delete = leases.delete
        self.stop = leases.stop
        self.check_writable = leases.check_writable

    def renew(self, replica: ReplicaId) -> None:
        process, schedule = self._process, self._process.schedule
        begun = schedule.now
        self._notice_stall()
        is_stalled = process.loop_stalled_until > begun and process.paused_until < self._stalled_since
        if is_stalled and begun - self._stalled_since - self._renewing_seconds > self._limit_seconds:
            self._on_error("a gateway whose event loop stalls", AssertionError("It still renews its lease."))
        try:
            self._leases.renew(replica)
        finally:
            self._notice_stall()
            self._renewing_seconds += schedule.now - max(begun, self._stalled_since)

    def _notice_stall(self) -> None:
        """Reset the measurement if another stall has begun. It may have begun during a renewal."""
        if self._process.loop_stalled_since != self._stalled_since:
            self._stalled_since, self._renewing_seconds = self._process.loop_stalled_since, 0.0


class GatewayProcess:
    """A simulated replica of the gateway.

    Args:
        process: Its process.
        config: Its settings.
        stores: The stores that it shares with other processes.
        on_error: Called with an error that nobody handles.
        before: The replica that it replaces; None if there was none.

    Attributes:
        gateway: The real gateway; None before the start.
        is_asked_to_stop: Whether `stop` was called.
    """

    def __init__(
        self,
        process: Process,
        config: GatewayConfig,
        stores: Stores,
        on_error: Callable[[str, BaseException | None], None],
        before: ReplicaId | None = None,
    ) -> None:
        self.process = process
        self.is_asked_to_stop = False
        self._before = before
        self._has_served = False
        self.loop = ModelLoop(process, on_error, self._is_fenced)
        self.server = ModelServer(on_error)
        self._config = config
        self._stores = stores
        self.gateway: Gateway | None = None
        self._on_error = on_error

    def start(self) -> None:
        """Start to serve, as a step of the process."""
        stores = self._stores
        limit_seconds = (UNRESPONSIVE_LEASES + 0.5) * self._config.lease_duration_seconds
        leases = _CheckedLeases(stores.leases, self.process, limit_seconds, self._on_error)
        self.gateway = Gateway(self._config, stores.records, leases, stores.locations, before=self._before)

        async def start() -> None:
            try:
                await self.gateway.start()
                self._has_served = True
            except (GatewayError, OSError):
                self.process.die()  # the world restarts it
            except Exception as error:  # noqa: BLE001 - the checker judges every unexpected error
                self._on_error("the start of a gateway", error)

        self.loop.call_soon(lambda: self.loop.create_task(start()))

    def stop(self, grace_seconds: float) -> None:
        """Stop as on SIGTERM."""
        self.is_asked_to_stop = True

        async def stop() -> None:
            await self.gateway.stop(grace_seconds)
            self.process.die()

        if self.server.is_open:
            self.loop.call_soon(lambda: self.loop.create_task(stop()))

    @property
    def replica(self) -> ReplicaId:
        return self.gateway.replica

    @property
    def latest_ready(self) -> ReplicaId | None:
        """This replica if it has been ready, else the one that it replaces, as the watcher of a gateway knows it."""
        return self.gateway.replica if self.gateway is not None and self._has_served else self._before

    @property
    def peers(self) -> Peers:
        return self.gateway._sessions.peers

    @property
    def is_serving(self) -> bool:
        return self.server.is_open and not self.process.is_dead

    def serve(self, method: str, request: bytes, outcome: Outcome) -> None:
        """Accept a client's call from the network."""
        if not self.is_serving:
            outcome.end((grpc.StatusCode.UNAVAILABLE, "The gateway does not listen."))
            return
        schedule = self.process.schedule
        schedule.at(schedule.now, lambda: self.loop.call_soon(self._begin, method, request, outcome), self.process)

    def _begin(self, method: str, request: bytes, outcome: Outcome) -> None:
        if self.server.is_open:
            self.server.begin(method, request, outcome)
        else:
            outcome.end((grpc.StatusCode.UNAVAILABLE, "The gateway is stopping."))

    def cancel_call(self, outcome: Outcome) -> None:
        """Cancel the call of a client that has disconnected, as gRPC does."""
        for task, each in list(self.server.calls.items()):
            if each is outcome:
                self.loop.call_soon(task.cancel)

    @property
    def is_handing_over(self) -> bool:
        """Whether the gateway stops, and hands over its statements."""
        return self.gateway is not None and self.gateway._drain.is_handing_over

    def has_interrupted(self, operation_id: str) -> bool:
        """Return whether the gateway interrupted the operation of a statement, but has not abandoned it."""
        operations = () if self.gateway is None else self.gateway._operations._by_key.values()
        return any(operation.id == operation_id and operation._interrupted for operation in operations)

    def sessions(self) -> dict[SessionKey, Session]:
        """Return the sessions that the gateway believes to serve."""
        if self.gateway is None or not hasattr(self.gateway, "_sessions"):
            return {}
        return {session.key: session for session in self.gateway._sessions.all()}

    def serves_with_lease(self, session_uuid: SessionUuid) -> bool:
        """Return whether the gateway serves a session under a lease that it deems valid."""
        session = next((each for each in self.sessions().values() if each.uuid == session_uuid), None)
        if session is None or self.process.is_dead:
            return False
        schedule = self.process.schedule
        before, schedule.process = schedule.process, self.process
        try:
            self.gateway._sessions.lease.require_joined(session)
        except GatewayError:
            return False
        finally:
            schedule.process = before
        return True

    def close_connections(self) -> None:
        """Fail all open calls, because the gateway has died."""
        for outcome in self.server.calls.values():
            outcome.end((grpc.StatusCode.UNAVAILABLE, "The connection was closed."))

    def close(self) -> None:
        self.loop.close()

    def _is_fenced(self) -> bool:
        """Return whether the gateway knows that its lease has lapsed."""
        if self.gateway is None or not hasattr(self.gateway, "_sessions"):
            return False
        return not self.gateway._sessions.lease.is_valid()

    def session_uuids(self) -> set[SessionUuid]:
        return {session.uuid for session in self.sessions().values()}
