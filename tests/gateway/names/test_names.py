"""Names of temporary tables and files resolve wherever a name can occur."""

import uuid
import warnings

import pytest
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql.connect.dataframe import DataFrame
from pyspark.sql.connect.functions import col, expr, lit
from pyspark.sql.connect.plan import SQL

ALL = [(0, 1), (1, 2), (2, 3)]
T = "dfs.tmp.t"


def rows(frame):
    return sorted(tuple(row) for row in frame.collect())


def plan(spark, text):
    """Return a DataFrame over a text that the client never runs as a command."""
    return DataFrame(SQL(text), spark)


@pytest.fixture(scope="module")
def spark(shared_spark):
    """Return a shared session for tests that only read.

    It has the temporary table ``t`` and Spark's table ``kept``.
    """
    shared_spark.sql("create temporary table t as select id a, id + 1 b from range(3)").collect()
    shared_spark.sql("create table if not exists kept (a bigint, b bigint) using parquet").collect()
    yield shared_spark
    shared_spark.sql("drop table kept").collect()


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "table dfs.tmp.t",
        "with t as (select 9 a) select * from dfs.tmp.t",
        "execute immediate 'select * from dfs.tmp.t'",
        "execute immediate 'select * from dfs.tmp.t where \"x\" = ''x'''",
        "execute immediate 'select * ' || 'from identifier(:n)' using 'dfs.tmp.t' as n",
        "begin select * from dfs.tmp.t; end",
        "begin declare x int default 1; if x = 1 then select dfs.tmp.t.a, b from dfs.tmp.t; else select 1; end if; end",
        "begin for r as select 1 x do select * from dfs.tmp.t; end for; end",
        "begin declare exit handler for sqlexception begin select * from dfs.tmp.t; end; select 1 / 0; end",
        "begin execute immediate 'select * from dfs.tmp.t'; end",
    ],
)
def test_sql_reads_a_table_by_its_workspace(spark, text):
    assert rows(spark.sql(text)) == ALL


@pytest.mark.slow
def test_query_reads_a_table_by_its_workspace(spark):
    queries = [
        "select * from dfs.tmp.t",
        "select * from DFS.Tmp.`T`",
        "select * from dfs.tmp.`/t`",
        "select dfs.tmp.t.a, dfs.tmp.t.b from dfs.tmp.t where dfs.tmp.t.a < 9",
        "select dfs.tmp.t.* from t",
        "select /*+ BROADCAST(dfs.tmp.t) */ * from dfs.tmp.t",
        "select x.* from dfs.tmp.t x join (select a from dfs.tmp.t) y on x.a = y.a",
        "select * from t where a in (select dfs.tmp.t.a from dfs.tmp.t)",
        "select x.* from (values (1)) v, lateral (select * from dfs.tmp.t) x",
        "select x.* from dfs.tmp.t x join dfs.tmp.t y on case when x.a = y.a then true else false end, dfs.tmp.t z"
        " where z.a = 0",
        "select a, b from dfs.tmp.t tablesample (100 percent)",
        "from dfs.tmp.t |> where dfs.tmp.t.a < 9 |> select a, t.b",
        "select * from identifier('dfs.tmp.t')",
        "select * from identifier('DFS.' || 'tmp.`t`')",
        "select * from identifier('dfs').tmp.identifier('t')",
        "select identifier('dfs.tmp.t.a'), b from dfs.tmp.t",
    ]
    union = " union all ".join(f"select {number} n, * from ({query})" for number, query in enumerate(queries))
    found = rows(spark.sql(union))
    assert {q: [row[1:] for row in found if row[0] == number] for number, q in enumerate(queries)} == dict.fromkeys(
        queries, ALL
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "arguments", "expected"),
    [
        ("select * from identifier(:n)", {"n": T}, ALL),
        ("select * from identifier('dfs.' || :n) where a = :one", {"n": "tmp.t", "one": 1}, [(1, 2)]),
        ("select * from identifier(?) where a = ?", [T, 1], [(1, 2)]),
        ("select ?, b from identifier(?) where a = ?", ["x", T, 1], [("x", 2)]),
        (
            "select * from identifier(:n) where columns[1] = 'Bob'",
            {"n": "dfs.`amount.csv`"},
            [(["1", "Bob", "200", "false"],)],
        ),
        ("execute immediate :text", {"text": "select * from dfs.tmp.t"}, ALL),
        ("execute immediate ?", ["select * from dfs.tmp.t"], ALL),
    ],
)
def test_names_in_parameters_resolve(spark, text, arguments, expected):
    assert rows(spark.sql(text, args=arguments)) == expected


@pytest.mark.slow
def test_parameters_before_a_query_do_not_move_those_in_it(spark):
    """Spark does not see the parameters in the part of the statement that Lodge executes."""
    spark.sql("create temporary table identifier(?) as select ? as x, ? as y", args=["moved", "first", 1]).collect()
    spark.sql("insert into identifier(?) select ?, ?", args=["moved", "second", 2]).collect()
    spark.sql("insert into identifier(:t) select :x, :y", args={"t": "moved", "x": "third", "y": 3}).collect()
    text = "with a as (select ? as x) insert into identifier(?) select x, ? from a"
    spark.sql(text, args=["fourth", "moved", 4]).collect()
    assert rows(spark.table("moved")) == [("first", 1), ("fourth", 4), ("second", 2), ("third", 3)]
    spark.sql("drop table moved").collect()


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "select count(*) from identifier('dfs.`amount.csv`')",
        "execute immediate 'select count(*) from dfs.`amount.csv`'",
        "begin select count(*) from dfs.`amount.csv`; end",
        "select count(case when cache = 1 then cache else cache end) from (select 1 cache from dfs.`amount.csv`)",
        "begin cache table t; select count(*) from dfs.`amount.csv`; end",
        "select count(*) from dfs.tmp.t x join dfs.tmp.t y on case when x.a = y.a then true end, dfs.`amount.csv`"
        " where x.a = 0",
    ],
)
def test_files_resolve_in_all_texts(spark, text):
    assert rows(spark.sql(text)) == [(4,)]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("describe dfs.tmp.t", ("a", "bigint", None)),
        ("desc table extended dfs.tmp.t", ("a", "bigint", None)),
        ("describe identifier('dfs.tmp.t')", ("a", "bigint", None)),
        ("describe query select * from dfs.tmp.t", ("a", "bigint", None)),
        ("show columns in dfs.tmp.t", ("a",)),
        ("show tables in dfs.tmp", ("dfs.tmp", "t", True)),
    ],
)
def test_describing_statements_know_the_table(spark, text, first):
    assert tuple(spark.sql(text).collect()[0]) == first


@pytest.mark.parametrize(
    "text",
    [
        "show tblproperties dfs.tmp.t",
        "cache table dfs.tmp.t",
        "analyze table dfs.tmp.t compute statistics for all columns",
        "refresh table dfs.tmp.t",
        "uncache table dfs.tmp.t",
        "uncache table if exists dfs.tmp.t",
        "create temporary view v as select dfs.tmp.t.a from dfs.tmp.t",
        "insert into kept select * from dfs.tmp.t",
        "insert into kept table dfs.tmp.t",
        "create temporary function f() returns bigint return (select max(dfs.tmp.t.a) from dfs.tmp.t)",
    ],
)
def test_spark_statements_accept_the_table(spark, text):
    assert spark.sql(text).collect() == []


@pytest.mark.parametrize("mode", ["", "extended", "codegen"])
def test_explain_resolves_names(spark, mode):
    (answer,) = spark.sql(f"explain {mode} select * from dfs.tmp.t").collect()
    assert "parquet" in answer[0]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("repair table dfs.tmp.t", "EXPECT_TABLE_NOT_VIEW"),
        ("analyze tables in dfs.tmp compute statistics", "NESTED_DATABASE"),
        ("select * from dfs.tmp.t version as of 1", "TIME_TRAVEL"),
        ("select * from stream(dfs.tmp.t)", "not a temp view of streaming"),
        ("merge into kept using dfs.tmp.t on kept.a = dfs.tmp.t.a when matched then delete", "does not support MERGE"),
        ("create view pv as select * from dfs.tmp.t", "emporary"),
    ],
)
def test_unsupported_use_of_a_view_is_an_error_of_spark(spark, text, error):
    with pytest.raises(PySparkException, match=error):
        spark.sql(text).collect()


def test_refused_text_names_an_alternative(spark):
    for text, error, says in (
        ("select * from identifier(concat('dfs.', 'tmp.t'))", "LODGE_IDENTIFIER", "as one string"),
        ("select * from dfs.tmp.nope", "TABLE_OR_VIEW_NOT_FOUND", "no temporary table of that name"),
        ("select * from dfs.nope.t", "SCHEMA_NOT_FOUND", r"Schema \[dfs.nope\] is not valid"),
        ("execute immediate 'drop ' || 'view t'", "LODGE_EXECUTE_IMMEDIATE", "DROP VIEW t"),
        ("execute immediate (select 'select 1')", "LODGE_EXECUTE_IMMEDIATE", "as a string literal"),
        ("execute immediate 'select * from identifier(?)' using 'dfs.tmp.t'", "LODGE_EXECUTE_IMMEDIATE", "Use a named"),
        ("execute immediate 'drop table t'", "LODGE_EXECUTE_IMMEDIATE", "DROP TABLE t"),
        ("execute immediate 'create temporary table z as select 1'", "LODGE_EXECUTE_IMMEDIATE", "CREATE TEMPORARY"),
        ("execute immediate 'execute immediate \"drop view t\"'", "LODGE_EXECUTE_IMMEDIATE", "DROP VIEW t"),
        ("explain execute immediate 'drop view t'", "LODGE_EXECUTE_IMMEDIATE", "DROP VIEW t"),
        ("begin create temporary table u as select 1; end", "LODGE_STATEMENT_IN_SCRIPT", "CREATE TEMPORARY TABLE u"),
        ("begin drop table t; end", "LODGE_STATEMENT_IN_SCRIPT", "separate statement"),
        ("begin create global temp view g as select * from t; end", "LODGE_STATEMENT_IN_SCRIPT", "VIEW g"),
        ("execute immediate 'create global temp view g as select * from t'", "LODGE_EXECUTE_IMMEDIATE", "VIEW g"),
        ("begin drop view system.session.T; end", "LODGE_STATEMENT_IN_SCRIPT", "DROP VIEW"),
        ("begin drop view identifier('t'); end", "LODGE_STATEMENT_IN_SCRIPT", "DROP VIEW"),
        ("begin declare x string default 't'; drop view identifier(x); end", "LODGE_STATEMENT_IN_SCRIPT", "DROP VIEW"),
        (
            "begin l: begin create or replace temp view t as select 1; end l; end",
            "LODGE_STATEMENT_IN_SCRIPT",
            "TEMPORARY VIEW t",
        ),
        ("begin insert into dfs.tmp.t values (1, 2); end", "LODGE_STATEMENT_IN_SCRIPT", "INSERT dfs.tmp.t"),
        ("begin execute immediate 'drop view t'; end", "LODGE_EXECUTE_IMMEDIATE", "DROP VIEW t"),
        ("begin declare x string default 'drop view t'; execute immediate x; end", "LODGE_EXECUTE_IMMEDIATE", "[x]"),
        ("begin create view v as select * from dfs.`amount.csv`; end", "LODGE_VIEW_OVER_FILE", "temporary table"),
        ("cache table v as select * from dfs.`amount.csv`", "LODGE_VIEW_OVER_FILE", "temporary table"),
        ("cache lazy table v select * from dfs.`amount.csv`", "LODGE_VIEW_OVER_FILE", "temporary table"),
        ("with t as (select 9 a) select dfs.tmp.t.a from t", "LODGE_AMBIGUOUS_COLUMN", "an alias"),
        ("drop view ${name}", "LODGE_VARIABLE_SUBSTITUTION", "without variables"),
        ("create temporary table `a${v}` as select 1", "LODGE_VARIABLE_SUBSTITUTION", "without variables"),
        ("${statement}", "LODGE_VARIABLE_SUBSTITUTION", "without variables"),
    ):
        with pytest.raises((AnalysisException, ParseException), match=says) as raised:
            spark.sql(text).collect()
        assert raised.value.getCondition() == error, text
    assert rows(spark.table("t")) == ALL


def test_statement_in_place_of_a_query_does_not_run(spark):
    for text, error in (
        ("drop view t", "LODGE_STATEMENT_IN_PLAN"),
        ("drop table dfs.tmp.t", "LODGE_STATEMENT_IN_PLAN"),
        ("create temporary table z as select 1", "LODGE_STATEMENT_IN_PLAN"),
        ("create global temporary view g as select * from t", "LODGE_STATEMENT_IN_PLAN"),
        ("begin drop view t; end", "LODGE_STATEMENT_IN_SCRIPT"),
        ("execute immediate 'drop view t'", "LODGE_EXECUTE_IMMEDIATE"),
    ):
        frame = plan(spark, text)
        attempts = [lambda frame=frame: frame.schema, frame.limit(1).collect]
        if error != "LODGE_STATEMENT_IN_PLAN":  # Lodge executes a statement that is the root of a plan
            attempts.append(frame.collect)
        for attempt in attempts:
            with pytest.raises(AnalysisException) as raised:
                attempt()
            assert raised.value.getCondition() == error, text
    assert rows(spark.table("t")) == ALL


def test_ordinary_statements_run_beside_temporary_tables(spark):
    spark.sql("set some.name=range(2)").collect()
    for text, expected in [
        ("select count(*) from ${some.name}", [(2,)]),
        ("select 'drop view t', 1 as update, 2 as `create`", [("drop view t", 1, 2)]),
        (
            "begin declare x int default 2; create temporary view w as select 5 a; drop view w; select x; end",
            [(2,)],
        ),
        ("execute immediate 'select 7'", [(7,)]),
    ]:
        assert rows(spark.sql(text)) == expected
    assert rows(plan(spark, "select update, created from values (1, 2) as x(update, created)")) == [(1, 2)]


def test_schema_of_spark_is_not_a_workspace(spark):
    assert "t" not in [table.name for table in spark.catalog.listTables("default") if not table.isTemporary]
    for name in ("default.t", "spark_catalog.default.t"):
        with pytest.raises(AnalysisException, match="cannot be found"):
            spark.sql(f"select * from {name}").collect()
    assert rows(spark.sql("with t as (select 9 a) select * from t")) == [(9,)]


@pytest.mark.slow
def test_data_frames_resolve_tables_columns_and_expressions(spark):
    frame = spark.read.table(T)
    assert rows(frame) == rows(spark.table("dfs.tmp.`/T`")) == ALL
    for ones in (
        frame.select("dfs.tmp.t.a"),
        frame.select(col("dfs.tmp.t.a") + lit(0)),
        frame.select(frame["dfs.tmp.t.a"]),
        frame.select("dfs.tmp.t.*").drop("b"),
        frame.select(frame.colRegex("dfs.tmp.t.`a.*`")),
        frame.selectExpr("dfs.tmp.t.a"),
        frame.select(expr("(select max(dfs.tmp.t.a) from dfs.tmp.t) - 2 + dfs.tmp.t.a")),
        frame.groupBy("dfs.tmp.t.a").count().drop("count"),
        frame.sort("dfs.tmp.t.b").drop("b"),
    ):
        assert rows(ones) == [(0,), (1,), (2,)]
    assert rows(frame.filter("exists (select 1 from dfs.tmp.t x where x.a = dfs.tmp.t.b)")) == [(0, 1), (1, 2)]
    assert rows(frame.join(spark.table("t").alias("y"), col("dfs.tmp.t.a") == col("y.b")).select("y.a")) == [(0,), (1,)]
    assert spark.sql("select * from {x} join dfs.tmp.t using (a)", x=frame).count() == 3
    assert rows(spark.sql("select named_struct('t', 5) tmp").alias("dfs").select("dfs.tmp.t")) == [(5,)]
    with pytest.raises(AnalysisException, match=r"createOrReplaceTempView") as raised:
        frame.filter("a in (select 1 from dfs.`amount.csv`)").collect()
    assert raised.value.getCondition() == "LODGE_FILE_IN_EXPRESSION"


def test_analysis_requests_resolve_names(spark, capsys):
    frame, plain = spark.table(T), spark.table("t")
    assert (frame.schema.names, frame.isStreaming, frame.isLocal()) == (["a", "b"], False, False)
    assert frame.inputFiles() == plain.inputFiles() != []
    assert frame.sameSemantics(plain)
    assert frame.semanticHash() == plain.semanticHash()
    frame.explain()
    frame.printSchema()
    assert "FileScan parquet" in capsys.readouterr().out
    assert frame.persist().storageLevel.useMemory
    assert not frame.unpersist().storageLevel.useMemory


def test_catalog_knows_the_table_by_its_workspace(spark):
    catalog = spark.catalog
    warnings.simplefilter("ignore", FutureWarning)  # the name of the database apart is deprecated
    assert catalog.getTable(T) == catalog.getTable("t")
    assert catalog.listColumns(T) == catalog.listColumns("t") == catalog.listColumns("t", "dfs.tmp")
    assert catalog.getTableProperties(T) == {}
    assert [
        catalog.tableExists(name) for name in (T, "DFS.tmp.T", "dfs.tmp.`/t`", "dfs.tmp.u", "dfs.t", "dfs.x.t")
    ] == [
        *[True] * 3,
        *[False] * 3,
    ]
    assert catalog.tableExists("t", "dfs.tmp")
    catalog.cacheTable(T)
    assert (catalog.isCached(T), catalog.isCached("t")) == (True, True)
    catalog.refreshTable(T)
    catalog.uncacheTable(T)
    assert not catalog.isCached(T)
    (table,) = catalog.listTables("dfs.tmp")
    assert (table.name, table.namespace, table.isTemporary) == ("t", ["dfs", "tmp"], True)
    assert [len(catalog.listTables("dfs.tmp", pattern)) for pattern in ("T*", "x|t", "x")] == [1, 1, 0]
    assert catalog.listViews("dfs.tmp") == []
    assert [catalog.databaseExists(name) for name in ("dfs.tmp", "DFS", "dfs.x")] == [True, True, False]
    for call in (catalog.listPartitions, catalog.analyzeTable):
        with pytest.raises(AnalysisException, match="expects a table but `t` is a view"):
            call(T)


def test_catalog_knows_only_that_files_exist(spark):
    assert spark.catalog.tableExists("dfs.`amount.csv`")
    assert not spark.catalog.tableExists("dfs.`nope.csv`")
    with pytest.raises(AnalysisException, match=r"Use the DataFrame: spark.table"):
        spark.catalog.listColumns("dfs.`amount.csv`")
    with pytest.raises(AnalysisException, match="no file or directory"):
        spark.catalog.cacheTable("dfs.`nope.csv`")
    with pytest.raises(AnalysisException, match=r"Schema \[dfs.x\] is not valid"):
        spark.catalog.listTables("dfs.x")


def test_stream_joins_with_the_table_but_cannot_read_or_write_it(spark, tmp_path):
    stream = spark.readStream.format("rate").load()
    assert stream.join(spark.table(T), expr("value = dfs.tmp.t.a")).isStreaming
    for name in (T, "t"):
        with pytest.raises(AnalysisException, match="not a temp view of streaming logical plan"):
            _ = spark.readStream.table(name).schema
    with pytest.raises(AnalysisException, match="cannot be read as a stream"):
        _ = spark.readStream.table("dfs.`amount.csv`").schema
    for name in (T, "t", "dfs.`x`"):
        writer = stream.writeStream.option("checkpointLocation", str(tmp_path))
        with pytest.raises(AnalysisException, match="stream"):
            writer.toTable(name)
    with pytest.raises(AnalysisException, match="does not record changes"):
        spark.read.changes(T).collect()


def test_case_sensitive_session_needs_the_exact_name(connect):
    spark = connect()
    spark.conf.set("spark.sql.caseSensitive", "true")
    spark.sql("create temporary table Ab as select 1 a").collect()
    assert rows(spark.sql("select DFS.Tmp.Ab.a from DFS.Tmp.Ab")) == [(1,)]
    assert [spark.catalog.tableExists(name) for name in ("dfs.tmp.Ab", "dfs.tmp.ab")] == [True, False]
    for attempt in ("select * from dfs.tmp.ab", "select * from ab", "begin drop view ab; end"):
        with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
            spark.sql(attempt).collect()
    with pytest.raises(AnalysisException, match="LODGE_STATEMENT_IN_SCRIPT"):
        spark.sql("begin drop view Ab; end").collect()


def test_double_quoted_identifiers_are_names(connect):
    spark = connect()
    spark.sql("create temporary table t as select 1 a").collect()
    with pytest.raises(ParseException):
        spark.sql('select * from dfs.tmp."t"').collect()
    spark.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    for text in (
        'select * from "t"',
        'select * from dfs.tmp."t"',
        'select "dfs"."tmp"."t"."a" from "dfs"."tmp"."t"',
        'execute immediate \'select "a" from dfs."tmp".t\'',
    ):
        assert rows(spark.sql(text)) == [(1,)], text
    with pytest.raises(AnalysisException, match="LODGE_STATEMENT_IN_SCRIPT"):
        spark.sql('begin drop view "t"; end').collect()


@pytest.mark.filterwarnings("ignore:.*escapedStringLiterals")
def test_escaped_string_literals_have_no_escapes(connect):
    spark = connect()
    spark.sql("create temporary table t as select 1 a").collect()
    assert rows(spark.sql("execute immediate 'select a, \\'x\\' from dfs.tmp.t'")) == [(1, "x")]
    spark.conf.set("spark.sql.parser.escapedStringLiterals", "true")
    for text in (
        "select * from identifier('dfs.tmp.t')",
        "execute immediate 'select * from dfs.tmp.t'",
        "execute immediate \"select a from identifier('dfs.tmp.t') where 'x' = 'x'\"",
        "select * from identifier('dfs').tmp.identifier('\\u0074')",
    ):
        assert rows(spark.sql(text)) == [(1,)], text
    for text, condition in (
        ("select * from identifier('\\u0064fs.tmp.t')", "PARSE_SYNTAX_ERROR"),
        ("execute immediate 'dr\\u006fp view t'", "PARSE_SYNTAX_ERROR"),
        ("execute immediate 'drop view t'", "LODGE_EXECUTE_IMMEDIATE"),
        ("execute immediate 'select \"x\" from dfs.tmp.t where \\'a\\' = a'", "PARSE_SYNTAX_ERROR"),
        ("create temporary view v using lodge options (path 'dfs.`amount.csv`')", "LODGE_SCAN_OPTIONS"),
    ):
        with pytest.raises(PySparkException) as raised:
            spark.sql(text).collect()
        assert raised.value.getCondition() == condition, text
    spark.sql("create temporary table s using csv options (sep '\t') as select 1 a, 2 b").collect()
    assert rows(spark.table("dfs.tmp.s")) == [(1, 2)]


def test_session_without_tables_runs_all_that_spark_runs(connect):
    spark = connect()
    assert rows(spark.sql("execute immediate upper('select 1')")) == [(1,)]
    assert rows(spark.sql("begin create temporary view w as select 5 a; drop view w; select 6; end")) == [(6,)]
    spark.sql("set some.words=temporary view w").collect()
    spark.sql("create ${some.words} as select 8 a").collect()
    assert rows(spark.table("w")) == [(8,)]
    assert len(rows(spark.sql("execute immediate lower('select * from dfs.`amount.csv`')"))) == 4


def test_spark_computes_the_names_of_tables_that_change(spark):
    spark.sql("declare or replace variable name string default 'dfs.tmp.changed'").collect()
    spark.sql("create temporary table identifier(name) (a int)").collect()
    spark.sql("insert into identifier(lower(?)) values (1), (?)", args=["CHANGED", 2]).collect()
    spark.sql("update identifier(concat('chan', 'ged')) set a = a + 1 where a = 1").collect()
    spark.sql("with q as (select 7) insert into identifier(name) select * from q").collect()
    assert sorted(rows(spark.table("changed"))) == [(2,), (2,), (7,)]
    spark.sql("drop table identifier(name)").collect()
    for text, condition in (
        ("drop table identifier(nope)", "UNRESOLVED_COLUMN.WITHOUT_SUGGESTION"),
        ("insert into identifier(name) values (1)", "LODGE_WORKSPACE_TABLE"),
        ("insert into identifier((select 't')) values (1, 2)", "LODGE_IDENTIFIER"),
        ("insert into identifier(1 + 1) values (1, 2)", "LODGE_IDENTIFIER"),
    ):
        with pytest.raises(PySparkException) as raised:
            spark.sql(text).collect()
        assert raised.value.getCondition() == condition, text


def test_spark_evaluates_the_text_of_execute_immediate(spark, lodge):
    spark.sql("declare or replace variable text string default 'select * from ' || 'dfs.tmp.t where a = :x'").collect()
    expected = rows(spark.sql("select * from t where a = 1"))
    assert rows(spark.sql("execute immediate text using 1 as x")) == expected
    assert rows(spark.sql("execute immediate concat(?, ' from t') using 2", args=["select count(*), ?"])) == [(3, 2)]
    assert rows(spark.sql("execute immediate replace(:q, 'x', 't')", args={"q": "select * from x"})) == rows(
        spark.table("t")
    )
    spark.sql("declare or replace variable found int").collect()
    spark.sql("execute immediate lower('SELECT MAX(A) FROM T') into found").collect()
    assert rows(spark.sql("select found")) == [(2,)]
    for text, condition in (
        ("execute immediate nope", "UNRESOLVED_COLUMN.WITHOUT_SUGGESTION"),
        ("execute immediate concat('select ', nope)", "UNRESOLVED_COLUMN.WITHOUT_SUGGESTION"),
        ("execute immediate lower('SELEC 1')", "PARSE_SYNTAX_ERROR"),
        ("execute immediate 'select 1', 'select 2'", "LODGE_EXECUTE_IMMEDIATE"),
        ("execute immediate concat('select ''', repeat('x', 70000), '''')", "LODGE_EXECUTE_IMMEDIATE"),
        ("execute immediate concat('insert into', ' t values (1, 2)')", "LODGE_EXECUTE_IMMEDIATE"),
        (f"execute immediate concat('select * from csv.`{lodge.root}', '/x`')", "LODGE_PATH_REFUSED"),
    ):
        with pytest.raises(PySparkException) as raised:
            spark.sql(text).collect()
        assert raised.value.getCondition() == condition, text


@pytest.mark.parametrize("text", [T, "t"])
def test_large_requests_resolve(spark, text):
    padding = " " * 2_000_000
    assert rows(spark.sql(f"select *{padding}from {text}")) == ALL
    assert plan(spark, f"select *{padding}from {text}").schema.names == ["a", "b"]


def test_large_requests_hide_no_statement(spark):
    padding = " " * 2_000_000
    with pytest.raises(AnalysisException, match="LODGE_STATEMENT_IN_SCRIPT"):
        spark.sql(f"BEGIN{padding}DROP VIEW t; END").collect()
    with pytest.raises(AnalysisException, match="LODGE_STATEMENT_IN_PLAN"):
        _ = plan(spark, f"Drop{padding}view t").schema
    assert rows(spark.table("t")) == ALL


def chain(frame, length=80):
    """Return a plan that is nested deeper than the decoder allows."""
    for _ in range(length):
        frame = frame.limit(9)
    return frame


@pytest.mark.slow
def test_deep_plans_resolve(spark):
    deep = chain(spark.table(T)).filter("exists (select 1 from dfs.tmp.t x where x.a = dfs.tmp.t.a)")
    assert rows(deep.select("dfs.tmp.t.a", "b")) == ALL
    assert deep.columns == ["a", "b"]
    assert rows(chain(spark.table("t")).join(chain(spark.table(T), 60), "a").select("a")) == [(0,), (1,), (2,)]
    assert chain(spark.table("dfs.`amount.csv`")).count() == 4
    deep.createOrReplaceTempView("deep_view")
    assert spark.table("deep_view").count() == 3
    for length in (47, 48, 49):
        assert chain(spark.table(T), length).count() == 3
    added = spark.createDataFrame([(7, 8)], "a long, b long")
    writes = (
        lambda: chain(added).write.insertInto(T),
        lambda: chain(added).write.saveAsTable(T, mode="append"),
        lambda: chain(added).writeTo(T).append(),
    )
    for number, write in enumerate(writes, 1):
        write()
        assert spark.table("t").where("a = 7").count() == number
    assert "Physical Plan" in deep._explain_string()
    spark.sql("insert overwrite t values (0, 1), (1, 2), (2, 3)").collect()
    for attempt, condition in (
        (lambda: chain(spark.range(9)).createOrReplaceTempView("t"), "ALREADY_EXISTS"),
        (lambda: chain(spark.table("t")).createOrReplaceGlobalTempView("g"), "LODGE_"),
        (lambda: chain(plan(spark, "drop view t")).count(), "LODGE_STATEMENT_IN_PLAN"),
    ):
        with pytest.raises(AnalysisException, match=condition):
            attempt()
    assert rows(spark.table("t")) == ALL


@pytest.fixture
def compressing(connect):
    """Return a session whose client compresses plans of more than a hundred bytes."""
    spark = connect()
    spark.sql("create temporary table t as select id a, id + 1 b from range(3)").collect()
    spark.client._plan_compression_threshold = 100
    spark.client._plan_compression_algorithm = "ZSTD"
    return spark


@pytest.mark.slow
def test_compressed_plans_resolve(compressing):
    comment = f"/* {'x' * 1000} */"
    assert rows(compressing.sql(f"select * from {T} {comment}")) == ALL
    assert plan(compressing, f"select * from {T} {comment}").schema.names == ["a", "b"]
    assert rows(compressing.table(T).filter(f"dfs.tmp.t.a = 1 {comment}")) == [(1, 2)]
    assert rows(compressing.sql(f"select * from dfs.`amount.csv` where columns[0] = '1' {comment}")) == [
        (["1", "Bob", "200", "false"],)
    ]
    assert rows(compressing.sql(f"select 1 {comment}")) == [(1,)]
    with pytest.raises(AnalysisException, match="LODGE_STATEMENT_IN_SCRIPT"):
        compressing.sql(f"begin drop view t; end {comment}").collect()
    with pytest.raises(AnalysisException, match="LODGE_STATEMENT_IN_PLAN"):
        plan(compressing, f"drop view t {comment}").limit(1).collect()
    name = f"n{uuid.uuid4().hex}"
    compressing.sql(f"create temporary table {name} as select 1 a {comment}").collect()
    assert rows(compressing.table(f"dfs.tmp.{name}")) == [(1,)]
