"""Clients cannot read or write the temporary workspace by path."""

import json
from random import Random
from string import ascii_letters

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.connect import functions as sf
from pyspark.sql.connect.session import SparkSession


@pytest.fixture(scope="module")
def victim(lodge, new_fence_session):
    spark = new_fence_session()
    before = set(lodge.locations())
    spark.sql("create temporary table t as select 'secret' a").collect()
    (location,) = set(lodge.locations()) - before
    (table,) = location.iterdir()
    return table


@pytest.fixture(scope="module")
def new_fence_session(lodge):
    sessions = []

    def make(**parameters):
        suffix = "".join(f";{key}={value}" for key, value in parameters.items())
        sessions.append(SparkSession.builder.remote(f"{lodge.address}/{suffix}").create())
        return sessions[-1]

    yield make
    for session in sessions:
        session.stop()


@pytest.fixture(scope="module")
def other(new_fence_session):
    return new_fence_session(user_id="other")


def refused(run):
    with pytest.raises(PySparkException) as raised:
        run()
    assert raised.value.getCondition() == "LODGE_PATH_REFUSED", raised.value
    assert raised.value.getSqlState() == "42501"
    assert "secret" not in str(raised.value)


SQL = [
    "select * from parquet.`{path}`",
    "select * from parquet.`file:{path}`",
    "select * from parquet.`{root}/*/*`",
    "select * from parquet.`{root}`",
    "select * from text.`{root}/.lodge/sessions`",
    "select * from text.`{parent}`",
    "with a as (select * from parquet.`{path}`) select * from a",
    "select (select max(a) from parquet.`{path}`)",
    "select * from identifier('parquet.`{path}`')",
    "create temporary view v as select * from parquet.`{path}`",
    "create temporary view v using parquet options (path '{path}')",
    "create table p (a string) using parquet location '{path}'",
    "create temporary table u as select * from parquet.`{path}`",
    "create database d location '{root}/d'",
    "insert overwrite directory '{path}' using parquet select 'x' a",
    "insert overwrite directory '{root}/new' using parquet select 'x' a",
    "insert into parquet.`{path}` select 'x'",
    "load data inpath '{path}' into table p",
    "add file {path}",
    "create table p using parquet ${{k}} '{path}'",
    "create table p (a string) using parquet comment '${{k}}{path}'",
    "create table p (a string) using parquet /* ${{k}} location '{path}' */",
    "execute immediate 'select * from parquet.`{path}`'",
    "begin declare q string; select * from parquet.`{path}`; end",
    "set spark.sql.streaming.checkpointLocation={root}/x",
    "explain select * from parquet.`{path}`",
]


@pytest.mark.parametrize("statement", SQL)
def test_sql_with_path_into_the_workspace_is_refused(lodge, victim, other, statement):
    text = statement.format(path=victim, root=lodge.root, parent=lodge.root.parent)
    refused(lambda: other.sql(text).collect())


def test_data_frames_with_path_into_the_workspace_are_refused(lodge, victim, other):
    path, root = str(victim), str(lodge.root)
    frame = other.range(1)
    for run in (
        lambda: other.read.parquet(path).collect(),
        lambda: other.read.parquet(path).schema,
        lambda: other.read.parquet(path).inputFiles(),
        lambda: other.read.format("binaryFile").option("recursiveFileLookup", True).load(root).collect(),
        lambda: other.read.text(["/x", root]).collect(),
        lambda: other.read.option("path", path).format("parquet").load().collect(),
        lambda: other.read.parquet(f"{lodge.root.parent}/t*/*/*").collect(),
        lambda: other.read.schema("a string").parquet(path).collect(),
        lambda: other.read.schema("value string").text(f"{root}/.lodge/sessions").collect(),
        lambda: other.table(f"parquet.`{path}`").collect(),
        lambda: other.range(1).select(sf.expr(f"(select max(a) from parquet.`{path}`)")).collect(),
        lambda: other.readStream.schema("a string").parquet(path).isStreaming,
        lambda: frame.write.mode("overwrite").parquet(path),
        lambda: frame.write.mode("overwrite").parquet(f"{root}/new"),
        lambda: frame.write.option("path", f"{root}/new").saveAsTable("outside"),
        lambda: frame.write.mode("append").format("csv").save(f"file://{root}/.lodge/sessions/x"),
        lambda: other.catalog.createTable("q", path, "parquet").collect(),
        lambda: other.catalog.refreshByPath(path),
        lambda: other.conf.set("spark.sql.streaming.checkpointLocation", f"{root}/x"),
        lambda: other.readStream.format("rate").load().writeStream.option("checkpointLocation", f"{root}/c").start(),
        lambda: other.sql("select * from identifier(:n)", {"n": f"parquet.`{path}`"}).collect(),
        lambda: other.sql("create table r (a string) using parquet location :p", {"p": path}).collect(),
        lambda: other.sql("create table r (a string) using parquet location ? ?", [path[:4], path[4:]]).collect(),
        lambda: other.sql("select * from identifier(:n)", {"n": sf.lit(f"parquet.`{path}`").alias("a")}).collect(),
        lambda: other.table(f"parquet.IDENTIFIER('`{path}`')").collect(),
        lambda: other.read.parquet(rf"{lodge.root.parent}/absent/\.\./{lodge.root.name}/*/*").collect(),
        lambda: other.read.option("paths", json.dumps([str(lodge.root.parent)])).format("avro").load().collect(),
        lambda: other.conf.set("fs.viewfs.mounttable.c.link./a", lodge.root.parent.as_uri()),
    ):
        refused(run)


def test_deep_plan_with_path_into_the_workspace_is_refused(victim, other):
    frame = other.read.parquet(str(victim))
    for _ in range(120):
        frame = frame.where("true")
    refused(frame.collect)


def test_compressed_plan_with_path_into_the_workspace_is_refused(victim, other):
    letters = "".join(Random(1).choices(ascii_letters, k=3000))  # noqa: S311 - compressed bytes without a word
    query = other.range(1).select(sf.expr(f"(select max(a) from parquet.`{victim}`) /* {letters} */"))
    other.conf.set("spark.connect.session.planCompression.threshold", "1")
    try:
        refused(other.read.parquet(str(victim)).collect)
        refused(lambda: other.read.parquet(str(victim)).schema)
        refused(query.collect)
        refused(lambda: query.schema)
    finally:
        other.conf.unset("spark.connect.session.planCompression.threshold")


def test_link_to_the_workspace_is_refused(victim, other, tmp_path):
    (tmp_path / "link").symlink_to(victim)
    refused(lambda: other.read.parquet(str(tmp_path / "link")).collect())
    refused(lambda: other.read.schema("a string").parquet(str(tmp_path / "link")).collect())
    refused(lambda: other.range(1).write.mode("append").parquet(str(tmp_path / "link" / "x")))
    refused(lambda: other.sql(f"select * from parquet.`{tmp_path}/link/*.parquet`").collect())


@pytest.mark.slow
def test_other_paths_and_names_work(lodge, spark, tmp_path):
    path = str(tmp_path / "data")
    spark.range(3).write.parquet(path)
    assert spark.read.parquet(path).count() == 3
    assert spark.sql(f"select count(*) from parquet.`{path}/*.parquet`").first()[0] == 3
    assert spark.read.options(sep="/").csv(path).columns
    assert spark.sql("select split('a/b', '/')[0] a").first()[0] == "a"
    assert spark.table("dfs.`amount.csv`").count() == 4
    spark.sql("create temporary table own as select 1 a").collect()
    assert spark.sql("select * from dfs.tmp.own").count() == 1
    assert spark.table("own").where("a = 1").count() == 1


def test_permanent_table_in_the_temporary_workspace_is_read_by_name(spark):
    spark.sql("create table dfs.tmp.kept as select 1 a").collect()
    try:
        frame = spark.sql("select * from dfs.tmp.kept")  # the client sends the relation that it receives
        assert frame.where("a = 1").count() == 1
        assert frame.schema.names == ["a"]
    finally:
        spark.sql("drop table dfs.tmp.kept").collect()
