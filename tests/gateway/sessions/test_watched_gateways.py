"""Gateways that die or do not respond, and the watcher that starts them again. Numbers are its guarantees."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
import uuid
from contextlib import ExitStack, suppress
from pathlib import Path

import grpc
import pytest
from pyspark.errors.exceptions.connect import SparkConnectException
from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc

from tests.cluster.ports import free_port
from tests.cluster.processes import DIES_WITH_PARENT
from tests.held_lock import COMPUTES_WITH_THE_LOCK, HOLDS_THE_LOCK
from tests.identity.certificates import CertificateAuthority
from tests.records import a_record
from workspace.files.session_locations import FileSessionLocations
from workspace.files.session_records import FileSessionRecords
from workspace.identifiers import SessionUuid

LIMIT = ("--stall-limit", "2s")
HARMFUL_STATEMENTS = """
import ctypes, os, signal, sys
import lodge.serve
from gateway.names.path_checks import PathChecks
from lodge.cli import main

check = PathChecks.check

async def changed(self, data, plans, size_bytes, texts=None):
    if b"freezes" in data:
        ctypes.PyDLL(None).sleep(100_000)
    if b"crashes" in data:
        os.kill(os.getpid(), signal.SIGSEGV)
    return await check(self, data, plans, size_bytes, texts)

PathChecks.check = changed
sys.exit(main())
"""

SLOW_STORAGE = """
import sys, time
import lodge.serve, lodge.watcher
from lodge.cli import main

opened = lodge.serve.open_stores

def open_slowly(*arguments):
    time.sleep(4)
    return opened(*arguments)

lodge.serve.open_stores = open_slowly
lodge.watcher._SLOW_SECONDS = 1.0
sys.exit(main())
"""


def create_table(spark):
    spark.sql("create temporary table t as select 7 as id")


def require_table(spark):
    assert spark.sql("select * from t").collect() == [(7,)]


def collect_until_closed(statement):
    with suppress(SparkConnectException):  # when the test closes the session
        statement.collect()


def restarts(lodge):
    return lodge.log().count('"gateway_process_restarted"')


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP])
def test_sessions_continue_at_the_same_address(start_lodge, connect, spark_server, number):  # 1, 2
    port = free_port()
    lodge = start_lodge(*LIMIT, "--metrics-listen", f"127.0.0.1:{port}", backend=spark_server)
    spark, idle = connect(lodge), connect(lodge)
    for session in (spark, idle):
        create_table(session)
    before = lodge.gateway_pid
    os.kill(before, number)
    for session in (spark, idle):
        require_table(session)
    assert lodge.gateway_pid != before
    assert restarts(lodge) == 1
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        assert "lodge_gateway_restarts_total 1.0" in answer.read().decode()
    assert "Traceback" not in lodge.log()


def test_gateway_whose_lock_a_c_function_holds_is_replaced(
    start_lodge, connect, spark_server, tmp_path, wait_until
):  # 1
    order = tmp_path / "order"
    lodge = start_lodge(*LIMIT, backend=spark_server, program=["-c", HOLDS_THE_LOCK, str(order)])
    spark = connect(lodge)
    create_table(spark)
    order.touch()
    require_table(spark)
    wait_until(lambda: restarts(lodge), "the gateway is replaced")
    require_table(spark)
    assert lodge.log().count('"gateway_stuck"') == 1


@pytest.mark.slow
def test_gateway_that_gets_no_processor_is_replaced_before_its_sessions_end(
    start_lodge, connect, spark_server, tmp_path, wait_until
):
    """It is ready to run all the time, so only the duration shows that it does not respond."""
    order = tmp_path / "order"
    limits = (*LIMIT, "--lease-duration", "4s")
    lodge = start_lodge(*limits, backend=spark_server, program=["-c", COMPUTES_WITH_THE_LOCK, str(order)])
    spark = connect(lodge)
    create_table(spark)
    gateway = Path(f"/proc/{lodge.gateway_pid}")
    for thread in (gateway / "task").iterdir():
        os.sched_setscheduler(int(thread.name), os.SCHED_IDLE, os.sched_param(0))
    if (gateway / "autogroup").exists():  # then the sessions of processes share the processors, not the threads
        (gateway / "autogroup").write_text("19")
    with ExitStack() as stack:
        for _ in range(2 * (os.cpu_count() or 1)):
            other = subprocess.Popen([*DIES_WITH_PARENT, sys.executable, "-c", "while True: pass"])
            stack.callback(other.wait)
            stack.callback(other.kill)
        order.touch()
        wait_until(lambda: restarts(lodge), "the gateway is replaced")
    require_table(spark)
    assert lodge.log().count('"gateway_stuck"') == 1


@pytest.mark.parametrize("harm", ["freezes", "crashes"])
def test_statement_that_ended_a_gateway_is_refused(start_lodge, connect, spark_server, harm):  # 4
    lodge = start_lodge(*LIMIT, backend=spark_server, program=["-c", HARMFUL_STATEMENTS])
    spark, other = connect(lodge), connect(lodge)
    for session in (spark, other):
        create_table(session)
    for _ in range(2):
        with pytest.raises(SparkConnectException, match=r"LODGE_SUSPECTED_REQUEST.*in a new session"):
            spark.sql(f"show temporary tables like '{harm}'").collect()
        assert restarts(lodge) == 1
    assert lodge.log().count('"request_suspected"') == 1
    for session in (spark, other):
        require_table(session)
    assert spark.sql("show temporary tables like 't'").count() == 1


def test_statement_that_ended_a_gateway_is_refused_by_other_gateways(start_lodge, connect, spark_server):
    first = start_lodge(*LIMIT, backend=spark_server, program=["-c", HARMFUL_STATEMENTS])
    second = start_lodge(*LIMIT, backend=spark_server, program=["-c", HARMFUL_STATEMENTS], beside=first)
    spark = connect(first)
    create_table(spark)
    for lodge in (first, second):
        session = connect(lodge, session_id=spark.session_id)
        with pytest.raises(SparkConnectException, match="LODGE_SUSPECTED_REQUEST"):
            session.sql("show temporary tables like 'freezes'").collect()
        require_table(session)
    assert (restarts(first), restarts(second)) == (1, 0)


def test_gateway_that_dies_often_is_started_again_each_time(start_lodge, connect, spark_server):
    lodge = start_lodge(*LIMIT, backend=spark_server)
    spark = connect(lodge)
    create_table(spark)
    for times in range(1, 4):
        os.kill(lodge.gateway_pid, signal.SIGKILL)
        require_table(spark)
        assert restarts(lodge) == times


def test_gateway_that_starts_again_waits_for_the_true_storage(start_lodge, connect, spark_server, wait_until):
    lodge = start_lodge(*LIMIT, backend=spark_server)
    spark = connect(lodge)
    create_table(spark)
    away = lodge.root.rename(lodge.root.with_name("away"))
    lodge.root.mkdir()
    os.kill(lodge.gateway_pid, signal.SIGKILL)
    wait_until(lambda: lodge.log().count('"gateway_process_died"') > 1, "the next gateway refuses to start")
    assert not list(lodge.root.iterdir())
    lodge.root.rmdir()
    away.rename(lodge.root)
    require_table(spark)


def test_reaper_that_starts_again_waits_for_the_true_storage(start_lodge, connect, spark_server, wait_until):
    times = ("--lease-duration", "2s", "--grace-period", "1s")
    lodge = start_lodge(*LIMIT, *times, backend=spark_server, reaper="--reaper")
    create_table(connect(lodge))
    away, other = lodge.root.with_name("away"), lodge.root.with_name("other")
    locations = FileSessionLocations(other)
    locations.initialise()
    abandoned = a_record(1)
    FileSessionRecords(other).create(abandoned)
    locations.create(abandoned.session_uuid)
    before = sorted(other.rglob("*"))
    lodge.root.rename(away)
    other.rename(lodge.root)
    wait_until(lambda: '"reaper_process_started"' in lodge.log(), "the reaper runs")
    started = [json.loads(line) for line in lodge.log().splitlines() if '"reaper_process_started"' in line]
    os.kill(started[-1]["pid"], signal.SIGKILL)
    wait_until(lambda: lodge.log().count('"reaper_process_died"') > 2, "the next reapers refuse to start")
    lodge.root.rename(other)
    away.rename(lodge.root)
    assert sorted(other.rglob("*")) == before
    orphan = FileSessionLocations(lodge.root).create(SessionUuid(str(uuid.uuid4())))
    wait_until(lambda: not orphan.exists(), "a reaper works")
    assert len(lodge.locations()) == 1


@pytest.mark.slow
def test_gateway_on_slow_storage_starts_and_starts_again(start_lodge, wait_until):
    lodge = start_lodge(*LIMIT, backend="sc://127.0.0.1:1", program=["-c", SLOW_STORAGE])
    os.kill(lodge.gateway_pid, signal.SIGKILL)
    wait_until(lambda: lodge.log().count('"gateway_started"') == 2, "the next gateway is ready")
    assert restarts(lodge) == 1
    assert '"gateway_stuck"' not in lodge.log()


def test_reload_during_a_restart_waits_for_the_gateway(start_lodge, spark_server, wait_until):
    lodge = start_lodge(*LIMIT, backend=spark_server)
    os.kill(lodge.gateway_pid, signal.SIGKILL)
    wait_until(lambda: restarts(lodge), "the gateway starts again")
    lodge.signal(signal.SIGHUP)
    wait_until(lambda: '"configuration_reloaded"' in lodge.log(), "the gateway reloads")
    assert restarts(lodge) == 1


def test_damaged_files_end_no_session(start_lodge, spark_server, tmp_path, wait_until):
    authority = CertificateAuthority(tmp_path)
    files, token = authority.server(), tmp_path / "token"
    token.write_text("backend-token")
    (audit := tmp_path / "audit").mkdir()
    tls = json.dumps({"certificate": str(files.certificate), "key": str(files.key)})
    options = ("--tls", tls, "--backend-token-file", str(token), "--audit-log", str(audit / "log"))
    lodge = start_lodge(*LIMIT, *options, backend=spark_server)
    credentials = grpc.ssl_channel_credentials(authority.certificate.read_bytes())
    request = base_pb2.ExecutePlanRequest(session_id=str(uuid.uuid4()))
    request.user_context.user_id = "ada"

    def error_of(text):
        request.plan.command.sql_command.input.sql.query = text
        with grpc.secure_channel(lodge.address.removeprefix("sc://").partition("/")[0], credentials) as channel:
            try:
                list(base_pb2_grpc.SparkConnectServiceStub(channel).ExecutePlan(request, wait_for_ready=True))
            except grpc.RpcError as error:
                return error.details()

    assert error_of("create temporary table t as select 7 as id") is None
    for path in (files.certificate, token):
        path.write_text("two\nlines")
    shutil.rmtree(audit)
    for times in range(1, 3):
        os.kill(lodge.gateway_pid, signal.SIGKILL)
        wait_until(lambda times=times: lodge.log().count('"gateway_started"') > times, "a gateway replaces it")
        assert error_of("select id from t") is None
        assert lodge.log().count('"tls_certificate_rejected"') >= times
        assert lodge.log().count('"backend_credentials_rejected"') >= times
        assert lodge.log().count('"audit_log_failed"') >= times
    audit.mkdir()
    wait_until((audit / "log").exists, "the events are written")
    assert "Traceback" not in lodge.log()


def test_gateway_that_finishes_a_statement_before_it_stops_is_not_stuck(start_lodge, connect, spark_server, wait_until):
    lodge = start_lodge(*LIMIT, backend=spark_server)
    statement = connect(lodge).sql("select java_method('java.lang.Thread', 'sleep', 5000L), rand()")
    begin = time.monotonic()
    threading.Thread(target=collect_until_closed, args=[statement], daemon=True).start()
    time.sleep(1)
    assert lodge.stop() == 0
    assert time.monotonic() - begin > 4, "the gateway has waited for the statement"
    assert '"gateway_stuck"' not in lodge.log()


def test_watcher_that_is_killed_takes_the_gateway_with_it(start_lodge, spark_server, wait_until):
    lodge = start_lodge(backend=spark_server)
    gateway = lodge.gateway_pid
    lodge.signal(signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{gateway}/cmdline").exists(), "the gateway has ended")
