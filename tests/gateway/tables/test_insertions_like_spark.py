"""Random definitions and insertions, compared with a table of Spark in the same format."""

import pytest

from tests.gateway.tables.random_insertions import compare, create_case
from tests.gateway.tables.spark_pair import SparkPair
from tests.running.tiers import quick_first


@pytest.mark.parametrize("seed", range(4))
def test_insertions_have_the_effect_that_they_have_on_a_table_of_spark(client, seed):
    compare(client, create_case(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4, 24))
def test_more_insertions_have_the_effect_that_they_have_on_a_table_of_spark(client, seed):
    compare(client, create_case(seed))


@pytest.mark.parametrize("storage", quick_first("orc", "parquet", "json", "csv"))
def test_default_values_and_lengths_are_those_of_spark(client, storage):
    pair = SparkPair(client)
    columns = (
        "a int not null default 40 + 2 comment 'ca', b char(3), c varchar(3) default 'dd', d decimal(5, 2) default 1"
    )
    with pair.tables(f"({columns}) using {storage}"):
        for text, condition in (
            ("values (default, 'a', default, default)", None),
            ("(b) values ('x')", None),
            ("values (null, 'ab   ', 'abc  ', null)", None),
            ("values (null, 'abcd', 'b', null)", "EXCEED_LIMIT_LENGTH"),
            ("by name select 1 a", None),
            ("values (default + 1, 'a', 'b', null)", "DEFAULT_PLACEMENT_INVALID"),
            ("(a, b) values (1, 'x'), (default, default)", None),
        ):
            assert pair.run(f"insert into {{t}} {text}") == condition
        pair.run("with q as (select 1 x) insert into {t} select x, default, default, default from q")
        assert pair.run("insert into {t} table {t}") is None
        pair.compare()
        assert client.rows("select count(*) from t where b = 'x'") == [(4,)]


@pytest.mark.parametrize(
    ("column", "condition"),
    [
        ("a int default (select 1)", "INVALID_DEFAULT_VALUE.SUBQUERY_EXPRESSION"),
        ("a int default 'abc'", "INVALID_DEFAULT_VALUE.DATA_TYPE"),
        ("a int default 99999999999", "INVALID_DEFAULT_VALUE.DATA_TYPE"),
        ("a int default 1 default 2", "UNSUPPORTED_FEATURE.TABLE_OPERATION"),
        ("a int generated always as (1)", "UNSUPPORTED_FEATURE.TABLE_OPERATION"),
        ("a int, b int default 1) partitioned by (b", "UNSUPPORTED_FEATURE.TABLE_OPERATION"),
        ("a int, b char(3)) partitioned by (b", "UNSUPPORTED_FEATURE.TABLE_OPERATION"),
        ("a int primary key", "UNSUPPORTED_FEATURE.TABLE_OPERATION"),
        ("a int, constraint c check (a > 1)", "UNSUPPORTED_FEATURE.TABLE_OPERATION"),
    ],
)
def test_invalid_column_definitions_are_refused(client, column, condition):
    sql_state = {"I": "42623", "U": "0A000"}[condition[0]]
    client.refuses(f"create temporary table t ({column})", condition, sql_state)


def test_definition_is_shown_and_kept(client):
    client.run("create temporary table t (a int default 1 + 1 comment 'it''s', b char(3), c array<varchar(2)>)")
    (shown,) = client.rows("show create table t")
    client.run("drop table t")
    client.run(shown[0])
    client.run("insert into t (b) values ('x')")
    assert client.rows("select * from t") == [(2, "x  ", None)]
    client.refuses("insert into t (c) values (array('abc'))", "EXCEED_LIMIT_LENGTH", "54006")
    client.run("create temporary table u like t")
    client.run("insert into u (b) values ('y')")
    assert client.rows("select a, b from u") == [(2, "y  ")]
