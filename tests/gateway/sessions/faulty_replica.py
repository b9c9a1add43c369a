"""A replica whose storage and backend can fail."""

import asyncio
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc

from gateway.errors import GatewayError
from gateway.messages.requests import SessionKey
from gateway.sessions.registry import Sessions
from tests.gateway.sessions.lease_clock import LeaseClock
from workspace.files.session_locations import FileSessionLocations
from workspace.files.session_records import FileSessionRecords
from workspace.identifiers import ClientSessionId, Principal, ReplicaId
from workspace.record_store import RecordsUnavailableError

LEASE_SECONDS = 600.0
DEADLINE_SECONDS = 60.0
OWN = ReplicaId("r1")


class FaultyRecords(FileSessionRecords):
    """Real records whose changes can fail, wait, or take effect without an answer.

    Attributes:
        reads: How often a record was read.
    """

    reads = 0
    is_unavailable = False
    loses_answers = False
    gate: threading.Event | None = None

    def read(self, name: Any) -> Any:
        found = super().read(name)
        self.reads += 1
        return found

    def create(self, record: Any) -> Any:
        return self._answer(super().create, record)

    def replace(self, record: Any, version: Any) -> Any:
        return self._answer(super().replace, record, version)

    def _answer(self, change: Callable[..., Any], *arguments: Any) -> Any:
        if self.gate is not None:
            assert self.gate.wait(DEADLINE_SECONDS)
        if self.is_unavailable:
            raise RecordsUnavailableError(None, "The storage is unavailable.")
        changed = change(*arguments)
        if self.loses_answers:
            raise RecordsUnavailableError(None, "The answer was lost.")
        return changed


class IdleBackend(grpc.GenericRpcHandler):
    """A backend on which no session has a running operation.

    Attributes:
        calls: The methods that were called.
        is_unreachable: Whether it answers all calls like a connection that fails.
        may_answer: Set when it answers.
    """

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.is_unreachable = False
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    def service(self, handler_call_details: Any) -> Any:
        self.calls.append(handler_call_details.method.rpartition("/")[2])

        async def answer(request: bytes, context: Any) -> bytes:
            await self.may_answer.wait()
            if self.is_unreachable:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "Connection refused")
            return b""

        return grpc.unary_unary_rpc_method_handler(answer)


@dataclass
class Replica:
    sessions: Sessions
    records: FaultyRecords
    locations: FileSessionLocations
    backend: IdleBackend
    clock: LeaseClock

    def lapse(self) -> None:
        """Let the lease lapse, which nothing renews here."""
        self.clock.seconds += LEASE_SECONDS

    def holders(self) -> list[set[str]]:
        return [set(stored.record.holders) for stored in self.records.list()]


def new_key() -> SessionKey:
    return SessionKey(Principal("ada"), ClientSessionId(str(uuid.uuid4())))


async def renew_until(replica: Replica, condition: Callable[[], bool], what: str) -> None:
    """Renew the lease until the condition holds."""
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not condition():
                await replica.sessions.renew_lease()
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"Not within {DEADLINE_SECONDS} s: {what}") from None


async def let_tasks_run() -> None:
    """Let each task run until it waits for another task, or for a storage that waits."""
    for _ in range(10):
        await asyncio.to_thread(int)
        await asyncio.sleep(0)


def may_act(replica: Replica, session: Any) -> bool:
    try:
        replica.sessions.lease.require_joined(session)
    except GatewayError as error:
        assert error.condition == "LODGE_LEASE_LOST"
        return False
    return True
