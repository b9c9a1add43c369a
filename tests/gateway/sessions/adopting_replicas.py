"""Several replicas in one process, which adopt the sessions of other replicas, and count their requests."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Self

from gateway.backends.backends import Backends
from gateway.blocking_work.storage import Storage
from gateway.sessions.adopter import Adopter
from gateway.sessions.record_watch import RecordWatch
from gateway.sessions.registry import Sessions
from gateway.sessions.session import Session
from tests.records import a_record
from workspace.identifiers import RecordName, ReplicaId
from workspace.leases import Leases
from workspace.locations import SessionLocations
from workspace.record_store import SessionRecords, StoredRecord
from workspace.records import SessionRecord

BACKEND = "sc://127.0.0.1:1"
DEADLINE_SECONDS = 120.0


class CountingRecords:
    """Session records of one replica, with the number of calls of each method."""

    def __init__(self, records: SessionRecords) -> None:
        self._records = records
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._records, name)

        def call(*arguments: Any, **keywords: Any) -> Any:
            self.calls[name] += 1
            return method(*arguments, **keywords)

        return call


@dataclass
class AdoptingReplica:
    """A replica that adopts sessions.

    Attributes:
        completed: The records that the replica received with sessions to complete.
    """

    sessions: Sessions
    adopter: Adopter
    records: CountingRecords
    completed: list[StoredRecord] = field(default_factory=list)

    @property
    def name(self) -> ReplicaId:
        return self.sessions.replica

    def served(self) -> set[RecordName]:
        return {session.record_name for session in self.sessions.all()}


class AdoptingReplicas:
    """A context manager that runs replicas.

    Args:
        open_records: Opens the records.
        leases: The leases.
        locations: The locations, which no test needs.
        lease_seconds: The lease duration of all replicas.
        patience_seconds: The patience of all replicas.
    """

    def __init__(
        self,
        open_records: Callable[[], SessionRecords],
        leases: Leases,
        locations: SessionLocations,
        *,
        lease_seconds: float = 30.0,
        patience_seconds: float = 5.0,
    ) -> None:
        self.open_records = open_records
        self.records = open_records()
        self.leases = leases
        self._locations = locations
        self._lease_seconds = lease_seconds
        self._patience_seconds = patience_seconds
        self._stack = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []
        self.all: list[AdoptingReplica] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for replica in self.all:
            await replica.sessions.leave_all(end=False)
        await self._stack.aclose()

    async def start(
        self, name: str, *, adopts: bool = True, watches: bool = False, lease_seconds: float | None = None
    ) -> AdoptingReplica:
        """Start a replica, which renews its lease until the end."""
        records = CountingRecords(self.open_records())
        storage = Storage(records, self.leases, self._locations)
        self._stack.push_async_callback(storage.close)
        backends = Backends([BACKEND])
        self._stack.push_async_callback(backends.close)
        sessions = Sessions(
            replica=ReplicaId(name),
            storage=storage,
            backends=backends,
            idle_timeout_seconds=600,
            lease_duration_seconds=lease_seconds or self._lease_seconds,
        )
        await sessions.renew_lease()
        sessions.start_renewing()
        completed: list[StoredRecord] = []

        def complete(_: Session, stored: StoredRecord) -> None:
            completed.append(stored)

        adopter = Adopter(sessions, storage, complete, patience_seconds=self._patience_seconds)
        replica = AdoptingReplica(sessions, adopter, records, completed)
        self.all.append(replica)
        if adopts:
            self._tasks.append(asyncio.create_task(adopter.run()))
        if watches:

            async def end_operations(_: Session) -> None: ...

            watch = RecordWatch(sessions, storage.records, end_operations, adopter)
            self._tasks.append(asyncio.create_task(watch.run()))
        return replica

    @asynccontextmanager
    async def renewed(self, replica: ReplicaId) -> AsyncIterator[None]:
        """Renew the lease of a replica that does not run here, until the context ends."""
        ended = asyncio.Event()

        async def renew() -> None:
            while not ended.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(ended.wait(), self._lease_seconds / 5)
                await asyncio.to_thread(self.leases.renew, replica)

        await asyncio.to_thread(self.leases.renew, replica)
        task = asyncio.create_task(renew())
        try:
            yield
        finally:
            ended.set()
            await task

    async def create(self, holder: str, count: int, first: int = 0, **parts: Any) -> list[SessionRecord]:
        """Create records of a replica that does not run here."""
        holders = frozenset({ReplicaId(holder)} if holder else ())
        created = [
            a_record(number, backend=BACKEND, holders=holders, **parts) for number in range(first, first + count)
        ]
        await asyncio.to_thread(lambda: [self.records.create(record) for record in created])
        return created

    def holders(self) -> dict[RecordName, frozenset[ReplicaId]]:
        return {stored.record.name: stored.record.holders for stored in self.records.list()}


async def until(condition: Callable[[], bool], what: str) -> None:
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not condition():  # noqa: ASYNC110 - no event says that another replica changed
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"Not within {DEADLINE_SECONDS} s: {what}") from None


async def adopt_sessions_of_killed_replica(replicas: AdoptingReplicas, *, sessions: int) -> None:
    """Kill one of five replicas, and check who adopts its sessions.

    The killed replica is one that never runs: it only has a lease and sessions.
    """
    killed = ReplicaId("killed")
    lost = {record.name for record in await replicas.create(killed, sessions)}
    others: dict[str, set[RecordName]] = {}
    for number in range(4):
        name = f"replica-{number}"
        records = await replicas.create(name, sessions, first=sessions * (number + 1))
        others[name] = {record.name for record in records}
    async with replicas.renewed(killed):  # so that all others know each other when they notice the loss
        for name in others:
            await replicas.start(name)
        bystander = await replicas.start("bystander", adopts=False)
    adopters = [replica for replica in replicas.all if replica is not bystander]
    for replica in replicas.all:
        replica.records.calls.clear()
    await until(lambda: set().union(*(each.served() for each in adopters)) == lost, "all sessions are adopted")

    holders = await asyncio.to_thread(replicas.holders)
    shares = {replica.name: replica.served() for replica in adopters}
    assert sum(map(len, shares.values())) == sessions, "each session has one adopter"
    for name, share in shares.items():
        assert len(share) > sessions / 4 / 3, "the sessions are spread"
        assert all(holders[session] == {name} for session in share)
    assert all(holders[session] == {name} for name, theirs in others.items() for session in theirs)
    requests = sum((Counter(replica.records.calls) for replica in adopters), Counter[str]())
    assert requests["replace"] == sessions, "each adoption is one change, and no change is refused"
    assert requests["list_held"] <= 3 * len(adopters)
    assert requests.total() <= 2 * sessions, requests
    assert not bystander.records.calls
