"""Values in every storage format [temporary-tables §5.1.7, §5.14]."""

import pytest
from pyspark.sql.types import ArrayType, DoubleType, StructField, StructType, UserDefinedType

FORMATS = ("parquet", "orc", "json", "csv")
EVERYWHERE = (
    "cast(1 as tinyint)",
    "cast(1 as smallint)",
    "1",
    "1L",
    "1.5f",
    "double('nan')",
    "double('-infinity')",
    "-0.0d",
    "cast(1.23 as decimal(38,18))",
    "cast(-99999999999999999999999999999999999999 as decimal(38,0))",
    "true",
    "'text'",
    "''",
    "' lead, trail '",
    "'a\\nb\\r\\nc\\td'",
    '\'"q""\'',
    "'\\\\'",
    "'null'",
    "'\\u0000x'",
    "'😀'",
    "cast(null as string)",
    "cast(null as timestamp)",
    "cast('ab' as char(5))",
    "cast('ab' as varchar(5))",
    "date'2020-02-29'",
    "date'0001-01-01'",
    "date'9999-12-31'",
    "timestamp'1800-01-01 00:00:00.123456'",
    "timestamp'1883-11-18 12:03:57'",
    "timestamp'0001-01-02 00:00:00'",
    "timestamp'2024-11-03 01:30:00-05:00'",
    "timestamp'2024-11-03 01:30:00-04:00'",
    "timestamp_ntz'1900-01-01 00:00:00.000001'",
    "timestamp_ntz'0001-01-01 00:00:00'",
    "interval '1-2' year to month",
    "interval '-1 02:03:04.5' day to second",
)
NESTED = (
    "array(1, null, 3)",
    "array('', null)",
    "map('k', 1, 'l', null)",
    "named_struct('a', 1, 'B b', array(named_struct('c', 'x')))",
    "cast(null as struct<a:int>)",
    "named_struct('a', cast(null as int))",
    "array(X'01')",
)
EXACT = {"timestamp": "unix_micros({})", "binary": "hex({})"}
"""The types whose values are compared as text, because Python cannot represent all of them."""
REFUSED = {
    "parquet": ["make_interval(1,2,3,4,5,6,7)"],
    "orc": ["null", "array()", "parse_json('1')", "make_interval(1)", "'a' collate unicode_ci"],
    "json": [
        "map(1, 'x')",
        "array(map(1, 2))",
        "make_interval(1)",
        "array(parse_json('1'))",
        "map('k', parse_json('1'))",
    ],
    "csv": ["null", "X'00FF'", "parse_json('1')", "make_interval(1)", *NESTED],
}
ONLY = {
    "parquet": ["null", "array()", "parse_json('{\"a\":[1]}')", "X'00FF'", "'a' collate unicode_ci", "map(1, 'x')"],
    "orc": ["X'00FF'", "X''", "map(1, 'x')"],
    "json": ["null", "X'00FF'", "X''", "parse_json('{\"a\":[1]}')", "'a' collate unicode_ci"],
    "csv": ["'a' collate unicode_ci"],
}


@pytest.mark.slow
@pytest.mark.parametrize("storage", FORMATS)
def test_values_of_every_type_round_trip(client, storage):
    expressions = (*EVERYWHERE, *(() if storage == "csv" else NESTED), *ONLY[storage])
    names = [f"c{index}" for index in range(len(expressions))]
    values = ", ".join(f"{value} {name}" for name, value in zip(names, expressions, strict=True))
    client.spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        client.run(f"create temporary table t using {storage} as select {values}, 1 last")
        client.spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        client.run(f"insert into t select {values}, 2 last")
        client.spark.conf.set("spark.sql.session.timeZone", "America/New_York")
        stored, made = client.spark.table("t"), client.spark.sql(f"select {values}, 1 last")
        assert stored.dtypes == made.dtypes
        exact = [EXACT.get(kind, "string({})").format(name) for name, kind in stored.dtypes]
        nulls = [f"{name} is null" for name in names]
        (wanted,) = made.selectExpr(*exact, *nulls).collect()
        (got,) = stored.where("last = 1").selectExpr(*exact, *nulls).collect()
        labels = (*expressions, "last", *nulls)
        assert {label: g for label, g, w in zip(labels, got, wanted, strict=True) if g != w} == {}
    finally:
        client.spark.conf.unset("spark.sql.session.timeZone")


def test_types_that_do_not_round_trip_are_refused(client):
    for storage, values in REFUSED.items():
        for value in values:
            client.refuses(
                f"create temporary table t using {storage} as select 1 i, {value} v",
                "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE",
                "0A000",
                "v",
            )


def test_orc_refuses_unsupported_column_names(client):
    for columns in ("1 `a``b`", "1 ``", "named_struct('a`b', 1) c", "array(named_struct('', 1)) c"):
        client.refuses(f"create temporary table t using orc as select {columns}", "LODGE_COLUMN_NAME", "0A000", "orc")


def test_empty_result_keeps_columns(client):
    for storage in FORMATS:
        created = f"create temporary table {storage} using {storage} as select id, 'x' s, 1.5 d from range(0)"
        assert client.rows(created) == [("0_0", 0)]
        assert client.spark.table(storage).dtypes == [("id", "bigint"), ("s", "string"), ("d", "decimal(2,1)")]
    assert client.contents(*FORMATS) == [[]] * len(FORMATS)
    for storage in FORMATS:
        client.run(f"insert into {storage} values (1, 'y', 2)")
    assert client.contents(*(f"(select id, s from {storage})" for storage in FORMATS)) == [[(1, "y")]] * len(FORMATS)


def test_rows_in_several_files_are_counted(client):
    assert client.rows("create temporary table t as select /*+ repartition(5) */ id from range(5000)") == [
        ("0_0", 5000)
    ]
    assert client.rows("select count(*), sum(id), count(distinct id) from t") == [(5000, 12497500, 5000)]


class VectorLike(UserDefinedType):
    """A user-defined type that names Python's module ``this`` as its own."""

    @classmethod
    def sqlType(cls):  # noqa: N802 - PySpark defines the name
        return ArrayType(DoubleType())

    @classmethod
    def module(cls):
        return "this"

    def serialize(self, obj):
        return obj

    def deserialize(self, datum):
        return datum


def test_user_defined_type_is_refused_without_import(client):
    """The type names a Python module, which the gateway must not import."""
    schema = StructType([StructField("a", VectorLike())])
    frame = client.spark.createDataFrame([([1.0],)], schema)
    for statement in (
        lambda: client.spark.sql("create temporary table u as select * from {f}", f=frame).collect(),
        lambda: client.spark.sql("create temporary table u as select array(a) b from {f}", f=frame).collect(),
    ):
        client.refuses(statement, "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE", "0A000", "user-defined types")
    assert "Zen of Python" not in client.gateway.log()
