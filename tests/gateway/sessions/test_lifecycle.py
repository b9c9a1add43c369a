"""How sessions start and end with real gateways, clients and Spark."""

import json
import os
import stat
import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc
from pyspark.sql.connect.proto.relations_pb2 import Relation
from pyspark.sql.types import StringType

from tests.gateway.killed_gateways import kill
from tests.quick_java import QUICK_JAVA_OPTIONS


def test_first_request_creates_the_record_and_release_deletes_it(lodge, connect, wait_until):
    before = set(lodge.records())
    spark = connect()
    spark.sql("select 1").collect()
    assert len(set(lodge.records()) - before) == 1
    assert {stat.S_IMODE(path.stat().st_mode) for path in lodge.records()} == {0o700}
    spark.stop()
    wait_until(lambda: set(lodge.records()) == before, "the record is deleted")


def test_same_session_id_of_two_users_is_two_sessions(lodge, connect):
    session_id = "00112233-4455-6677-8899-aabbccddeeff"
    one, other = (connect(session_id=session_id, user_id=user) for user in ("ann", "bob"))
    one.sql("create temporary table mine as select 1 a").collect()
    with pytest.raises(PySparkException):
        other.sql("select * from dfs.tmp.mine").collect()
    other.sql("create temporary table mine as select 2 a").collect()
    assert one.table("mine").collect()[0][0] == 1


def nap(directory: str) -> str:
    """Create the file ``begun``, and sleep until the file ``end`` exists."""
    import time
    from pathlib import Path

    Path(directory, "begun").touch()
    while not Path(directory, "end").exists():
        time.sleep(0.1)
    return "slept"


@pytest.mark.slow
def test_guarantee_2_idle_session_ends_and_busy_session_does_not(
    start_lodge, spark_server, connect, wait_until, tmp_path
):
    gateway = start_lodge("--session-idle-timeout", "5s", backend=spark_server)
    idle, busy = connect(gateway), connect(gateway)
    busy.udf.register("nap", nap, StringType())
    busy.sql("create temporary table t as select 1 a").collect()
    (location,) = gateway.locations()
    with ThreadPoolExecutor(1) as threads:
        napping = threads.submit(busy.sql(f"select nap('{tmp_path}')").collect)
        wait_until((tmp_path / "begun").exists, "the statement runs")
        idle.sql("create temporary table t as select 1 a").collect()
        wait_until(lambda: gateway.locations() == [location], "the session that is idle for a shorter time ends")
        assert not napping.done()
        (tmp_path / "end").touch()
        napping.result(60)
    assert busy.table("t").collect()[0][0] == 1
    wait_until(lambda: not gateway.locations() and not gateway.records(), "idle sessions end")
    with pytest.raises(PySparkException, match="SESSION_CLOSED"):
        idle.sql("select 1").collect()


def test_client_that_continues_an_ended_session_starts_no_other(start_lodge, spark_server):
    """Otherwise, a client whose session has ended would go on without its temporary tables."""
    gateway = start_lodge(backend=spark_server)
    ids = {"session_id": str(uuid.uuid4()), "client_observed_server_side_session_id": str(uuid.uuid4())}
    query = base_pb2.Plan(root=Relation(sql={"query": "select 1"}))
    with grpc.insecure_channel(gateway.target) as channel:
        stub = base_pb2_grpc.SparkConnectServiceStub(channel)
        for send in (
            lambda: list(stub.ExecutePlan(base_pb2.ExecutePlanRequest(plan=query, **ids))),
            lambda: stub.AnalyzePlan(base_pb2.AnalyzePlanRequest(schema={"plan": query}, **ids)),
            lambda: stub.Config(base_pb2.ConfigRequest(operation={"get_all": {}}, **ids)),
        ):
            with pytest.raises(grpc.RpcError, match=r"INVALID_HANDLE\.SESSION_CLOSED"):
                send()
    assert not gateway.records()
    assert not gateway.locations()


def test_two_replicas_serve_the_same_session(start_lodge, lodge, spark_server, connect):
    replica = start_lodge(backend=spark_server, beside=lodge)
    one = connect(user_id="dora")
    one.sql("create temporary table shared as select 7 a").collect()
    other = connect(replica, session_id=one.session_id, user_id="dora")
    assert other.sql("select a from dfs.tmp.shared").collect()[0][0] == 7
    with pytest.raises(PySparkException, match="already exists"):
        other.sql("create temporary table SHARED as select 8 a")


@pytest.mark.slow
def test_reaper_removes_only_the_sessions_that_no_gateway_adopts(start_lodge, spark_server, connect, wait_until):
    # The adopter that is chosen first may be the gateway without the backend. The other one then adopts the session.
    times = ("--lease-duration", "6s", "--grace-period", "20s")
    gateway = start_lodge(*times, backend=spark_server)
    others = [start_lodge(*times, backend=spark_server, beside=gateway)]
    others.append(start_lodge(*times, backend="sc://127.0.0.1:1", beside=gateway, reaper="--reaper"))
    dead, alive = connect(gateway), connect(others[0])
    alive.sql("create temporary table t as select 1 a").collect()
    kept = set(gateway.locations())
    dead.sql("create temporary table t as select 2 a").collect()
    dead.client.close()
    both = set(gateway.locations())
    kill(gateway)
    wait_until(lambda: "session_adopted" in others[0].log(), "another gateway adopts the session of the killed gateway")
    assert set(gateway.locations()) == both
    kill(others[0])
    wait_until(lambda: not gateway.locations(), "the reaper removes the sessions, because no gateway has their backend")
    assert kept < both
    wait_until(lambda: others[1].log().count("session_location_deleted") == len(both), "the reaper logs each deletion")


@pytest.mark.slow
def test_another_gateway_adopts_the_sessions_of_a_stopped_one(start_lodge, spark_server, connect, wait_until):
    first = start_lodge(backend=spark_server)
    second = start_lodge(backend=spark_server, beside=first)
    spark = connect(first, user_id="dora")
    spark.sql("create temporary table t as select 5 a").collect()
    assert first.stop() == 0
    wait_until(lambda: "session_adopted" in second.log(), "the other gateway adopts the session of its silent client")
    again = connect(second, session_id=spark.session_id, user_id="dora")
    assert again.sql("select a from dfs.tmp.t").collect()[0][0] == 5


def test_log_lines_name_the_session_and_omit_the_statement(lodge, connect):
    spark = connect(user_id="carol", **{"x-api-key": "swordfish-of-the-client"})
    spark.sql("create temporary table logged as select 'swordfish-of-the-statement' a").collect()
    spark.sql("drop table logged").collect()
    lines = [json.loads(line) for line in lodge.log().splitlines() if "logged" in line and spark.session_id in line]
    assert [line["event"] for line in lines] == [
        "temporary_table_creation_started",
        "temporary_table_created",
        "temporary_table_drop_started",
        "temporary_table_dropped",
    ]
    for line in lines:
        assert line["session"] == spark.session_id
        assert line["principal"] == "carol"
        assert line["operation"]
    assert lines[0]["message"] == "Temporary table [logged] is being created."
    assert "swordfish" not in lodge.log()


@pytest.mark.slow
@pytest.mark.timeout(900)  # a loaded machine needs minutes to start another Spark
def test_demo_shows_only_the_result_and_leaves_nothing(tmp_path):
    environment = os.environ | {"TMPDIR": str(tmp_path), "JDK_JAVA_OPTIONS": QUICK_JAVA_OPTIONS}
    script = Path(__file__).parents[3] / "examples" / "demo.py"
    done = subprocess.run(
        [sys.executable, script], env=environment, capture_output=True, text=True, timeout=800, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "220.0" in done.stdout
    assert "drwx------" in done.stdout
    assert "After spark.stop(): nothing is left." in done.stdout
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []
