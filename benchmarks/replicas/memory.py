"""The memory that an idle session costs a gateway and the reaper.

Each measurement runs in a process of its own. The figure is the growth of the resident memory after garbage
collection, divided by the number of sessions, between a few sessions and all of them. All objects are real:

- *Gateway*: sessions that ``Sessions.open`` starts, from requests that the gateway decodes, with session records as
  files and a watch of the records.
- *Reaper*: records in a cache, session locations with two tables each, and the history of several passes.

    python -m benchmarks.replicas.memory [--sessions N] [gateway | reaper]
"""

import argparse
import asyncio
import gc
import os
import subprocess
import sys
import tempfile
import threading
import time
import tracemalloc
import uuid
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import structlog
from pyspark.sql.connect.proto import base_pb2

from benchmarks.pass_through import resident_bytes
from gateway.admission.limits import AdmissionLimits
from gateway.admission.session_quota import SessionQuota
from gateway.backends.backends import Backends
from gateway.blocking_work.storage import Storage
from gateway.messages.requests import SessionKey, index_request
from gateway.operations.operations import Operations
from gateway.sessions.record_watch import RecordWatch
from gateway.sessions.registry import Sessions
from reaper.cached_records import CachedRecords
from reaper.reaper import Reaper, ReaperDependencies
from workspace.files.leases import FileLeases
from workspace.files.session_locations import FileSessionLocations
from workspace.files.session_records import FileSessionRecords
from workspace.identifiers import ClientSessionId, Principal, ReplicaId, SessionUuid, TableUuid
from workspace.record_store import RecordsEvent, RecordsListed
from workspace.records import Answer, Phase, SessionRecord, TableState, TemporaryTable

MAX_GATEWAY_BYTES = 6_000
MAX_REAPER_BYTES = 8_000
FIRST_SESSIONS = 500
SESSIONS_PER_PRINCIPAL = 100
DEADLINE_SECONDS = 600.0
IN_MEMORY = "/dev/shm"  # noqa: S108 - used only for directories with random names; 50,000 records need many writes
THREADS = 8
BATCH = 100
PASSES = 3
TRACED_LINES = 40
HOLDER = ReplicaId("gateway-0123456789ab")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("process", nargs="?", choices=["gateway", "reaper"], help="by default, both in turn")
    parser.add_argument("--sessions", type=int, default=50_000)
    parser.add_argument("--trace", action="store_true", help="print which lines allocated the memory")
    arguments = parser.parse_args()
    if arguments.process is None:
        bench_memory(arguments.sessions)
        return
    measure = {"gateway": measure_gateway, "reaper": measure_reaper}[arguments.process]
    with tempfile.TemporaryDirectory(
        prefix="lodge-bench-", dir=IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None
    ) as root:
        print(measure(Path(root), arguments.sessions, trace=arguments.trace))


def bench_memory(sessions: int) -> None:
    for process, limit in (("gateway", MAX_GATEWAY_BYTES), ("reaper", MAX_REAPER_BYTES)):
        cost = measure_in_process(process, sessions)
        print(
            f"memory of an idle session in the {process}, with {sessions}: {cost:.0f} bytes (aim: at most {limit})",
            flush=True,
        )


def measure_in_process(process: str, sessions: int) -> float:
    """Return the bytes for each session, measured in a new process."""
    command = [sys.executable, "-m", "benchmarks.replicas.memory", process, "--sessions", str(sessions)]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()[-1])


def measure_gateway(root: Path, sessions: int, *, trace: bool = False) -> float:
    return asyncio.run(_measure_gateway(root, sessions, trace=trace))


async def _measure_gateway(root: Path, sessions: int, *, trace: bool) -> float:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    locations = FileSessionLocations(root)
    locations.initialise()
    records = _WatchedRecords(root)
    storage = Storage(records, FileLeases(root), locations)
    backends = Backends(["sc://127.0.0.1:1"])
    limits = AdmissionLimits(max_sessions=2 * sessions, new_sessions_per_minute=10**9)
    registry = Sessions(
        replica=HOLDER,
        storage=storage,
        backends=backends,
        idle_timeout_seconds=86_400,
        lease_duration_seconds=86_400,
        quota=SessionQuota(limits),
    )
    await registry.renew_lease()
    operations = Operations(300)

    @asynccontextmanager
    async def open_and_watch(number: int) -> AsyncIterator[None]:
        """Open sessions until there are this number, and watch their records for the duration of the block."""
        for start in range(registry.count, number, BATCH):
            keys = [_decoded_key(index) for index in range(start, min(start + BATCH, number))]
            await asyncio.gather(*map(registry.open, keys))
        watch = RecordWatch(registry, records, lambda session: operations.end_session(session.key))
        watching = asyncio.create_task(watch.run())
        await asyncio.to_thread(records.wait_for_reports, number)
        yield
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)

    async with open_and_watch(FIRST_SESSIONS):
        growth = _Growth(trace=trace)
    async with open_and_watch(sessions):
        growth_bytes = growth.end()
    assert registry.count == sessions
    await backends.close()
    await storage.close()
    return growth_bytes / (sessions - FIRST_SESSIONS)


class _WatchedRecords(FileSessionRecords):
    """Session records as files that count the records that a watch has reported."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._reported = 0
        self._changed = threading.Condition()

    def watch(self, stop: threading.Event, replica: ReplicaId | None = None) -> Iterator[RecordsEvent]:
        self._reported = 0
        for event in super().watch(stop, replica):
            yield event
            with self._changed:
                self._reported += len(event.records) if isinstance(event, RecordsListed) else 1
                self._changed.notify_all()

    def wait_for_reports(self, number: int) -> None:
        """Wait until the watch has reported at least this number of records."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._reported >= number, DEADLINE_SECONDS)


def measure_reaper(root: Path, sessions: int, *, trace: bool = False) -> float:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    locations = FileSessionLocations(root)
    locations.initialise()
    records = FileSessionRecords(root)

    def write(numbers: range) -> None:
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(lambda index: _write_session(records, locations, index), numbers))

    write(range(FIRST_SESSIONS))
    with _observe(root, records, locations, FIRST_SESSIONS):
        growth = _Growth(trace=trace)
    write(range(FIRST_SESSIONS, sessions))
    with _observe(root, records, locations, sessions):
        return growth.end() / (sessions - FIRST_SESSIONS)


@contextmanager
def _observe(
    root: Path, records: FileSessionRecords, locations: FileSessionLocations, sessions: int
) -> Iterator[Reaper]:
    """Watch the records for the duration of the block, which begins after several passes of a reaper."""
    leases = FileLeases(root)
    leases.renew(HOLDER)
    cache = CachedRecords(records, resync_seconds=86_400.0, monotonic=time.monotonic, log=structlog.get_logger())
    reaper = Reaper(
        records=records,
        leases=leases,
        locations=locations,
        lease_duration_seconds=86_400.0,
        grace_period_seconds=60.0,
        storage_period_seconds=10.0,
        monotonic=time.monotonic,
        log=structlog.get_logger(),
        dependencies=ReaperDependencies(read_records=cache.read),
    )
    with cache.watch(lambda: None):
        cache.wait_for_first_list(DEADLINE_SECONDS)
        for _ in range(PASSES):
            assert reaper.make_pass()
        assert reaper.last_pass is not None
        assert len(reaper.last_pass.snapshot.records) == sessions
        yield reaper


class _Growth:
    """The growth of the resident memory since the object was created."""

    def __init__(self, *, trace: bool) -> None:
        self._trace = trace
        gc.collect()
        if trace:
            tracemalloc.start()
        self._before = resident_bytes()

    def end(self) -> float:
        """Return the growth in bytes. With ``trace``, it contains only objects of Python, whose origins are printed."""
        gc.collect()
        if not self._trace:
            return resident_bytes() - self._before
        snapshot = tracemalloc.take_snapshot()
        for each in snapshot.statistics("lineno")[:TRACED_LINES]:
            print(each)
        return sum(each.size for each in snapshot.statistics("filename"))


def _decoded_key(index: int) -> SessionKey:
    """Return the key of a session as the gateway decodes it from a request."""
    request = base_pb2.ConfigRequest(session_id=str(uuid.UUID(int=index)))
    request.user_context.user_id = f"user-{index // SESSIONS_PER_PRINCIPAL}@example.com"
    return index_request(request.SerializeToString(), "Config").to_request(None).key


def _write_session(records: FileSessionRecords, locations: FileSessionLocations, index: int) -> None:
    """Store a session with two temporary tables."""
    tables = tuple(_table(f"table_{number}") for number in range(2))
    session_uuid = SessionUuid(str(uuid.uuid4()))
    record = SessionRecord(
        session_uuid=session_uuid,
        principal=Principal(f"user-{index // SESSIONS_PER_PRINCIPAL}@example.com"),
        client_session_id=ClientSessionId(str(uuid.uuid4())),
        backend="sc://spark-0.spark.default.svc:15002",
        phase=Phase.ACTIVE,
        created_at="2026-01-01T00:00:00+00:00",
        holders=frozenset({HOLDER}),
        tables=tables,
        answers=tuple(
            Answer(str(uuid.uuid4()), (("Fragment", "0_0"), ("Number of records written", 1000))) for _ in tables
        ),
    )
    location = locations.create(session_uuid)
    for table in tables:
        (Path(str(location)) / table.uuid).mkdir()
    records.create(record)


def _table(name: str) -> TemporaryTable:
    table = TableUuid(str(uuid.uuid4()))
    return TemporaryTable(
        name,
        table,
        TableState.READY,
        "parquet",
        (table,),
        rows=1000,
        size_bytes=1024,
        created_at="2026-01-01T00:00:00Z",
    )


if __name__ == "__main__":
    main()
