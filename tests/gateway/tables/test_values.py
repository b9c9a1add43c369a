"""Columns and rows in every storage format [temporary-tables §5.1.7, §5.14].

The values are in ``test_values_like_spark.py``.
"""

from pyspark.sql.types import ArrayType, DoubleType, StructField, StructType, UserDefinedType

FORMATS = ("parquet", "orc", "json", "csv")


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
