"""Statements whose client, gateway or backend dies.

They are completed once, or leave nothing behind.
"""

import shutil
import signal
import subprocess
import sys
import uuid
from dataclasses import replace

import grpc
import pytest
from pyspark.errors.exceptions.connect import SparkConnectException
from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc

from tests.cluster.ports import free_port
from tests.gateway.killed_gateways import kill
from tests.gateway.tables.held_statements import Running
from workspace.files.session_records import FileSessionRecords
from workspace.record_changes import find_table, put_table, update_record
from workspace.records import PendingDrop, TableState

ROWS = 20
TIMES = ("--lease-duration", "6s", "--grace-period", "1s")
"""Times for gateways whose lease may lapse: a slow machine must be able to renew it."""

TIME_TO_ADOPT = ("--lease-duration", "6s", "--grace-period", "60s")
"""Times for gateways that complete the statements of others.

The grace period is long, so that the reaper does not undo a statement first on a slow machine.
"""
WITH_SHORT_REATTACH = """
import sys
from gateway.backends import followed_operation
from lodge.cli import main
followed_operation.REATTACH_SECONDS = 5.0
sys.exit(main())
"""
WITHOUT_BACKEND = """
import sys
from gateway.backends.backend_session import BackendSession
from gateway.errors import GatewayError
from lodge.cli import main

async def drop_temp_view(self, name):
    raise GatewayError("LODGE_BACKEND_LOST", "08006", "The backend does not respond.")

BackendSession.drop_temp_view = drop_temp_view
sys.exit(main())
"""
"""A gateway whose backend does not respond when it is about to drop a view."""

WITH_STORAGE_THAT_GOES_AWAY = """
import os, sys
from gateway.tables import view_sync
from lodge.cli import main

root, order = sys.argv.pop(1), sys.argv.pop(1)
build_view = view_sync.build_view

def build_view_and_remove_the_storage(name, relation):
    if os.path.exists(order):
        os.remove(order)
        os.mkdir(root + ".empty")
        relation.project.input.read.data_source.paths[:] = [root + ".empty"]
        os.rename(root, root + ".away")
        os.mkdir(root)
    return build_view(name, relation)

view_sync.build_view = build_view_and_remove_the_storage
sys.exit(main())
"""
"""A gateway whose storage disappears while Spark lists the files of a table. Spark then finds none."""


def slow(milliseconds=200, rows=ROWS):
    """Return a query with one task that sleeps for a known time."""
    return f"select id, java_method('java.lang.Thread', 'sleep', {milliseconds} + id * 0) s from range(0, {rows}, 1, 1)"


def tables_on_disk(gateway):
    return [table for location in gateway.locations() for table in location.iterdir()]


def writes_begun(gateway):
    return [path for path in tables_on_disk(gateway) if list(path.rglob("part-*"))]


def is_complete(gateway, name):
    """Return whether a session record contains a complete table."""
    tables = (table for stored in FileSessionRecords(gateway.root).list() for table in stored.record.tables)
    return any(table.name == name and table.parts and not table.pending_changes for table in tables)


class ConcurrentWrites:
    """A creation, an insertion and an overwriting of a session that run at the same time.

    Args:
        session: The session.
        gateway: Its gateway.
        milliseconds: The time for each row. Spark runs the tasks of two of the statements at once.
    """

    def __init__(self, session, gateway, milliseconds):
        self._session, self._gateway = session, gateway
        for table in ("grown", "replaced"):
            session.sql(f"create temporary table {table} as select 0L id, '' s").collect()
        query = slow(milliseconds)
        statements = ("create temporary table created as", "insert into grown", "insert overwrite replaced")
        self._running = [Running(session, f"{statement} {query}") for statement in statements]

    def have_begun(self):
        """Return whether each statement has a directory, beside those of the tables, and two have rows."""
        return len(tables_on_disk(self._gateway)) == 5 and len(writes_begun(self._gateway)) >= 4

    def outcomes(self):
        return [running.outcome for running in self._running]

    def check(self):
        """Check the answers and the rows of the statements, when they have ended."""
        assert [running.join() for running in self._running] == [[("0_0", ROWS)], [], []]
        counts = ", ".join(f"(select count(id) from dfs.tmp.{table})" for table in ("created", "grown", "replaced"))
        assert tuple(self._session.sql(f"select {counts}").collect()[0]) == (ROWS, ROWS + 1, ROWS)
        assert self._session.table("created").count() == ROWS


@pytest.mark.slow
def test_other_gateway_completes_statement_of_killed_gateway(start_lodge, spark_server, connect, wait_until):
    listen = ("--listen", f"127.0.0.1:{free_port()}")
    gateway = start_lodge(*listen, *TIMES, backend=spark_server)
    spark = connect(gateway)
    writes = ConcurrentWrites(spark, gateway, 200)
    wait_until(writes.have_begun, "the writes have begun")
    kill(gateway)
    successor = start_lodge(*listen, *TIMES, backend=spark_server, beside=gateway)
    writes.check()
    assert successor.log().count("statement_taken_over") >= 3
    spark.stop()
    wait_until(lambda: not successor.locations() and not successor.records(), "nothing is left")


@pytest.mark.slow
def test_drop_that_another_gateway_cannot_complete_is_undone(start_lodge, spark_server, connect):
    """The client that reattaches receives an error, so the table must not disappear later."""
    gateway = start_lodge(*TIME_TO_ADOPT, backend=spark_server)
    spark = connect(gateway, user_id="kim")
    spark.sql("create temporary table t as select 1 a").collect()
    request = statement(spark, "kim", "drop table t", is_reattachable=True)
    schema = spark.table("t").schema.json()
    gateway.signal(signal.SIGKILL)
    gateway.process.wait()
    (record,) = records(gateway)
    (replica,) = record.holders
    drop = PendingDrop(request.operation_id, replica, schema)

    def begin_drop(record):
        return put_table(record, replace(record.tables[0], state=TableState.DROPPING, drop=drop))

    update_record(FileSessionRecords(gateway.root), record.name, begin_drop)
    successor = start_lodge(*TIME_TO_ADOPT, backend=spark_server, beside=gateway, program=["-c", WITHOUT_BACKEND])
    with pytest.raises(grpc.RpcError, match="LODGE_BACKEND_LOST"):
        reattached(successor, request)
    assert "statement_taken_over" in successor.log()
    back = connect(successor, user_id="kim", session_id=spark.session_id)
    assert back.table("dfs.tmp.t").collect() == back.table("t").collect() == [(1,)]


@pytest.mark.slow
def test_other_gateway_completes_writes_of_killed_gateway_although_clients_are_gone(
    start_lodge, spark_server, connect, wait_until
):
    """The other gateway serves one of the two sessions, and adopts the other one."""
    gateway = start_lodge(*TIMES, backend=spark_server)
    survivor = start_lodge(*TIME_TO_ADOPT, backend=spark_server, beside=gateway, reaper="--reaper")
    shared, lost = connect(gateway, user_id="eve"), connect(gateway, user_id="nia")
    kept = connect(survivor, user_id="eve", session_id=shared.session_id)
    kept.sql("create temporary table kept as select 1 a").collect()
    requests = [
        statement(shared, "eve", f"create temporary table t as {slow()}", is_reattachable=True),
        statement(lost, "nia", f"create temporary table u as {slow()}", is_reattachable=True),
    ]
    with grpc.insecure_channel(gateway.target) as channel:
        streams = [base_pb2_grpc.SparkConnectServiceStub(channel).ExecutePlan(request) for request in requests]
        wait_until(lambda: len(writes_begun(gateway)) == 3, "the writes have begun")
        gateway.signal(signal.SIGKILL)
        gateway.process.wait()  # its lease lapses by itself
        for stream in streams:
            stream.cancel()
    for table in ("t", "u"):
        wait_until(lambda table=table: is_complete(survivor, table), "the other gateway has completed the write")
    assert kept.table("dfs.tmp.t").count() == ROWS
    assert kept.table("kept").collect()[0][0] == 1
    assert reattached(survivor, requests[1])[-1].HasField("result_complete")
    back = connect(survivor, user_id="nia", session_id=lost.session_id)
    assert back.table("u").count() == ROWS
    assert len(tables_on_disk(survivor)) == 3
    assert "session_adopted" in survivor.log()
    assert "session_reaped" not in survivor.log()
    assert "unfinished_writes_undone" not in survivor.log()


@pytest.mark.slow
def test_killed_backend_leaves_no_name_and_no_file(start_lodge, start_spark, wait_until, tmp_path):
    backend = start_spark(tmp_path)
    options = (*TIMES, "--session-idle-timeout", "2s")
    program = ("-c", WITH_SHORT_REATTACH)
    gateway = start_lodge(*options, backend=backend.address, reaper="--reaper", program=program)
    request = base_pb2.ExecutePlanRequest(session_id=str(uuid.uuid4()), operation_id=str(uuid.uuid4()))
    request.request_options.add().reattach_options.reattachable = True
    request.plan.command.sql_command.input.sql.query = f"create temporary table t as {slow(milliseconds=1000)}"
    with grpc.insecure_channel(gateway.target) as channel:
        stream = base_pb2_grpc.SparkConnectServiceStub(channel).ExecutePlan(request)
        wait_until(lambda: writes_begun(gateway), "the write has begun")
        backend.process.kill()
        with pytest.raises(grpc.RpcError, match="LODGE_BACKEND_LOST") as raised:
            list(stream)
        assert raised.value.code() is grpc.StatusCode.INTERNAL  # no client retries this code
    wait_until(lambda: not tables_on_disk(gateway), "the files are gone")
    wait_until(lambda: not gateway.locations() and not gateway.records(), "nothing is left")
    assert "Traceback" not in gateway.log()


def test_statement_in_session_unknown_to_backend_starts_no_session(start_lodge, spark_server, wait_until):
    gateway = start_lodge(backend=spark_server)
    request = base_pb2.ExecutePlanRequest(session_id=str(uuid.uuid4()), operation_id=str(uuid.uuid4()))
    request.client_observed_server_side_session_id = str(uuid.uuid4())
    request.plan.command.sql_command.input.sql.query = "create temporary table t as select 1 a"
    with pytest.raises(grpc.RpcError, match=r"INVALID_HANDLE\.SESSION_"):
        executed(gateway, request)
    wait_until(lambda: not gateway.records() and not gateway.locations(), "no session exists")


@pytest.mark.slow
def test_killed_client_leaves_no_name_and_no_file(start_lodge, spark_server, wait_until):
    gateway = start_lodge(*TIMES, "--detached-timeout", "1s", backend=spark_server)
    program = (
        "from pyspark.sql.connect.session import SparkSession\n"
        f"spark = SparkSession.builder.remote('{gateway.address}').create()\n"
        f"spark.sql('''create temporary table t as {slow(milliseconds=1000)}''')\n"
    )
    client = subprocess.Popen([sys.executable, "-c", program])
    wait_until(lambda: writes_begun(gateway), "the write has begun")
    client.kill()
    client.wait()
    wait_until(lambda: not tables_on_disk(gateway), "the files are gone")
    wait_until(lambda: not any(find_table(record, "t") for record in records(gateway)), "the name is free")


@pytest.fixture(scope="module")
def replica(start_lodge, lodge, spark_server):
    """Another gateway of the workspaces of the shared one."""
    return start_lodge(backend=spark_server, beside=lodge)


@pytest.mark.slow
def test_table_is_not_empty_because_the_storage_was_away(start_lodge, spark_server, connect, tmp_path, wait_until):
    root, order = tmp_path / "tmp", tmp_path / "order"
    (tmp_path / "files").mkdir()
    program = ["-c", WITH_STORAGE_THAT_GOES_AWAY, str(root), str(order)]
    gateway = start_lodge(backend=spark_server, program=program, places=(root, tmp_path / "files"))
    spark = connect(gateway)
    spark.sql("create temporary table kept as select 1 a").collect()
    for table, statement in (
        ("new", "create temporary table new as select 7 a, array(named_struct('x y', 1.5)) b"),
        ("kept", "insert into kept values (2)"),
    ):
        order.touch()
        with pytest.raises(SparkConnectException, match="LODGE_S"):
            spark.sql(statement).collect()
        for query in (f"select * from {table}", f"select count(*) from {table}", f"select 1 from {table} limit 1"):
            with pytest.raises(SparkConnectException, match=rf"temporary table \[{table}\] was absent"):
                spark.sql(query).collect()
        root.rmdir()
        (tmp_path / "tmp.away").rename(root)
        (tmp_path / "tmp.empty").rmdir()
    kept = ([(1,)], [(1,), (2,)])
    wait_until(lambda: rows_or_condition(spark, "kept") in kept, "the table can be read again")
    wait_until(lambda: rows_or_condition(spark, "new") != "USER_RAISED_EXCEPTION", "the other table is repaired")
    assert rows_or_condition(spark, "new") in ([(7, [(1.5,)])], "TABLE_OR_VIEW_NOT_FOUND")
    assert "Traceback" not in gateway.log()


@pytest.mark.slow
def test_rows_that_were_written_to_other_storage_are_missed(start_lodge, spark_server, connect, tmp_path, wait_until):
    root, away, other = tmp_path / "tmp", tmp_path / "tmp.away", tmp_path / "tmp.other"
    (tmp_path / "files").mkdir()
    places = (root, tmp_path / "files")
    gateway = start_lodge("--writable-workspace", "dfs", backend=spark_server, places=places)
    spark = connect(gateway)
    spark.sql("create temporary table kept using csv as select 1L id, '2' s").collect()
    # One task runs all the time, and the others one after the other. Each of them writes one row.
    milliseconds = "if(id = 1, 4500, if(id = 0, 0, 1200)) + id * 0"
    query = f"select id, java_method('java.lang.Thread', 'sleep', {milliseconds}) s from range(0, 5, 1, 5)"

    def is_written(task):
        # Spark creates this file after the file with the rows, and then makes both private.
        return lambda: any(each.stat().st_mode & 0o777 == 0o600 for each in root.rglob(f".part-0000{task}-*.crc"))

    for statement in (
        f"create temporary table new as {query}",
        f"insert into kept {query}",
        f"create table dfs.new as {query}",
    ):
        running = Running(spark, statement)
        wait_until(is_written(task=1), "the second task writes")
        wait_until(is_written(task=2), "the third task writes")
        root.rename(away)
        root.mkdir()
        wait_until(is_written(task=3), "the fourth task writes to the other storage")
        root.rename(other)
        away.rename(root)
        assert "[LODGE_ROWS_DIFFER] The backend wrote 5 rows" in str(running.join())
        shutil.rmtree(other)
        wait_until(lambda: not is_written(task=1)(), "the files are gone")
    assert rows_or_condition(spark, "kept") == [(1, "2")]
    assert rows_or_condition(spark, "new") == rows_or_condition(spark, "dfs.new") == "TABLE_OR_VIEW_NOT_FOUND"
    assert "Traceback" not in gateway.log()


def rows_or_condition(spark, name):
    try:
        return sorted(tuple(row) for row in spark.table(name).collect())
    except SparkConnectException as error:
        return error.getCondition()


def test_repeated_operation_id_is_executed_once(lodge, replica, connect):
    spark = connect(user_id="gil")
    spark.range(1).collect()
    request = statement(spark, "gil", "create temporary table once as select 1 a")
    first = executed(lodge, request)
    with pytest.raises(grpc.RpcError) as raised:
        executed(lodge, request)
    assert "OPERATION_ALREADY_EXISTS" in str(raised.value)
    again = executed(replica, request)
    assert [r.sql_command_result for r in again if r.HasField("sql_command_result")] == [
        r.sql_command_result for r in first if r.HasField("sql_command_result")
    ]
    assert spark.sql("show temporary tables").count() == 1
    assert len(list(location_of(lodge, spark).iterdir())) == 1


@pytest.mark.slow
def test_reattach_at_other_replica_returns_answer(lodge, replica, connect, wait_until):
    spark = connect(user_id="hal")
    before = len(writes_begun(lodge))
    request = statement(spark, "hal", f"create temporary table far as {slow(milliseconds=100)}", is_reattachable=True)
    with grpc.insecure_channel(lodge.target) as channel:
        stream = base_pb2_grpc.SparkConnectServiceStub(channel).ExecutePlan(request)
        wait_until(lambda: len(writes_begun(lodge)) > before, "the write has begun")
        stream.cancel()
    responses = reattached(replica, request)
    assert [r.WhichOneof("response_type") for r in responses][-2:] == ["sql_command_result", "result_complete"]
    assert spark.table("far").count() == ROWS


@pytest.mark.slow
def test_reattach_to_undone_statement_fails(start_lodge, spark_server, connect, wait_until):
    gateway = start_lodge(*TIMES, backend=spark_server)
    survivor = start_lodge(*TIME_TO_ADOPT, backend=spark_server, beside=gateway, reaper="--reaper")
    spark = connect(survivor, user_id="lea")
    spark.sql("create temporary table kept as select 1 a").collect()
    request = statement(spark, "lea", f"create temporary table t as {slow()}", is_reattachable=True)
    with grpc.insecure_channel(gateway.target) as channel:
        stream = base_pb2_grpc.SparkConnectServiceStub(channel).ExecutePlan(request)
        wait_until(lambda: len(writes_begun(gateway)) == 2, "the write has begun")
        kill(gateway)
        stream.cancel()
    interrupt = base_pb2.InterruptRequest(
        session_id=spark.session_id, interrupt_type=base_pb2.InterruptRequest.INTERRUPT_TYPE_ALL
    )
    interrupt.user_context.user_id = "lea"
    with grpc.insecure_channel(spark_server.removeprefix("sc://")) as channel:
        base_pb2_grpc.SparkConnectServiceStub(channel).Interrupt(interrupt, timeout=60)
    wait_until(lambda: len(tables_on_disk(survivor)) == 1, "the other gateway has undone the statement")
    with pytest.raises(grpc.RpcError):
        reattached(survivor, request)
    assert not spark.catalog.tableExists("t")
    spark.sql(f"create temporary table t as {slow(0)}").collect()
    assert spark.table("t").count() == ROWS


def test_interrupt_by_id_works_at_other_replica(lodge, replica, connect, wait_until):
    spark = connect(user_id="mia")
    before = len(writes_begun(lodge))
    request = statement(spark, "mia", f"create temporary table t as {slow(milliseconds=1000)}")
    interrupt = base_pb2.InterruptRequest(
        session_id=spark.session_id,
        interrupt_type=base_pb2.InterruptRequest.INTERRUPT_TYPE_OPERATION_ID,
        operation_id=request.operation_id,
    )
    interrupt.user_context.user_id = "mia"
    with grpc.insecure_channel(lodge.target) as channel, grpc.insecure_channel(replica.target) as other:
        stream = base_pb2_grpc.SparkConnectServiceStub(channel).ExecutePlan(request)
        wait_until(lambda: len(writes_begun(lodge)) > before, "the write has begun")
        answer = base_pb2_grpc.SparkConnectServiceStub(other).Interrupt(interrupt, timeout=60)
        assert list(answer.interrupted_ids) == [request.operation_id]
        with pytest.raises(grpc.RpcError, match="OPERATION_CANCELED"):
            list(stream)
    wait_until(lambda: len(writes_begun(lodge)) == before, "the files are gone")


def statement(spark, user_id, query, *, is_reattachable=False):
    """Return a client's request to execute a statement."""
    request = base_pb2.ExecutePlanRequest(session_id=spark.session_id, operation_id=str(uuid.uuid4()))
    request.user_context.user_id = user_id
    if is_reattachable:
        request.request_options.add().reattach_options.reattachable = True
    request.plan.command.sql_command.input.sql.query = query
    return request


def reattached(gateway, request):
    """Return the responses to a client that reattaches to the operation of a request."""
    reattach = base_pb2.ReattachExecuteRequest(session_id=request.session_id, operation_id=request.operation_id)
    reattach.user_context.CopyFrom(request.user_context)
    with grpc.insecure_channel(gateway.target) as channel:
        return list(base_pb2_grpc.SparkConnectServiceStub(channel).ReattachExecute(reattach, timeout=60))


def executed(gateway, request):
    with grpc.insecure_channel(gateway.target) as channel:
        return list(base_pb2_grpc.SparkConnectServiceStub(channel).ExecutePlan(request, timeout=60))


def records(gateway):
    return [stored.record for stored in FileSessionRecords(gateway.root).list()]


def location_of(gateway, spark):
    spark.sql("create temporary table here as select 1 a").collect()
    path = spark.table("here").inputFiles()[0].removeprefix("file://")
    spark.sql("drop table here").collect()
    return next(location for location in gateway.locations() if location.name in path)


@pytest.mark.slow
def test_failed_undo_is_retried_until_name_is_free(start_lodge, spark_server, connect, wait_until):
    gateway = start_lodge("--lease-duration", "60s", backend=spark_server)
    spark = connect(gateway)
    running = Running(spark, f"create temporary table t as {slow(milliseconds=100)}")
    wait_until(lambda: writes_begun(gateway), "the write has begun")
    records = gateway.root / ".lodge" / "sessions"
    away = records.rename(records.with_name("sessions.away"))
    wait_until(lambda: "statement_undo_left" in gateway.log(), "neither the outcome nor the undo can be written")
    away.rename(records)
    assert isinstance(running.join(), Exception)
    wait_until(
        lambda: '"statement_undone"' in gateway.log() or "statement_undone " in gateway.log(),
        "the retry has undone the statement",
    )
    wait_until(lambda: not tables_on_disk(gateway), "the files are gone")
    spark.sql("create temporary table t as select 1 a").collect()
    assert spark.table("t").collect()[0][0] == 1
