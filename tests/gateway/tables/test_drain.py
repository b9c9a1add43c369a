"""Gateways that are asked to stop. No statement is lost, and none is executed twice."""

import os
import signal
import time
import uuid
from contextlib import ExitStack

import grpc
import pytest
from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc
from pyspark.sql.connect.session import SparkSession
from pyspark.sql.types import LongType

from tests.gateway.tables.gateway_service import GatewayService
from tests.gateway.tables.held_statements import Running
from tests.gateway.tables.test_faults import ROWS, ConcurrentWrites, slow, tables_on_disk, writes_begun

pytestmark = pytest.mark.slow

LEASE_SECONDS = 15
TIMES = ("--lease-duration", f"{LEASE_SECONDS}s")
STREAMED = 20


@pytest.fixture
def connect_through_service():
    """Return a function that starts a service for a gateway, and connects a client to it."""
    with ExitStack() as stack:

        def connect(gateway):
            service = stack.enter_context(GatewayService(gateway))
            session = SparkSession.builder.remote(service.address).create()
            stack.callback(session.client.close)
            return service, session

        yield connect


def stop(gateway):
    """Ask a gateway to stop, and wait until it has."""
    gateway.signal(signal.SIGTERM)
    gateway.process.wait(150)


def require_table(running, spark):
    """Check that a running statement creates the table ``t``, and end the session."""
    assert running.join() == [("0_0", ROWS)]
    assert spark.table("t").count() == ROWS
    spark.stop()


def test_other_gateway_completes_the_write_of_a_stopped_gateway(
    start_lodge, spark_server, connect_through_service, wait_until
):
    gateway = start_lodge(*TIMES, backend=spark_server)
    peer = start_lodge(*TIMES, backend=spark_server, beside=gateway)
    service, spark = connect_through_service(gateway)
    writes = ConcurrentWrites(spark, gateway, 300)
    wait_until(writes.have_begun, "the writes have begun")
    service.close()
    stop(gateway)
    assert writes.outcomes() == [None] * 3, "the gateway did not wait for the statements"
    service.forward_to(peer)
    writes.check()
    assert gateway.log().count("statement_handed_over") >= 3
    assert peer.log().count("statement_taken_over") >= 3
    assert len(tables_on_disk(peer)) == 4, "the table that grew has two directories, and each other table has one"
    spark.stop()
    wait_until(lambda: not peer.locations() and not peer.records(), "nothing is left")


def test_stream_of_results_continues_at_another_gateway(
    start_lodge, spark_server, connect_through_service, tmp_path, wait_until
):
    gateway = start_lodge(*TIMES, backend=spark_server)
    peer = start_lodge(*TIMES, backend=spark_server, beside=gateway)
    service, spark = connect_through_service(gateway)
    waits, may_end = tmp_path / "waits", tmp_path / "may_end"

    def wait(row_id):
        if row_id >= STREAMED // 2:
            waits.touch()
            end_seconds = time.monotonic() + 300
            while not may_end.exists() and time.monotonic() < end_seconds:
                time.sleep(0.1)
        return row_id

    spark.udf.register("wait", wait, LongType())
    running = Running(spark, f"select wait(id) from range(0, {STREAMED}, 1, {STREAMED})")
    wait_until(waits.exists, "the first half of the tasks has ended")
    service.close()
    stop(gateway)
    assert running.outcome is None, "the gateway did not wait for the statement"
    may_end.touch()
    service.forward_to(peer)
    assert [row[0] for row in running.join()] == list(range(STREAMED))
    spark.stop()


def test_single_gateway_finishes_the_statement_before_it_stops(
    start_lodge, spark_server, connect_through_service, wait_until
):
    gateway = start_lodge(*TIMES, backend=spark_server)
    service, spark = connect_through_service(gateway)
    running = Running(spark, f"create temporary table t as {slow(200)}")
    wait_until(lambda: writes_begun(gateway), "the write has begun")
    service.close()
    stop(gateway)
    assert "temporary_table_created" in gateway.log()
    assert "statement_handed_over" not in gateway.log()
    successor = start_lodge(*TIMES, backend=spark_server, beside=gateway)
    service.forward_to(successor)
    require_table(running, spark)
    wait_until(lambda: not successor.locations() and not successor.records(), "nothing is left")


def test_stopping_gateway_whose_lease_lapsed_hands_over(start_lodge, spark_server, connect_through_service, wait_until):
    """It is frozen while the backend completes the write and its own lease lapses, so it may not publish the rows."""
    gateway = start_lodge(*TIMES, "--drain-timeout", "8s", "--stall-limit", "100s", backend=spark_server)
    service, spark = connect_through_service(gateway)
    running = Running(spark, f"create temporary table t as {slow(100)}")
    wait_until(lambda: writes_begun(gateway), "the write has begun")
    service.close()
    gateway.signal(signal.SIGTERM)
    wait_until(lambda: "gateway_draining" in gateway.log(), "the gateway stops")
    os.kill(frozen := gateway.gateway_pid, signal.SIGSTOP)
    frozen_seconds = time.monotonic()
    wait_until(
        lambda: time.monotonic() > frozen_seconds + LEASE_SECONDS and any(gateway.root.rglob("_SUCCESS")),
        "the lease has lapsed, and the rows are written",
    )
    os.kill(frozen, signal.SIGCONT)
    gateway.process.wait(150)
    assert "statement_handed_over" in gateway.log()
    successor = start_lodge(*TIMES, backend=spark_server, beside=gateway)
    service.forward_to(successor)
    require_table(running, spark)
    wait_until(lambda: not successor.locations() and not successor.records(), "nothing is left")


@pytest.mark.parametrize("case", [("100s", "finished"), ("3s", "undone")], ids=lambda case: case[1])
def test_permanent_table_is_finished_or_undone(start_lodge, spark_server, connect_through_service, wait_until, case):
    drain, ends = case
    options = ("--writable-workspace", "dfs", "--drain-timeout", drain)
    gateway = start_lodge(*TIMES, *options, backend=spark_server)
    peer = start_lodge(*TIMES, *options, backend=spark_server, beside=gateway)
    service, spark = connect_through_service(gateway)
    running = Running(spark, f"create table dfs.p as {slow(400)}")
    wait_until(lambda: writes_begun(gateway), "the write has begun")
    service.close()
    stop(gateway)
    service.forward_to(peer)
    outcome = running.join()
    if ends == "finished":
        assert outcome == [("0_0", ROWS)]
        assert spark.sql("select * from dfs.p").count() == ROWS
    else:
        was_sent_again = outcome == [("0_0", ROWS)]  # clients do this if they have not received a response
        assert was_sent_again or "LODGE_STATEMENT_LOST" in str(outcome)
        assert len(list(gateway.files.iterdir())) == was_sent_again
        assert not tables_on_disk(gateway)
    spark.stop()


def test_undone_permanent_table_is_reported_by_another_gateway(
    start_lodge, spark_server, connect_through_service, wait_until
):
    options = (*TIMES, "--writable-workspace", "dfs", "--drain-timeout", "3s")
    gateway = start_lodge(*options, backend=spark_server)
    peer = start_lodge(*options, backend=spark_server, beside=gateway)
    service, spark = connect_through_service(gateway)
    responses = []
    spark.registerProgressHandler(lambda **progress: responses.append(progress))
    running = Running(spark, f"create table dfs.p as {slow(400)}")
    wait_until(lambda: responses and writes_begun(gateway), "the client has a response, and the write has begun")
    service.close()
    stop(gateway)
    service.forward_to(peer)
    assert "LODGE_STATEMENT_LOST" in str(running.join())
    assert not tables_on_disk(gateway)
    assert not list(gateway.files.iterdir())
    spark.stop()


def test_statement_continues_while_its_client_follows_it_at_another_gateway(start_lodge, spark_server, connect):
    options = (*TIMES, "--detached-timeout", "8s")
    gateway = start_lodge(*options, backend=spark_server)
    peer = start_lodge(*options, backend=spark_server, beside=gateway)
    spark = connect(gateway, user_id="ada")
    identity = {"session_id": spark.session_id, "user_context": {"user_id": "ada"}, "operation_id": str(uuid.uuid4())}
    request = base_pb2.ExecutePlanRequest(**identity)
    request.request_options.add().reattach_options.reattachable = True
    request.plan.command.sql_command.input.sql.query = (
        f"create temporary table t as {slow(700)}"  # longer than the timeout
    )
    with grpc.insecure_channel(gateway.target) as channel:
        stream = base_pb2_grpc.SparkConnectServiceStub(channel).ExecutePlan(request)
        next(stream)  # a progress message: the statement runs
    with grpc.insecure_channel(peer.target) as channel:
        stub = base_pb2_grpc.SparkConnectServiceStub(channel)
        responses = list(stub.ReattachExecute(base_pb2.ReattachExecuteRequest(**identity), timeout=60))
    assert any(response.HasField("result_complete") for response in responses)
    assert spark.table("t").count() == ROWS
    assert "statement_taken_over" not in peer.log()
    spark.stop()
