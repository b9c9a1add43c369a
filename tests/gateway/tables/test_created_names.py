"""Names of new temporary tables [temporary-tables §5.1.2, §5.1.3, §5.1.11]."""

import pytest
from pyspark.errors import AnalysisException

EXISTS = ("TABLE_OR_VIEW_ALREADY_EXISTS", "42P07")


def exists(name, schema="dfs.tmp"):
    return f"A table or view with given name [{name}] already exists in schema [{schema}]."


@pytest.mark.slow
def test_name_can_contain_any_character(client):
    names = ["a b", "a.b", "a``b", "😀", "n" * 200, "é" * 300, "x/y", "select", "a\nb", "%", "''", "..."]
    for number, name in enumerate(names):
        client.run(f"create temporary table `{name}` as select {number} a")
    rows = [[(number,)] for number in range(len(names))]
    assert client.contents(*(f"`{name}`" for name in names)) == rows
    assert client.contents(*(f"dfs.tmp.`{name}`" for name in names)) == rows
    for name in names:
        own = name.replace("``", "`")
        client.refuses(f"create temporary table dfs.tmp.`{name}` as select 1 a", *EXISTS, exists(own))
    for name in names:
        own = name.replace("``", "`")
        assert client.rows(f"drop table dfs.tmp.`{name}`") == [(True, f"Temporary table [{own}] was dropped.")]


def test_names_are_case_insensitive(client):
    client.run("create temporary table My_Temp as select 1 a")
    names = ("my_temp", "MY_TEMP", "mY_TeMp", "DFS.TMP.MY_temp")
    assert client.contents(*names) == [[(1,)]] * len(names)
    for name in names:
        client.refuses(f"create temporary table {name} as select 2 a", *EXISTS, exists(name.split(".")[-1]))
    assert client.rows("drop table MY_TEMP") == [(True, "Temporary table [My_Temp] was dropped.")]


def test_leading_slash_is_ignored(client):
    client.run("create temporary table `/t` as select 1 a")
    assert client.contents("t", "dfs.tmp.t", "dfs.tmp.`/t`") == [[(1,)]] * 3
    for name in ("t", "`/t`", "dfs.tmp.`//t`"):
        client.refuses(f"create temporary table {name} as select 2 a", *EXISTS, exists("t"))
    assert client.rows("drop table dfs.tmp.`/T`") == [(True, "Temporary table [t] was dropped.")]
    assert client.rows("drop table if exists `/t`") == [(False, "Table [t] was not found.")]


def test_unqualified_name_means_default_temporary_workspace(client):
    client.run("create temporary table t as select 1 a")
    assert client.spark.table("dfs.tmp.t").collect() == [(1,)]
    assert len(list(client.location.iterdir())) == 1


def test_create_in_other_workspace_is_refused(client):
    text = "Temporary tables are not allowed to be created outside of default temporary workspace [dfs.tmp]."
    for rest in ("dfs.t as select 1 a", "DFS.t as select 1 a", "dfs.t (a int)", "DFS.t (a int)"):
        client.refuses(f"create temporary table {rest}", "LODGE_NOT_TEMPORARY_WORKSPACE", "42602", text)


def test_file_names_do_not_reveal_table_names(client):
    client.run("create temporary table secret_name as select 1 secret_a")
    assert not any("secret" in name for name in client.files())


def test_name_can_be_used_again_after_drop(client):
    for count in (1, 3, 0):
        client.run(f"create temporary table t as select id from range({count})")
        assert client.spark.table("t").count() == count
        client.run("drop table t")
        client.refuses("select * from t", "TABLE_OR_VIEW_NOT_FOUND", "42P01")


def test_table_is_replaced_through_another_table(client):
    client.run("create temporary table t as select 1 a")
    client.refuses("create temporary table t as select a + 1 a from t", *EXISTS)
    client.run("create temporary table u as select a + 1 a from t")
    client.run("drop table t")
    client.refuses("create temporary table t as select * from t", "TABLE_OR_VIEW_NOT_FOUND", "42P01")
    client.run("create temporary table t as select * from u")
    client.run("drop table u")
    assert client.rows("select * from t") == [(2,)]


def test_name_is_free_after_failed_creation(client):
    client.refuses("create temporary table t as select raise_error('no') a", "USER_RAISED_EXCEPTION", "P0001")
    client.run("create temporary table t as select 1 a")
    assert client.rows("select * from t") == [(1,)]


def test_create_refuses_name_of_permanent_table_in_same_workspace(writer):
    writer.run("create table dfs.tmp.kept as select 5 a")
    taken = {name: exists(name.split(".")[-1]) for name in ("kept", "KEPT", "dfs.tmp.kept")}
    for name, text in taken.items():
        writer.refuses(f"create temporary table {name} as select raise_error('ran') a", *EXISTS, text)
    for name, text in taken.items():
        assert writer.rows(f"create temporary table if not exists {name} as select 1 a") == [(False, text)]
    assert writer.rows("drop table dfs.tmp.kept") == [(True, "Table [kept] dropped")]
    writer.run("create temporary table kept as select 1 a")
    for name in ("kept", "KEPT"):
        writer.refuses(f"create table dfs.tmp.{name} as select 5 a", *EXISTS, exists(name))
    for name in ("kept", "KEPT"):
        assert writer.rows(f"create table if not exists dfs.tmp.{name} as select 5 a") == [(False, exists(name))]


def test_create_refuses_name_of_temporary_view(client):
    client.run("create temporary table t as select 3 a")
    client.run("create temporary view mine as select 3 a")
    client.run("create temporary view mine_of_t as select * from t")
    client.spark.table("t").createOrReplaceTempView("mine_too")
    names = ("mine", "MINE", "mine_of_t", "mine_too")
    for name in names:
        client.refuses(f"create temporary table {name} as select 1 a", *EXISTS, exists(name))
    for name in names:
        assert client.rows(f"create temporary table if not exists {name} as select 1 a") == [(False, exists(name))]
    assert client.contents(*names) == [[(3,)]] * len(names)
    for view in ("mine", "mine_of_t", "mine_too"):
        client.spark.catalog.dropTempView(view)


def test_temporary_table_hides_spark_table_of_same_name(client):
    client.run("create table hidden using parquet as select 7 a")
    try:
        client.run("create temporary table hidden as select 1 a")
        assert client.contents("hidden", "default.hidden") == [[(1,)], [(7,)]]
        client.run("drop table hidden")
        assert client.rows("select * from hidden") == [(7,)]
        assert client.rows("drop table hidden") == []
        client.refuses("select * from hidden", "TABLE_OR_VIEW_NOT_FOUND", "42P01")
    finally:
        client.run("drop table if exists default.hidden")


def test_permanent_table_in_other_workspace_can_have_same_name(writer):
    writer.run("create table dfs.both as select 7 a")
    writer.run("create temporary table both as select 1 a")
    assert writer.contents("both", "dfs.tmp.both", "dfs.both") == [[(1,)], [(1,)], [(7,)]]
    assert writer.rows("select b.a, t.a from both b join dfs.both t on true") == [(1, 7)]
    assert writer.rows("drop table both") == [(True, "Temporary table [both] was dropped.")]
    assert writer.rows("select * from dfs.both") == [(7,)]
    writer.run("drop table dfs.both")


@pytest.fixture
def case_sensitive(client):
    """Return a function that makes names case-sensitive until the end of the test."""
    yield lambda: client.spark.conf.set("spark.sql.caseSensitive", "true")
    client.spark.conf.unset("spark.sql.caseSensitive")


def test_case_sensitive_session_refuses_name_in_other_letter_case(client, case_sensitive):
    case_sensitive()
    client.run("create temporary table Exact as select 1 a, 2 A")
    client.refuses("create temporary table EXACT as select 1 a", *EXISTS, exists("EXACT"))
    assert client.rows("drop table if exists EXACT") == [(False, "Table [EXACT] was not found.")]
    assert client.rows("select A, a from Exact") == [(2, 1)]
    client.run("drop table Exact")


def test_case_sensitive_session_distinguishes_columns(client, case_sensitive):
    case_sensitive()
    client.run("create temporary table t as select 1 a, 2 A")
    client.run("insert into t (A, a) values (4, 3)")
    client.run("insert into t by name select 6 A, 5 a")
    assert client.sorted("select a, A from t") == [(1, 2), (3, 4), (5, 6)]
    client.run("create temporary table u (a int)")
    client.refuses("insert into u (A) values (1)", "UNRESOLVED_COLUMN.WITH_SUGGESTION", "42703", "`A`")
    client.refuses("create temporary table v partition by (B) as select 1 a, 2 b", "COLUMN_NOT_FOUND", "42703")


def test_case_sensitive_names_turned_on_later_leave_table_in_lower_case(client, case_sensitive):
    """Spark stored the name of the view in lower case."""
    client.run("create temporary table Ab as select 1 a")
    case_sensitive()
    assert client.contents("ab", "dfs.tmp.ab") == [[(1,)]] * 2
    client.run("insert into ab values (2)")
    assert client.sorted("select * from ab") == [(1,), (2,)]
    client.refuses("create temporary view ab as select 3 a", *EXISTS, exists("ab"))
    client.refuses("select * from Ab", "TABLE_OR_VIEW_NOT_FOUND", "42P01")
    client.refuses("drop table Ab", "TABLE_OR_VIEW_NOT_FOUND", "42P01")
    assert client.rows("drop table dfs.tmp.ab") == [(True, "Temporary table [ab] was dropped.")]
    assert client.state() == ((), (), [], [])


def test_case_sensitive_names_turned_off_later_leave_table_droppable(client, case_sensitive):
    case_sensitive()
    client.run("create temporary table Ab as select 1 a")
    client.spark.conf.unset("spark.sql.caseSensitive")
    client.refuses("select * from dfs.tmp.Ab", "TABLE_OR_VIEW_NOT_FOUND", "42P01")
    client.run("drop table Ab")
    assert client.tables() == []
    assert client.files() == []
    case_sensitive()
    assert client.spark.catalog.dropTempView("Ab")  # Spark cannot drop the view while names are not case-sensitive


def test_default_temporary_workspace_is_configurable(start_lodge, spark_server, connect, tmp_path):
    options = ("--workspace", f"scratch={tmp_path.as_uri()}", "--default-temporary-workspace", "scratch")
    spark = connect(start_lodge(*options, backend=spark_server))
    for name, text in {"a": "a", "scratch.b": "b", "SCRATCH.c": "c"}.items():
        spark.sql(f"create temporary table {name} as select '{text}' x")
        assert spark.sql(f"select * from scratch.{text}").collect() == [(text,)]
    assert len([path for path in tmp_path.iterdir() if path.name != ".lodge"]) == 1
    with pytest.raises(AnalysisException, match=r"outside of default temporary workspace \[scratch\]"):
        spark.sql("create temporary table dfs.tmp.d as select 1 a")
