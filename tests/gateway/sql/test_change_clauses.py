"""The clauses of a text that change a table or view by name."""

import pytest

from gateway.sql.change_clauses import find_change_clauses
from gateway.sql.identifier_clauses import evaluate_identifier_clauses
from gateway.sql.lexer import Dialect
from gateway.sql.parameters import Parameters
from gateway.sql.statements import IdentifierClause


def find(sql: str, **dialect: bool) -> list[tuple[str, str | None]]:
    """Return the kind and the name of each clause."""
    clauses = find_change_clauses(sql, Dialect(**dialect))
    return [(one.kind.value, None if one.name is None else ".".join(one.name.parts)) for one in clauses]


CLAUSES = [
    ("drop table a.t", "DROP TABLE", "a.t"),
    ("drop table if exists t", "DROP TABLE", "t"),
    ("drop temporary table t", "DROP TABLE", "t"),
    ("drop view if exists t", "DROP VIEW", "t"),
    ("alter table t add columns (a int)", "ALTER TABLE", "t"),
    ("alter view t as select 1", "ALTER VIEW", "t"),
    ("create temp view t as select 1", "CREATE TEMPORARY VIEW", "t"),
    ("create or replace temporary view t as select 1", "CREATE TEMPORARY VIEW", "t"),
    ("create or replace global temp view if not exists t as select 1", "CREATE GLOBAL TEMPORARY VIEW", "t"),
    ("create view t as select 1", "CREATE VIEW", "t"),
    ("create materialized view t as select 1", "CREATE VIEW", "t"),
    ("create temporary table if not exists t (a int)", "CREATE TEMPORARY TABLE", "t"),
    ("create or replace temp table t as select 1", "CREATE TEMPORARY TABLE", "t"),
    ("create table a.t as select 1", "CREATE TABLE", "a.t"),
    ("create or replace table t as select 1", "CREATE TABLE", "t"),
    ("create external table t (a int)", "CREATE TABLE", "t"),
    ("replace table t as select 1", "CREATE TABLE", "t"),
    ("insert into t select 1", "INSERT", "t"),
    ("insert overwrite table t select 1", "INSERT", "t"),
    ("insert with schema evolution into t select 1", "INSERT", "t"),
    ("truncate table t", "TRUNCATE TABLE", "t"),
    ("merge into t using s on true when matched then update set a = 1", "MERGE INTO", "t"),
    ("merge into t using s on true when matched then update set * when not matched then insert *", "MERGE INTO", "t"),
    ("merge with schema evolution into t using s on true when matched then delete", "MERGE INTO", "t"),
    ("update t set a = 1", "UPDATE", "t"),
    ("update set set a = 1", "UPDATE", "set"),
    ("update set x set a = 1", "UPDATE", "set"),
    ("delete from t", "DELETE FROM", "t"),
    ("cache table t as select 1", "CACHE TABLE AS", "t"),
    ("cache lazy table t options (a 'b') select 1", "CACHE TABLE AS", "t"),
]


@pytest.mark.parametrize(("clause", "kind", "name"), CLAUSES)
@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "{};",
        "x: begin {}; end",
        "begin declare y int; if a then select 1; {}; end if; end",
        "begin for r as select 1 do {}; end for; while a do select 1; end while; end",
        "begin declare exit handler for sqlexception {}; select 'unrelated'; end",
        "explain {}",
        "-- c\r\n{} -- ' c",
        "a ) ' {}' ) ( {}",
    ],
)
def test_clause_is_found_at_any_place(clause: str, kind: str, name: str | None, around: str) -> None:
    """Guarantee 1."""
    sql = around.replace("' {}'", "").format(clause)
    assert find(sql) == [(kind, name)]


@pytest.mark.parametrize(("clause", "kind", "name"), CLAUSES)
def test_clause_is_found_with_comments_and_in_any_letter_case(clause: str, kind: str, name: str | None) -> None:
    written = clause.upper().replace("T", "t").replace(" ", " /* ' */ -- ` \n")
    assert [seen for seen, _ in find(written)] == [kind]


@pytest.mark.parametrize(
    "sql",
    [
        "select 'drop table t'",
        "execute immediate 'drop table t'",
        "select \"drop table t\", r'drop view t', $$ drop table t $$",
        "select `drop table t`, `drop` table t",
        "select 1 -- drop table t",
        "select 1 /* /* drop table */ t */",
        "describe table t",
        "cache table t",
        "begin cache table t; select 1; end",
        "drop function f",
        "create function f() returns int return 1",
        "insert overwrite directory 'x' using csv select 1",
        "select replace(a, 'b', 'c'), insert(a, 1, 2, 'x') from t",
        "",
    ],
)
def test_text_without_named_change_has_no_clause(sql: str) -> None:
    """Guarantee 2."""
    assert find(sql) == []


@pytest.mark.parametrize(
    ("sql", "listed"),
    [
        ("show create table t", [("CREATE TABLE", "t")]),
        ("select update from t", [("UPDATE", "from")]),
        ("insert into table values (a) select 1", [("INSERT", "values"), ("INSERT", "table")]),
        ("insert into table select 1", [("INSERT", "select"), ("INSERT", "table")]),
    ],
)
def test_possible_change_is_found(sql: str, listed: list[tuple[str, str]]) -> None:
    assert find(sql) == listed


def test_rename_has_both_names() -> None:
    assert find("alter view t rename to u") == [("ALTER VIEW", "t"), ("ALTER VIEW", "u")]


def test_clauses_are_found_in_order() -> None:
    sql = "from q insert into a select * insert into b select *; drop table identifier('c'); drop view"
    assert find(sql) == [("INSERT", "a"), ("INSERT", "b"), ("DROP TABLE", ""), ("DROP VIEW", None)]
    name = find_change_clauses(sql)[2].name
    assert isinstance(name, IdentifierClause)
    assert evaluate_identifier_clauses(sql, [name], Parameters.of_statement(sql)) == {name: ("c",)}


def test_double_quotes_follow_the_dialect() -> None:
    sql = 'drop table "t"; execute immediate "x"'
    assert find(sql, double_quoted_identifiers=True) == [("DROP TABLE", "t")]
    assert find(sql) == [("DROP TABLE", None)]
