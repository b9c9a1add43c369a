"""A temporary workspace on a full disk: writes fail, and what frees space works, also after a restart."""

import os
import signal

import pytest
from pyspark.errors import PySparkException

from tests.own_mounts import fill_disk, mount_small_disk, run

pytestmark = [pytest.mark.slow, pytest.mark.needs_root]


@pytest.fixture
def gateway(start_lodge, spark_server, tmp_path):
    root, files = tmp_path / "tmp", tmp_path / "files"
    for directory in (root, files):
        directory.mkdir()
    mount_small_disk(root, "64m")
    try:
        gateway = start_lodge(backend=spark_server, places=(root, files))
        yield gateway
        gateway.stop()
    finally:
        run("umount", "--lazy", root)


def test_tables_can_be_dropped_and_sessions_closed(gateway, connect, wait_until):
    spark, other = connect(gateway), connect(gateway)
    for name in ("a", "b"):
        spark.sql(f"create temporary table {name} as select id from range(1000)").collect()
    other.sql("create temporary table c as select 1 as id").collect()
    filler = fill_disk(gateway.root)
    with pytest.raises(PySparkException):
        spark.sql("create temporary table d as select id, repeat('x', 1000) t from range(100000)").collect()
    assert spark.sql("select count(*) from a").collect() == [(1000,)]
    spark.sql("drop table a").collect()
    assert [row.tableName for row in spark.sql("show temporary tables").collect()] == ["b"]
    other.stop()
    wait_until(lambda: len(gateway.locations()) == 2, "only the filler and the location of the first session remain")
    filler.unlink()
    spark.sql("create temporary table d as select 1 as id").collect()
    assert spark.sql("select count(*) from b join d").collect() == [(1000,)]


def test_gateway_that_replaces_a_killed_one_drops_tables(gateway, connect, wait_until):
    spark = connect(gateway)
    for name in ("a", "b"):
        spark.sql(f"create temporary table {name} as select id from range(1000)").collect()
    filler = fill_disk(gateway.root)
    killed = gateway.gateway_pid
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: gateway.log().count('"gateway_started"') == 2, "a new gateway serves")
    assert spark.sql("select count(*) from a").collect() == [(1000,)]
    spark.sql("drop table a").collect()
    assert [row.tableName for row in spark.sql("show temporary tables").collect()] == ["b"]
    filler.unlink()
