"""Temporary tables in an object store, with a real Spark and a real S3 server."""

from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql.connect.session import SparkSession

from tests.cluster.processes import Process
from workspace.identifiers import SessionUuid

pytestmark = pytest.mark.slow

ROWS = "select id, id % 3 as part, concat('name ', id) as name from range(100)"


@pytest.fixture
def session_uuid(spark: SparkSession, in_object_store: Any) -> SessionUuid:
    """Return the UUID of the shared session, which has a table."""
    spark.sql("create temporary table first as select 1 as one").collect()
    records = [stored.record for stored in in_object_store.records.list()]
    (found,) = [SessionUuid(record.session_uuid) for record in records if record.client_session_id == spark.session_id]
    return found


def names_of(in_object_store: Any, session_uuid: SessionUuid) -> set[str]:
    """Return the names of the table directories that exist."""
    files = (name.split("/") for name in in_object_store.storage.files())
    return {parts[1] for parts in files if parts[0] == session_uuid}


def deletions(reaper: Process) -> int:
    """Return how many locations a reaper has deleted, without a request to the object store."""
    return reaper.log.read_text().count("session_location_deleted")


def test_table_is_created_read_changed_and_dropped(
    spark: SparkSession, in_object_store: Any, session_uuid: SessionUuid
) -> None:
    answer = spark.sql(f"create temporary table t as {ROWS}").collect()
    assert answer[0]["Number of records written"] == 100
    assert in_object_store.locations.list() >= {session_uuid}
    assert len(names_of(in_object_store, session_uuid)) == 2
    assert spark.table("t").count() == 100
    assert spark.sql("select sum(id) from dfs.tmp.t").collect()[0][0] == 4950
    (stored,) = [each for each in in_object_store.records.list() if each.record.session_uuid == session_uuid]
    table = next(each for each in stored.record.tables if each.name == "t")
    prefix = f"{session_uuid}/{table.uuid}/"
    assert table.size_bytes == sum(
        len(content) for name, content in in_object_store.storage.files().items() if name.startswith(prefix)
    )
    spark.sql("insert into t select 1000, 1, 'late'").collect()
    assert spark.table("t").count() == 101
    spark.sql("insert overwrite t select 1, 1, 'only'").collect()
    assert [tuple(row) for row in spark.table("t").collect()] == [(1, 1, "only")]
    assert spark.sql("show temporary tables").count() == 2
    spark.sql("drop table t").collect()
    with pytest.raises(AnalysisException):
        spark.table("t").collect()


def test_values_round_trip_in_every_format_and_partition(spark: SparkSession) -> None:
    for clauses in ("using parquet partition by (part)", "using json", "using csv"):
        spark.sql(f"create temporary table f {clauses} as {ROWS}").collect()
        rows = spark.sql("select id, part, name from f order by id").collect()
        assert [tuple(row) for row in rows] == [(n, n % 3, f"name {n}") for n in range(100)], clauses
        spark.sql("drop table f").collect()


def test_failed_statement_leaves_no_object(
    spark: SparkSession, in_object_store: Any, session_uuid: SessionUuid, wait_until: Any
) -> None:
    wait_until(lambda: not in_object_store.locations.trash_of(session_uuid), "earlier files are purged")
    before = names_of(in_object_store, session_uuid)
    with pytest.raises(PySparkException):
        spark.sql("create temporary table broken as select raise_error('no') from range(10)").collect()
    wait_until(lambda: not in_object_store.locations.trash_of(session_uuid), "the written files are purged")
    assert names_of(in_object_store, session_uuid) == before
    spark.sql("create temporary table broken as select 1").collect()


def test_clone_has_its_own_tables(spark: SparkSession, in_object_store: Any) -> None:
    spark.sql(f"create temporary table t as {ROWS}").collect()
    clone = spark.cloneSession()
    try:
        spark.sql("drop table t").collect()
        assert clone.table("t").count() == 100
        clone.sql("insert into t select 7, 7, 'mine'").collect()
        assert clone.table("t").count() == 101
    finally:
        clone.stop()


def test_session_end_leaves_no_object(connect: Any, in_object_store: Any, wait_until: Any) -> None:
    known = {stored.record.session_uuid for stored in in_object_store.records.list()}
    spark = connect()
    spark.sql(f"create temporary table t as {ROWS}").collect()
    (session_uuid,) = {stored.record.session_uuid for stored in in_object_store.records.list()} - known
    spark.stop()
    wait_until(lambda: session_uuid not in in_object_store.locations.list(), "the location is gone")
    wait_until(lambda: not in_object_store.locations.trash_of(session_uuid), "the location is purged")
    assert not in_object_store.storage.keys(session_uuid)
    assert session_uuid not in {stored.record.session_uuid for stored in in_object_store.records.list()}


def test_only_temporary_tables_can_be_created_and_read(spark: SparkSession) -> None:
    for statement in ("create table dfs.tmp.t as select 1", "create table dfs.t as select 1"):
        with pytest.raises(PySparkException, match="object store"):
            spark.sql(statement).collect()
    for name in ("`file.csv`", "`*.csv`", "nothing"):
        with pytest.raises(AnalysisException, match="no file or directory"):
            spark.sql(f"select * from dfs.tmp.{name}").collect()
    with pytest.raises(AnalysisException):
        spark.sql("drop table dfs.tmp.nothing").collect()
    assert spark.sql("show tables in dfs.tmp").collect() == []
    assert spark.sql("drop table if exists dfs.tmp.nothing").collect()


def test_reaper_removes_locations_of_killed_gateway(connect: Any, in_object_store: Any, wait_until: Any) -> None:
    connect().sql(f"create temporary table t as {ROWS}").collect()
    lost = in_object_store.locations.list()
    before = deletions(in_object_store.reaper)
    with in_object_store.gateway.stopped():  # otherwise, the gateway adopts the sessions
        wait_until(lambda: deletions(in_object_store.reaper) > before, "the reaper removes a location", 120)
        wait_until(lambda: not in_object_store.locations.list() & lost, "the reaper removes the lost locations", 120)
    kept = connect()
    kept.sql(f"create temporary table t as {ROWS}").collect()
    wait_until(lambda: not in_object_store.locations.trash(), "all their objects are gone", 60)
    assert not any(in_object_store.storage.keys(session_uuid) for session_uuid in lost)
    assert kept.table("t").count() == 100
