"""The comparison finds differences, and the rewriters change only what they should."""

import pytest

from tests.spark_sql_tests.comparison import Kind, compare, has_order
from tests.spark_sql_tests.differences import Difference
from tests.spark_sql_tests.documented import DocumentedDifference, judge, read_documented_differences
from tests.spark_sql_tests.outcomes import Failure, Result, normalise
from tests.spark_sql_tests.rules import find_rule
from tests.spark_sql_tests.sql_files import parse_file
from tests.spark_sql_tests.ways import AS_IS, TABLES, VIEWS, WAYS

ONE, TWO = Result("struct<a:int>", ["(1,)", "(2,)"]), Result("struct<a:int>", ["(2,)", "(1,)"])
FAILED = Failure("DIVIDE_BY_ZERO", "22012", "Division by zero.")


def rewrite(way, *statements):
    rewriter = WAYS[way](statements)
    return [rewriter.rewrite(statement) for statement in statements]


def difference(way, statement, expected, found, kind=Kind.ROWS):
    return Difference(way, "f.sql", 0, statement, statement, kind, expected, found)


def test_file_is_read_as_spark_reads_it():
    text = (
        "--SET a.b=1, c = 2\n--IMPORT g.sql\n--CONFIG_DIM1 d=3\n--CONFIG_DIM1 d=4\n-- note\nselect 1;\nselect '\\;';\n"
    )
    file = parse_file("nonansi/f.sql", {"nonansi/f.sql": text, "g.sql": "--SET x=9\nselect 0;"})
    assert file.statements == ["select 0", "select 1", "select '\\;'"]
    assert {key: file.settings[key] for key in ("a.b", "c", "d")} == {"a.b": "1", "c": "2", "d": "3"}
    assert file.settings["spark.sql.ansi.enabled"] == "false"
    assert "x" not in file.settings


def test_delimited_query_is_one_statement():
    text = "select 1;\n--QUERY-DELIMITER-START\n/* a; */\nselect 2;\n--QUERY-DELIMITER-END\nselect 3;"
    assert parse_file("f.sql", {"f.sql": text}).statements == ["select 1", "/* a; */\nselect 2", "select 3"]


def test_views_become_temporary_tables():
    assert rewrite(
        VIEWS,
        "create or replace temp view V (a, b) as select 1, 2",
        "create temporary view w using csv options (path 'p')",
        "create global temporary view g as select 1",
        "drop view if exists v",
        "drop view w",
    ) == [
        "create or replace TEMPORARY TABLE V (a, b) as select 1, 2",
        "create temporary view w using csv options (path 'p')",
        "create global temporary view g as select 1",
        "drop TABLE if exists v",
        "drop view w",
    ]


def test_tables_in_parquet_files_become_temporary_tables():
    assert rewrite(
        TABLES,
        "CREATE TABLE t (a int) USING parquet",
        "CREATE TABLE IF NOT EXISTS u AS SELECT 1 a",
        "CREATE SCHEMA s",
        "CREATE TABLE s.q (a int) USING parquet",
        "CREATE TABLE q (a int) USING parquet",
        "CREATE TABLE c (a int) USING csv",
        "CREATE TABLE l (a int) USING parquet LOCATION 'p'",
        "SELECT spark_catalog.default.p.a FROM p",
        "CREATE TABLE p (a int)",
        "CREATE TABLE w (a int)",
        "CREATE TABLE r (a int)",
        "DELETE FROM r",
        "CREATE VIEW v AS SELECT * FROM W",
    ) == [
        "CREATE TEMPORARY TABLE t (a int) USING parquet",
        "CREATE TEMPORARY TABLE IF NOT EXISTS u AS SELECT 1 a",
        "CREATE SCHEMA s",
        "CREATE TABLE s.q (a int) USING parquet",
        "CREATE TABLE q (a int) USING parquet",
        "CREATE TABLE c (a int) USING csv",
        "CREATE TABLE l (a int) USING parquet LOCATION 'p'",
        "SELECT spark_catalog.default.p.a FROM p",
        "CREATE TABLE p (a int)",
        "CREATE TABLE w (a int)",
        "CREATE TABLE r (a int)",
        "DELETE FROM r",
        "CREATE VIEW v AS SELECT * FROM W",
    ]


@pytest.mark.parametrize(
    ("expected", "found", "kind"),
    [
        (ONE, ONE, None),
        (ONE, TWO, None),
        (ONE, FAILED, Kind.FAILURE),
        (FAILED, Failure("DIVIDE_BY_ZERO", "22000", FAILED.message), Kind.CONDITION),
        (FAILED, Failure("DIVIDE_BY_ZERO", "22012", "Other."), Kind.MESSAGE),
        (ONE, Result("struct<b:int>", ONE.rows), Kind.SCHEMA),
        (ONE, Result("struct<a:int>", ["(1,)", "(1,)"]), Kind.ROWS),
    ],
)
def test_outcomes_are_compared(expected, found, kind):
    assert compare("select a from t", expected, found, with_message=True) is kind


def test_order_of_rows_counts_if_the_statement_orders_them():
    assert compare("select a from t order by a", ONE, TWO, with_message=False) is Kind.ORDER
    assert has_order("show tables")
    assert not has_order("select * from (select a from t order by a)")
    assert not has_order("select ' order by ' -- order by a")


def test_only_volatile_parts_are_replaced():
    assert normalise("(1) Scan [a#12, b#3L] plan_id=7") == "(1) Scan [a#x, b#x] plan_id=x"
    assert normalise("('Created Time', 'Mon', '')") == "('Created Time'"
    assert normalise("(17, 'plan 7')") == "(17, 'plan 7')"


def test_rules_do_not_apply_to_unchanged_files():
    created = Result("struct<Fragment:string,Number of records written:bigint>", ["('0_0', 1)"])
    assert find_rule(difference(TABLES, "create table t as select 1", Result("struct<>", []), created, Kind.SCHEMA))
    assert not find_rule(difference(AS_IS, "create table t as select 1", Result("struct<>", []), created, Kind.SCHEMA))
    assert not find_rule(difference(TABLES, "select 1", ONE, Result(ONE.schema, ["(3,)"])))


def test_only_missing_tables_have_a_rule_for_unchanged_files():
    schema, nothing = "struct<ok:boolean,summary:string>", Result("struct<>", [])
    missing, dropped = Result(schema, ["(False, 'Table [t] was not found.')"]), Result(schema, ["(True, 'Dropped.')"])
    assert find_rule(difference(AS_IS, "drop table if exists t", nothing, missing, Kind.SCHEMA))
    assert not find_rule(difference(AS_IS, "drop table if exists t", nothing, dropped, Kind.SCHEMA))
    assert find_rule(difference(TABLES, "drop table if exists t", nothing, dropped, Kind.SCHEMA))


def test_listed_tables_may_differ_only_in_schema_and_kind():
    schema = "struct<namespace:string,tableName:string,isTemporary:boolean>"
    permanent, temporary = Result(schema, ["('default', 't', False)"]), Result(schema, ["('', 't', True)"])
    assert find_rule(difference(TABLES, "show tables", permanent, temporary))
    assert not find_rule(difference(TABLES, "show tables", permanent, Result(schema, ["('', 'u', True)"])))


def test_undocumented_and_outdated_differences_are_found():
    found = difference(TABLES, "select 1", ONE, TWO)
    known = DocumentedDifference(TABLES, "f.sql", 0, found.digest, "Reason.")
    other = DocumentedDifference(TABLES, "f.sql", 1, found.digest, "Reason.")
    assert judge([found], [known], {(TABLES, "f.sql")}).undocumented == []
    assert judge([found], [other], {(TABLES, "f.sql")}).undocumented == [found]
    assert judge([found], [known, other], {(TABLES, "f.sql")}).outdated == [other]
    assert judge([found], [known, other], {(VIEWS, "f.sql")}).outdated == []


def test_documented_differences_have_reasons_and_are_few():
    documented = read_documented_differences()
    assert all(each.way in WAYS and each.reason.endswith(".") for each in documented)
    assert len({(each.file, each.number) for each in documented}) <= 40
