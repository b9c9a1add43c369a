"""Which files of a scan Spark reads with its own reader."""

import os
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyspark.sql.connect.proto import base_pb2, relations_pb2

from engine.discovery import encode_schema
from engine.file_scan.column_selection import select_columns
from engine.file_scan.file_scan import FileScan
from engine.file_scan.schema_discovery import discover_schema, examine_file, merge_file_schemas
from engine.readers.columnar.spark_marks import is_marked
from engine.schema import TupleSchema
from engine.storage.protected_files import ProtectedFiles
from gateway.scans import spark_readers
from gateway.scans.spark_readers import FORMATS, MIN_FILE_BYTES, build_relation, may_replace_scans, split_files

NUMBERS = pa.table({"a": [1, 2]})
DAYS = pa.table({"a": pa.array([1], pa.date32())})
LARGE_DAYS = pa.table({"a": pa.array(range(300_000), pa.date32()), "b": [1] * 300_000})
LARGE = pa.table({"a": list(range(200_000))})


class Scan:
    """A scan of a directory, of which the test writes the files."""

    def __init__(self, root):
        self.root = root

    def write(self, name, table, **options):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path, **options)
        os.utime(path, (1_700_000_000, 1_700_000_000))
        return path

    def split(self, columns=None, formats=FORMATS, **options):
        given = {"workspace": "dfs", "root": str(self.root), "path": ".", **options}
        scan = FileScan.from_options(given)
        if columns is not None:
            scan = replace(scan, mentioned=frozenset(columns))
        files = scan.list_files()
        schemas = [encode_schema(examine_file(scan, scan.open_later(file))) for file in files]
        selected = select_columns(scan, merge_file_schemas(scan, files, schemas), files)
        return split_files(scan, selected, files, schemas, formats)

    def names(self, columns=None, **options):
        found = self.split(columns, **options)
        return None if found is None else [[one.path for one in part] for part in (found.of_spark, found.of_engine)]


@pytest.fixture
def scan(tmp_path):
    (tmp_path / "files").mkdir(mode=0o755)
    return Scan(tmp_path / "files")


def test_files_with_the_types_of_the_scan(scan):
    scan.write("a.parquet", NUMBERS)
    scan.write("b.parquet", pa.table({"b": ["x"], "a": [3]}))
    assert scan.names() == [["a.parquet", "b.parquet"], []]


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"A": [1]}),
        pa.table({"a": pa.array([1], pa.int32())}),
        pa.table({"a": [1], "b": [{"x": 1.5}]}),
        pa.table({"a": [1], "b": pa.array([1], pa.timestamp("ns"))}),
    ],
    ids=["letter case", "narrower type", "struct with floating-point member", "nanoseconds"],
)
def test_small_files_that_spark_could_read_beside_others_are_left_to_the_engine(scan, table):
    scan.write("a.parquet", NUMBERS)
    scan.write("b.parquet", table)
    assert scan.names() is None


def test_large_files_beside_others(scan):
    path = scan.write("a.parquet", LARGE, compression="none")
    assert path.stat().st_size > MIN_FILE_BYTES
    scan.write("b.parquet", pa.table({"a": pa.array([1], pa.int32())}))
    assert scan.names() == [["a.parquet"], ["b.parquet"]]


def test_files_with_equal_columns_are_decided_one_by_one(scan):
    """Discovery remembers what it decided for the columns of the file before."""
    others = LARGE_DAYS.rename_columns([name.upper() for name in LARGE_DAYS.column_names])
    for number in range(0, 12, 4):
        scan.write(f"{number:02}.parquet", LARGE_DAYS, compression="none")
        scan.write(f"{number + 1:02}.parquet", LARGE_DAYS, compression={"a": "none", "b": "brotli"})
        scan.write(f"{number + 2:02}.parquet", others, compression="none")
        scan.write(f"{number + 3:02}.parquet", LARGE_DAYS, compression="none", row_group_size=100_000)
    of_spark, of_engine = scan.names()
    assert of_spark == ["00.parquet", "03.parquet", "04.parquet", "07.parquet", "08.parquet", "11.parquet"]
    assert len(of_engine) == 6


@pytest.mark.parametrize("name", ["a b.parquet", "[a].parquet", "a%20b.parquet", "a*.parquet", "a.pq", "ä.parquet"])
def test_names_that_spark_may_interpret(scan, name):
    scan.write(name, NUMBERS)
    assert scan.names() is None


def test_many_small_files_are_left_to_the_engine(scan, monkeypatch):
    scan.write("a.parquet", NUMBERS)
    scan.write("b.parquet", LARGE, compression="none")
    assert scan.names() == [["a.parquet", "b.parquet"], []]
    monkeypatch.setattr(spark_readers, "FEW_FILES", 1)
    assert scan.names() == [["b.parquet"], ["a.parquet"]]


def test_columns_of_partitions(scan):
    files = [scan.write(f"year={year}/a.parquet", NUMBERS) for year in (2025, 2026)]
    paths = [[str(file.relative_to(scan.root)) for file in files], []]
    assert scan.names() == scan.names(["a", "year"]) == scan.names(["a"]) == scan.names(["year"]) == paths


@pytest.mark.parametrize(
    ("directories", "expected"),
    [
        (["key=x", "key=y"], True),
        (["key=2026-11-24", "key=__HIVE_DEFAULT_PARTITION__"], True),
        (["key=1", "key=10000000000"], True),
        (["b=1/key=x", "b=2/key=y"], True),
        (["key=1.5", "key=2"], False),
        (["key=2026-11-24T10"], True),
        (["key=x%3Ay", "key=y"], False),
        (["key=x=y"], False),
        (["b/key=x", "c/key=y"], False),
        (["key=x/b", "key=y/c"], False),
        (["key=x", "KEY=y"], False),
        (["dir7=a/key=x"], False),
        (["b=1/c/key=x"], False),
    ],
)
def test_columns_of_partitions_that_spark_finds(scan, directories, expected):
    for directory in directories:
        scan.write(f"{directory}/a.parquet", NUMBERS)
    assert (scan.names(["a", "key"]) is not None) is expected


def test_partitions_below_the_selected_directory(scan):
    scan.write("b/year=2025/month=1/a.parquet", NUMBERS)
    assert scan.names(["a", "year"]) is None
    for path in ("b", "b/year=*"):
        found = scan.split(["a", "month"], path=path)
        assert found.paths.options == {"basePath": f"file:{scan.root}/b"}
    assert scan.split(["a"], path="b").paths.options == {"recursiveFileLookup": "true"}


def test_columns_of_the_path_and_statements_without_columns(scan):
    scan.write("x/a.parquet", NUMBERS)
    assert scan.names([]) is None
    for columns in (None, ["a", "filename"], ["dir0"], ["a"]):
        assert scan.names(columns) == [["x/a.parquet"], []]


@pytest.mark.parametrize("discovery", ["first", "sample"])
def test_files_that_were_not_examined(scan, discovery):
    scan.write("a.parquet", NUMBERS)
    scan.write("b.parquet", NUMBERS)
    source = FileScan.from_options({"workspace": "dfs", "root": str(scan.root), "path": "."})
    files = source.list_files()
    schemas = [encode_schema(examine_file(source, source.open_later(files[0])))]
    assert split_files(source, merge_file_schemas(source, files[:1], schemas), files, schemas) is None


def test_more_files_than_a_plan_may_contain(scan, monkeypatch):
    scan.write("a.parquet", NUMBERS)
    scan.write("b.parquet", NUMBERS)
    monkeypatch.setattr(spark_readers, "MAX_FILES", 1)
    assert scan.names() is None


@pytest.mark.parametrize(
    ("metadata", "of_96_bits"),
    [
        ({}, False),
        ({"org.apache.spark.version": "4.3.0"}, False),
        ({"org.apache.spark.version": "2.4.8"}, True),
        ({"org.apache.spark.version": "3.5.0", "org.apache.spark.legacyINT96": ""}, True),
    ],
)
def test_dates_and_times_of_another_calendar(scan, metadata, of_96_bits):
    scan.write("a.parquet", DAYS.replace_schema_metadata(metadata))
    assert scan.names() == [["a.parquet"], []]
    times = pa.table({"a": pa.array([1000], pa.timestamp("us"))}).replace_schema_metadata(metadata)
    scan.write("a.parquet", times, use_deprecated_int96_timestamps=True)
    assert (scan.names() is not None) is of_96_bits


@pytest.mark.parametrize(
    ("unit", "zone", "expected"), [("ms", "UTC", False), ("ms", None, True), ("us", "UTC", True), ("us", None, True)]
)
def test_instants_in_milliseconds(scan, unit, zone, expected):
    scan.write("a.parquet", pa.table({"a": pa.array([1], pa.timestamp(unit, zone))}))
    assert (scan.names() is not None) is expected


@pytest.mark.parametrize(
    ("codec", "expected"),
    [("none", True), ("snappy", True), ("gzip", True), ("zstd", True), ("lz4", True), ("brotli", False)],
)
def test_codecs(scan, codec, expected):
    scan.write("a.parquet", pa.table({"a": [1, 2], "b": ["x", None], "n" * 200: [1.5, 2]}), compression=codec)
    assert (scan.names() is not None) is expected


def test_codec_of_each_column(scan):
    table = pa.table({"a": [1, 2], "b": [1, 2], "c.d": [1, 2]})
    scan.write("a.parquet", table, compression={"a": "snappy", "b": "brotli"}, row_group_size=1)
    assert scan.names() is None
    assert scan.names(["a"]) == [["a.parquet"], []]
    assert scan.names(["b"]) is None


def test_codecs_of_nested_columns(scan):
    table = pa.table({"a": [[1], [2]], "b": [{"x": 1, "y": {"z": "b"}}] * 2, "c": pa.array([[("k", 1)]] * 2, MAP)})
    codecs = dict.fromkeys(("a.list.element", "b.x", "b.y.z", "c.key_value.key", "c.key_value.value"), "zstd")
    scan.write("a.parquet", table, compression=codecs, row_group_size=1)
    assert scan.names() == [["a.parquet"], []]
    for leaf in codecs:
        scan.write("a.parquet", table, compression={**codecs, leaf: "brotli"}, row_group_size=1)
        assert scan.names([leaf[0]]) is None, leaf
        assert scan.names(["abc".replace(leaf[0], "")[0]]) is not None, leaf


MAP = pa.map_(pa.string(), pa.int64())


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([[1, None], None, []]), True),
        (pa.array([[[1.5]]], pa.list_(pa.list_(pa.float32()))), True),
        (pa.array([[1, 2]], pa.list_(pa.int32(), 2)), True),
        (pa.array([[("k", 1)], None], MAP), True),
        (pa.array([[("k", [{"x": 1}])]], pa.map_(pa.string(), pa.list_(pa.struct({"x": pa.int8()})))), True),
        (pa.array([{"x": 1, "y": {"z": ["a"]}}]), True),
        (pa.array([{"x": [1.5]}]), True),
        (pa.array([{"x": 1.5}]), False),
        (pa.array([{"x": {"y": 1.5}}]), False),
        (pa.array([[{"x": 1.5}]]), False),
        (pa.array([{"x": 1000}], pa.struct({"x": pa.timestamp("ns")})), False),
        (pa.array([{"x": 1000}], pa.struct({"x": pa.time64("us")})), False),
        (pa.array([{"x.y": 1}]), False),
        (pa.array([{"metadata": b"", "value": b""}]), False),
        (pa.array([[{"metadata": b"", "value": b"", "typed_value": 1}]]), False),
        (pa.array([[2**63]], pa.list_(pa.uint64())), False),
    ],
)
def test_nested_columns(scan, column, expected):
    scan.write("a.parquet", pa.table({"a": column}))
    assert (scan.names() is not None) is expected


def test_lists_without_the_levels_of_the_format(scan):
    scan.write("a.parquet", pa.table({"a": [[1]]}), use_compliant_nested_type=False)
    assert scan.names() is None


def test_codecs_of_a_file_with_a_large_footer(scan):
    """The footer of such a file is read from the file, and not from a copy in memory."""
    scan.write("a.parquet", pa.table({"a": range(10_000)}), compression="none", row_group_size=10)
    scan.write("b.parquet", pa.table({"a": range(10_000)}), compression="brotli", row_group_size=10)
    assert scan.names() is None
    (scan.root / "b.parquet").unlink()
    assert scan.names() == [["a.parquet"], []]


def checksums(path, size_bytes):
    """Write a checksum file as large as Hadoop's."""
    found = path.parent / f".{path.name}.crc"
    found.write_bytes(bytes(8 + 4 * -(-size_bytes // 512)))
    return found


def test_checksum_files(scan):
    path = scan.write("x/a.parquet", NUMBERS)
    scan.write("x/b.parquet", NUMBERS)
    found = checksums(path, path.stat().st_size)
    assert scan.names(["a"]) == [["x/a.parquet", "x/b.parquet"], []]
    checksums(path, path.stat().st_size + 512)
    assert scan.split(["a"]).of_engine[0].path == "x/a.parquet"
    checksums(path, path.stat().st_size)
    os.utime(found, (1_600_000_000, 1_600_000_000))
    assert scan.names(["a"]) == [["x/b.parquet"], ["x/a.parquet"]]


def test_timestamps_of_96_bits(scan):
    table = pa.table({"a": pa.array([1000], pa.timestamp("us"))})
    scan.write("a.parquet", table)
    assert scan.names() is not None
    scan.write("a.parquet", table, use_deprecated_int96_timestamps=True)
    assert scan.names() is None


def test_marks_do_not_reach_the_schema_of_the_scan(scan):
    scan.write("a.parquet", NUMBERS)
    source = FileScan.from_options({"workspace": "dfs", "root": str(scan.root), "path": "."})
    (file,) = source.list_files()
    assert is_marked(examine_file(source, source.open_later(file)).find("a").metadata, "parquet")
    assert not is_marked(discover_schema(source).find("a").metadata, "parquet")


@pytest.mark.parametrize("mode", [0o775, 0o757])
def test_directories_that_others_may_write(scan, mode):
    scan.write("x/a.parquet", NUMBERS)
    for path in (scan.root / "x", scan.root):
        path.chmod(mode)
        assert scan.names(["a"]) is None
        path.chmod(0o755)
    assert scan.names(["a"]) is not None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")
def test_files_of_other_owners(scan):
    path = scan.write("x/a.parquet", NUMBERS)
    for each in (path, path.parent):
        os.chown(each, 12345, -1)
        assert scan.names(["a"]) is None
        os.chown(each, 0, -1)
    os.chown(scan.root, 12345, -1)
    os.chown(path, 12345, -1)
    assert scan.names(["a"]) is not None


def test_links(scan):
    path = scan.write("x/_b", NUMBERS)
    (scan.root / "x" / "a.parquet").symlink_to(path)
    assert scan.names(["a"]) is None
    path.rename(scan.root / "x" / "a.parquet")
    assert scan.names(["a"]) is not None
    (scan.root / "x").rename(scan.root / "_x")
    (scan.root / "x").symlink_to(scan.root / "_x")
    assert scan.names(["a"]) is None


def test_files_that_changed_since_the_listing(scan):
    path = scan.write("a.parquet", NUMBERS)
    source = FileScan.from_options({"workspace": "dfs", "root": str(scan.root), "path": "."})
    (file,) = source.list_files()
    assert ProtectedFiles(source.source).contains(file)
    os.utime(path, (1_700_000_001, 1_700_000_001))
    assert not ProtectedFiles(source.source).contains(file)
    path.unlink()
    assert not ProtectedFiles(source.source).contains(file)


def test_workspace_in_an_object_store(scan):
    scan.write("a.parquet", NUMBERS)
    local = FileScan.from_options({"workspace": "dfs", "root": str(scan.root), "path": "."})
    files = local.list_files()
    schemas = [encode_schema(examine_file(local, local.open_later(file))) for file in files]
    merged = merge_file_schemas(local, files, schemas)
    assert split_files(local, merged, files, schemas) is not None
    remote = replace(local, source=replace(local.source, root="s3://bucket"))
    assert split_files(remote, merged, files, schemas) is None


def test_workspace_in_an_excluded_directory(scan, tmp_path):
    scan.write("a.parquet", NUMBERS)
    assert scan.names(excluded=f'["{scan.root}/tmp"]') is not None
    assert scan.names(excluded=f'["{tmp_path}"]') is None


def test_relation_contains_each_file_once(scan):
    scan.write("a.parquet", LARGE, compression="none")
    scan.write("b.parquet", pa.table({"a": pa.array([1], pa.int32())}))
    engine = relations_pb2.Relation()
    engine.read.data_source.format = "lodge"
    split = scan.split()
    found = build_relation(split, "dfs", TupleSchema([pa.field("a", pa.int64())]), engine)
    read = found.set_op.left_input.project.input.filter.input.read.data_source
    assert (read.format, list(read.paths)) == ("parquet", [f"file:{scan.root}/a.parquet"])
    assert found.set_op.right_input == engine
    assert found.set_op.is_all


def test_filters_on_floating_point_columns_are_not_pushed_down(scan):
    table = pa.table({"a": [1], "`b": [1.5], "c": pa.array([1.5], pa.float32())})
    scan.write("a.parquet", table)
    columns = TupleSchema(table.schema)
    expressions = build_relation(scan.split(), "dfs", columns, None).project.expressions
    assert expressions[0].unresolved_attribute.unparsed_identifier == "`a`"
    assert [one.alias.name for one in expressions[1:]] == [["`b"], ["c"]]
    function = expressions[1].alias.expr.unresolved_function
    assert function.function_name == "system.builtin.`nanvl`"
    assert [one.unresolved_attribute.unparsed_identifier for one in function.arguments] == ["```b`"] * 2


def test_other_commands_keep_the_engine():
    query = base_pb2.Plan()
    query.root.read.data_source.format = "lodge"
    assert may_replace_scans(query)
    assert may_replace_scans(base_pb2.AnalyzePlanRequest(explain=base_pb2.AnalyzePlanRequest.Explain(plan=query)))
    written = base_pb2.Plan()
    written.command.write_operation.input.CopyFrom(query.root)
    assert may_replace_scans(written)
    command = base_pb2.Plan()
    command.command.create_dataframe_view.input.CopyFrom(query.root)
    assert not may_replace_scans(command)
    assert not may_replace_scans(query.root)
    query.root.sql.query = "select INPUT_FILE_NAME() from x"
    assert not may_replace_scans(query)


ORC_COLUMNS = {
    "flag": pa.array([True]),
    "tiny": pa.array([1], pa.int8()),
    "number": pa.array([1], pa.int32()),
    "real": pa.array([1.5], pa.float32()),
    "text": pa.array(["a"]),
    "bytes": pa.array([b"a"]),
    "decimal": pa.array([Decimal("1.25")]),
}


def write_orc(scan, name, columns):
    path = scan.root / name
    orc.write_table(pa.table(columns), path)
    os.utime(path, (1_700_000_000, 1_700_000_000))


def test_orc_columns_of_simple_types(scan):
    write_orc(scan, "a.orc", ORC_COLUMNS)
    write_orc(scan, "b.orc", {"more": pa.array([1])})
    assert scan.names() == [["a.orc", "b.orc"], []]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1], pa.timestamp("us")),
        pa.array([1], pa.timestamp("us", "UTC")),
        pa.array([1], pa.date32()),  # pyarrow does not write the calendar
        pa.array([[1]]),
        pa.array([{"x": 1}]),
    ],
)
def test_other_orc_columns(scan, column):
    write_orc(scan, "a.orc", {**ORC_COLUMNS, "other": column})
    assert scan.names() is None
    assert scan.names({"number", "text"}) == [["a.orc"], []]


def test_orc_files_of_old_hive_have_no_names(scan):
    write_orc(scan, "a.orc", {"_col0": pa.array([1]), "_col1": pa.array(["a"])})
    assert scan.names() is None
    write_orc(scan, "a.orc", {"_col0": pa.array([1]), "b": pa.array(["a"])})
    assert scan.names() == [["a.orc"], []]


def test_spark_reads_one_format_of_a_scan(scan):
    write_orc(scan, "a.orc", {"a": pa.array(range(2_000_000))})
    scan.write("b.parquet", LARGE)
    assert scan.names() == [["b.parquet"], ["a.orc"]]


def test_only_formats_of_the_first_readers(scan):
    write_orc(scan, "a.orc", ORC_COLUMNS)
    assert scan.split(formats=("orc",)) is not None
    assert scan.split(formats=("parquet",)) is None
