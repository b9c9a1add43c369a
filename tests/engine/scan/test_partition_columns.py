"""Numbers in comments are the guarantees of ``engine.scan.partition_columns``. Spark infers the same types."""

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from engine.errors import PartitionError
from engine.file_scan.file_scan import FileScan
from engine.file_scan.partition_reading import read_partition
from engine.file_scan.partitions import plan_partitions
from engine.file_scan.schema_discovery import discover_schema
from engine.scan.partition_columns import convert_value, find_partition_columns, partition_pairs
from engine.scan.path_filter import PathFilter
from engine.scan_source import ScanSource
from engine.schema import TupleSchema

INSTANT = pa.timestamp("us", "UTC")
BERLIN = pa.timestamp("us", "Europe/Berlin")


@pytest.mark.parametrize(
    ("values", "type_", "results"),
    [
        (["1", "-7", "+5", "007"], pa.int32(), [1, -7, 5, 7]),
        (["1", "3000000000"], pa.int64(), [1, 3000000000]),
        (["99999999999999999999", "1"], pa.decimal128(20, 0), [Decimal("99999999999999999999"), Decimal(1)]),
        (["1e3"], pa.decimal128(4, 0), [Decimal(1000)]),
        (["5."], pa.decimal128(1, 0), [Decimal(5)]),
        (["9" * 39], pa.float64(), [1e39]),
        (["1", "1.5", "2d", ".5", " 1"], pa.float64(), [1.0, 1.5, 2.0, 0.5, 1.0]),
        (["3000000000", "1.5"], pa.string(), ["3000000000", "1.5"]),
        (["99999999999999999999", "1.5"], pa.string(), ["99999999999999999999", "1.5"]),
        (["2026-01-02"], pa.date32(), [datetime.date(2026, 1, 2)]),
        (
            ["2026-01-02", "2026-01-02 03:04:05"],
            INSTANT,
            [
                datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
                datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
            ],
        ),
        (["2026-01-02", "1"], pa.string(), ["2026-01-02", "1"]),
        (["2026-13-01"], pa.string(), ["2026-13-01"]),
        (["2026-1-2"], pa.string(), ["2026-1-2"]),
        (["2026-01-02 03:04:05.123"], pa.string(), ["2026-01-02 03:04:05.123"]),
        (["2026-01-02T03:04:05"], pa.string(), ["2026-01-02T03:04:05"]),
        (["true", "0x10", "1_000", "12:30"], pa.string(), ["true", "0x10", "1_000", "12:30"]),
        (["1", "x"], pa.string(), ["1", "x"]),
        (["1", "__HIVE_DEFAULT_PARTITION__"], pa.int32(), [1, None]),
        (["__HIVE_DEFAULT_PARTITION__"], pa.string(), [None]),
        (["a%20b%2Fc"], pa.string(), ["a b/c"]),
        (["é%FF"], pa.string(), ["éÿ"]),
        (["%31"], pa.string(), ["1"]),
        (["2026-01-02 03%3A04%3A05"], INSTANT, [datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)]),
        (["1.5e3"], pa.decimal128(4, 0), [Decimal(1500)]),
    ],
)
def test_type_fits_all_values(values, type_, results):  # 2, 3
    directories = [[f"k={value}"] for value in values]
    for order in (directories, directories[::-1]):
        (field,) = find_partition_columns(order, "dfs", ".")
        assert (field.name, field.type) == ("k", type_)
    texts = [partition_pairs(names)[0][1] for names in directories]
    assert [convert_value(text, type_).as_py() for text in texts] == results


@pytest.mark.parametrize(
    ("text", "type_", "result"),
    [
        ("2026-01-02T03:04:05Z", BERLIN, datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)),
        ("2026-01-02 03:04:05-05:00", BERLIN, datetime.datetime(2026, 1, 2, 8, 4, 5, tzinfo=datetime.UTC)),
        ("2026-01-02 03:04:05-05:00", pa.timestamp("us"), datetime.datetime(2026, 1, 2, 3, 4, 5)),
        ("5.10", pa.decimal128(38, 37), Decimal("5.1")),
        ("0e90", pa.decimal128(1, 0), Decimal(0)),
        ("1e38", pa.decimal128(38, 0), None),
        ("95962291402021331334", pa.decimal128(38, 22), None),
        ("3.7188221081518712081659993902739149789177", pa.decimal128(4, 1), None),
        ("1e999999999", pa.int64(), None),
        ("1e999999999", pa.decimal128(38, 0), None),
        ("1e-999999999", pa.decimal128(38, 0), None),
        ("1", pa.bool_(), None),
        ("1_0", pa.int64(), None),
        ("1_0", pa.decimal128(5, 2), None),
        ("-0", pa.int64(), 0),
        (" -0", pa.int64(), None),
        ("1e5", pa.int64(), None),
        ("TRUE", pa.bool_(), True),
        ("0001-01-01T00:00:00+05:00", BERLIN, None),
        ("9999-12-31T23:59:59-05:00", BERLIN, None),
    ],
)
def test_value_of_a_declared_type_is_exact_or_refused(text, type_, result):
    if result is None:
        with pytest.raises(ValueError):
            convert_value(text, type_)
    else:
        assert convert_value(text, type_).as_py() == result


def test_names_are_unescaped_and_other_directories_ignored():  # 3
    directories = [["raw", "user%20id=1", "x", "b=2"], ["other", "user%20id=2", "y", "b=3"]]
    assert [field.name for field in find_partition_columns(directories, "dfs", "t")] == ["user id", "b"]
    assert find_partition_columns([["raw", "=1", "dir0=x"]], "dfs", "t") == []


@pytest.mark.parametrize(
    ("directories", "problem"),
    [
        ([["a=1"], ["b=1"]], "'t/b=1' in workspace 'dfs' does not give the same partition columns as 't/a=1'"),
        (
            [["a=1"], ["a=1", "b=1"]],
            "'t/a=1/b=1' in workspace 'dfs' does not give the same partition columns as 't/a=1'",
        ),
        ([[], ["a=1"]], "'t/a=1' in workspace 'dfs' does not give the same partition columns as 't'"),
        ([["a=1", "A=2"]], "'t/a=1/A=2' in workspace 'dfs' has two names that are equal when case is ignored"),
        ([["a="]], "'t/a=' in workspace 'dfs' has a name without a value"),
    ],
)
def test_different_names_are_an_error(directories, problem):  # 1
    with pytest.raises(PartitionError, match=problem) as raised:
        find_partition_columns(directories, "dfs", "t")
    assert "partitions = false" in str(raised.value)


@pytest.fixture
def lake(tmp_path):
    for day, value in (("2026-01-01", 1), ("2026-01-02", 2), ("__HIVE_DEFAULT_PARTITION__", 3)):
        for hour in (7, 12):
            path = tmp_path / f"t/day={day}/hour={hour}/a.json"
            path.parent.mkdir(parents=True)
            path.write_text(f'{{"a": {value}}}\n')
    return tmp_path


def rows(lake, path="t", mentioned=None, filters=(), **options):
    source = ScanSource("dfs", str(lake), path)
    scan = FileScan.from_options(source.to_options(reader=options, mentioned=mentioned))
    schema = discover_schema(scan)
    parts = plan_partitions(scan, schema, path_filters=filters)
    batches = [batch for files in parts for batch in read_partition(scan, files, schema, is_declared=False)]
    return pa.Table.from_batches(batches, schema.to_arrow()).to_pylist()


def test_columns_follow_those_of_the_files(lake):
    found = rows(lake)
    assert list(found[0]) == ["a", "day", "hour", "dir0", "dir1"]
    assert found[0] == {
        "a": 1,
        "day": datetime.date(2026, 1, 1),
        "hour": 12,
        "dir0": "day=2026-01-01",
        "dir1": "hour=12",
    }
    assert [row["day"] for row in found if row["a"] == 3] == [None, None]


def test_option_turns_partition_columns_off(lake):
    assert list(rows(lake, partitions="false")[0]) == ["a", "dir0", "dir1"]


def test_only_mentioned_columns_are_returned(lake):
    assert list(rows(lake, mentioned=frozenset({"hour"}))[0]) == ["hour"]


def test_selected_directory_gives_no_column(lake):
    assert list(rows(lake, "t/day=2026-01-01")[0]) == ["a", "hour", "dir0"]


def test_column_of_files_and_directories_is_an_error_if_it_is_needed(lake):
    (lake / "t/day=2026-01-01/hour=7/a.json").write_text('{"a": 1, "HOUR": "noon"}\n')
    for mentioned in (None, frozenset({"hour"})):
        with pytest.raises(PartitionError, match="has directories and files with a column 'hour'"):
            rows(lake, mentioned=mentioned)
    assert len(rows(lake, mentioned=frozenset({"a", "day"}))) == 6
    found = rows(lake, partitions="false")
    assert sorted({str(row["HOUR"]) for row in found}) == ["None", "noon"]


def test_different_names_are_no_error_if_they_are_not_needed(lake):
    (lake / "t/other=1").mkdir()
    (lake / "t/other=1/a.json").write_text('{"a": 1}\n')
    assert len(rows(lake, mentioned=frozenset({"a"}))) == 7
    with pytest.raises(PartitionError):
        rows(lake, mentioned=frozenset({"a", "hour"}))


@pytest.mark.parametrize("operator", ["=", ">", "<", ">=", "<="])
@pytest.mark.parametrize(("value", "other"), [(float("nan"), 1.0), (1.0, float("nan")), (float("nan"), float("nan"))])
def test_filter_never_excludes_because_of_nan(operator, value, other):
    assert PathFilter("k", operator, [other]).accepts(value)


@pytest.mark.parametrize(
    ("filters", "values"),
    [
        ([PathFilter("hour", ">", [7])], [1, 2, 3]),
        ([PathFilter("HOUR", "=", [7]), PathFilter("day", "<", [datetime.date(2026, 1, 2)])], [1]),
        ([PathFilter("day", "is null"), PathFilter("hour", "=", [7, 8])], [3]),
        ([PathFilter("day", "is not null"), PathFilter("hour", "=", [Decimal(12)])], [1, 2]),
        ([PathFilter("hour", "=", ["7"])], [1, 1, 2, 2, 3, 3]),
        ([PathFilter("a", "=", [7])], [1, 1, 2, 2, 3, 3]),
    ],
)
def test_filters_exclude_files(lake, filters, values):
    assert sorted(row["a"] for row in rows(lake, filters=filters)) == values


def test_declared_column_has_the_value_of_the_directory(lake):
    scan = FileScan.from_options(ScanSource("dfs", str(lake), "t").to_options())
    schema = pa.schema([("hour", pa.string()), ("a", pa.int64())])
    declared = TupleSchema.of(schema)
    parts = plan_partitions(scan, declared, is_declared=True, path_filters=[PathFilter("hour", "=", ["7"])])
    found = [
        row
        for files in parts
        for batch in read_partition(scan, files, declared, is_declared=True)
        for row in batch.to_pylist()
    ]
    assert sorted(found, key=str) == [{"hour": "7", "a": value} for value in (1, 2, 3)]
