"""Random changes of rows, compared with a catalog of Spark's own tests.

Files cannot be changed in Spark. The catalog keeps its tables in memory, and Spark rewrites their rows itself. The
catalog belongs to Spark 4.2, so its server has this version.
"""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from pyspark.sql.connect.session import SparkSession

from tests.gateway.tables.spark_pair import outcome
from tests.maven import fetch_jars
from tests.python_environments import python_environment

CATALOG = Path(__file__).parent / "row_level_catalog.xml"
STATEMENTS = 12
_COLUMNS = "(a int, b string default 'd', c bigint, s struct<x: int, y: string>, r array<struct<u: int, v: int>>)"
_ROWS = (
    "select cast(id as int), concat('b', id), id * 10, named_struct('x', cast(id as int), 'y', 'y'), "
    "array(struct(1, cast(id as int))) from range(8)"
)
_VALUES = {
    "a": ("{t}.a + 1", "null", "7", "2L", "'x'", "{t}.c + 99999999999", "default", "{t}.c", "1.5"),
    "b": ("'u'", "concat({t}.b, '!')", "null", "default", "{t}.a", "(select max(id) from range(3))"),
    "c": ("{t}.a", "{t}.c * 2", "5", "null", "default", "'x'"),
    "s": ("named_struct('x', 1, 'y', 'q')", "named_struct('y', 'z', 'x', {t}.c)", "null", "struct(1)"),
    "r": ("array(named_struct('v', 1L, 'u', 2L))", "null", "array()", "array(struct(1, 2))"),
    "s.x": ("{t}.a", "3", "null", "'x'"),
}
_CONDITIONS = (
    "{t}.a % 2 = 0",
    "{t}.a > 3 and {t}.b like 'b%'",
    "{t}.c is null",
    "{t}.s.x = 2 or {t}.a = 5",
    "coalesce({t}.a, 0) < 4",
    "case when {t}.a = 1 then true end",
    "not {t}.a = 3",
)
_EITHER = {
    "DATATYPE_MISMATCH.INVALID_ROW_LEVEL_OPERATION_ASSIGNMENTS",
    "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_FIND_DATA",
    "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST",
}
"""The conditions of a statement with several errors, of which any can be found first."""
_SUBQUERIES = ("{t}.a in (select id from range(3))", "exists (select 1 from range(4) where id = {t}.a)")
_SOURCES = (
    "(select * from values (1, 'm'), (3, 'n'), (20, 'o'), (null, 'p') as v(k, v)) s",
    "(select * from values (1, 'm'), (1, 'n'), (30, 'o') as v(k, v)) s",
    "(select a as k, b as v from {t} where a < 5) s",
)


_JOINS = ("{t}.a = s.k", "{t}.a = s.k", "{t}.a < s.k", "{t}.a = s.k and {t}.b <> 'b1'")


@pytest.fixture(scope="module")
def row_level(start_spark, tmp_path_factory) -> Iterator[SparkSession]:
    """A session at a server whose tables take changes of rows."""
    (jar,) = fetch_jars("row-level-catalog", CATALOG).glob("*.jar")
    catalog = "org.apache.spark.sql.connector.catalog.InMemoryRowLevelOperationTableCatalog"
    server = start_spark(
        tmp_path_factory.mktemp("row-level"),
        more={"spark.driver.extraClassPath": str(jar), "spark.sql.catalog.rows": catalog},
        python=python_environment(["pyspark==4.2.0", "pyarrow==26.0.1", "numpy==2.4.6"]),
    )
    session = SparkSession.builder.remote(server.address).create()
    session.sql("create namespace if not exists rows.n").collect()
    session.sql("use rows.n").collect()
    yield session
    session.stop()


def statement(chosen: Random) -> str:
    match chosen.randrange(5):
        case 0:
            # the catalog would try to delete whole partitions for a condition that it understands
            condition = chosen.choice((*_CONDITIONS, *_SUBQUERIES))
            return f"delete from {{t}} where ({condition}) and exists (select 1 from range(1))"
        case 1 | 2:
            where = f" where {chosen.choice((*_CONDITIONS, *_SUBQUERIES))}" if chosen.random() < 0.8 else ""
            return f"update {{t}} set {assignments(chosen)}{where}"
        case _:
            return merge(chosen)


def assignments(chosen: Random, *, more: str = "") -> str:
    columns = chosen.sample(sorted(_VALUES), chosen.randrange(1, 3))
    return ", ".join(f"{column} = {chosen.choice((*_VALUES[column], *filter(None, [more])))}" for column in columns)


def merge(chosen: Random) -> str:
    clauses = []
    if chosen.random() < 0.7:
        if chosen.random() < 0.4:
            clauses.append(f"when matched and {chosen.choice(_CONDITIONS)} then {action(chosen)}")
        clauses.append(f"when matched then {action(chosen)}")
    if chosen.random() < 0.5 or not clauses:
        extra = " and s.k > 25" if chosen.random() < 0.3 else ""
        columns = chosen.choice(("(a, b) values (s.k, s.v)", "(a) values (s.k)", "(b, c, a) values (default, 1, 's')"))
        clauses.append(f"when not matched{extra} then insert {columns}")
    if chosen.random() < 0.4:
        clauses.append(f"when not matched by source and {chosen.choice(_CONDITIONS)} then {action(chosen)}")
    # without a clause for rows that match, Spark 4.2 repeats a row of the table that matches several rows of the source
    is_repeated = not any(clause.startswith("when matched") for clause in clauses) and "by source" in clauses[-1]
    source = "(select a as k, max(b) as v from {t} group by a) s" if is_repeated else chosen.choice(_SOURCES)
    on = "{t}.a = s.k" if is_repeated else chosen.choice(_JOINS)
    return f"merge into {{t}} using {source} on {on} {' '.join(clauses)}"


def action(chosen: Random) -> str:
    return "delete" if chosen.random() < 0.4 else f"update set {assignments(chosen)}"


@pytest.mark.slow
@pytest.mark.timeout(1200)  # the first time, pip installs Spark
@pytest.mark.parametrize("seed", range(8))
def test_rows_change_as_in_a_catalog_of_spark(client, row_level, seed):
    chosen = Random(seed)  # noqa: S311 - must be repeatable
    row_level.sql("drop table if exists rows.n.t").collect()
    row_level.sql(f"create table rows.n.t {_COLUMNS}").collect()
    client.run(f"create temporary table t {_COLUMNS}")
    for run in (client.run, lambda text: row_level.sql(text).collect()):
        run(f"insert into t {_ROWS}")
    for number in range(STATEMENTS):
        text = statement(chosen).format(t="t")
        found = outcome(client.run, text)
        expected = outcome(lambda query: row_level.sql(query).collect(), text)
        assert found == expected or {found, expected} <= _EITHER, (seed, number, text)
        rows = sorted(map(repr, client.rows("select * from t")))
        assert rows == sorted(repr(tuple(row)) for row in row_level.table("t").collect()), (seed, number, text)
