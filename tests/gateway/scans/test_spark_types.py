"""Types of Spark that Arrow does not have, in Parquet files that Spark wrote, beside Spark's own reader."""

import json
import random

import pytest
from pyspark.errors import PySparkException
from pyspark.ml.linalg import Matrices, Vectors

pytestmark = pytest.mark.slow

POINT = "X'0101000000000000000000F03F0000000000000040'"
UNSHREDDED = {"spark.sql.variant.writeShredding.enabled": "false"}
UNANNOTATED = {**UNSHREDDED, "spark.sql.parquet.variant.annotateLogicalType.enabled": "false"}
FORCED = {"spark.sql.variant.forceShreddingSchemaForTest": "a bigint, b array<string>, c struct<d double, e string>"}

VARIANT = (
    'parse_json(\'{"a": 1, "b": [1, 2.5, "x", null, true]}\') v, array(parse_json(\'1\'), null) many, '
    "named_struct('v', parse_json('\"s\"'), 'n', cast(null as variant)) member, map('k', parse_json('[]')) named, "
    "cast(null as variant) nothing"
)
COLUMNS = {
    "variant": VARIANT,
    "geometry": f"st_geomfromwkb({POINT}) g, array(st_geomfromwkb({POINT}), null) many, "
    f"st_setsrid(st_geomfromwkb({POINT}), 3857) other, cast(null as geometry(4326)) nothing",
    "geography": f"st_geogfromwkb({POINT}) g, named_struct('x', st_geogfromwkb({POINT})) member, "
    "cast(null as geography(4326)) nothing",
    "day_time": "interval '1 02:03:04.5' day to second d, array(interval '-1 02:03:04.5' day to second, null) many",
    "collated": "'a' collate utf8_lcase c, 'b' d, array('x' collate unicode_ci) many, "
    "named_struct('m', 'y' collate utf8_lcase) member",
    "void": "null v, 1 a, array(null) many, named_struct('x', null, 'y', 1) member",
    "limited": "cast('a' as char(3)) c, cast('b' as varchar(3)) d",
}


@pytest.fixture(scope="module")
def lodge(start_lodge, spark_server):
    gateway = start_lodge(backend=spark_server)
    yield gateway
    gateway.stop()


@pytest.fixture
def write(direct, lodge):
    """Return a function that writes rows to a directory of the workspace, as one file, with settings of Spark."""

    def to_directory(name, frame, settings=None):
        for key, value in (settings or {}).items():
            direct.conf.set(key, value)
        try:
            rows = frame if not isinstance(frame, str) else direct.sql(frame)
            rows.coalesce(1).write.mode("append").parquet(str(lodge.files / name))
        finally:
            for key in settings or {}:
                direct.conf.unset(key)
        return str(lodge.files / name)

    return to_directory


def outcome(frame):
    return frame.schema.simpleString(), sorted(map(repr, frame.collect()))


def refused(spark, query):
    with pytest.raises(PySparkException) as raised:
        spark.sql(query).collect()
    return raised.value


@pytest.mark.parametrize("name", COLUMNS)
def test_type_is_that_of_spark(spark, direct, write, name):
    path = write(f"of_{name}.parquet", f"select {COLUMNS[name]}")
    assert outcome(spark.table(f"dfs.`of_{name}.parquet`")) == outcome(direct.read.parquet(path))


@pytest.mark.parametrize("settings", [UNSHREDDED, UNANNOTATED], ids=["unshredded", "unannotated"])
def test_variant_of_older_spark(spark, direct, write, request, settings):
    name = f"older_{request.node.callspec.id}.parquet"
    path = write(name, f"select {VARIANT}", settings)
    assert outcome(spark.table(f"dfs.`{name}`")) == outcome(direct.read.parquet(path))


def random_value(chosen, depth=0):
    numbers = [0, -1, 127, 128, -129, 32768, 2**31, -(2**63), 2**63 - 1, 1.5, -0.25, 1e300, 12345.678]
    text = "".join(chosen.choice('aé😀 "x') for _ in range(chosen.choice((0, 3, 70))))
    kind = chosen.choice(("simple", "simple", "list", "object")) if depth < 3 else "simple"
    if kind == "simple":
        return chosen.choice([None, True, False, chosen.choice(numbers), chosen.randrange(10**6), text, text])
    if kind == "list":
        return [random_value(chosen, depth + 1) for _ in range(chosen.choice((0, 1, 3, 300 if depth == 0 else 2)))]
    names = chosen.sample(["a", "b", "c", "d", "e", "é", "😀", "\uffee", ""], chosen.randrange(6))
    return {name: random_value(chosen, depth + 1) for name in names}


@pytest.mark.parametrize("settings", [{}, FORCED, UNSHREDDED], ids=["inferred", "forced", "unshredded"])
def test_random_variants_have_the_bytes_of_spark(spark, direct, write, request, settings):
    chosen = random.Random(7)  # noqa: S311 - must be repeatable
    texts = [json.dumps(random_value(chosen), ensure_ascii=False) for _ in range(300)]
    of_one_kind = [json.dumps({"a": 1, "b": ["x"], "c": {"d": 1.5, "e": None}, "z": random_value(chosen)})] * 40
    rows = direct.createDataFrame(list(enumerate(texts + of_one_kind)), "n int, j string")
    name = f"random_{request.node.callspec.id}.parquet"
    path = write(name, rows.selectExpr("n", "parse_json(j) v"), settings)
    assert outcome(spark.table(f"dfs.`{name}`")) == outcome(direct.read.parquet(path))


def test_user_defined_types_of_machine_learning(spark, direct, write):
    values = [
        (Vectors.dense([1.0, 2.0]), Vectors.sparse(3, [1], [2.5]), Matrices.dense(2, 1, [1.0, 2.0])),
        (None, None, None),
    ]
    path = write("vectors.parquet", direct.createDataFrame(values, ["dense", "sparse", "matrix"]))
    found = outcome(spark.table("dfs.`vectors.parquet`"))
    assert found == outcome(direct.read.parquet(path))
    assert found[0] == "struct<dense:vector,sparse:vector,matrix:matrix>"


def test_file_without_the_column_has_nulls(spark, direct, write):
    for column, value in (("v", "parse_json('[1]')"), ("g", f"st_geomfromwkb({POINT})"), ("u", "null")):
        write(f"drift_{column}", f"select 1 n, {value} {column}")
        write(f"drift_{column}", "select 2 n")
        frame = spark.table(f"dfs.`drift_{column}`")
        assert {row.n for row in frame.filter(f"{column} is null").collect()} == ({1, 2} if column == "u" else {2})
        assert frame.count() == 2
    assert spark.table("dfs.`drift_v`").schema["v"].dataType.simpleString() == "variant"
    assert spark.sql("select n, v:[0]::int x from dfs.`drift_v` order by n").collect() == [(1, 1), (2, None)]


def test_column_of_nulls_takes_the_type_of_another_file(spark, write):
    write("nulls", "select 1 n, cast(null as void) x, cast(null as void) v")
    write("nulls", "select 2 n, 'a' x, parse_json('2') v")
    frame = spark.table("dfs.`nulls`")
    assert frame.schema.simpleString() == "struct<n:int,x:string,v:variant>"
    assert [tuple(row) for row in frame.selectExpr("n", "x", "v::int").sort("n").collect()] == [
        (1, None, None),
        (2, "a", 2),
    ]


@pytest.mark.parametrize(
    ("value", "other", "types"),
    [
        ("parse_json('1')", "'text'", ("variant", "string")),
        (f"st_geomfromwkb({POINT})", POINT, ("geometry(0)", "binary")),
        ("'a' collate utf8_lcase", "'b'", ("string collate UTF8_LCASE", "string")),
        ("array(parse_json('1'))", "array('text')", ("array<variant>", "array<string>")),
    ],
    ids=["variant", "geometry", "collated", "nested"],
)
def test_other_type_in_another_file_is_a_conflict(spark, write, value, other, types):
    name = f"conflict of {types[0]}"
    write(name, f"select {value} v")
    write(name, f"select {other} v")
    error = refused(spark, f"select v from dfs.`{name}`")
    assert error.getCondition() == "LODGE_TYPE_CONFLICT"
    assert all(type_ in str(error) for type_ in types)
    assert "extension" not in str(error)


def test_conditions_and_implicit_columns(spark, write):
    write("lake/region=eu", "select parse_json(to_json(named_struct('a', id))) v, id from range(5)")
    write("lake/region=us", "select parse_json(to_json(named_struct('a', id))) v, id from range(5, 9)")
    query = "select v:a::int a, region from dfs.`lake` where v is not null and v:a::int > 2 and region = 'us'"
    assert sorted(map(tuple, spark.sql(query).collect())) == [(n, "us") for n in range(5, 9)]
    grouped = spark.sql("select region, max(id), count(v) from dfs.`lake` where id >= 3 group by 1").collect()
    assert sorted(map(tuple, grouped)) == [("eu", 4, 2), ("us", 8, 4)]


@pytest.mark.parametrize("settings", [{}, UNSHREDDED, UNANNOTATED], ids=["shredded", "unshredded", "unannotated"])
def test_declared_schema(spark, direct, write, request, settings):
    name = f"declared_{request.node.callspec.id}.parquet"
    write(name, "select id, parse_json('{\"a\": 1}') v from range(2)", settings)
    query = f"select v:a::int a, id from dfs.`{name}` with (schema = 'v variant, id bigint, other geometry(4326)')"
    assert sorted(map(tuple, spark.sql(query).collect())) == [(1, 0), (1, 1)]
    assert spark.read.schema("v variant").table(f"dfs.`{name}`").count() == 2


def test_text_is_not_declared_a_variant(spark, lodge):
    (lodge.files / "texts.json").write_text('{"v": "1"}\n')
    error = refused(spark, "select v from dfs.`texts.json` with (schema = 'v variant')")
    assert error.getCondition() == "LODGE_TYPE_CONFLICT"
    assert "variant" in str(error)


def test_temporary_table_of_types_of_spark(spark, write):
    write("source.parquet", f"select parse_json('1') v, st_geomfromwkb({POINT}) g, 'a' collate utf8_lcase c")
    spark.sql("create temporary table of_types as select * from dfs.`source.parquet`").collect()
    expected = outcome(spark.table("dfs.`source.parquet`"))
    assert outcome(spark.table("of_types")) == expected
    assert spark.sql("select count(*) from of_types where c = 'A'").head()[0] == 1
    assert spark.sql("select count(*) from dfs.`source.parquet` where c = 'A'").head()[0] == 1


def test_type_that_scans_do_not_have_is_refused_before_the_first_row(spark, direct, write):
    write("months.parquet", "select 1 a, interval '1-2' year to month m, array(interval '3' year) many")
    assert spark.sql("select a from dfs.`months.parquet`").collect() == [(1,)]
    for column, kind in (("m", "interval year to month"), ("many", "interval year"), ("*", "interval year to month")):
        with pytest.raises(PySparkException, match=f"has the Parquet type {kind}, which scans cannot read") as raised:
            _ = spark.sql(f"select {column} from dfs.`months.parquet`").schema
        assert raised.value.getCondition() == "LODGE_TYPE_NOT_SUPPORTED"
