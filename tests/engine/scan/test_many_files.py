"""Scans of many small files, of which one reader reads several."""

import gzip
import io
import json

import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from engine.errors import EngineError, FileChangedError
from engine.file_scan.file_scan import FileScan
from engine.file_scan.partition_reading import read_partition
from engine.file_scan.partitions import plan_partitions
from engine.file_scan.schema_discovery import discover_schema
from engine.schema import TupleSchema

FORMATS = ("json", "parquet", "orc")
WRITERS = {"parquet": parquet.write_table, "orc": orc.write_table}


def content(format_, rows, schema=None):
    if format_ == "json":
        return "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    sink = io.BytesIO()
    WRITERS[format_](pa.Table.from_pylist(rows, schema), sink)
    return sink.getvalue()


def write(workspace, format_, files, folder=""):
    for number, rows in enumerate(files):
        workspace.write(f"{folder}{number:03}.{format_}", content(format_, rows))


def batches_of(workspace, *columns, schema=None, **options):
    scan = FileScan.from_options(workspace.scan(".").to_options(reader=options, mentioned=columns or None))
    schema = schema or discover_schema(scan)
    return [
        batch for files in plan_partitions(scan) for batch in read_partition(scan, files, schema, is_declared=False)
    ]


@pytest.mark.parametrize("format_", FORMATS)
def test_many_files_with_the_same_columns_give_few_batches(workspace, format_):
    write(workspace, format_, [[{"n": number, "t": f"é{number}"}] for number in range(300)])
    batches = batches_of(workspace)
    assert len(batches) <= 12  # of two tasks, which begin with few files
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert rows == [{"n": number, "t": f"é{number}"} for number in range(300)]


@pytest.mark.parametrize("format_", FORMATS)
def test_batches_of_many_files_keep_the_limit_of_rows(workspace, format_):
    write(workspace, format_, [[{"n": 1000 * number + row} for row in range(1000)] for number in range(40)])
    batches = batches_of(workspace)
    assert [row["n"] for batch in batches for row in batch.to_pylist()] == list(range(40_000))
    assert 2 <= len(batches) <= 6


@pytest.mark.parametrize("format_", FORMATS)
def test_files_that_drift_between_others_give_the_same_rows(workspace, format_):
    files = [
        [{"a": 1, "b": "x"}],
        [{"a": 2, "b": "y"}, {"a": 3, "b": None}],
        [{"b": "z", "a": 4}],
        [{"a": 5, "b": "u", "c": True}],
        [{"a": 2.5, "b": "v"}],
        [{"a": 6}],
        [{"A": 7, "b": "w"}],
        [{"a": 8, "b": "t"}],
    ]
    write(workspace, format_, files)
    rows = [{name: row.get(name, row.get(name.upper())) for name in "abc"} for rows in files for row in rows]
    assert workspace.rows() == rows


@pytest.mark.parametrize("format_", FORMATS)
def test_columns_of_the_path_have_the_values_of_each_file(workspace, format_):
    for folder in ("a/", "b/", "b/c/"):
        write(workspace, format_, [[{"n": number}] for number in range(3)], folder)
    found = [(row["dir0"], row["dir1"], row["n"]) for row in workspace.rows()]
    assert found == [(*folders, n) for folders in (("a", None), ("b", None), ("b", "c")) for n in range(3)]
    names = [row["filename"] for batch in batches_of(workspace, "filename") for row in batch.to_pylist()]
    assert names == [f"{number:03}.{format_}" for number in range(3)] * 3


@pytest.mark.parametrize("format_", FORMATS)
def test_error_in_one_of_many_files_names_this_file(workspace, format_):
    files = [[{"n": number}] for number in range(20)]
    write(workspace, format_, files)
    scan = FileScan.from_options(workspace.scan(".").to_options())
    schema = discover_schema(scan)
    (partition,) = plan_partitions(scan)
    damaged = workspace.root / f"013.{format_}"
    size = damaged.stat().st_size
    damaged.write_bytes(b"?" * size)
    with pytest.raises(EngineError, match=f"013.{format_}"):
        list(read_partition(scan, partition, schema, is_declared=False))
    damaged.write_bytes(content(format_, files[13]) + b"\n" * 9)
    with pytest.raises(FileChangedError, match=f"013.{format_}"):
        list(read_partition(scan, partition, schema, is_declared=False))


def test_value_that_does_not_fit_names_its_file_among_others(workspace):
    write(workspace, "json", [[{"n": number}] for number in range(20)])
    workspace.write("013.json", '{"n": 1}\n{"n": 10000000000}\n')
    with pytest.raises(EngineError, match=r"'013.json' in workspace 'dfs'.*column 'n'"):
        batches_of(workspace, schema=TupleSchema([pa.field("n", pa.int32())]))


def declared(workspace, *fields, **options):
    scan = FileScan.from_options(workspace.scan(".").to_options(reader=options))
    schema = TupleSchema(pa.field(name, type_) for name, type_ in fields)
    batches = [
        batch for files in plan_partitions(scan) for batch in read_partition(scan, files, schema, is_declared=True)
    ]
    for batch in batches:
        batch.validate(full=True)
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("number", "type_"),
    [
        ("35000000000000000000000000000000000000", pa.decimal128(38, 2)),
        ("12345678901234567890", pa.decimal128(20, 2)),
        ("12345678", pa.decimal128(9, 2)),
        ("1e30", pa.decimal128(20, 2)),
    ],
)
def test_number_that_is_too_large_for_a_decimal_is_an_error(workspace, number, type_):
    workspace.write("0.json", '{"d": 1}\n')
    assert declared(workspace, ("d", type_)) == [{"d": 1}]
    workspace.write("1.json", f'{{"d": {number}}}\n')
    with pytest.raises(EngineError, match=r"'1\.json' in workspace 'dfs'"):
        declared(workspace, ("d", type_))


@pytest.mark.parametrize("type_", [pa.float64(), pa.float32()])
def test_mixed_numbers_of_one_file_are_an_error_of_the_strict_policy(workspace, type_):
    workspace.write("0.json", '{"d": 1}\n')
    workspace.write("1.json", '{"d": 1}\n{"d": 2.5}\n')
    with pytest.raises(EngineError, match=r"'1\.json' in workspace 'dfs', line 2"):
        declared(workspace, ("d", type_), on_type_conflict="error")


def test_partitions_are_compared_by_their_texts(workspace):
    for value in ("-0.0", "0.0"):
        workspace.write(f"k={value}/a.json", '{"i": 1}\n')
    rows = declared(workspace, ("i", pa.int64()), ("k", pa.float64()))
    assert [str(row["k"]) for row in rows] == ["-0.0", "0.0"]
    workspace.write("k=x/a.json", "")
    assert len(declared(workspace, ("i", pa.int64()), ("k", pa.float64()))) == 2


def test_first_batch_does_not_open_all_files(workspace):
    write(workspace, "json", [[{"n": number}] for number in range(200)])
    scan = FileScan.from_options(workspace.scan(".").to_options())
    schema = discover_schema(scan)
    (partition,) = plan_partitions(scan)
    (workspace.root / "100.json").unlink()
    batches = read_partition(scan, partition, schema, is_declared=False)
    assert next(batches).num_rows < 100
    with pytest.raises(EngineError, match=r"100\.json"):
        list(batches)


def test_files_of_several_formats_keep_their_order(workspace):
    for number in range(30):
        format_ = FORMATS[number % 2]
        workspace.write(f"{number:03}.{format_}", content(format_, [{"n": number}]))
    assert [row["n"] for row in workspace.rows()] == list(range(30))


def test_empty_files_and_files_of_nulls_give_their_rows(workspace):
    files = [[{"n": 1}], [], [{"n": None}, {"n": None}], [{}], [{"n": 2}]]
    write(workspace, "json", files)
    assert [row["n"] for row in workspace.rows()] == [1, None, None, None, 2]


def test_readers_continue_only_in_files_with_the_same_options(workspace):
    workspace.write("0.csv", "a,b\n1,2\n")
    workspace.write("1.tsv", "a\tb\n3\t4\n")
    workspace.write("2.tsv.gz", gzip.compress(b"a\tb\n5\t6\n"))
    assert workspace.rows(header="true") == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}, {"a": "5", "b": "6"}]
