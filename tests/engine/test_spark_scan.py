"""Scans from end to end: a client, a Spark server and Python workers."""

import os
import secrets
from decimal import Decimal
from functools import reduce

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.errors import PySparkException

from engine.file_scan.file_scan import FileScan
from engine.file_scan.partition_reading import read_partition
from engine.file_scan.partitions import plan_partitions
from engine.scan_signature import KEY_BYTES, SIGNATURE, ScanKey, sign
from engine.scan_source import FORMAT, TEXT_SCHEMA
from engine.schema import TupleSchema
from tests.engine.file_bytes import write_stream, written

INSTANTS = pa.table({"tz": pa.array([0, 1_750_000_000_000_001, None], pa.timestamp("us", "UTC"))}).append_column(
    "nested", pa.array([[{"at": 1}], [], None], pa.list_(pa.struct([("at", pa.timestamp("us", "Europe/Rome"))])))
)
AMOUNT = '"1","Bob","200","false"\n"2","Sarah","150","true"\n"3","Tim","20","false"\n"4","Roger","500","true"\n'

BATCHED_ROWS = 200_000
"""The rows of a file that is read in many batches."""


@pytest.fixture(scope="module")
def read(spark, tmp_path_factory):
    """Return a reader for options that are signed as by a gateway."""
    key = ScanKey(secrets.token_hex(16), secrets.token_bytes(KEY_BYTES))
    file = tmp_path_factory.mktemp("key") / key.file_name
    file.write_bytes(key.secret)
    spark.addArtifacts(str(file), file=True)
    return lambda options: spark.read.format(FORMAT).options(**options, **{SIGNATURE: sign(options, key)})


@pytest.fixture
def scan(read):
    """Return the data frame of a scan with the options that the gateway sends."""
    return lambda source, **reader: read(source.to_options(reader=reader)).load()


def failure_of(frame):
    with pytest.raises(PySparkException) as raised:
        frame.collect()
    return str(raised.value)


@pytest.mark.slow
def test_file_without_header_is_queried_by_the_columns_array(spark, scan, workspace):
    workspace.write("amount.csv", AMOUNT)
    scan(workspace.scan("amount.csv")).createOrReplaceTempView("amount")
    rows = spark.sql(
        "select cast(columns[3] as boolean) discount, sum(cast(columns[2] as double)) total_amount "
        "from amount group by columns[3] order by 1"
    ).collect()
    assert [tuple(row) for row in rows] == [(False, 220.0), (True, 650.0)]


def test_rows_without_header_keep_their_number_of_fields(spark, scan, workspace):
    workspace.write("ragged.psv", 'a|b\nc|d|e\n\n"f\ng"\n|é\n')
    frame = scan(workspace.scan("ragged.psv"))
    assert frame.schema == spark.createDataFrame([], TEXT_SCHEMA).schema
    assert [row.columns for row in frame.collect()] == [["a", "b"], ["c", "d", "e"], ["f\ng"], ["", "é"]]


@pytest.mark.slow
def test_task_reads_small_files_up_to_partition_bytes(scan, workspace):
    for month in range(1, 6):
        workspace.write(f"sales/2024/{month}.csv", f"{month},x\n" * 1000)
    workspace.write("sales/all.tsv", "6\tx\n" * 1000)
    workspace.write("sales/_SUCCESS", "")
    for partition_bytes, tasks in (("64 KiB", 6), ("64 MiB", 1)):
        rows = (
            scan(workspace.scan("sales"), partition_bytes=partition_bytes)
            .selectExpr("columns[0] as month", "spark_partition_id() as task")
            .groupBy("month", "task")
            .count()
            .orderBy("month")
            .collect()
        )
        assert [(row.month, row["count"]) for row in rows] == [(str(month), 1000) for month in range(1, 7)]
        assert len({row.task for row in rows}) == tasks


@pytest.mark.slow
def test_file_of_many_batches_is_read_whole(scan, workspace):
    workspace.write("big.csv", "".join(f'{i},"{i}"\n' if i % 1000 == 0 else f"{i},{i}\n" for i in range(BATCHED_ROWS)))
    row = scan(workspace.scan("big.csv")).selectExpr(
        "count(*)", "sum(cast(columns[0] as bigint))", "count(distinct columns[1])"
    )
    assert tuple(row.collect()[0]) == (BATCHED_ROWS, BATCHED_ROWS * (BATCHED_ROWS - 1) // 2, BATCHED_ROWS)


def test_empty_file_has_no_rows_and_empty_directory_no_schema(read, scan, workspace):
    (workspace.root / "empty").mkdir()
    workspace.write("empty.csv", "")
    assert scan(workspace.scan("empty.csv")).collect() == []
    assert "'empty' in workspace 'dfs' contains no files" in failure_of(scan(workspace.scan("empty")))
    declared = read(workspace.scan("empty").to_options()).schema("a int").load()
    assert declared.collect() == []


def test_excluded_directory_is_omitted(scan, workspace):
    workspace.write("a.csv", "1\n")
    workspace.write("tmp/session/table.csv", "2\n")
    rows = scan(workspace.scan(".", excluded=workspace.root / "tmp")).collect()
    assert [row.columns for row in rows] == [["1"]]


def test_link_out_of_the_workspace_is_rejected(scan, workspace):
    workspace.write("d/a.csv", "1\n")
    workspace.link("d/b.csv", workspace.outside / "secret.csv")
    for path in ("d", "d/b.csv"):
        failure = failure_of(scan(workspace.scan(path)))
        assert "engine.errors.PathRefusedError: 'd/b.csv' in workspace 'dfs' is refused" in failure
        assert str(workspace.outside) not in failure


def test_fifo_fails_the_query_without_blocking(scan, workspace):
    os.mkfifo(workspace.root / "pipe.csv")
    failure = failure_of(scan(workspace.scan("pipe.csv")))
    assert "engine.errors.UnreadableFileError: 'pipe.csv' in workspace 'dfs' cannot be read" in failure


def test_error_in_the_middle_of_a_file_names_file_and_line(scan, workspace):
    good = b"some,ordinary,row\n" * 100_000
    workspace.write("good.csv", good)
    workspace.write("logs/bad.csv", good + b"a,\xff\n" + good)
    failure = failure_of(scan(workspace.scan(".")))
    (line,) = {line for line in failure.splitlines() if line.startswith("engine.readers.reader_errors.")}
    assert line.startswith("engine.readers.reader_errors.FormatError: 'logs/bad.csv' in workspace 'dfs', line 100001: ")
    assert "the bytes are not UTF-8" in line


def test_missing_file_and_missing_option_are_named(read, scan, workspace):
    assert "'gone.csv' in workspace 'dfs' does not exist" in failure_of(scan(workspace.scan("gone.csv")))
    failure = failure_of(read({"root": "/data", "path": "a.csv"}).load())
    assert "engine.errors.ScanOptionError: Option 'workspace' of a scan is missing" in failure


def test_type_without_spark_type_is_named_and_can_be_declared(read, scan, workspace):
    many_digits = pa.array([Decimal("12345678901234567890123456789012345678901.5")], pa.decimal256(50, 1))
    data = written(write_stream, pa.table({"a": [1], "m": [{"d": many_digits[0].as_py()}], "d": many_digits}))
    workspace.write("a.arrows", data)
    source = workspace.scan("a.arrows")
    with pytest.raises(PySparkException, match="column 'm' has type struct<d:decimal"):
        scan(source).collect()
    reader = read(source.to_options())
    assert [tuple(row) for row in reader.schema("a bigint, d string").load().collect()] == [
        (1, "12345678901234567890123456789012345678901.5")
    ]


@pytest.mark.parametrize("zone", ["UTC", "Etc/UTC", "Asia/Tokyo"])
@pytest.mark.parametrize("is_declared", [False, True])
@pytest.mark.parametrize(("suffix", "write"), [("arrows", write_stream), ("parquet", parquet.write_table)])
def test_instants_can_be_read_in_any_time_zone(workspace, suffix, write, is_declared, zone):
    workspace.write(f"a.{suffix}", written(write, INSTANTS))
    scan = FileScan.from_options(workspace.scan(f"a.{suffix}").to_options(reader={"time_zone": zone}))
    at = pa.timestamp("us", zone)
    schema = TupleSchema([pa.field("tz", at), pa.field("nested", pa.list_(pa.struct([("at", at)])))])
    batches = [
        batch
        for files in plan_partitions(scan)
        for batch in read_partition(scan, files, schema, is_declared=is_declared)
    ]
    found = pa.Table.from_batches(batches)
    assert found.schema.types == schema.to_arrow().types
    assert found.cast(INSTANTS.schema).equals(INSTANTS)


@pytest.mark.slow
def test_instants_are_the_same_in_any_time_zone_of_the_session(read, scan, workspace):
    workspace.write("a.parquet", written(parquet.write_table, INSTANTS))
    source = workspace.scan("a.parquet")
    declared = "tz timestamp, nested array<struct<at timestamp>>"
    frames = []
    for zone in ("Etc/UTC", "Asia/Tokyo"):
        reader = read(source.to_options(reader={"time_zone": zone}))
        frames += [scan(source, time_zone=zone), reader.schema(declared).load()]
    instants = [frame.selectExpr("unix_micros(tz)", "unix_micros(get(nested, 0).at)") for frame in frames]
    rows = reduce(lambda first, second: first.union(second), instants).collect()
    assert [tuple(row) for row in rows] == [(0, 1), (1_750_000_000_000_001, None), (None, None)] * len(frames)


@pytest.mark.slow
def test_file_that_needs_too_much_memory_is_named_and_the_next_query_works(scan, workspace):
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 1500, pa.int32()), ["x" * 2**22])  # 6 GB of text
    workspace.write(
        "a.parquet", written(parquet.write_table, pa.table({"t": texts}), compression="zstd", store_schema=False)
    )
    workspace.write("b.csv", "1\n")
    failure = failure_of(scan(workspace.scan("a.parquet")).selectExpr("max(length(t))"))
    assert "[LODGE_MEMORY_EXCEEDED] 'a.parquet' in workspace 'dfs', row group 1: " in failure
    assert scan(workspace.scan("b.csv")).count() == 1
