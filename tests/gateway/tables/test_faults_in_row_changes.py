"""Gateways that end or pause while statements change rows, replace tables and overwrite partitions."""

import os
import signal

import pytest
from pyspark.sql.connect.session import SparkSession
from pyspark.sql.types import IntegerType

from tests.gateway.killed_gateways import kill
from tests.gateway.tables.gateway_service import GatewayService
from tests.gateway.tables.held_statements import Running, held
from tests.gateway.tables.test_drain import stop
from workspace.files.session_records import FileSessionRecords

pytestmark = pytest.mark.slow

TIMES = ("--lease-duration", "6s", "--grace-period", "60s")
CHANGES = {
    "update": ("update t set a = held(a) + 10 where a > 1", [(1, 0), (12, 1), (13, 1)]),
    "merge": (
        "merge into t using (select held(2) a union all select 9) s on t.a = s.a "
        "when matched then update set a = s.a + 10 when not matched then insert (a, p) values (s.a, 0)",
        [(1, 0), (3, 1), (9, 0), (12, 1)],
    ),
    "replace": ("create or replace temporary table t as select held(7) b", [(7,)]),
    "overwrite": ("insert overwrite t select held(5), 1", [(1, 0), (5, 1)]),
}
"""Statements about a table with the rows (1, 0), (2, 1) and (3, 1), and the rows afterwards."""

FAULTS = {
    "stopped": stop,
    "killed": kill,
    "paused": lambda gateway: os.kill(gateway.gateway_pid, signal.SIGSTOP),
}


def is_pending(gateway):
    """Return whether a statement changes a table."""
    return any(table.writes for each in FileSessionRecords(gateway.root).list() for table in each.record.tables)


def contents(spark):
    return sorted(tuple(row) for row in spark.table("dfs.tmp.t").collect())


@pytest.fixture
def gateways(start_lodge, spark_server):
    """Return two gateways that serve the same sessions."""
    gateway = start_lodge(*TIMES, backend=spark_server)
    return gateway, start_lodge(*TIMES, backend=spark_server, beside=gateway)


@pytest.fixture
def service(gateways):
    """A service that forwards connections to the first gateway."""
    with GatewayService(gateways[0]) as service:
        yield service


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("fault", FAULTS)
def test_other_gateway_completes_a_change_of_rows(gateways, service, wait_until, tmp_path, fault, change):  # noqa: PLR0917
    gateway, peer = gateways
    text, expected = CHANGES[change]
    spark = SparkSession.builder.remote(service.address).create()
    started, ended = tmp_path / "started", tmp_path / "ended"
    spark.udf.register("held", held(str(started), str(ended)), IntegerType())
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    spark.sql("create temporary table t (a int, p int) partitioned by (p)").collect()
    spark.sql("insert into t values (1, 0), (2, 1), (3, 1)").collect()
    running = Running(spark, text)
    wait_until(lambda: started.exists() and is_pending(gateway), "the statement runs")
    service.close()
    FAULTS[fault](gateway)
    ended.touch()
    service.forward_to(peer)
    assert running.join() == ([("0_0", 1)] if change == "replace" else [])
    assert contents(spark) == expected
    assert "statement_taken_over" in peer.log()
    if fault == "paused":
        os.kill(gateway.gateway_pid, signal.SIGCONT)
    wait_until(lambda: not is_pending(peer), "nothing is pending")
    assert contents(spark) == expected
    spark.stop()
    wait_until(lambda: not peer.locations() and not peer.records(), "nothing is left")
