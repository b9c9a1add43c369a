"""Scans whose files the gateway lists, and whose schema a Spark job discovers."""

import json
import os
import shutil
import time
import urllib.request
import uuid
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import grpc
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql.connect.session import SparkSession

from gateway.scans.segment_format import decode_segment
from tests.cluster.ports import free_port
from tests.conftest import wait_until
from workspace.schema_segments import ScanKey

pytestmark = pytest.mark.slow

SECONDS = 60.0


@pytest.fixture(scope="module")
def metrics_port():
    return free_port()


@pytest.fixture(scope="module")
def lodge(start_lodge, spark_server, metrics_port):
    gateway = start_lodge("--metrics-listen", f"127.0.0.1:{metrics_port}", backend=spark_server)
    yield gateway
    gateway.stop()


def scanned_files(port, schema):
    """Return how many files a gateway has scanned whose schema was ``known`` or ``discovered``."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    name = f'lodge_gateway_scanned_files_total{{schema="{schema}"}}'
    return int(next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name)))


@pytest.fixture
def examined(metrics_port):
    """Return how many files the gateway has examined since the last call."""
    before = scanned_files(metrics_port, "discovered")

    def since():
        nonlocal before
        last, before = before, scanned_files(metrics_port, "discovered")
        return before - last

    return since


@pytest.fixture
def folder(lodge, tmp_path_factory):
    path = lodge.files / tmp_path_factory.mktemp("folder").name
    path.mkdir()
    return path


def write(path, *rows, age_seconds=60):
    """Write objects, one in each line. Recent files are examined again, so the file gets an older time."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns - age_seconds * 10**9))


def scan(spark, folder):
    return spark.sql(f"select * from dfs.`{folder.name}` order by a")


def test_known_files_are_not_examined_again(spark, folder, examined):
    for number in range(30):
        write(folder / f"{number:02}.json", {"a": number})
    assert scan(spark, folder).count() == 30
    assert examined() == 30
    assert scan(spark, folder).collect() == [(number,) for number in range(30)]
    assert spark.sql(f"select a from dfs.`{folder.name}/*.json` where a > 27").count() == 2
    assert examined() == 0


def test_only_new_and_changed_files_are_examined(spark, folder, examined):
    for name in "xyz":
        write(folder / f"{name}.json", {"a": 1})
    assert scan(spark, folder).columns == ["a"]
    assert examined() == 3
    write(folder / "new.json", {"a": 2, "b": "new"})
    write(folder / "x.json", {"a": 3.5}, age_seconds=50)
    (folder / "y.json").unlink()
    frame = scan(spark, folder)
    assert frame.collect() == [(1.0, None), (2.0, "new"), (3.5, None)]
    assert [field.dataType.simpleString() for field in frame.schema] == ["double", "string"]
    assert examined() == 2


def remembered(directory):
    """Return the number of files in each segment."""
    return [len(decode_segment(ScanKey(path.parent.name), path.read_bytes())) for path in directory.glob("*/[0-9]*")]


@pytest.fixture
def start_replica(lodge, start_lodge, spark_server):
    """Start another gateway with the same workspaces. Returns the gateway and the port of its metrics."""
    started = []

    def start():
        port = free_port()
        started.append(start_lodge("--metrics-listen", f"127.0.0.1:{port}", backend=spark_server, beside=lodge))
        return started[-1], port

    yield start
    for gateway in started:
        gateway.stop()


def test_other_replica_does_not_examine_known_files(spark, folder, lodge, start_replica):
    for number in range(10):
        write(folder / f"{number}.json", {"a": number})
    scan(spark, folder)
    segments = lodge.root / ".lodge" / "scan-schemas"
    wait_until(lambda: 10 in remembered(segments), "the schemas are on the storage", SECONDS)
    write(folder / "new.json", {"a": 10})
    replica, port = start_replica()
    session = SparkSession.builder.remote(f"{replica.address}/").create()
    try:
        assert scan(session, folder).collect() == [(number,) for number in range(11)]
        assert scanned_files(port, "discovered") == 1
    finally:
        session.stop()


def test_remembered_schemas_can_be_deleted_at_any_time(spark, folder, lodge):
    write(folder / "1.json", {"a": 1})
    scan(spark, folder)
    shutil.rmtree(lodge.root / ".lodge" / "scan-schemas", ignore_errors=True)
    write(folder / "2.json", {"a": 2})
    assert scan(spark, folder).collect() == [(1,), (2,)]


def test_file_that_may_still_change_is_examined_each_time(spark, folder, examined):
    write(folder / "a.json", {"a": 1}, age_seconds=-3600)
    for _ in range(2):
        assert scan(spark, folder).collect() == [(1,)]
        assert examined() >= 1


def test_options_that_change_the_schema_are_examined_separately(spark, folder, examined):
    (folder / "a.csv").write_text("x,y\n1,2\n")
    os.utime(folder / "a.csv", (0, 0))
    assert spark.sql(f"select * from dfs.`{folder.name}`").columns == ["columns"]
    with_header = f"select * from dfs.`{folder.name}` with ('header' = 'true')"
    assert spark.sql(with_header).columns == ["x", "y"]
    assert examined() == 2
    assert spark.sql(with_header).collect() == [("1", "2")]
    assert examined() == 0


def test_conflict_names_file_position_column_and_types(spark, folder):
    write(folder / "1.json", {"a": 1})
    write(folder / "2.json", {"a": 2}, {"a": {"b": 1}})
    conflict = f"'{folder.name}/2.json' in workspace 'dfs', line 2.*column 'a'"
    with pytest.raises(AnalysisException, match=conflict) as raised:
        scan(spark, folder)
    assert raised.value.getCondition() == "LODGE_TYPE_CONFLICT"


def test_only_the_unreadable_file_is_examined_again_after_its_repair(spark, folder, examined):
    write(folder / "1.json", {"a": 1})
    (folder / "2.parquet").write_bytes(b"PAR1 nothing else")
    with pytest.raises(AnalysisException, match=f"'{folder.name}/2.parquet' in workspace 'dfs'") as raised:
        scan(spark, folder)
    assert raised.value.getCondition() == "LODGE_MALFORMED_FILE"
    examined()
    pq.write_table(pa.table({"a": [2]}), folder / "2.parquet")
    os.utime(folder / "2.parquet", (0, 0))
    assert scan(spark, folder).collect() == [(1,), (2,)]
    assert examined() == 1


def test_empty_directory_is_an_error_of_the_engine(spark, folder):
    with pytest.raises(AnalysisException) as raised:
        scan(spark, folder)
    assert raised.value.getCondition() == "LODGE_NO_FILES"


def test_frame_sees_files_that_are_added_between_its_actions(spark, folder):
    write(folder / "1.json", {"a": 1})
    frame = scan(spark, folder)
    assert frame.collect() == [(1,)]
    write(folder / "2.json", {"a": 2})
    assert frame.collect() == [(1,), (2,)]


def test_view_of_a_frame_reads_the_files_that_existed_at_its_creation(restored_spark, folder):
    write(folder / "1.json", {"a": 1})
    restored_spark.table(f"dfs.`{folder.name}`").createOrReplaceTempView("v")
    write(folder / "2.json", {"a": 6})
    assert restored_spark.sql("select a from v").collect() == [(1,)]
    write(folder / "1.json", {"a": 5}, age_seconds=10)
    with pytest.raises(AnalysisException, match="changed while it was scanned: it was modified") as raised:
        restored_spark.sql("select a from v").collect()
    assert raised.value.getCondition() == "LODGE_FILE_CHANGED"


def test_temporary_table_is_created_from_a_planned_scan(restored_spark, folder, examined):
    for number in range(5):
        write(folder / f"{number}.json", {"a": number})
    restored_spark.sql(f"create temporary table t as select sum(a) s from dfs.`{folder.name}`").collect()
    assert restored_spark.table("t").collect() == [(10,)]
    assert examined() == 5


def test_declared_schema_needs_no_discovery(spark, folder, examined):
    write(folder / "1.json", {"a": 1})
    declared = f"select * from dfs.`{folder.name}` with ('schema' = 'a string, b int')"
    assert spark.sql(declared).collect() == [("1", None)]
    assert examined() == 0


@pytest.fixture
def busy(lodge, tmp_path):
    """Occupy all cores of the backend until the end of the test."""
    session = SparkSession.builder.remote(f"{lodge.address}/").create()

    def occupy(batches):
        for batch in batches:
            (tmp_path / str(batch["id"][0])).touch()
            time.sleep(120)
            yield batch

    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(session.range(0, 2, 1, 2).mapInArrow(occupy, "id long").collect)
        wait_until(lambda: len(list(tmp_path.iterdir())) == 2 or running.done(), "both cores are busy", SECONDS)
        yield
        session.interruptAll()
        with pytest.raises(PySparkException):
            running.result(SECONDS)
    session.stop()


def _is_over(interrupt, running):
    return interrupt() or running.done()


def test_interrupt_ends_the_discovery(restored_spark, folder, busy):
    write(folder / "1.json", {"a": 1})

    def discover():
        restored_spark.addTag("discovery")  # of this thread
        return scan(restored_spark, folder)

    with ThreadPoolExecutor(1) as thread:
        for interrupt in (restored_spark.interruptAll, partial(restored_spark.interruptTag, "discovery")):
            running = thread.submit(discover)
            wait_until(partial(_is_over, interrupt, running), "the statement is interrupted", SECONDS)
            with pytest.raises(PySparkException, match="OPERATION_CANCELED"):
                running.result(SECONDS)


def test_interrupt_by_operation_id_ends_the_discovery_of_a_new_table(restored_spark, folder, busy):
    write(folder / "1.json", {"a": 1})
    request = restored_spark.client._execute_plan_request_with_metadata()
    request.operation_id = str(uuid.uuid4())
    request.plan.command.sql_command.input.sql.query = f"create temporary table late as table dfs.`{folder.name}`"
    stream = restored_spark.client._stub.ExecutePlan(request, metadata=restored_spark.client._builder.metadata())
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(list, stream)
        ended = []

        def interrupt():
            ended.extend(restored_spark.interruptOperation(request.operation_id))
            return running.done()

        wait_until(interrupt, "the statement is interrupted", SECONDS)
        with pytest.raises(grpc.RpcError, match="OPERATION_CANCELED"):
            running.result(SECONDS)
    assert ended == [request.operation_id]
    assert restored_spark.sql("show temporary tables like 'late'").collect() == []
