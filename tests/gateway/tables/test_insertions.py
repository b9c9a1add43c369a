"""Insertions, which follow Spark's rules: [temporary-tables] has none."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.errors import PySparkException

from tests.gateway.tables.held_statements import Running
from tests.gateway.tables.test_faults import slow


@pytest.fixture
def table(client):
    client.run("create temporary table t (a int, b string)")
    return client


def test_insert_appends_by_position_and_answers_nothing(table):
    inserted = table.spark.sql("insert into t values (1, 'x')")
    assert inserted.columns == []
    assert inserted.collect() == []
    table.run("insert into table dfs.tmp.T select 2, 'y'")
    table.run("insert into session.t with q as (select 3 b, 'z' a) select * from q")
    table.run("with q as (select 4 b, 'w' a) insert into t select * from q")
    assert table.sorted("select * from t") == [(1, "x"), (2, "y"), (3, "z"), (4, "w")]


def test_insert_by_name_and_by_column_list(table):
    table.run("insert into t by name select 'x' b, 1 a")
    table.run("insert into t by name select 'y' B")
    table.run("insert into t (B, a) values ('z', 3)")
    table.run("insert into t (a) values (4)")
    assert table.sorted("select * from t") == [(1, "x"), (3, "z"), (4, None), (None, "y")]


def test_insert_overwrite_leaves_only_new_rows_and_files(table):
    table.run("insert into t values (1, 'x')")
    table.run("insert into t values (2, 'y')")
    before = table.files()
    table.run("insert overwrite t values (3, 'z')")
    assert table.rows("select * from t") == [(3, "z")]
    assert not set(before) & set(table.files())
    assert len(list(table.location.iterdir())) == 1
    table.run("insert overwrite table dfs.tmp.t (b) values ('only')")
    assert table.rows("select * from t") == [(None, "only")]


def test_truncate_removes_all_rows(table):
    table.run("insert into t values (1, 'x')")
    assert table.rows("truncate table dfs.tmp.T") == []
    assert table.rows("select * from t") == []
    table.run("insert into t values (2, 'y')")
    table.spark.sql("truncate table t").collect()
    assert table.rows("select * from t") == []
    table.refuses("truncate table nowhere", "TABLE_OR_VIEW_NOT_FOUND", "42P01")


@pytest.mark.slow
def test_table_is_inserted_into_itself(table):
    table.run("insert into t values (1, 'x'), (2, 'y')")
    table.run("insert into t select a + 10, b from t")
    table.run("insert into t table t")
    assert table.sorted("select a from t") == [(1,), (1,), (2,), (2,), (11,), (11,), (12,), (12,)]
    table.run("insert overwrite t select distinct a * 10, b from t where a > 2")
    assert table.sorted("select * from t") == [(110, "x"), (120, "y")]
    table.run("insert overwrite dfs.tmp.t select * from dfs.tmp.T")
    assert table.sorted("select * from t") == [(110, "x"), (120, "y")]


def test_values_are_converted_as_spark_stores_them(table):
    table.run("insert into t select 1.5, 2")
    table.run("insert into t select cast(3 as tinyint), date'2020-01-01'")
    assert table.sorted("select * from t") == [(1, "2"), (3, "2020-01-01")]
    table.refuses("insert into t values ('abc', 'x')", "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST", "KD000")
    table.refuses("insert into t values (99999999999, 'x')", "CAST_OVERFLOW_IN_TABLE_INSERT", "22003")


FAILING = (
    ("values (1)", "INSERT_COLUMN_ARITY_MISMATCH.NOT_ENOUGH_DATA_COLUMNS", "21S01"),
    ("values (1, 2, 3)", "INSERT_COLUMN_ARITY_MISMATCH.TOO_MANY_DATA_COLUMNS", "21S01"),
    ("(a) values (1, 2)", "INSERT_COLUMN_ARITY_MISMATCH.TOO_MANY_DATA_COLUMNS", "21S01"),
    ("(nope) values (1)", "UNRESOLVED_COLUMN.WITH_SUGGESTION", "42703"),
    ("by name select 1 nope", "INCOMPATIBLE_DATA_FOR_TABLE.EXTRA_COLUMNS", "KD000"),
    ("(a, A) values (1, 2)", "COLUMN_ALREADY_EXISTS", "42711"),
    ("select raise_error('no'), 'x'", "USER_RAISED_EXCEPTION", "P0001"),
    ("select * from nowhere", "TABLE_OR_VIEW_NOT_FOUND", "42P01"),
    ("selec 1", "PARSE_SYNTAX_ERROR", "42601"),
    ("select 1 a union", "PARSE_SYNTAX_ERROR", "42601"),
)
"""Insertions that fail, with the condition and the SQLSTATE."""


@pytest.mark.slow
def test_failed_insertion_adds_no_row_and_no_file(table):
    table.run("insert into t values (1, 'x')")
    for rest, condition, state in FAILING:
        for words in ("into", "overwrite"):
            table.refuses(f"insert {words} t {rest}", condition, state)
    assert table.rows("select * from t") == [(1, "x")]


def test_only_temporary_tables_take_rows_in_workspace(client):
    for name in ("dfs.tmp.nowhere", "dfs.nowhere", "dfs.`amount.csv`"):
        for text in (f"insert into {name} values (1)", f"truncate table {name}", f"delete from {name}"):
            client.refuses(text, "LODGE_WORKSPACE_TABLE", "0A000", "only temporary tables")
    client.refuses("insert into dfs.wk1.t values (1)", "SCHEMA_NOT_FOUND", "42704", "Schema [dfs.wk1]")


@pytest.mark.slow
def test_rows_of_many_insertions_are_read(client):
    client.run("create temporary table t partition by (p) as select 0 a, 0 p")
    client.run("create temporary table u as select 0 a")
    for number in range(1, 9):
        client.run(f"insert into {'t' if number % 4 == 0 else 'u'} values ({number}{', 1' * (number % 4 == 0)})")
    assert client.contents("(select count(*), sum(a) from t)", "(select count(*), sum(a) from u)") == [
        [(3, 12)],
        [(7, 24)],
    ]
    client.run("insert overwrite u select * from u")
    assert client.rows("select count(*), sum(a) from u") == [(7, 24)]


@pytest.mark.slow
def test_parts_of_many_insertions_are_merged(table, wait_until):
    def insert(start):
        for number in range(start, 70, 4):
            table.spark.sql(f"insert into t values ({number}, 'x')").collect()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(insert, range(4)))
    wait_until(lambda: len(table.record().tables[0].parts) < 30, "the parts are merged")
    assert table.rows("select count(*), count(distinct a), sum(a) from t") == [(70, 70, 2415)]
    table.run("insert into t values (70, 'y')")
    assert [each.rows for each in table.record().tables] == [71]


def test_concurrent_insertions_all_succeed(table):
    failures = []

    def insert(number):
        try:
            for each in range(3):
                table.spark.sql(f"insert into t values ({number * 10 + each}, 'n')").collect()
        except PySparkException as error:
            failures.append(str(error))

    threads = [threading.Thread(target=insert, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert table.sorted("select a from t") == [(0,), (1,), (2,), (10,), (11,), (12,)]


def test_one_of_two_concurrent_creations_succeeds(client):
    answers = []

    def create(number):
        try:
            answers.append(client.rows(f"create temporary table t as select {number} a"))
        except PySparkException as error:
            answers.append(error.getCondition())

    threads = [threading.Thread(target=create, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(map(str, answers)) == ["TABLE_OR_VIEW_ALREADY_EXISTS", "[('0_0', 1)]"]
    assert len(list(client.location.iterdir())) == 1
    assert len(client.rows("select * from t")) == 1


@pytest.mark.slow
def test_cached_table_shows_inserted_rows(table):
    table.run("insert into t values (1, 'x')")
    table.run("cache table t")
    assert table.rows("select count(*) from t") == [(1,)]
    table.run("insert into t values (2, 'y')")
    assert table.rows("select count(*) from t") == [(2,)]
    table.run("insert overwrite t values (3, 'z')")
    assert table.rows("select * from t") == [(3, "z")]
    table.run("drop table t")
    table.run("create temporary table t (a int, b string)")
    assert table.rows("select * from t") == []


@pytest.mark.slow
def test_interrupted_statements_leave_nothing(table, wait_until):
    table.run("insert into t values (1, 'x')")
    table.run("create temporary table u as select 2 a, 'y' b")
    before, spark = table.state(), table.spark
    statements = ("create temporary table v as", "insert into t", "insert overwrite u")
    for number, statement in enumerate(statements):
        running = Running(spark, f"{statement} {slow(milliseconds=1000)}")
        # An interrupt ends a task that sleeps. A task that Spark only begins to run could write later.
        wait_until(lambda: any(table.location.glob("*/_temporary/**/part-*")), f"a task of statement {number} sleeps")
        spark.interruptAll()
        assert "OPERATION_CANCELED" in str(running.join())
        assert table.state() == before
    table.run("insert into t values (3, 'z')")
    assert table.contents("t", "u") == [[(1, "x"), (3, "z")], [(2, "y")]]
