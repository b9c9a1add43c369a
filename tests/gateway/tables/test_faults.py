"""Statements whose client, gateway or backend dies.

They are completed once, or leave nothing behind.
"""

import signal
import subprocess
import sys
import threading
import uuid

import grpc
import pytest
from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc

from tests.cluster.ports import free_port
from tests.gateway.killed_gateways import kill
from workspace.files.session_records import FileSessionRecords
from workspace.record_changes import find_table

ROWS = 20
TIMES = ("--lease-duration", "6s", "--grace-period", "1s")
"""Times for gateways whose lease may lapse: a slow machine must be able to renew it."""

TIME_TO_ADOPT = ("--lease-duration", "6s", "--grace-period", "60s")
"""Times for gateways that complete the statements of others.

The grace period is long, so that the reaper does not undo a statement first on a slow machine.
"""
WITH_SHORT_REATTACH = """
import sys
from gateway import backend_session
from lodge.cli import main
backend_session.REATTACH_SECONDS = 5.0
sys.exit(main())
"""


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


class Running:
    """A statement that runs in a thread."""

    def __init__(self, session, text):
        self.outcome = None
        self._thread = threading.Thread(target=self._run, args=(session, text), daemon=True)
        self._thread.start()

    def _run(self, session, text):
        try:
            self.outcome = [tuple(row) for row in session.sql(text).collect()]
        except Exception as error:  # noqa: BLE001 - a client without a server may raise anything
            self.outcome = error

    def join(self):
        self._thread.join(120)
        assert not self._thread.is_alive()
        return self.outcome


CREATED = "create temporary table t as select 0L id, '' s"


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        ([], f"create temporary table t as {slow()}", [("0_0", ROWS)], ROWS),
        ([CREATED], f"insert into t {slow()}", [], ROWS + 1),
        ([CREATED], f"insert overwrite t {slow()}", [], ROWS),
    ],
    ids=["creation", "insertion", "overwriting"],
)
def test_other_gateway_completes_statement_of_killed_gateway(start_lodge, spark_server, connect, wait_until, case):
    before, statement, answer, rows = case
    listen = ("--listen", f"127.0.0.1:{free_port()}")
    gateway = start_lodge(*listen, *TIMES, backend=spark_server)
    spark = connect(gateway)
    for each in before:
        spark.sql(each).collect()
    parts = len(tables_on_disk(gateway))
    running = Running(spark, statement)
    wait_until(lambda: len(writes_begun(gateway)) > parts, "the write has begun")
    kill(gateway)
    successor = start_lodge(*listen, *TIMES, backend=spark_server, beside=gateway)
    assert running.join() == answer
    assert spark.table("t").count() == rows
    assert spark.sql("select id from dfs.tmp.t").count() == rows
    assert "statement_taken_over" in successor.log()
    spark.stop()
    wait_until(lambda: not successor.locations() and not successor.records(), "nothing is left")


@pytest.mark.slow
def test_other_gateway_of_the_session_completes_write_of_killed_gateway(start_lodge, spark_server, connect, wait_until):
    gateway = start_lodge(*TIMES, backend=spark_server)
    survivor = start_lodge(*TIME_TO_ADOPT, backend=spark_server, beside=gateway, reaper="--reaper")
    spark = connect(gateway, user_id="eve")
    other = connect(survivor, user_id="eve", session_id=spark.session_id)
    other.sql("create temporary table kept as select 1 a").collect()
    Running(spark, f"create temporary table t as {slow()}")
    wait_until(lambda: len(writes_begun(gateway)) == 2, "the write has begun")
    kill(gateway)
    spark.client.close()
    wait_until(lambda: is_complete(survivor, "t"), "the other gateway has completed the write")
    assert other.table("dfs.tmp.t").count() == ROWS
    assert other.table("kept").collect()[0][0] == 1
    assert len(tables_on_disk(survivor)) == 2
    assert "unfinished_writes_undone" not in survivor.log()


@pytest.mark.slow
def test_statement_of_killed_gateway_is_completed_although_its_client_is_gone(
    start_lodge, spark_server, connect, wait_until
):
    gateway = start_lodge(*TIMES, backend=spark_server)
    survivor = start_lodge(*TIME_TO_ADOPT, backend=spark_server, beside=gateway, reaper="--reaper")
    spark = connect(gateway, user_id="nia")
    request = statement(spark, "nia", f"create temporary table t as {slow()}", is_reattachable=True)
    with grpc.insecure_channel(gateway.target) as channel:
        stream = base_pb2_grpc.SparkConnectServiceStub(channel).ExecutePlan(request)
        wait_until(lambda: writes_begun(gateway), "the write has begun")
        gateway.signal(signal.SIGKILL)
        gateway.process.wait()  # its lease lapses by itself
        stream.cancel()
    spark.client.close()
    wait_until(lambda: is_complete(survivor, "t"), "another gateway has completed the statement")
    assert reattached(survivor, request)[-1].HasField("result_complete")
    back = connect(survivor, user_id="nia", session_id=spark.session_id)
    assert back.table("t").count() == ROWS
    assert "session_adopted" in survivor.log()
    assert "session_reaped" not in survivor.log()


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


def test_repeated_operation_id_is_executed_once(start_lodge, lodge, spark_server, connect):
    replica = start_lodge(backend=spark_server, beside=lodge)
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
def test_reattach_at_other_replica_returns_answer(start_lodge, lodge, spark_server, connect, wait_until):
    replica = start_lodge(backend=spark_server, beside=lodge)
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
def test_paused_gateway_does_not_undo_statement_after_take_over(start_lodge, spark_server, connect, wait_until):
    paused = start_lodge(*TIMES, backend=spark_server)
    successor = start_lodge(*TIME_TO_ADOPT, backend=spark_server, beside=paused, reaper="--reaper")
    spark = connect(successor, user_id="kai")
    spark.sql("create temporary table other as select 1 a").collect()
    request = statement(spark, "kai", f"create temporary table t as {slow()}", is_reattachable=True)
    with grpc.insecure_channel(paused.target) as channel:
        stream = base_pb2_grpc.SparkConnectServiceStub(channel).ExecutePlan(request)
        wait_until(lambda: len(writes_begun(paused)) == 2, "the write has begun")
        paused.signal(signal.SIGSTOP)
        assert reattached(successor, request)[-1].HasField("result_complete")
        assert spark.table("t").count() == ROWS
        paused.signal(signal.SIGCONT)
        wait_until(lambda: stream_ended(stream), "the paused gateway has ended its statement")
    wait_until(lambda: spark.table("t").count() == ROWS, "the table has all rows")
    assert spark.sql("select count(*) from dfs.tmp.t").collect()[0][0] == ROWS
    assert len(tables_on_disk(successor)) == 2


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


def test_interrupt_by_id_works_at_other_replica(start_lodge, lodge, spark_server, connect, wait_until):
    replica = start_lodge(backend=spark_server, beside=lodge)
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


@pytest.mark.parametrize("statement", ["insert into t {}", "insert overwrite t {}"])
def test_interrupted_insertion_leaves_rows_unchanged(lodge, connect, wait_until, statement):
    spark = connect()
    spark.sql("create temporary table t as select 7L id, '' s").collect()
    parts = len(writes_begun(lodge))
    running = Running(spark, statement.format(slow(milliseconds=1000)))
    wait_until(lambda: len(writes_begun(lodge)) > parts, "the write has begun")
    interrupted = []
    wait_until(lambda: interrupted.extend(spark.interruptAll()) or interrupted, "an operation can be interrupted")
    assert "OPERATION_CANCELED" in str(running.join())
    assert [tuple(row) for row in spark.table("t").collect()] == [(7, "")]
    wait_until(lambda: len(writes_begun(lodge)) == parts, "the files are gone")
    spark.sql("insert into t values (8, '')").collect()
    assert spark.table("t").count() == 2


def stream_ended(stream):
    try:
        for _ in stream:
            pass
    except grpc.RpcError:
        pass
    return True


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
