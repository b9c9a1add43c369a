"""Concurrent statements of several sessions never exceed a quota (guarantees of gateway.tables.quotas)."""

import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from gateway.config import Limits
from gateway.errors import GatewayError
from gateway.tables.changes import Written, begin_write, publish, reserve, undo
from gateway.tables.quotas import Quotas, used_bytes
from workspace.files.session_records import FileSessionRecords
from workspace.identifiers import ClientSessionId, Principal, ReplicaId, SessionUuid, TableUuid
from workspace.record_changes import put_table, remove_table
from workspace.records import PendingWrite, Phase, SessionRecord, TableState, TemporaryTable, WriteKind

ADA = Principal("ada")
LIMIT = 3
SIZE_LIMIT = 100
REPLICA = ReplicaId("gateway-1")


class Records:
    """Session records in memory. Each call sees the current state, as the record store guarantees."""

    def __init__(self, records: Sequence[SessionRecord]) -> None:
        self.by_uuid = {record.session_uuid: record for record in records}

    async def of_principal(self, principal: Principal) -> list[SessionRecord]:
        return [record for record in self.by_uuid.values() if record.principal == principal]

    def change(self, uuid: SessionUuid, transition: Callable[[SessionRecord], SessionRecord]) -> SessionRecord:
        self.by_uuid[uuid] = transition(self.by_uuid[uuid])
        return self.by_uuid[uuid]


def a_record(number: int, tables: Sequence[TemporaryTable] = ()) -> SessionRecord:
    uuid = SessionUuid(f"session-{number}")
    return SessionRecord(uuid, ADA, ClientSessionId(uuid), "sc://h:1", Phase.ACTIVE, "", tables=tuple(tables))


def a_table(name: str, size_bytes: int = 0, state: TableState = TableState.READY) -> TemporaryTable:
    uuid = TableUuid(f"{name}-uuid")
    return TemporaryTable(name, uuid, state, "parquet", parts=(uuid,), size_bytes=size_bytes)


def a_session(record: SessionRecord) -> Any:
    return SimpleNamespace(key=SimpleNamespace(principal=ADA), uuid=record.session_uuid)


async def create(records: Records, quotas: Quotas, uuid: SessionUuid, name: str) -> AsyncIterator[None]:
    """Create a table, with a pause after each access to the records."""
    records.change(uuid, lambda record: put_table(record, a_table(name, state=TableState.CREATING)))
    yield
    try:
        await quotas.check_principal_tables(a_session(records.by_uuid[uuid]))
    except GatewayError:
        yield
        records.change(uuid, lambda record: remove_table(record, name))
        return
    yield
    records.change(uuid, lambda record: put_table(record, a_table(name)))


async def write(
    records: Records, quotas: Quotas, uuid: SessionUuid, pending: PendingWrite, size_bytes: int
) -> AsyncIterator[None]:
    """Write rows to table ``t``, with a pause after each access to the records."""
    (table,) = records.by_uuid[uuid].tables
    records.change(uuid, lambda record: begin_write(record, table, pending))
    yield
    record = records.change(uuid, lambda record: reserve(record, table, pending, size_bytes=size_bytes))
    yield
    check = quotas.size_check(a_session(record), pending)
    assert check is not None
    try:
        await check(record)
    except GatewayError:
        yield
        records.change(uuid, lambda record: undo(record, table, pending))
        return
    yield
    records.change(uuid, lambda record: publish(record, table, pending, Written(1, size_bytes)))


async def interleave(
    order: Sequence[int], statements: Sequence[AsyncIterator[None]], check: Callable[[], None]
) -> None:
    """Run the steps of statements in an order, and the rest one after the other."""
    for number in (*order, *(number for number in range(len(statements)) for _ in range(8))):
        await anext(statements[number], None)
        check()


def orders(statements: int, steps: int) -> Sequence[tuple[int, ...]]:
    return sorted(set(itertools.permutations(tuple(range(statements)) * steps)))


async def test_tables_never_exceed_the_quota() -> None:
    for order in orders(3, 3):
        await race_for_tables(order)


async def race_for_tables(order: Sequence[int]) -> None:
    tables = [a_table(f"old{number}") for number in range(LIMIT - 1)]
    records = Records([a_record(0, tables), a_record(1), a_record(2)])
    quotas = Quotas(Limits(principal_tables=LIMIT), records)  # type: ignore[arg-type] # a fake

    def ready() -> int:
        return sum(table.state is TableState.READY for record in records.by_uuid.values() for table in record.tables)

    def check() -> None:
        assert ready() <= LIMIT

    statements = [create(records, quotas, uuid, f"new{uuid}") for uuid in records.by_uuid]
    await interleave(order, statements, check)
    assert sum(len(record.tables) for record in records.by_uuid.values()) == ready(), (
        "a refused statement leaves nothing"
    )


@pytest.mark.parametrize("quota", ["principal_bytes", "session_bytes"])
@pytest.mark.parametrize(
    "kinds",
    [
        (WriteKind.INSERTION, WriteKind.INSERTION),
        (WriteKind.OVERWRITING, WriteKind.INSERTION),
        (WriteKind.OVERWRITING, WriteKind.OVERWRITING),
    ],
)
async def test_bytes_never_exceed_the_quota(kinds: Sequence[WriteKind], quota: str) -> None:
    for order in orders(2, 4):
        await race_for_bytes(kinds, order, quota)


async def race_for_bytes(kinds: Sequence[WriteKind], order: Sequence[int], quota: str) -> None:
    in_one_session = quota == "session_bytes"
    records = Records([a_record(0, [a_table("t", 30)]), a_record(1, [] if in_one_session else [a_table("t", 30)])])
    quotas = Quotas(Limits(**{quota: SIZE_LIMIT}), records)  # type: ignore[arg-type] # a fake

    def check() -> None:
        assert sum(table.size_bytes for record in records.by_uuid.values() for table in record.tables) <= SIZE_LIMIT

    uuids = [SessionUuid("session-0"), SessionUuid("session-0" if in_one_session else "session-1")]
    statements = [
        write(records, quotas, uuid, PendingWrite(TableUuid(f"w{number}"), f"op{number}", REPLICA, kind=kind), 60)
        for number, (uuid, kind) in enumerate(zip(uuids, kinds, strict=True))
    ]
    await interleave(order, statements, check)
    pending = [each for record in records.by_uuid.values() for table in record.tables for each in table.writes]
    assert all(each.is_published for each in pending), "a refused statement leaves nothing"


def test_rows_that_a_statement_replaces_count_for_others() -> None:
    overwriting = PendingWrite(TableUuid("w"), "w", REPLICA, kind=WriteKind.OVERWRITING, size_bytes=20)
    insertion = PendingWrite(TableUuid("i"), "i", REPLICA, size_bytes=5)
    record = a_record(0, [replace(a_table("t", 50), writes=(overwriting, insertion))])
    assert used_bytes([record]) == 55
    assert used_bytes([record], overwriting.directory) == 25
    assert used_bytes([record], insertion.directory) == 55


SESSIONS = 4
ROUNDS = 2


def run(spark: Any, statement: str) -> bool:
    """Return whether a statement was admitted."""
    try:
        spark.sql(statement).collect()
    except PySparkException as error:
        assert error.getCondition() == "LODGE_LIMIT_REACHED", error
        return False
    return True


@pytest.mark.slow
def test_sessions_that_race_for_a_quota_never_exceed_it(start_lodge: Any, spark_server: str, connect: Any) -> None:
    """Each of two gateways has two of the sessions."""
    limits = (f"--max-principal-tables={LIMIT}", "--max-principal-bytes=30000")
    first = start_lodge(*limits, backend=spark_server)
    started = [first, start_lodge(*limits, backend=spark_server, beside=first)]
    store = FileSessionRecords(first.root)
    sessions = [connect(started[number % 2], user_id="ada") for number in range(SESSIONS)]
    for spark in sessions:
        spark.conf.get("spark.app.name")  # starts the session

    def tables() -> Sequence[TemporaryTable]:
        return [table for stored in store.list() for table in stored.record.tables]

    def directories() -> set[str]:
        return {table.name for location in started[0].locations() for table in location.iterdir()}

    def race(statements: Sequence[str]) -> Sequence[bool]:
        with ThreadPoolExecutor(SESSIONS) as pool:
            admitted = list(pool.map(run, sessions, statements))
        assert len(tables()) <= LIMIT
        assert sum(table.size_bytes for table in tables()) <= 30_000
        assert not any(table.writes or table.state is not TableState.READY for table in tables())
        return admitted

    for _ in range(ROUNDS):
        admitted = race(["create temporary table t as select 1 a"] * SESSIONS)
        assert sum(admitted) == len(tables()) == len(directories())
        for spark, has_table in zip(sessions, admitted, strict=True):
            assert spark.catalog.tableExists("t") is has_table
            if has_table:
                spark.sql("drop table t").collect()
    for spark in sessions[:LIMIT]:
        assert run(spark, "create temporary table t (id bigint, u string)")
    for _ in range(ROUNDS):
        before = directories()
        rows = "select id, uuid() u from range(300)"  # about 13,000 bytes
        admitted = race([f"insert into t {rows}"] * LIMIT + ["select 1"])
        assert sum(admitted[:LIMIT]) <= 2
        assert [spark.table("t").count() for spark in sessions[:LIMIT]] == [300 * each for each in admitted[:LIMIT]]
        assert len(directories() - before) == sum(admitted[:LIMIT]), "a refused statement leaves no files"
        for spark in sessions[:LIMIT]:
            spark.sql("truncate table t").collect()
    for gateway in started:
        assert "Traceback" not in gateway.log()
