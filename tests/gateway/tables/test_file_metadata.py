"""The column ``_metadata`` of temporary tables, beside that of a table of Spark."""

import pytest
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
        "select count(distinct n), sum(a) from (select _metadata.file_name n, a from {t})",
        "select a * 2, a*_metadata.row_index from {t} union all select 7, _metadata.row_index from {t}",
        "select a, max(_metadata.file_modification_time) > timestamp'2020-01-01' from {t} group by a",
        "select a from session.{t} where _metadata.file_size < 0",
        "select a, _metadata.file_size > 0 from identifier('{t}')",
        "select count(_metadata.file_name) from {t} having count(*) = 2",
        "select a, _METADATA.FILE_SIZE > 0 from {t}",
        "select a, size(array(_metadata)), not _metadata.row_index = 0, _metadata is null from {t}",
        "select a from {t} left join range(1) on id = _metadata.row_index",
    ],
)
def test_queries_have_the_result_of_spark(client, tables, query):
    session = query.replace("session.", "") if tables else query  # Spark's own table is in a database
    assert alike(client, "t", query) == alike(client, SPARK_TABLE, session)


def test_names_of_files_are_not_paths(client, tables):
    frame = client.spark.sql("select _metadata.file_path, _metadata.file_name from t")
    assert "/" not in str(frame._plan.to_proto(client.spark.client).root)
    rows = frame.collect()
    assert [row[0] for row in rows] == [row[1] for row in rows]
    assert not any("/" in text for row in rows for text in row)


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
        "select to_json(struct(*)), _metadata.file_name from t",
        "select a, _metadata.file_name from t where exists (table t)",
        "select _metadata.file_name from t natural join range(1)",
        "select _metadata.file_name from t join range(3) r(a) using (a)",
        "from t |> where _metadata.file_size > 0",
        "select a, _metadata.row_index from t tablesample (10 rows)",
        "select a, _metadata.row_index from t x(a, b)",
        "select a, _metadata.row_index _metadata from t",
        "select _metadata.row_index from t as _metadata",
    ],
)
def test_unsupported_query_is_refused(client, tables, query):
    client.refuses(query, *REFUSED)


@pytest.mark.parametrize(
    "run",
    [
        lambda spark: spark.table("t").select("_metadata.file_name").collect(),
        lambda spark: spark.sql("select * from t").filter("_metadata.row_index = 0").collect(),
        lambda spark: spark.sql("select a, _metadata.row_index r from t").select("_metadata.file_path").collect(),
        lambda spark: spark.sql("execute immediate 'select a, _metadata.row_index from t'").collect(),
        lambda spark: spark.sql("create temporary view v as select _metadata.file_name from t"),
        lambda spark: spark.sql("begin select a, _metadata.row_index from t; end"),
        lambda spark: spark.sql("with t as (select 1 a) select _metadata.file_name from t"),
        lambda spark: spark.sql("delete from t where _metadata.row_index = 0"),
    ],
)
def test_other_statements_do_not_find_the_column(client, tables, run):
    client.refuses(lambda: run(client.spark), "UNRESOLVED_COLUMN.WITH_SUGGESTION", "42703")


def test_statements_that_spark_can_analyze_stay_as_they_are(client, tables):
    client.run("create temporary view other as select 1 a, named_struct('row_index', 77) _metadata")
    assert client.rows("select *, 1 as _metadata from t where a = 1") == [(1, "x", 1)]
    assert client.rows("select t.a, _metadata.row_index from t join other on t.a = other.a") == [(1, 77)]
    assert client.rows(f"select t.a, o._metadata.row_index from t join {SPARK_TABLE} o on t.a = o.a where t.a = 1") == [
        (1, 0)
    ]
    assert client.rows("select t.* from t, lateral (select 1 _metadata) where a = 1") == [(1, "x")]
    client.run(f"delete from t where a in (select a from {SPARK_TABLE} where _metadata.row_index = 77)")
    client.run("create temporary table copied as select *, 1 as _metadata from t")
    assert client.rows("select a, _metadata from copied where a = 1") == [(1, 1)]
    frame = client.spark.table("t").withColumn("_metadata", f.lit(1)).filter("_metadata = 1")
    assert frame.columns == ["a", "b", "_metadata"]
    client.run("drop table copied")
    client.run("drop view other")


def test_long_text_that_mentions_the_column_stays_as_it_is(client, tables):
    values = ", ".join(f"({number}, '_metadata')" for number in range(110_000))
    assert client.spark.sql(f"select count(*) from values {values}").collect() == [(110_000,)]


def test_queries_in_a_plan_read_the_column(client, tables):
    frame = client.spark.sql("select a, _metadata.row_index r from t")
    assert sorted(frame.union(frame).filter("r = 0").select("a").collect()) == [(1,), (1,), (2,), (2,)]


def test_table_with_such_a_column_is_read_as_it_is(client):
    client.run("create temporary table t as select 1 _metadata, 2 b")
    assert client.rows("select *, _metadata from t") == [(1, 2, 1)]
    client.run("drop table t")
