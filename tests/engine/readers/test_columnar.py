"""Parquet, ORC and Arrow IPC: rows in the types of a scan, splits, filters and invalid files."""

import datetime
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import feather, orc, parquet

from engine.errors import DuplicateColumnError, EngineError, ValueConversionError
from engine.readers.reader_errors import FormatError, UnsupportedTypeError
from engine.scan.row_filter import COMPARISONS, RowFilter
from tests.engine.file_bytes import write_stream, written


def in_units(path, table, rows):
    """Return a file with units of a number of rows."""
    if path.endswith(".parquet"):
        return written(parquet.write_table, table, row_group_size=rows)
    if path.endswith(".orc"):
        return written(orc.write_table, table, stripe_size=1, batch_size=rows)
    return written(feather.write_feather, table, chunksize=rows)


WRITERS = {
    "a.parquet": parquet.write_table,
    "a.orc": orc.write_table,
    "a.feather": feather.write_feather,
    "a.arrow": write_stream,
}
PATHS = list(WRITERS)
TABLE = pa.table(
    {
        "i": [1, None, 3],
        "s": ["x", "é", None],
        "d": pa.array([Decimal("1.10"), None, Decimal("-2.20")], pa.decimal128(10, 2)),
        "t": pa.array([0, 1, None], pa.date32()),
        "m": [{"x": 1, "l": ["a"]}, None, {"x": None, "l": []}],
    }
)


@pytest.mark.parametrize("path", PATHS)
def test_written_rows_are_read_back(memory_file, path):
    file = memory_file(path, written(WRITERS[path], TABLE))
    assert file.discover().names == TABLE.column_names
    assert file.rows() == TABLE.to_pylist()
    assert file.rows(columns=["S", "i"]) == [{"S": s, "i": i} for s, i in [("x", 1), ("é", None), (None, 3)]]
    assert file.rows(columns=["m"]) == TABLE.select(["m"]).to_pylist()


@pytest.mark.parametrize("path", PATHS)
def test_rows_are_counted_without_columns(memory_file, path):
    table = pa.table({"a": list(range(1000)), "b": ["x"] * 1000})
    file = memory_file(path, in_units(path, table, 100) if path != "a.arrow" else written(write_stream, table))
    assert sum(batch.num_rows for batch in file.batches(columns=[])) == 1000
    assert sum(batch.num_rows for split in file.splits(100) for batch in file.batches(split=split, columns=[])) == 1000


def test_parquet_counts_rows_from_the_footer(memory_file):
    data = bytearray(written(parquet.write_table, pa.table({"a": list(range(1000))}), compression="none"))
    data[4:1000] = b"\xff" * 996
    file = memory_file("a.parquet", bytes(data))
    assert sum(batch.num_rows for batch in file.batches(columns=[])) == 1000
    with pytest.raises(FormatError, match="row group 1"):
        file.rows()


@pytest.mark.parametrize("path", ["a.parquet", "a.feather", "a.orc"])
def test_splits_have_each_row_once(memory_file, path):
    table = pa.table({"a": [number * 0x9E3779B97F4A7C15 % 2**62 for number in range(20_000)]})
    file = memory_file(path, in_units(path, table, 1024))
    assert len(file.splits(20_000)) > 3
    assert file.split_rows(20_000) == file.rows() == table.to_pylist()
    assert len(file.splits(10_000_000)) == 1


@pytest.mark.parametrize(
    ("row_filters", "rows"),
    [
        ([RowFilter("a", ">=", [850])], range(800, 1000)),
        ([RowFilter("A", "=", [4, 999])], [*range(100), *range(900, 1000)]),
        ([RowFilter("a", ">=", [150]), RowFilter("missing", ">", [5]), RowFilter("a", "<", [250])], range(100, 300)),
        ([RowFilter("a", ">", [5000])], []),
        ([RowFilter("a", "=", [])], range(1000)),
        ([RowFilter("a", "=", range(850, 100_000))], range(800, 1000)),
        ([RowFilter("s", "=", ["7"])], range(100)),
        ([RowFilter("s", ">", [5])], range(1000)),
        ([RowFilter("d", "<", [0.5])], range(100)),
        ([RowFilter("d", ">", [1e9])], range(1000)),
        ([RowFilter("d", "=", [float("nan")])], range(1000)),
        ([RowFilter("at", "<", [datetime.datetime(1970, 1, 1, 0, 0, 5)])], range(100)),
        ([RowFilter("at", "<", [datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)])], range(1000)),
        ([], range(1000)),
    ],
)
def test_filters_skip_row_groups_by_statistics(memory_file, row_filters, rows):
    table = pa.table(
        {
            "a": list(range(1000)),
            "s": [str(number) for number in range(1000)],
            "d": [*map(float, range(999)), math.nan],
            "at": pa.array([number * 1_000_000 for number in range(1000)], pa.timestamp("us")),
        }
    )
    file = memory_file("a.parquet", in_units("a.parquet", table, 100))
    assert [row["a"] for row in file.rows(row_filters=row_filters)] == list(rows)


def test_timestamps_of_96_bits_are_instants(memory_file):
    moment = datetime.datetime(2026, 7, 1, 12, 0, 0, 123456)
    local = pa.timestamp("us")
    table = pa.table(
        {
            "n": [1, 2],
            "at": pa.array([moment, None], local),
            "many": pa.array([[moment, None], []], pa.list_(local)),
            "members": pa.array(
                [{"n": 1, "at": moment, "x": "y"}, None], pa.struct({"n": "int8", "at": local, "x": "str"})
            ),
            "named": pa.array([[("a", moment)], None], pa.map_(pa.string(), local)),
            "last": pa.array([moment, moment], local),
        }
    )
    options = {"use_deprecated_int96_timestamps": True, "row_group_size": 1}
    for more in ({}, {"store_schema": False}):
        file = memory_file("a.parquet", written(parquet.write_table, table, **options, **more))
        found = file.discover()
        instant = pa.timestamp("us", "UTC")
        assert found.find("at").type == found.find("last").type == found.find("many").type.value_type == instant
        assert [one.type for one in found.find("members").type] == [pa.int8(), instant, pa.string()]
        assert found.find("named").type.item_type == instant
        zoned = moment.replace(tzinfo=datetime.UTC)
        assert file.rows() == [
            {
                **{"n": 1, "at": zoned, "many": [zoned, None], "members": {"n": 1, "at": zoned, "x": "y"}},
                **{"named": [("a", zoned)], "last": zoned},
            },
            {"n": 2, "at": None, "many": [], "members": None, "named": None, "last": zoned},
        ]
        assert file.rows(columns=["last", "n"], row_filters=[RowFilter("n", ">", [1])]) == [{"last": zoned, "n": 2}]


def test_nanoseconds_of_96_bits_are_cut_off_as_by_spark(memory_file):
    table = pa.table({"at": pa.array([1, 1001, -1, 10**9 + 1], pa.timestamp("ns"))})
    file = memory_file("a.parquet", written(parquet.write_table, table, use_deprecated_int96_timestamps=True))
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    assert [(row["at"] - epoch) // datetime.timedelta(microseconds=1) for row in file.rows()] == [0, 1, -1, 10**6]


def test_96_bits_have_the_range_of_spark(memory_file):
    moments = [datetime.datetime(1001, 1, 1, 1, 2, 3, 4), datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999)]
    table = pa.table({"at": pa.array(moments, pa.timestamp("us"))})
    file = memory_file("a.parquet", written(parquet.write_table, table, use_deprecated_int96_timestamps=True))
    assert [row["at"].replace(tzinfo=None) for row in file.rows()] == moments


VALUES = {
    "i": st.integers(-5, 5),
    "d": st.sampled_from([-1.5, -0.0, 0.0, 2.5, math.inf, -math.inf, math.nan]),
    "s": st.sampled_from(["", "a", "ab", "b", "\u00e9", "\U0001f600"]),
}


@settings(deadline=None, derandomize=True)
@given(data=st.data())
def test_filters_keep_all_rows_that_spark_keeps(memory_file, data):
    column = data.draw(st.sampled_from(list(VALUES)))
    values = data.draw(st.lists(st.none() | VALUES[column], min_size=1, max_size=20))
    operator = data.draw(st.sampled_from(list(COMPARISONS)))
    wanted = data.draw(VALUES[column])
    table = pa.table({column: pa.array(values, {"i": pa.int64(), "d": pa.float64(), "s": pa.string()}[column])})
    file = memory_file("a.parquet", in_units("a.parquet", table, 3))
    kept = [repr(row[column]) for row in file.rows(row_filters=[RowFilter(column, operator, [wanted])])]
    for value in values:
        if value is not None and spark_compares(value, operator, wanted):
            kept.remove(repr(value))


def spark_compares(value, operator, wanted):
    """Compare as Spark does: NaN is equal to itself and larger than all other values."""
    value, wanted = [(str(one) == "nan", 0 if str(one) == "nan" else one) for one in (value, wanted)]
    if isinstance(value[1], str):
        value, wanted = [(is_nan, one.encode()) for is_nan, one in (value, wanted)]
    return {
        "=": value == wanted,
        "<": value < wanted,
        "<=": value <= wanted,
        ">": value > wanted,
        ">=": value >= wanted,
    }[operator]


def test_filter_on_implicit_column_ignores_file_column_of_same_name(memory_file):
    data = in_units("a.parquet", pa.table({"a": [1], "filename": ["b.parquet"]}), 1)
    how = {"columns": ["a", "filename"], "row_filters": [RowFilter("filename", "=", ["a.parquet"])]}
    assert memory_file("a.parquet", data).rows(**how) == [{"a": 1, "filename": "a.parquet"}]


def test_filter_ignores_column_of_another_type(memory_file):
    data = in_units("a.parquet", pa.table({"a": [9, 10]}), 1)
    rows = memory_file("a.parquet", data).rows(row_filters=[RowFilter("a", "<", ["9"])], provided={"a": pa.string()})
    assert {"a": "10"} in rows  # as text, 10 is less than 9


# Guarantees of ``engine.readers.columnar.type_mapping``


@pytest.mark.parametrize(
    ("array", "type_"),
    [
        (pa.array(["x", None], pa.large_string()), pa.string()),
        (pa.array(["x", None]).dictionary_encode(), pa.string()),
        (pa.array([b"ab", None], pa.binary(2)), pa.binary()),
        (pa.array([2**64 - 1, None], pa.uint64()), pa.decimal128(20, 0)),
        (pa.array([2**32 - 1, None], pa.uint32()), pa.int64()),
        (pa.array([255, None], pa.uint8()), pa.int16()),
        (pa.array([1_000, None], pa.timestamp("ns")), pa.timestamp("us")),
        (pa.array([1, None], pa.timestamp("s", "UTC")), pa.timestamp("us", "UTC")),
        (pa.array([[1, 2], None], pa.list_(pa.uint8(), 2)), pa.list_(pa.int16())),
        (pa.array([["x"], None], pa.large_list(pa.large_string())), pa.list_(pa.string())),
        (pa.array([{"a": 1}, None], pa.struct([("a", pa.uint64())])), pa.struct([("a", pa.decimal128(20, 0))])),
        (pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.uint8())), pa.map_(pa.string(), pa.int16())),
        (pa.array([1.5, None], pa.float16()), pa.float32()),
        (pa.array([None, None], pa.null()), None),
    ],
)
@pytest.mark.parametrize("path", ["a.parquet", "a.feather"])
def test_file_types_map_to_scan_types(memory_file, path, array, type_):
    file = memory_file(path, written(WRITERS[path], pa.table({"c": array})))
    assert file.discover().find("c").type == (type_ or pa.null())
    assert [row["c"] for row in file.rows()] == array.to_pylist()


def test_nanoseconds_are_never_rounded(memory_file):
    table = pa.table({"t": pa.array([1_000, 1_001], pa.timestamp("ns"))})
    file = memory_file("a.parquet", written(parquet.write_table, table))
    with pytest.raises(ValueConversionError, match=r"'a.parquet' .*row group 1: column 't' .*'1001'"):
        file.rows()


def test_timestamp_of_year_9999_is_read(memory_file):
    value = datetime.datetime(9999, 12, 31)
    table = pa.table({"t": pa.array([value], pa.timestamp("us"))})
    assert memory_file("a.parquet", written(parquet.write_table, table)).rows() == [{"t": value}]


def test_names_that_differ_only_by_case_are_rejected(memory_file):
    for path in PATHS:
        table = pa.table({"id": [1], "ID": [2]})
        with pytest.raises(DuplicateColumnError, match=f"'{path}' .*column 'ID' exists twice: 'id'"):
            memory_file(path, written(WRITERS[path], table)).discover()


# Invalid files


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("data", [b"", b"\0", b"a,b\n1,2\n", b"PAR1", b"ARROW1\0\0", b"ORC", b"\xff" * 100])
def test_file_of_another_format_is_rejected_by_name(memory_file, path, data):
    for do in ("discover", "rows"):
        with pytest.raises(FormatError, match=f"'{path}' in workspace 'dfs'"):
            getattr(memory_file(path, data), do)()


@pytest.mark.parametrize("path", PATHS)
def test_truncated_file_is_rejected(memory_file, path):
    data = written(WRITERS[path], TABLE)
    with pytest.raises(FormatError, match="not readable as"):
        memory_file(path, data[: len(data) * 2 // 3]).rows()


def test_feather_version_1_is_rejected_with_advice(memory_file):
    with pytest.raises(FormatError, match="Feather version 1; write the file again"):
        memory_file("a.feather", b"FEA1" + b"\0" * 40).discover()


def test_invalid_utf_8_is_rejected(memory_file):
    bad = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])
    for path in PATHS:
        with pytest.raises(FormatError, match=r"(?i)utf.?8"):
            memory_file(path, written(WRITERS[path], pa.table({"s": bad}))).rows()


edits = st.lists(
    st.tuples(st.floats(0, 1), st.sampled_from(["set", "cut", "insert", "end"]), st.integers(0, 255)),
    min_size=1,
    max_size=4,
)


def edited(data, changes):
    for place, kind, value in changes:
        at = int(place * len(data))
        if kind == "end":
            data = data[:at]
        else:
            new = b"" if kind == "cut" else bytes([value])
            data = data[:at] + new + data[at + (kind != "insert") :]
    return data


def test_orc_decimal_with_too_many_digits_does_not_crash_the_process(memory_file):
    data = written(orc.write_table, pa.table({"d": pa.array([Decimal("1.10")], pa.decimal128(10, 2))}))
    assert data.count(b"\x08\x0e\x20\x00\x28\x0a") == 1
    file = memory_file("a.orc", data.replace(b"\x08\x0e\x20\x00\x28\x0a", b"\x08\x0e\x20\x00\x28\x7f"))
    for do in (file.discover, file.rows):
        with pytest.raises(FormatError, match=r"'a.orc' .*decimals with 127 digits; the maximum is 38"):
            do()


def test_orc_column_of_unknown_type_is_rejected(memory_file):
    data = written(orc.write_table, pa.table({"a": [1, 2]}), compression="uncompressed")
    assert data.count(b"\x22\x08\x08\x04") == 1
    file = memory_file("a.orc", data.replace(b"\x22\x08\x08\x04", b"\x22\x08\x08\x44"))
    for do in (file.discover, file.rows):
        with pytest.raises(FormatError, match=r"'a.orc' .*column of an unknown type"):
            do()


# ORC is tested in tests/engine/test_fuzz.py, which survives a crash inside Arrow (``engine.readers.columnar.orc``).
@pytest.mark.parametrize("path", ["a.parquet", "a.feather", "a.arrow"])
@given(changes=edits)
@settings(max_examples=100, deadline=None)
def test_corrupt_file_gives_rows_or_engine_error(memory_file, path, changes):
    file = memory_file(path, edited(written(WRITERS[path], TABLE), changes))
    try:
        file.discover()
        file.batches()
        file.batches(row_filters=[RowFilter("i", ">", [2])])
    except EngineError as error:
        assert "\n" not in str(error)


@given(
    rows=st.lists(st.fixed_dictionaries({"a": st.none() | st.integers(-9, 9), "b": st.none() | st.text(max_size=3)})),
    unit_rows=st.integers(1, 5),
)
@settings(max_examples=15, deadline=None)
def test_any_rows_are_read_back(memory_file, rows, unit_rows):
    table = pa.Table.from_pylist(rows, pa.schema([("a", pa.int64()), ("b", pa.string())]))
    for path in ("a.parquet", "a.feather", "a.orc"):
        assert memory_file(path, in_units(path, table, unit_rows)).rows() == rows


def test_extension_types_of_arrow(memory_file):
    storages = {"flag": pa.array([1, None, 0], pa.int8()), "id": pa.array([bytes(16)] * 3, pa.binary(16))}
    table = pa.table(
        {
            "flag": pa.ExtensionArray.from_storage(pa.bool8(), storages["flag"]),
            "text": pa.ExtensionArray.from_storage(pa.json_(), pa.array(["[1]", None, "2"])),
            "id": pa.ExtensionArray.from_storage(pa.uuid(), storages["id"]),
        }
    )
    file = memory_file("a.arrow", written(write_stream, table))
    assert [field.type for field in file.discover()][:2] == [pa.bool_(), pa.string()]
    expected = [{"flag": True, "text": "[1]"}, {"flag": None, "text": None}, {"flag": False, "text": "2"}]
    assert memory_file("b.arrow", written(write_stream, table.select(["flag", "text"]))).rows() == expected
    with pytest.raises(UnsupportedTypeError, match="'id' has the Arrow type uuid"):
        file.rows()


def test_dictionary_of_views(memory_file):
    views = pa.array(["a", "b"]).cast(pa.string_view())
    words = pa.DictionaryArray.from_arrays(pa.array([1, None, 0], pa.int32()), views)
    many = pa.ListArray.from_arrays([0, 2, 2, 3], words)
    file = memory_file("a.arrow", written(write_stream, pa.table({"t": words, "many": many})))
    assert [field.type for field in file.discover()] == [pa.string(), pa.list_(pa.string())]
    assert file.rows() == [{"t": "b", "many": ["b", None]}, {"t": None, "many": []}, {"t": "a", "many": ["a"]}]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_duration_of_any_unit(memory_file, unit):
    table = (
        pa.table({"d": pa.array([2 * 10**9, None], pa.duration(unit))})
        if unit == "ns"
        else pa.table({"d": pa.array([2, None], pa.duration(unit))})
    )
    file = memory_file("a.arrow", written(write_stream, table))
    assert file.discover().fields[0].type == pa.duration("us")
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 1}[unit]
    assert file.rows() == [{"d": datetime.timedelta(seconds=2) / per_second}, {"d": None}]
