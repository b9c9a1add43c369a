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


def protect(folder):
    """Let only the owner write to the files. Spark reads no others."""
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def plan_of(spark, text):
    return spark.sql(text)._explain_string()


def readers(spark, text):
    return readers_of(spark.sql(text))


def readers_of(frame):
    return readers_in(frame._explain_string())


def readers_in(plan):
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
    (found, schema), (expected, schema_of_engine) = (frame._to_table() for frame in (mine, engine))
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, expected.to_pylist()))
    assert schema == schema_of_engine
    return readers_of(mine)


def query_of(columns):
    """Return a query whose schema does not depend on its columns. It returns their values and types as texts.

    The values have no member for a null, but the types have. All queries of a statement read the columns that one of
    them names.
    """
    return f"select to_json(struct({columns})), typeof(struct({columns})) from {{}}"


def test_spark_reads_most_types(spark, folder):
    write(folder / "a.parquet", {**COLUMNS, **NESTED})
    other = {**dict(reversed(NESTED.items())), **COLUMNS}
    write(folder / "b.parquet", other, row_group_size=100, version="1.0", store_schema=False)
    assert assert_same(spark, folder) == {"spark"}
    assert readers(spark, f"select number from dfs.`{folder.name}` {OFF}") == {"engine"}


def test_engine_reads_the_other_types(spark, folder):
    write(folder / "a.parquet", {"id": COLUMNS["big"], **OTHERS})
    for name in OTHERS:
        assert readers(spark, f"select id, {name} from dfs.`{folder.name}`") == {"engine"}, name
    assert assert_same(spark, folder, "id") == {"spark"}


def test_added_and_missing_columns_and_other_order(spark, folder):
    write(folder / "a.parquet", {"a": COLUMNS["number"], "b": COLUMNS["text"]})
    write(folder / "b.parquet", {"b": COLUMNS["text"], "a": COLUMNS["number"], "c": COLUMNS["day"]})
    write(folder / "c.parquet", {"d": COLUMNS["decimal"]})
    assert assert_same(spark, folder) == {"spark"}


NESTED_FIELDS = (
    query_of("number, members.x, deep.x.y, get(lists, 0), dict['a']") + " where Key = 2",
    query_of("get(deep.x.y, 0).z, list_of_members.x") + " where number < 9 or number > 990",
)


@pytest.mark.parametrize("value", ["true", "false"])
def test_settings_do_not_change_result(restored_spark, folder, value):
    """The settings concern types, nested columns, partitions, filters and the readers of Parquet and ORC."""
    columns = {**COLUMNS, **NESTED}
    for directory, table in (("Key=1", columns), ("Key=02", dict(reversed(columns.items())))):
        (folder / "parquet" / directory).mkdir(parents=True)
        write(folder / "parquet" / directory / "a.parquet", table, row_group_size=500, store_schema=False)
    (folder / "orc").mkdir()
    write_orc(folder / "orc" / "a.orc", ORC_COLUMNS)
    write_orc(folder / "orc" / "b.orc", dict(reversed(ORC_COLUMNS.items())))
    protect(folder)
    for setting in (
        "caseSensitive",
        "ansi.enabled",
        "files.ignoreCorruptFiles",
        "files.ignoreMissingFiles",
        "optimizer.nestedSchemaPruning.enabled",
        "orc.enableVectorizedReader",
        "orc.filterPushdown",
        "parquet.binaryAsString",
        "parquet.enableNestedColumnVectorizedReader",
        "parquet.enableVectorizedReader",
        "parquet.fieldId.read.enabled",
        "parquet.filterPushdown",
        "parquet.inferTimestampNTZ.enabled",
        "sources.partitionColumnTypeInference.enabled",
        "sources.validatePartitionColumns",
    ):
        restored_spark.conf.set(f"spark.sql.{setting}", value)
    restored_spark.conf.set("orc.force.positional.evolution", value)
    restored_spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    assert assert_all_same(restored_spark, folder, ["select * from {}"], ["/parquet"]) == {"spark"}
    assert assert_all_same(restored_spark, folder, NESTED_FIELDS, ["/parquet"]) == {"spark"}
    assert assert_all_same(restored_spark, folder, ["select * from {} where number > 10"], ["/orc"]) == {"spark"}
    frame = restored_spark.sql(f"select big from dfs.`{folder.name}/parquet` where Key = 2")
    assert len(frame.collect()) == ROWS
    assert files_read(frame) == 1


def test_engine_reads_if_spark_would_use_its_second_parquet_reader(restored_spark, folder):
    """That reader has no metadata columns, so a file that has changed would not be noticed."""
    write(folder / "a.parquet", {"a": COLUMNS["number"]})
    text = f"select a from dfs.`{folder.name}`"
    assert readers(restored_spark, text) == {"spark"}
    restored_spark.conf.set("spark.sql.sources.useV1SourceList", "csv")
    assert readers(restored_spark, text) == {"engine"}
    assert restored_spark.sql(text).count() == ROWS


def test_both_readers_share_a_scan(spark, folder):
    large = pa.array(range(400_000), pa.int32())
    write(folder / "a.parquet", {"a": large, "b": pa.array(["x"] * 400_000)}, compression="none")
    (folder / "b.json").write_text('{"b": "y", "c": 1.5}\n')
    write(folder / "c.parquet", {"A": pa.array([1, 2], pa.int32())})
    age(folder / "b.json")
    queries = (
        f"{query_of('*')} where a is null or a in (1, 399999)",
        f"{query_of('count(*), count(a), max(b), sum(c)')} where b > 'a'",
    )
    assert assert_all_same(spark, folder, queries) == {"spark", "engine"}


NAN = float("nan")
CONDITIONS = ("{} > 5", "{} <> 1", "{} = double('NaN')", "not ({} < 5)", "{} = 0", "{} < 0", "{} >= 0", "{} in (0, 7)")


def queries_of(conditions):
    """Return a query for each condition, whose rows begin with the number of the condition."""
    return [f"select {number} number, * from {{}} where {condition}" for number, condition in enumerate(conditions)]


@pytest.mark.parametrize("suffix", ["parquet", "orc"])
def test_statistics_of_floating_point_columns(spark, folder, suffix):
    """Statistics do not include NaN, and order -0.0 before 0.0. Spark does not."""
    for name, values in (("a", [1.0, 1.0, NAN]), ("b", [-0.0, 1.0]), ("c", [0.0, 1.0]), ("e", [NAN]), ("f", [None])):
        path = folder / f"{name}.{suffix}"
        table = {"d": pa.array(values, pa.float64()), "f": pa.array(values, pa.float32()), "n": range(len(values))}
        if suffix == "parquet":
            write(path, table)
        else:
            write_orc(path, table, bloom_filter_columns=[0, 1, 2])
    queries = queries_of(each.format(column) for each in CONDITIONS for column in "df")
    queries.append("select -1 number, max(d), min(f), n from {} group by n")
    assert assert_all_same(spark, folder, queries) == {"spark"}
    assert len(rows(spark, f"select d from dfs.`{folder.name}` where d > 5 and f > 5")) == 2


def test_codecs_of_parquet(spark, folder):
    for codec in ("none", "snappy", "gzip", "zstd", "lz4"):
        table = {"n": COLUMNS["number"], "s": COLUMNS["text"], "codec": pa.array([codec] * ROWS)}
        write(folder / f"{codec}.parquet", table, compression=codec)
    assert assert_same(spark, folder) == {"spark"}


def test_instants_of_spark(restored_spark, folder):
    moment = "timestamp '2026-07-01 12:00:00.123Z'"
    columns = [f"{moment} as at", f"array({moment}) as many", f"struct(1 as n, {moment} as at) as members"]
    restored_spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    written = restored_spark.range(3).selectExpr(
        "id", *columns, f"map('a', {moment}) as m", "timestamp_ntz '2026-07-01' as local"
    )
    reader_by_kind = {"INT96": "engine", "TIMESTAMP_MICROS": "spark", "TIMESTAMP_MILLIS": "engine"}
    for kind, reader in reader_by_kind.items():
        restored_spark.conf.set("spark.sql.parquet.outputTimestampType", kind)
        written.coalesce(1).write.parquet(str(folder / kind))
        for path in (folder / kind).glob("*.parquet"):
            age(path)
        found = restored_spark.table(f"dfs.`{folder.name}/{kind}`")
        assert readers_of(found) == {reader}, kind
        assert found.schema == restored_spark.read.parquet(str(folder / kind)).schema, kind
    text = f"select * from dfs.`{folder.name}/{{}}` where at = {moment}"
    assert rows(restored_spark, " union all ".join(map(text.format, reader_by_kind))) == sorted(
        map(repr, written.collect() * len(reader_by_kind))
    )


def test_checksum_files_that_are_out_of_date(spark, folder):
    spark.range(3).coalesce(1).write.mode("overwrite").parquet(str(folder))
    (path,) = folder.glob("*.parquet")
    age(path)
    assert (folder / f".{path.name}.crc").exists()
    text = f"select count(id) from dfs.`{folder.name}`"
    assert readers(spark, text) == {"spark"}
    write(path, {"id": pa.array(range(1000))})
    assert readers(spark, text) == {"engine"}
    assert rows(spark, text) == ["Row(count(id)=1000)"]


def test_filters_columns_and_limits_are_pushed_down(spark, folder):
    write(folder / "a.parquet", {name: COLUMNS[name] for name in ("number", "big", "real", "double", "text")})
    name = f"dfs.`{folder.name}`"
    plan = plan_of(spark, f"select text from {name} where number = 5")
    assert "PushedFilters: [IsNotNull(number), EqualTo(number,5)]" in plan
    assert "ReadSchema: struct<number:int,text:string>" in plan
    plan = plan_of(spark, f"select real from {name} where number = 5")
    assert "ReadSchema: struct<number:int,real:float>" in plan
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
    protect(folder)
    return folder


EVERY_PATH_COLUMN = "a, fqn, filepath, filename, suffix, dir0, dir1, dir2, dir9, dir99999999999"


def test_columns_of_the_path(spark, deep_folder):
    assert assert_same(spark, deep_folder) == {"spark"}
    assert assert_same(spark, deep_folder, "DIR0, FileName") == {"spark"}  # and no column of the files
    paths = ["", "/2026", "/20*", "/*/x", "/2025/b.parquet", "/d.parquet"]
    assert assert_all_same(spark, deep_folder, [query_of(EVERY_PATH_COLUMN)], paths) == {"spark"}


def files_read(frame):
    """Return how many files Spark's own reader has read for a DataFrame that was collected."""
    _, nodes = frame.executionInfo.metrics.extract_graph()
    return sum(one.value for node in nodes.values() for one in node.metrics if one.name == "numFiles")


FILES_BY_CONDITION = {
    "true": [0, 1, 2, 3],
    "dir0 = '2025'": [0, 1],
    "dir0 in ('2026', '2027')": [2],
    "dir0 > '2025'": [2],
    "dir1 like 'x%' and a < 100": [0, 2],
    "dir0 is null": [3],
    "filename between 'b' and 'd'": [1, 2],
    "filepath like '%/x'": [0],
    "dir0 = 'none'": [],
}
"""The numbers of the files that Spark reads, by condition."""


def test_conditions_on_columns_of_the_path_exclude_files_of_spark(spark, deep_folder):
    for condition, numbers in FILES_BY_CONDITION.items():
        frame = spark.sql(f"select a from dfs.`{deep_folder.name}` where {condition}")
        assert sorted(row.a for row in frame.collect()) == numbers, condition
        assert files_read(frame) == len(numbers), condition
        plan = frame._explain_string()
        assert readers_in(plan) == {"spark"}, condition
        assert "  Files: 4 files" in plan, condition


def test_columns_of_the_path_of_both_readers(spark, deep_folder):
    (deep_folder / "2025" / "x" / "e.json").write_text('{"a": 7}\n')
    large = pa.array(range(400_000))
    (deep_folder / "year=5").mkdir(mode=0o755)
    for path in (deep_folder / "2025" / "x" / "a.parquet", deep_folder / "year=5" / "f.parquet"):
        write(path, {"a": large}, compression="none")
        path.chmod(0o644)
    where = "where a in (1, 7, 399999)"
    assert assert_same(spark, deep_folder, "dir1, a, filename, dir0", where) == {"spark", "engine"}


def test_variants_are_read_by_engine(spark, folder):
    spark.sql("select 1 as a, parse_json('[1]') as v").coalesce(1).write.mode("overwrite").parquet(str(folder))
    for path in folder.glob("*.parquet"):
        age(path)
    assert readers(spark, f"select * from dfs.`{folder.name}`") == {"engine"}
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
    """Each condition keeps rows."""
    few = {name: values.slice(0, 24) for name, values in NESTED.items()}
    write(folder / "a.parquet", few, row_group_size=3)
    queries = queries_of(CONDITIONS_ON_MEMBERS)
    assert assert_all_same(spark, folder, queries) == {"spark"}
    numbered = " union all ".join(query.format(f"dfs.`{folder.name}`") for query in queries)
    found = spark.sql(f"select distinct number from ({numbered})").collect()
    assert len(found) == len(CONDITIONS_ON_MEMBERS)


ORC_COLUMNS = {
    name: COLUMNS[name]
    for name in ("flag", "tiny", "number", "big", "real", "double", "text", "bytes", "decimal", "large_decimal")
}
"""Columns of an ORC file that Spark's own reader reads, by name."""


def write_orc(path, columns, **options):
    orc.write_table(pa.table(columns), path, **options)
    age(path)


def test_spark_reads_orc_with_added_and_missing_columns(spark, folder):
    write_orc(folder / "a.orc", ORC_COLUMNS)
    write_orc(folder / "b.orc", {"more": COLUMNS["text"], **dict(reversed(ORC_COLUMNS.items()))})
    write_orc(folder / "c.orc", {"number": COLUMNS["number"]})
    queries = ("select * from {}", "select * from {} where big < 0 or double > 0")
    assert assert_all_same(spark, folder, queries) == {"spark"}


def test_orc_files_of_spark(spark, folder):
    columns = ["id", "current_timestamp() as now", "cast(id as string) as text", "interval '1' day as one"]
    columns += ["cast(id as decimal(20, 3)) as number", "date '2026-02-28' as day", "date '1500-02-28' as old"]
    spark.range(100).selectExpr(*columns).coalesce(1).write.mode("overwrite").orc(str(folder))
    for path in folder.glob("*.orc"):
        age(path)
    assert assert_same(spark, folder, "id, text, number") == {"spark"}
    for name in ("now", "one", "day", "old"):
        assert assert_same(spark, folder, name) == {"engine"}
    assert spark.sql(f"select distinct old from dfs.`{folder.name}`").collect() == [(OLD,)]


PARTITIONS = {
    "numbers": ("key=1", "key=-20", "key=007", "key=__HIVE_DEFAULT_PARTITION__"),
    "large": ("key=1", "key=10000000000", "key=-9223372036854775808"),
    "days": ("key=2026-11-24", "key=1500-02-28", "key=__HIVE_DEFAULT_PARTITION__"),
    "texts": ("key=x", "key=007", "key=x-y.z", "key=null", "key=__HIVE_DEFAULT_PARTITION__"),
    "nothing": ("key=__HIVE_DEFAULT_PARTITION__",),
    "levels": ("a=1/key=x", "a=2/key=y", "a=2/key=x"),
}


def test_columns_of_partitions(spark, folder):
    for name, directories in PARTITIONS.items():
        for number, directory in enumerate(directories):
            path = folder / name / directory
            path.mkdir(parents=True)
            write(path / "a.parquet", {"n": pa.array([number], pa.int32())})
    protect(folder)
    paths = [f"/{name}" for name in PARTITIONS]
    queries = (query_of("*"), f"{query_of('n, key')} where key is null")
    assert assert_all_same(spark, folder, queries, paths) == {"spark"}
    queries = [query_of(columns) for columns in ("n", "KEY", "n, key, dir0, filename")]
    queries.append(f"{query_of('key, count(*), max(n)')} group by key")
    assert assert_all_same(spark, folder, queries, ["/numbers", "/levels"]) == {"spark"}
    for name, expected in (("numbers", 1), ("large", 0)):
        frame = spark.sql(f"select n from dfs.`{folder.name}/{name}` where key is null")
        assert len(frame.collect()) == files_read(frame) == expected


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
