"""Files that Spark's own reader reads, through a gateway. The engine is the oracle."""

import os
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyspark.errors import PySparkException
from pyspark.sql.types import StringType

pytestmark = pytest.mark.slow

ROWS = 1000
OFF = "with (spark_readers = false)"
OLD = date(1500, 2, 28)

COLUMNS = {
    "flag": pa.array([True, None] * (ROWS // 2)),
    "tiny": pa.array([-128] * ROWS, pa.int8()),
    "byte": pa.array([255] * ROWS, pa.uint8()),
    "short": pa.array([-32768] * ROWS, pa.int16()),
    "word": pa.array([65535] * ROWS, pa.uint16()),
    "number": pa.array(range(ROWS), pa.int32()),
    "unsigned": pa.array([2**32 - 1] * ROWS, pa.uint32()),
    "big": pa.array([-(2**63)] * ROWS, pa.int64()),
    "real": pa.array([0.1, float("nan")] * (ROWS // 2), pa.float32()),
    "double": pa.array([0.1, None] * (ROWS // 2), pa.float64()),
    "text": pa.array(["ä", None] * (ROWS // 2)),
    "large": pa.array(["long"] * ROWS, pa.large_string()),
    "word_of_few": pa.array(["a", "b"] * (ROWS // 2)).dictionary_encode(),
    "bytes": pa.array([b"\xff", None] * (ROWS // 2)),
    "day": pa.array([OLD, None] * (ROWS // 2)),
    "small_decimal": pa.array([Decimal("1.25")] * ROWS, pa.decimal128(9, 2)),
    "decimal": pa.array([Decimal("1.25")] * ROWS, pa.decimal128(18, 2)),
    "large_decimal": pa.array([Decimal("-1.25")] * ROWS, pa.decimal128(38, 2)),
    "millis": pa.array([datetime(1500, 1, 1, 1)] * ROWS, pa.timestamp("ms")),
    "local": pa.array([datetime(1500, 1, 1, 1)] * ROWS, pa.timestamp("us")),
    "instant": pa.array([datetime(1500, 1, 1, 1, tzinfo=UTC)] * ROWS, pa.timestamp("us", "UTC")),
}
"""Columns that Spark's own reader reads, by name."""

OTHERS = {
    "unsigned_big": pa.array([2**64 - 1] * ROWS, pa.uint64()),
    "half": pa.array([1.5] * ROWS, pa.float16()),
    "fixed": pa.array([b"ab"] * ROWS, pa.binary(2)),
    "nanos": pa.array([1000] * ROWS, pa.timestamp("ns")),
    "nulls": pa.nulls(ROWS),
    "measures": pa.array([{"x": 1.5}] * ROWS),
}
"""Columns that the engine reads, by name."""

NESTED = {
    "many": pa.array([[1, None], None, [], [2]] * (ROWS // 4)),
    "texts": pa.array([["a", None], [], None, ["ä"]] * (ROWS // 4)),
    "lists": pa.array([[[1.5], None, []], None] * (ROWS // 2)),
    "members": pa.array([{"x": 1, "y": "a"}, {"x": None, "y": None}, None, {"x": 3, "y": None}] * (ROWS // 4)),
    "deep": pa.array([{"x": {"y": [{"z": True}, None]}}, {"x": {"y": []}}, {"x": None}, None] * (ROWS // 4)),
    "list_of_members": pa.array(
        [[{"x": Decimal("1.25"), "y": OLD}, None], [], None, [{"x": None, "y": None}]] * (ROWS // 4)
    ),
    "dict": pa.array([[("a", 1), ("b", None)], [], None, [("ä", 2)]] * (ROWS // 4), pa.map_(pa.string(), pa.int64())),
    "dict_of_lists": pa.array([[(1, [b"x", None])], None] * (ROWS // 2), pa.map_(pa.int32(), pa.list_(pa.binary()))),
    "instants": pa.array([[datetime(1500, 1, 1, 1, tzinfo=UTC), None]] * ROWS, pa.list_(pa.timestamp("us", "UTC"))),
}
"""Columns with structs, lists and maps that Spark's own reader reads, by name."""


@pytest.fixture(scope="module")
def lodge(start_lodge, spark_server):
    gateway = start_lodge(backend=spark_server)
    yield gateway
    gateway.stop()


@pytest.fixture
def folder(lodge, tmp_path_factory):
    path = lodge.files / tmp_path_factory.mktemp("folder").name
    path.mkdir()
    path.chmod(0o755)
    return path


def write(path, table, **options):
    pq.write_table(pa.table(table) if isinstance(table, dict) else table, path, **options)
    age(path)


def age(path, seconds=60):
    """Give a file an older time. The gateway does not trust recent files."""
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns - seconds * 10**9))


def plan_of(spark, text):
    return spark.sql(text)._explain_string()


def readers(spark, text):
    return readers_of(spark.sql(text))


def readers_of(frame):
    plan = frame._explain_string()
    return {name for name, sign in (("spark", "FileScan"), ("engine", "BatchScan lodge")) if sign in plan}


def rows(spark, text):
    return sorted(map(repr, spark.sql(text).collect()))


def assert_same(spark, folder, columns="*", where=""):
    """Check that both ways of reading return the same rows and the same schema."""
    return assert_all_same(spark, folder, [f"select {columns} from {{}} {where}"])


def assert_all_same(spark, folder, queries, paths=("",)):
    """Do the same for several queries with equal schemas, in one statement.

    The queries name the files ``{}``. Each query runs at each path, which begins at the folder.
    """
    mine, engine = (
        spark.sql(
            " union all ".join(
                query.format(f"dfs.`{folder.name}{path}` {options}") for path in paths for query in queries
            )
        )
        for options in ("", OFF)
    )
    assert sorted(map(repr, mine.collect())) == sorted(map(repr, engine.collect()))
    assert mine.schema == engine.schema
    assert readers_of(engine) == {"engine"}
    return readers_of(mine)


def query_of(columns):
    """Return a query whose schema does not depend on its columns. It returns their values and types as texts.

    The values have no member for a null, but the types have. All queries of a statement read the columns that one of
    them names.
    """
    return f"select to_json(struct({columns})), typeof(struct({columns})) from {{}}"


def test_spark_reads_most_types(spark, folder):
    write(folder / "a.parquet", COLUMNS)
    write(folder / "b.parquet", COLUMNS, row_group_size=100, version="1.0", store_schema=False)
    assert assert_same(spark, folder) == {"spark"}


def test_engine_reads_the_other_types(spark, folder):
    write(folder / "a.parquet", {"id": COLUMNS["big"], **OTHERS})
    assert assert_same(spark, folder) == {"engine"}
    for name in OTHERS:
        assert readers(spark, f"select id, {name} from dfs.`{folder.name}`") == {"engine"}, name
    assert assert_same(spark, folder, "id") == {"spark"}


def test_added_and_missing_columns_and_other_order(spark, folder):
    write(folder / "a.parquet", {"a": COLUMNS["number"], "b": COLUMNS["text"]})
    write(folder / "b.parquet", {"b": COLUMNS["text"], "a": COLUMNS["number"], "c": COLUMNS["day"]})
    write(folder / "c.parquet", {"d": COLUMNS["decimal"]})
    assert assert_same(spark, folder) == {"spark"}
    assert assert_same(spark, folder, "d, a") == {"spark"}


@pytest.mark.parametrize("value", ["true", "false"])
def test_settings_do_not_change_result(restored_spark, folder, value):
    write(folder / "a.parquet", COLUMNS, store_schema=False)
    for setting in (
        "spark.sql.caseSensitive",
        "spark.sql.ansi.enabled",
        "spark.sql.parquet.binaryAsString",
        "spark.sql.parquet.inferTimestampNTZ.enabled",
        "spark.sql.parquet.fieldId.read.enabled",
        "spark.sql.parquet.enableVectorizedReader",
        "spark.sql.files.ignoreCorruptFiles",
        "spark.sql.files.ignoreMissingFiles",
    ):
        restored_spark.conf.set(setting, value)
    for setting in ("datetimeRebaseModeInRead", "int96RebaseModeInRead"):
        restored_spark.conf.set(f"spark.sql.parquet.{setting}", "LEGACY" if value == "true" else "EXCEPTION")
    assert assert_same(restored_spark, folder) == {"spark"}


def test_engine_reads_if_spark_would_use_its_second_parquet_reader(restored_spark, folder):
    """That reader has no metadata columns, so a file that has changed would not be noticed."""
    write(folder / "a.parquet", {"a": COLUMNS["number"]})
    assert readers(restored_spark, f"select a from dfs.`{folder.name}`") == {"spark"}
    restored_spark.conf.set("spark.sql.sources.useV1SourceList", "csv")
    assert assert_same(restored_spark, folder) == {"engine"}


def test_letter_case_and_wider_types_are_read_by_engine(spark, folder):
    large = pa.array(range(400_000), pa.int32())
    write(folder / "a.parquet", {"a": large, "n": large}, compression="none")
    write(folder / "b.parquet", {"A": pa.array([1, 2], pa.int32()), "n": pa.array([1, 2], pa.int32())})
    assert assert_same(spark, folder, "a", "where a < 5") == {"spark", "engine"}
    write(folder / "c.parquet", {"n": pa.array([2**40])})
    assert assert_same(spark, folder, "n", "where n < 5 or n > 1000000000") == {"engine"}


def test_both_readers_share_a_scan(spark, folder):
    large = pa.array(range(400_000), pa.int32())
    write(folder / "a.parquet", {"a": large, "b": pa.array(["x"] * 400_000)}, compression="none")
    (folder / "b.json").write_text('{"b": "y", "c": 1.5}\n')
    age(folder / "b.json")
    assert assert_same(spark, folder, "*", "where a is null or a in (1, 399999)") == {"spark", "engine"}
    assert assert_same(spark, folder, "count(*), count(a), max(b), sum(c)", "where b > 'a'") == {"spark", "engine"}


NAN = float("nan")
CONDITIONS = (
    "d > 5",
    "d <> 1",
    "d = double('NaN')",
    "d not in (1)",
    "not (d < 5)",
    "d = 0",
    "d < 0",
    "d >= 0",
    "d in (0)",
)


def queries_of(conditions):
    """Return a query for each condition, whose rows begin with the number of the condition."""
    return [f"select {number} number, * from {{}} where {condition}" for number, condition in enumerate(conditions)]


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
def test_statistics_of_floating_point_columns(spark, folder, kind):
    """Statistics do not include NaN, and order -0.0 before 0.0. Spark does not."""
    for name, values in (("a", [1.0, 1.0, NAN]), ("b", [-0.0, 1.0]), ("c", [0.0, 1.0]), ("e", [NAN]), ("f", [None])):
        table = {"d": pa.array(values, kind), "n": pa.array(range(len(values)))}
        write(folder / f"{name}.parquet", table)
    assert assert_all_same(spark, folder, queries_of(CONDITIONS)) == {"spark"}
    assert len(rows(spark, f"select d from dfs.`{folder.name}` where d > 5")) == 2
    assert len(rows(spark, f"select d from dfs.`{folder.name}` where d = 0")) == 2
    assert assert_same(spark, folder, "n, min(d), max(d), count(d)", "group by n") == {"spark"}


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
def test_statistics_of_floating_point_columns_of_orc(spark, folder, kind):
    for name, values in (("a", [1.0, 1.0, NAN]), ("b", [-0.0, 1.0]), ("c", [0.0, 1.0]), ("e", [NAN]), ("f", [None])):
        table = pa.table({"d": pa.array(values, kind), "n": pa.array(range(len(values)))})
        orc.write_table(table, folder / f"{name}.orc", bloom_filter_columns=[0, 1])
        age(folder / f"{name}.orc")
    assert assert_all_same(spark, folder, queries_of(CONDITIONS)) == {"spark"}
    assert len(rows(spark, f"select d from dfs.`{folder.name}` where d = 0")) == 2


def test_unused_floating_point_columns_are_not_read(spark, folder):
    write(folder / "a.parquet", COLUMNS)
    plan = plan_of(spark, f"select real from dfs.`{folder.name}` where number = 5")
    assert "ReadSchema: struct<number:int,real:float>" in plan


def test_instants_in_milliseconds_are_read_by_engine(spark, folder):
    moments = [datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 0, 0, 0, 1000, tzinfo=UTC)]
    write(folder / "a.parquet", {"at": pa.array(moments, pa.timestamp("ms", "UTC"))})
    for comparison in (">", "<", ">=", "<="):
        where = f"where at {comparison} timestamp '2026-01-01 00:00:00.000500Z'"
        assert assert_same(spark, folder, where=where) == {"engine"}
    assert len(rows(spark, f"select * from dfs.`{folder.name}` {where}")) == 1


def test_codecs_of_parquet(spark, folder):
    for reader, codecs in {"spark": ("none", "snappy", "gzip", "zstd", "lz4"), "engine": ("brotli",)}.items():
        (folder / reader).mkdir(mode=0o755)
        for codec in codecs:
            table = {"n": COLUMNS["number"], "s": COLUMNS["text"], "codec": pa.array([codec] * ROWS)}
            write(folder / reader / f"{codec}.parquet", table, compression=codec)
        assert assert_all_same(spark, folder, ["select * from {}"], [f"/{reader}"]) == {reader}


@pytest.mark.parametrize("kind", ["INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"])
def test_instants_of_spark(restored_spark, folder, kind):
    moment = "timestamp '2026-07-01 12:00:00.123Z'"
    columns = [f"{moment} as at", f"array({moment}) as many", f"struct(1 as n, {moment} as at) as members"]
    restored_spark.conf.set("spark.sql.parquet.outputTimestampType", kind)
    restored_spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    written = restored_spark.range(3).selectExpr(
        "id", *columns, f"map('a', {moment}) as m", "timestamp_ntz '2026-07-01' as local"
    )
    written.coalesce(1).write.mode("overwrite").parquet(str(folder))
    for path in folder.glob("*.parquet"):
        age(path)
    reader = {"spark" if kind.endswith("MICROS") else "engine"}
    assert assert_same(restored_spark, folder) == reader
    assert assert_same(restored_spark, folder, "at", f"where at = {moment}") == reader
    found = restored_spark.table(f"dfs.`{folder.name}`")
    assert found.schema == restored_spark.read.parquet(str(folder)).schema
    assert sorted(map(repr, found.collect())) == sorted(map(repr, written.collect()))
    assert found.where(f"at = {moment}").count() == 3


def test_checksum_files_that_are_out_of_date(spark, folder):
    spark.range(3).coalesce(1).write.mode("overwrite").parquet(str(folder))
    (path,) = folder.glob("*.parquet")
    age(path)
    assert (folder / f".{path.name}.crc").exists()
    assert assert_same(spark, folder) == {"spark"}
    write(path, {"id": pa.array(range(1000))})
    assert assert_same(spark, folder) == {"engine"}


def test_files_of_a_legacy_calendar_are_read_by_engine(spark, folder):
    table = pa.table({"day": COLUMNS["day"], "text": COLUMNS["text"]})
    metadata = {"org.apache.spark.version": "3.5.0", "org.apache.spark.legacyDateTime": ""}
    write(folder / "a.parquet", table.replace_schema_metadata(metadata))
    assert assert_same(spark, folder) == {"engine"}
    assert assert_same(spark, folder, "text") == {"spark"}


def test_filters_columns_and_limits_are_pushed_down(spark, folder):
    write(folder / "a.parquet", COLUMNS)
    name = f"dfs.`{folder.name}`"
    plan = plan_of(spark, f"select text from {name} where number = 5")
    assert "PushedFilters: [IsNotNull(number), EqualTo(number,5)]" in plan
    assert "ReadSchema: struct<number:int,text:string>" in plan
    assert rows(spark, f"select text from {name} where number = 5") == ["Row(text=None)"]
    assert spark.sql(f"select big from {name} limit 3").count() == 3
    assert spark.sql(f"select count(*) from {name}").collect()[0][0] == ROWS


def test_data_frames_can_be_joined_and_cached(own_spark, folder):
    write(folder / "a.parquet", {"a": COLUMNS["number"]})
    frame = own_spark.table(f"dfs.`{folder.name}`").cache()
    other = frame.withColumnRenamed("a", "b")
    assert frame.join(other, frame.a == other.b).count() == ROWS
    frame.unpersist()
    assert own_spark.table(f"dfs.`{folder.name}`").select("a").where("a > 997").count() == 2


PATHS = ("2025/x/a.parquet", "2025/b.parquet", "2026/x/y/c.parquet", "d.parquet")


@pytest.fixture
def deep_folder(folder):
    for number, name in enumerate(PATHS):
        path = folder / name
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        write(path, {"a": pa.array([number], pa.int32())})
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder


def test_columns_of_the_path(spark, deep_folder):
    assert assert_same(spark, deep_folder) == {"spark"}
    assert assert_same(spark, deep_folder, "DIR0, FileName") == {"spark"}  # and no column of the files
    every = "a, fqn, filepath, filename, suffix, dir0, dir1, dir2, dir9, dir99999999999"
    assert assert_same(spark, deep_folder, every) == {"spark"}
    assert assert_all_same(spark, deep_folder, ["select * from {}"], ["/2026"]) == {"spark"}
    some = (
        "a, filename, suffix",
        "a, fqn, filepath",
        "a, dir0, dir1, dir2, dir9",
        "DIR0, FileName",
        "dir1, dir99999999999",
    )
    assert assert_all_same(spark, deep_folder, [query_of(columns) for columns in some], ["", "/2026"]) == {"spark"}


def test_columns_of_the_path_below_the_selected_directory(spark, deep_folder):
    query = "select a, fqn, filepath, filename, suffix, dir0, dir1 from {}"
    paths = ["/2026", "/20*", "/*/x", "/2025/b.parquet", "/d.parquet"]
    assert assert_all_same(spark, deep_folder, [query], paths) == {"spark"}


def files_read(frame):
    """Return how many files Spark's own reader reads."""
    frame.collect()
    _, nodes = frame.executionInfo.metrics.extract_graph()
    return sum(one.value for node in nodes.values() for one in node.metrics if one.name == "numFiles")


FILES_BY_CONDITION = {
    "true": 4,
    "dir0 = '2025'": 2,
    "dir0 in ('2026', '2027')": 1,
    "dir0 > '2025'": 1,
    "dir1 like 'x%' and a < 100": 2,
    "dir0 is null": 1,
    "filename between 'b' and 'd'": 2,
    "filepath like '%/x'": 1,
    "dir0 = 'none'": 0,
}
"""How many files Spark reads, by condition."""


def test_conditions_on_columns_of_the_path_exclude_files_of_spark(spark, deep_folder):
    queries = [
        f"select {number} number, a from {{}} where {condition}" for number, condition in enumerate(FILES_BY_CONDITION)
    ]
    assert assert_all_same(spark, deep_folder, queries) == {"spark"}
    for condition, expected in FILES_BY_CONDITION.items():
        frame = spark.sql(f"select a from dfs.`{deep_folder.name}` where {condition}")
        assert files_read(frame) == expected, condition
        assert readers_of(frame) == {"spark"}, condition
        pruned = f"  Pruned: at least {len(PATHS) - expected} file"
        assert (pruned if expected < len(PATHS) else "  Files: 4 files") in frame._explain_string(), condition


def test_columns_of_the_path_of_both_readers(spark, deep_folder):
    (deep_folder / "2025" / "x" / "e.json").write_text('{"a": 7}\n')
    large = pa.array(range(400_000))
    (deep_folder / "year=5").mkdir(mode=0o755)
    for path in (deep_folder / "2025" / "x" / "a.parquet", deep_folder / "year=5" / "f.parquet"):
        write(path, {"a": large}, compression="none")
        path.chmod(0o644)
    where = "where a in (1, 7, 399999)"
    assert assert_same(spark, deep_folder, "dir1, a, filename, dir0", where) == {"spark", "engine"}


@pytest.mark.parametrize("value", ["true", "false"])
def test_nested_columns(restored_spark, folder, value):
    """The settings of Spark that concern nested columns do not change the result."""
    write(folder / "a.parquet", {"a": COLUMNS["number"], **NESTED})
    write(folder / "b.parquet", {"b": COLUMNS["number"], **dict(reversed(NESTED.items()))}, row_group_size=100)
    for setting in (
        "parquet.enableNestedColumnVectorizedReader",
        "parquet.enableVectorizedReader",
        "parquet.filterPushdown",
        "parquet.binaryAsString",
        "optimizer.nestedSchemaPruning.enabled",
        "caseSensitive",
        "ansi.enabled",
    ):
        restored_spark.conf.set(f"spark.sql.{setting}", value)
    assert assert_same(restored_spark, folder) == {"spark"}
    assert assert_same(restored_spark, folder, "a, members.x, deep.x.y, get(lists, 0), dict['a']") == {"spark"}
    assert assert_same(restored_spark, folder, "get(deep.x.y, 0).z, list_of_members.x", "where a < 9 or b > 990") == {
        "spark"
    }


def test_variants_are_read_by_engine(spark, folder):
    spark.sql("select 1 as a, parse_json('[1]') as v").coalesce(1).write.mode("overwrite").parquet(str(folder))
    for path in folder.glob("*.parquet"):
        age(path)
    assert assert_same(spark, folder) == {"engine"}
    assert assert_same(spark, folder, "a") == {"spark"}


def test_temporary_functions_do_not_replace_those_of_the_relation(restored_spark, deep_folder):
    restored_spark.conf.set("spark.sql.functionResolution.sessionOrder", "first")
    for name in ("substring", "split_part", "nullif", "concat", "length", "nanvl", "in", "or", "^", "-"):
        restored_spark.udf.register(name, lambda *values: repr(values), StringType())
    write(deep_folder / "f.parquet", {"a": pa.array([9], pa.int32()), "d": pa.array([1.5])})
    assert assert_same(restored_spark, deep_folder, "a, d, fqn, filepath, filename, suffix, dir0, dir1") == {"spark"}


CONDITIONS_ON_MEMBERS = (
    "members.x = 1",
    "members.x > 1",
    "members.y is null",
    "members.x is not null",
    "members is null",
    "members = struct(1L, 'a')",
    "deep.x.y is null",
    "exists(many, each -> each = 2)",
    "array_contains(many, 2)",
    "dict['a'] = 1",
    "size(dict) = 0",
)


def test_conditions_on_nested_columns(spark, folder):
    write(folder / "a.parquet", {"a": COLUMNS["number"], **NESTED}, row_group_size=3)
    queries = queries_of(CONDITIONS_ON_MEMBERS)
    assert assert_all_same(spark, folder, queries) == {"spark"}
    numbered = " union all ".join(query.format(f"dfs.`{folder.name}`") for query in queries)
    found = spark.sql(f"select distinct number from ({numbered})").collect()
    assert len(found) == len(CONDITIONS_ON_MEMBERS)


def test_drifting_nested_columns_are_read_by_engine(spark, folder):
    write(folder / "a.parquet", {"a": COLUMNS["number"], "m": pa.array([{"x": 1}] * ROWS)})
    assert assert_same(spark, folder) == {"spark"}
    write(folder / "b.parquet", {"a": COLUMNS["number"], "m": pa.array([{"x": 1, "y": 2}] * ROWS)})
    assert assert_same(spark, folder) == {"engine"}
    assert assert_same(spark, folder, "a") == {"spark"}


def test_names_that_spark_interprets_are_read_by_engine(spark, folder):
    for name in ("b c.parquet", "[b].parquet", "b%20c.parquet"):
        write(folder / name, {"n": COLUMNS["number"]})
        assert assert_same(spark, folder, "n") == {"engine"}
        (folder / name).unlink()


ORC_COLUMNS = {
    name: COLUMNS[name]
    for name in ("flag", "tiny", "number", "big", "real", "double", "text", "bytes", "decimal", "large_decimal")
}
"""Columns of an ORC file that Spark's own reader reads, by name."""


def write_orc(path, columns):
    orc.write_table(pa.table(columns), path)
    age(path)


def test_spark_reads_orc_with_added_and_missing_columns(spark, folder):
    write_orc(folder / "a.orc", ORC_COLUMNS)
    write_orc(folder / "b.orc", {"more": COLUMNS["text"], **dict(reversed(ORC_COLUMNS.items()))})
    write_orc(folder / "c.orc", {"number": COLUMNS["number"]})
    assert assert_same(spark, folder) == {"spark"}
    assert assert_same(spark, folder, "more, tiny", "where big < 0 or double > 0") == {"spark"}


def test_engine_reads_timestamps_of_orc(spark, folder):
    write_orc(folder / "a.orc", {**ORC_COLUMNS, "time": pa.array([datetime(2026, 1, 1, 1)] * ROWS)})
    assert assert_same(spark, folder) == {"engine"}
    assert assert_same(spark, folder, "number, text") == {"spark"}


def test_orc_files_of_spark(spark, folder):
    columns = ["id", "current_timestamp() as now", "cast(id as string) as text", "interval '1' day as one"]
    columns += ["cast(id as decimal(20, 3)) as number", "date '2026-02-28' as day", "date '1500-02-28' as old"]
    spark.range(100).selectExpr(*columns).coalesce(1).write.mode("overwrite").orc(str(folder))
    for path in folder.glob("*.orc"):
        age(path)
    assert assert_same(spark, folder, "id, text, number") == {"spark"}
    for name in ("now", "one", "day"):
        assert assert_same(spark, folder, name) == {"engine"}
    with pytest.raises(PySparkException, match="it has dates of the Julian calendar, before 1582-10-15") as raised:
        spark.sql(f"select old from dfs.`{folder.name}`").collect()
    assert raised.value.getCondition() == "LODGE_MALFORMED_FILE"


@pytest.mark.parametrize("value", ["true", "false"])
def test_settings_do_not_change_orc(restored_spark, folder, value):
    write_orc(folder / "a.orc", ORC_COLUMNS)
    for setting in ("caseSensitive", "ansi.enabled", "orc.enableVectorizedReader", "orc.filterPushdown"):
        restored_spark.conf.set(f"spark.sql.{setting}", value)
    restored_spark.conf.set("orc.force.positional.evolution", value)
    assert assert_same(restored_spark, folder, where="where number > 10") == {"spark"}
    write_orc(folder / "b.orc", dict(reversed(ORC_COLUMNS.items())))
    assert assert_same(restored_spark, folder) == {"spark"}


PARTITIONS = {
    "numbers": ("key=1", "key=-20", "key=007", "key=__HIVE_DEFAULT_PARTITION__"),
    "large numbers": ("key=1", "key=10000000000", "key=-9223372036854775808"),
    "days": ("key=2026-11-24", "key=1500-02-28", "key=__HIVE_DEFAULT_PARTITION__"),
    "texts": ("key=x", "key=007", "key=x-y.z", "key=null", "key=__HIVE_DEFAULT_PARTITION__"),
    "nothing": ("key=__HIVE_DEFAULT_PARTITION__",),
    "two levels": ("a=1/key=x", "a=2/key=y", "a=2/key=x"),
}


@pytest.mark.parametrize("directories", PARTITIONS.values(), ids=PARTITIONS)
def test_columns_of_partitions(spark, folder, directories):
    for number, directory in enumerate(directories):
        path = folder / directory
        path.mkdir(mode=0o755, parents=True)
        path.parent.chmod(0o755)
        write(path / "a.parquet", {"n": pa.array([number], pa.int32())})
    for columns in ("*", "n", "key, n", "KEY", "n, key, dir0, filename"):
        assert assert_same(spark, folder, columns) == {"spark"}
    assert assert_same(spark, folder, "key, count(*), max(n)", "group by key") == {"spark"}
    assert assert_same(spark, folder, where="where key is null") == {"spark"}
    assert files_read(spark.sql(f"select n from dfs.`{folder.name}` where key is null")) == sum(
        "__HIVE" in each for each in directories
    )


@pytest.mark.parametrize("value", ["true", "false"])
def test_settings_do_not_change_columns_of_partitions(restored_spark, folder, value):
    for directory in ("Key=1", "Key=02"):
        (folder / directory).mkdir(mode=0o755)
        write(folder / directory / "a.parquet", {"n": COLUMNS["number"]})
    restored_spark.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", value)
    restored_spark.conf.set("spark.sql.sources.validatePartitionColumns", value)
    restored_spark.conf.set("spark.sql.caseSensitive", value)
    restored_spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    assert assert_same(restored_spark, folder) == {"spark"}
    assert assert_same(restored_spark, folder, "n", "where Key = 2") == {"spark"}
    assert files_read(restored_spark.sql(f"select n from dfs.`{folder.name}` where Key = 2")) == 1


def test_files_that_others_can_replace_are_read_by_engine(spark, folder):
    inner = folder / "inner"
    inner.mkdir(mode=0o755)
    file = inner / "a.parquet"
    write(file, {"a": COLUMNS["number"]})
    text = f"select a from dfs.`{folder.name}`"
    assert readers(spark, text) == {"spark"}
    inner.chmod(0o777)
    assert readers(spark, text) == {"engine"}
    inner.chmod(0o755)
    file.chmod(0o664)
    assert readers(spark, text) == {"engine"}
    file.chmod(0o644)
    file.rename(inner / "_hidden")
    file.symlink_to(inner / "_hidden")
    assert assert_same(spark, folder, "a") == {"engine"}
    inner.rename(folder / "_inner")
    inner.symlink_to(folder / "_inner")
    assert assert_same(spark, folder, "a") == {"engine"}


def test_damaged_rows_are_an_error_of_spark(spark, folder):
    path = folder / "a.parquet"
    pq.write_table(pa.table({"a": COLUMNS["text"]}), path, compression="none", use_dictionary=False)
    start = pq.ParquetFile(path).metadata.row_group(0).column(0).data_page_offset
    content = bytearray(path.read_bytes())
    content[start : start + 8] = b"\xff" * 8
    path.write_bytes(content)
    age(path)
    with pytest.raises(PySparkException, match=r"a\.parquet") as raised:
        spark.sql(f"select a from dfs.`{folder.name}`").collect()
    assert raised.value.getCondition().startswith("FAILED_READ_FILE")
    with pytest.raises(PySparkException, match=r"a\.parquet' in workspace 'dfs', row group 1"):
        spark.sql(f"select a from dfs.`{folder.name}` {OFF}").collect()


def test_changed_file_of_a_data_frame_is_an_error_or_new_rows(spark, folder):
    """Each execution lists the files again, so a DataFrame shows the new rows."""
    write(folder / "a.parquet", {"a": COLUMNS["number"]})
    frame = spark.table(f"dfs.`{folder.name}`")
    assert frame.count() == ROWS
    write(folder / "a.parquet", {"a": COLUMNS["number"].slice(0, 10)})
    assert frame.count() == 10


def test_view_fails_if_a_file_changes(restored_spark, folder):
    write(folder / "a.parquet", {"a": COLUMNS["number"]})
    restored_spark.table(f"dfs.`{folder.name}`").createOrReplaceTempView("numbers")
    assert restored_spark.sql("select sum(a) from numbers").collect()[0][0] == sum(range(ROWS))
    write(folder / "a.parquet", {"a": COLUMNS["number"].slice(0, 10)})
    with pytest.raises(PySparkException, match="LODGE_FILE_CHANGED"):
        restored_spark.sql("select sum(a) from numbers").collect()


def test_statement_cannot_see_paths_of_the_machine(spark, folder):
    write(folder / "a.parquet", {"a": COLUMNS["number"]})
    with pytest.raises(PySparkException, match="_metadata"):
        spark.table(f"dfs.`{folder.name}`").select("_metadata.file_path").collect()
    assert rows(spark, f"select distinct input_file_name() as f from dfs.`{folder.name}`") == ["Row(f='')"]
    hidden = f"select distinct identifier('input_' || 'file_name')() as f from dfs.`{folder.name}`"
    assert rows(spark, hidden) == ["Row(f='')"]
    assert spark.table(f"dfs.`{folder.name}`").inputFiles() == []


def test_commands_use_the_engine(restored_spark, folder):
    write(folder / "a.parquet", {"a": COLUMNS["number"]})
    restored_spark.sql(f"create temporary table copied as select * from dfs.`{folder.name}`")
    assert restored_spark.table("copied").count() == ROWS
    restored_spark.sql("drop table copied")
