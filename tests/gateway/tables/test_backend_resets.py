"""Statements survive resets of the connection between gateway and Spark."""

import threading
import time

import pytest

from tests.workspace.kubernetes.tcp_proxy import TcpProxy

pytestmark = pytest.mark.slow

ROWS = 30
SLOW = f"select id, java_method('java.lang.Thread', 'sleep', 200 + id * 0) s from range(0, {ROWS}, 1, 1)"
RESETS = 6


@pytest.fixture
def resets(start_lodge, spark_server, connect):
    """Return a proxy in front of Spark, a gateway behind it, and a client session."""
    with TcpProxy(int(spark_server.rpartition(":")[2])) as proxy:
        gateway = start_lodge(backend=f"sc://127.0.0.1:{proxy.port}")
        yield proxy, gateway, connect(gateway)
        gateway.stop()


def test_statement_runs_once_although_its_connection_is_reset(resets, wait_until):
    proxy, gateway, spark = resets
    spark.sql("create temporary table before as select 1 a").collect()
    done = []

    def directories():
        return [table for location in gateway.locations() for table in location.iterdir()]

    def reset_while_it_runs():
        wait_until(lambda: len(directories()) == 2, "the write has begun")
        for _ in range(RESETS):
            time.sleep(0.5)  # spreads the resets over the write
            proxy.reset()
            done.append(time.monotonic())

    resetting = threading.Thread(target=reset_while_it_runs)
    resetting.start()
    answer = spark.sql(f"create temporary table t as {SLOW}").collect()
    resetting.join()
    assert len(done) == RESETS
    assert [tuple(row) for row in answer] == [("0_0", ROWS)]
    assert sorted(row.id for row in spark.sql("select id from t").collect()) == list(range(ROWS))
    assert len(directories()) == 2, "the rows were written once"
    log = gateway.log()
    assert log.count("backend_connection_reset") >= RESETS // 2
    assert "statement_undone" not in log
    assert "Traceback" not in log
