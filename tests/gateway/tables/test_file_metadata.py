"""The column ``_metadata`` of temporary tables, beside that of a table of Spark."""

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.connect import functions as f

from tests.gateway.tables.spark_pair import SparkPair

SPARK_TABLE = "table_of_spark"
REFUSED = ("LODGE_FILE_METADATA", "0A000")
FIELDS = (
    "_metadata.file_block_start, _metadata.file_modification_time > timestamp'2020-01-01', _metadata.file_size > 0, "
    "_metadata.file_block_length = _metadata.file_size"
)


@pytest.fixture
def tables(client):
    """Returns the names of both tables. Each has one row in each of two files."""
    with SparkPair(client).tables("(a int, b string) using parquet"):
        for name in ("t", SPARK_TABLE):
            client.run(f"insert into {name} values (1, 'x')")
            client.run(f"insert into {name} values (2, 'y')")
        yield ("t", SPARK_TABLE)


def alike(client, name, query):
    """Return the columns and rows of a query on one of the tables."""
    frame = query(name) if callable(query) else client.spark.sql(query.format(t=name))
    return frame.schema.jsonValue(), sorted(map(repr, frame.collect()))


@pytest.mark.slow
@pytest.mark.parametrize("storage_format", ["parquet", "orc", "json", "csv"])
def test_fields_are_those_of_spark(client, storage_format):
    with SparkPair(client).tables(f"(a int, p string) using {storage_format} partitioned by (p)"):
        for name in ("t", SPARK_TABLE):
            client.run(f"insert into {name} select id, 'x' from range(0, 5, 1, 1)")
            client.run(f"insert into {name} select id, 'y' from range(5, 7, 1, 1)")
        row = ", _metadata.row_index" if storage_format == "parquet" else ""
        query = f"select a, p, {FIELDS}{row} from {{t}}"
        assert alike(client, "t", query) == alike(client, SPARK_TABLE, query)
        fields = "select typeof(_metadata) from {t} limit 1"
        assert alike(client, "t", fields) == alike(client, SPARK_TABLE, fields)


@pytest.mark.slow
@pytest.mark.parametrize(
    "query",
    [
        "select count(distinct _metadata.file_name), count(*) from {t}",
        "select a from {t} where _metadata.file_size > 0 and _metadata.row_index = 0",
        "select x.a, y.b, x._metadata.file_name = y._metadata.file_name from {t} x join {t} as y on x.a >= y.a",
        "select {t}._metadata.file_name like 'part-%', {t}.a * 2 from {t} order by 2",
        "select a from {t} where exists (select _metadata.file_name n from {t} i where i.a > {t}.a)",
        "with q as (select _metadata.file_name n, a from {t}) select count(distinct n), sum(a) from q",
        "select a, max(_metadata.file_modification_time) > timestamp'2020-01-01' from {t} group by a",
        "select a from session.{t} where _metadata.file_size < 0",
        "select a, _metadata.file_size > 0 from identifier('{t}')",
        "select count(_metadata.file_name) from {t} having count(*) = 2",
        "select a, _METADATA.FILE_SIZE > 0 from {t}",
        "select a from {t} left join range(1) on id = _metadata.row_index",
    ],
)
def test_queries_have_the_result_of_spark(client, tables, query):
    session = query.replace("session.", "") if tables else query  # Spark's own table is in a database
    assert alike(client, "t", query) == alike(client, SPARK_TABLE, session)


@pytest.mark.slow
@pytest.mark.parametrize(
    "build",
    [
        lambda table: table.select("a", f.col("_metadata.file_size") > 0),
        lambda table: table.select("*", f.col("_metadata.row_index")),
        lambda table: table.filter("_metadata.file_size > 0"),
        lambda table: (
            table.filter(f.col("_metadata.row_index") == 0).filter("_metadata.file_size > 0").limit(9).select("b")
        ),
        lambda table: table.withColumn("n", f.col("_metadata.row_index")).orderBy(f.col("_metadata.row_index"), "a"),
        lambda table: table.alias("u").select("u.a", "u._metadata.row_index"),
        lambda table: table.groupBy("_metadata.row_index").count(),
        lambda table: table.select("a", table.metadataColumn("_metadata").getField("row_index")),
        lambda table: table.filter(table.a > 1).select(table.b, "_metadata.row_index"),
        lambda table: table.join(table.select("a", f.col("_metadata.row_index").alias("n")), "a"),
        lambda table: table.select("a").filter("a > 1"),
    ],
)
def test_data_frames_have_the_result_of_spark(client, tables, build):
    found, expected = (alike(client, name, lambda name: build(client.spark.table(name))) for name in tables)
    assert found[0] == expected[0]
    assert found[1] == expected[1]


def test_names_of_files_are_not_paths(client, tables):
    rows = client.rows("select _metadata.file_path, _metadata.file_name, to_json(_metadata) from t")
    assert [row[0] for row in rows] == [row[1] for row in rows]
    assert not any("/" in text for row in rows for text in row)
    frame = client.spark.table("t").select("_metadata.*")
    assert not any("/" in str(value) for row in frame.collect() for value in row)


def test_statements_of_lodge_read_the_column(client, tables):
    client.run("create temporary table names as select a, _metadata.file_name n from dfs.tmp.t")
    client.run("insert into names select a, _metadata.file_name from t where a = 1")
    client.run("insert into t select a + 10, _metadata.file_name from t")
    assert client.rows("select count(*), count(distinct n) from names") == [(3, 2)]
    assert client.rows("select count(*) from t where b like 'part-%'") == [(2,)]
    client.run("drop table names")


def test_texts_with_parameters_read_the_column(client, tables):
    query = "select a, _metadata.row_index from identifier(:name) where a > :least order by a"
    assert client.rows(query, args={"name": "t", "least": 1}) == [(2, 0)]
    assert client.rows("select a, _metadata.row_index from t where a > ? and b = ?", args=[1, "y"]) == [(2, 0)]
    client.run("declare variable query = 'select a, _metadata.row_index from t where a > 1'")
    assert client.rows("execute immediate 'select a, _metadata.row_index from t where a > 1'") == [(2, 0)]
    assert client.rows("execute immediate query") == [(2, 0)]
    client.run("drop temporary variable query")
    client.run("declare variable found int")
    client.run("execute immediate 'select max(_metadata.row_index) + 5 from t' into found")
    assert client.rows("select found") == [(5,)]
    client.run("drop temporary variable found")
    (plan,) = client.rows("explain select _metadata.file_name from t")
    assert "_metadata" in plan[0]


def test_errors_name_the_column(client, tables):
    client.refuses("select _metadata.absent from t", "FIELD_NOT_FOUND", "42704")
    client.refuses("select t.absent, _metadata.file_name from t", "UNRESOLVED_COLUMN.WITH_SUGGESTION", "42703")


def test_rows_are_those_of_the_table_now(client, tables):
    client.run("delete from t where a = 1")
    assert client.rows("select a, _metadata.row_index from t") == [(2, 0)]
    client.run("insert overwrite t values (3, 'z')")
    assert client.rows("select a, _metadata.row_index from t") == [(3, 0)]


@pytest.mark.parametrize(
    "query",
    [
        "select *, _metadata.file_name from t",
        "select t.*, _metadata.file_name from t",
        "select a, _metadata.file_name from t where exists (table t)",
        "select _metadata.file_name from t natural join range(1)",
        "from t |> where _metadata.file_size > 0",
        "select a, _metadata.row_index from t tablesample (10 rows)",
        "begin select a, _metadata.row_index from t; end",
    ],
)
def test_statement_that_could_return_the_column_is_refused(client, tables, query):
    client.refuses(query, *REFUSED)


def test_data_frame_that_could_return_the_column_is_refused(client, tables):
    table = client.spark.table("t")
    client.refuses(lambda: table.select("*", "_metadata").collect(), *REFUSED)


def test_table_with_such_a_column_is_read_as_it_is(client):
    client.run("create temporary table t as select 1 _metadata, 2 b")
    assert client.rows("select *, _metadata from t") == [(1, 2, 1)]
    client.run("drop table t")


def test_view_with_the_column_is_refused(client, tables):
    client.refuses("create temporary view v as select _metadata.file_name from t", "LODGE_VIEW_OVER_FILE", "0A000")


def test_table_of_the_statement_is_not_the_temporary_table(client, tables):
    with pytest.raises(PySparkException, match="_metadata"):
        client.rows("with t as (select 1 a) select _metadata.file_name from t")
