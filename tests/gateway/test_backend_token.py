"""Backends that accept only calls with the token of Lodge, and backends with TLS."""

import os
import uuid
from contextlib import suppress
from pathlib import Path

import grpc
import pytest
from pyspark.sql.connect.proto import base_pb2

from tests.conftest import SparkProcess
from tests.gateway.connections.tls_terminator import TlsTerminator
from tests.identity.certificates import CertificateAuthority

pytestmark = pytest.mark.slow

SERVICE = "/spark.connect.SparkConnectService/"
TOKEN = "the-token-of-lodge"  # noqa: S105 - of a test
CLOSED = "INVALID_HANDLE.SESSION_CLOSED"
IDLE_SECONDS = 5
TIMES = ("--session-idle-timeout", f"{IDLE_SECONDS}s")


@pytest.fixture(scope="module")
def guarded(start_spark, tmp_path_factory) -> SparkProcess:
    """A Spark server that accepts only calls with the token."""
    directory = tmp_path_factory.mktemp("guarded")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONNECT_AUTHENTICATE_TOKEN", TOKEN)
        return start_spark(directory)


@pytest.fixture(scope="module")
def token_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("secret") / "token"
    path.write_text(TOKEN + "\n")
    return path


def status(spark: SparkProcess, session_id: str, user: str) -> str:
    """Ask the backend itself for the state of a session."""
    request = base_pb2.GetStatusRequest(session_id=session_id)
    request.user_context.user_id = user
    request.operation_status.SetInParent()
    with grpc.insecure_channel(spark.address.removeprefix("sc://")) as channel:
        try:
            call = channel.unary_unary(SERVICE + "GetStatus")
            call(request.SerializeToString(), metadata=(("authorization", f"Bearer {TOKEN}"),), timeout=60)
        except grpc.RpcError as error:
            return error.details().partition("]")[0].strip("[")
    return "open"


def start_detached(target: str, session_id: str, sql: str) -> None:
    """Start a statement and disconnect from it."""
    request = base_pb2.ExecutePlanRequest(session_id=session_id, operation_id=str(uuid.uuid4()))
    request.user_context.user_id = "ann"
    request.request_options.add().reattach_options.reattachable = True
    request.plan.root.sql.query = sql
    with grpc.insecure_channel(target) as channel:
        stream = channel.unary_stream(SERVICE + "ExecutePlan")(request.SerializeToString())
        next(stream)
        stream.cancel()


def use(target: str, session_id: str) -> None:
    request = base_pb2.ConfigRequest(session_id=session_id)
    request.user_context.user_id = "ann"
    request.operation.get.keys.append("spark.app.name")
    with grpc.insecure_channel(target) as channel:
        channel.unary_unary(SERVICE + "Config")(request.SerializeToString(), timeout=60)


def release(target: str, session_id: str) -> None:
    request = base_pb2.ReleaseSessionRequest(session_id=session_id)
    request.user_context.user_id = "ann"
    with grpc.insecure_channel(target) as channel:
        channel.unary_unary(SERVICE + "ReleaseSession")(request.SerializeToString(), timeout=60)


def processes_with_token() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if path.parent.name != str(os.getpid()) and TOKEN.encode() in path.read_bytes():
                found.append(path.parent.name)
    return found


SLEEP = "select java_method('java.lang.Thread', 'sleep', bigint(id * 0 + 1000)) from range(0, 60, 1, 1)"


def test_the_backend_refuses_clients_that_bypass_lodge(guarded):
    request = base_pb2.GetStatusRequest(session_id=str(uuid.uuid4()))
    with (
        grpc.insecure_channel(guarded.address.removeprefix("sc://")) as channel,
        pytest.raises(grpc.RpcError) as refused,
    ):
        channel.unary_unary(SERVICE + "GetStatus")(request.SerializeToString(), timeout=60)
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_statements_work_and_sessions_end_at_the_backend(start_lodge, guarded, token_file, connect, wait_until):
    gateway = start_lodge("--backend-token-file", str(token_file), *TIMES, backend=guarded.address)
    spark = connect(gateway)
    spark.sql("create temporary table t as select 1 a").collect()
    assert spark.table("t").collect()[0].a == 1
    with pytest.raises(Exception, match="no_such_table"):
        spark.table("no_such_table").collect()
    session_id, user = spark.session_id, spark.client._user_id or ""
    assert status(guarded, session_id, user) == "open"
    wait_until(lambda: not gateway.records() and not gateway.locations(), "the idle session ends")
    wait_until(lambda: status(guarded, session_id, user) == CLOSED, "the backend releases the session")
    assert "session_state_unknown" not in gateway.log()
    assert TOKEN not in gateway.log()


def test_detached_job_survives_the_idle_check(start_lodge, guarded, token_file, wait_until):
    gateway = start_lodge("--backend-token-file", str(token_file), *TIMES, backend=guarded.address)
    busy = str(uuid.uuid4())
    start_detached(gateway.target, busy, SLEEP)
    use(gateway.target, str(uuid.uuid4()))
    assert len(gateway.records()) == 2
    wait_until(lambda: len(gateway.records()) == 1, "the session that is idle for a shorter time ends")
    assert status(guarded, busy, "ann") == "open"
    release(gateway.target, busy)
    assert "session_state_unknown" not in gateway.log()


def test_session_continues_while_the_backend_refuses_the_token(start_lodge, guarded, token_file, tmp_path, wait_until):
    """The defect: a refused `GetStatus` counted as idle, and the job lost its session."""
    changing = tmp_path / "token"
    changing.write_text(TOKEN)
    gateway = start_lodge("--backend-token-file", str(changing), *TIMES, backend=guarded.address)
    session_id = str(uuid.uuid4())
    use(gateway.target, session_id)
    changing.write_text("wrong")
    wait_until(lambda: gateway.log().count("session_state_unknown") >= 2, "the backend has refused two checks")
    assert len(gateway.records()) == 1
    assert status(guarded, session_id, "ann") == "open"
    changing.write_text(TOKEN)
    wait_until(lambda: not gateway.records(), "the session ends when the backend answers again")
    wait_until(lambda: status(guarded, session_id, "ann") == CLOSED, "the backend releases the session")


def test_reaper_releases_the_session_of_a_lost_gateway(start_lodge, guarded, token_file, wait_until):
    options = ("--backend-token-file", str(token_file), *TIMES)
    lost = start_lodge(*options, backend=guarded.address)
    session_id = str(uuid.uuid4())
    use(lost.target, session_id)
    lost.process.kill()
    assert status(guarded, session_id, "ann") == "open"
    other = start_lodge(*options, backend=guarded.address, beside=lost, reaper="--reaper")
    wait_until(lambda: not lost.records(), "the reaper ends the session")
    wait_until(lambda: status(guarded, session_id, "ann") == CLOSED, "the backend releases the session")
    assert "backend_session_not_released" not in other.log()
    assert not processes_with_token(), "command lines are visible to other users"


def test_backend_over_tls(start_lodge, guarded, token_file, connect, tmp_path):
    authority = CertificateAuthority(tmp_path)
    with TlsTerminator(guarded.address, authority.server()) as terminator:
        options = ("--backend-token-file", str(token_file), "--backend-ca", str(authority.certificate))
        gateway = start_lodge(*options, backend=terminator.address)
        spark = connect(gateway)
        spark.sql("create temporary table t as select * from range(100000)").collect()
        assert spark.table("t").count() == 100_000
        spark.stop()
        gateway.stop()
    assert terminator.uses_only_tls
    assert "backend_token_exposed" not in gateway.log()
