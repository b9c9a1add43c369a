"""Names in ``IDENTIFIER(…)``, known and unknown."""

import re

import pytest

from gateway.sql.change_clauses import find_change_clauses
from gateway.sql.identifier_clauses import evaluate_identifier_clauses, resolve_identifier_clauses
from gateway.sql.lexer import DEFAULT_DIALECT, Dialect, tokenize
from gateway.sql.parameters import Parameters
from gateway.sql.statement_parser import parse_statement
from gateway.sql.statements import DropTable, IdentifierClause


def parameters_of(sql):
    return Parameters.of_statement(sql, {"n": "dfs.tmp.t", "part": "t"}, ["x", None, "a.b"])


@pytest.mark.parametrize(
    ("clause", "parts"),
    [
        ("identifier('t')", ("t",)),
        ("IDENTIFIER ( 'a.b' '.c' )", ("a", "b", "c")),
        ("identifier('a.`b.c`')", ("a", "b.c")),
        ("identifier(r'a' || \".b\")", ("a", "b")),
        ("identifier(:n)", ("dfs", "tmp", "t")),
        ("identifier('dfs.' || :part)", ("dfs", "t")),
        ("identifier('dfs').tmp.identifier(:part)", ("dfs", "tmp", "t")),
        ("identifier(:unknown)", ()),
        ("identifier(upper('t'))", ()),
        ("identifier('no name')", ()),
        ("identifier('a' ||)", ()),
        ("identifier('a'::string)", ()),
        ("identifier(x).t", ()),
    ],
)
def test_name_of_literals_and_parameters_is_known(clause, parts):
    sql = f"drop table {clause}"
    statement = parse_statement(sql)
    assert isinstance(statement, DropTable)
    if isinstance(statement.name, IdentifierClause):
        assert evaluate_identifier_clauses(sql, [statement.name], parameters_of(sql)) == {statement.name: parts}
    else:
        assert statement.name.parts == parts


def test_question_mark_is_a_positional_parameter():
    sql = "select ?, ?, * from identifier(?)"
    start = sql.index("identifier")
    clause = IdentifierClause(start, len(sql), len(sql) - 2, len(sql) - 1)
    assert evaluate_identifier_clauses(sql, [clause], parameters_of(sql)) == {clause: ("a", "b")}
    assert evaluate_identifier_clauses(sql, [clause], Parameters.of_statement(sql, {}, ["x"])) == {clause: ()}


def test_double_quotes_follow_the_dialect():
    sql = 'drop table identifier("t")'
    clause = IdentifierClause(11, len(sql), 22, len(sql) - 1)
    assert evaluate_identifier_clauses(sql, [clause], parameters_of(sql)) == {clause: ("t",)}
    assert evaluate_identifier_clauses(sql, [clause], parameters_of(sql), Dialect(double_quoted_identifiers=True)) == {
        clause: ()
    }


def test_escapes_follow_the_dialect_unless_the_clause_is_a_part():
    escaped = Dialect(escaped_string_literals=True)
    for sql, expected in (
        (r"select * from identifier('\u0074')", r"identifier('\u0074')"),
        (r"select * from a.identifier('\u0074')", "a.t"),
        (r"select * from identifier('\u0061').t", "a.t"),
        ("select * from identifier('a.t')", "a.t"),
    ):
        known, _ = resolve_identifier_clauses(tokenize(sql, escaped), parameters_of(sql), escaped)
        assert "".join(token.value for token in known[3:]) == expected


def test_unknown_name_has_its_known_strings():
    sql = "select 1 from identifier(concat('dfs.', lower(:n), x)) join identifier('a')"
    known, computed = resolve_identifier_clauses(tokenize(sql), parameters_of(sql))
    assert [name.strings for name in computed] == [("dfs.", "dfs.tmp.t")]
    assert sql[computed[0].start : computed[0].end].startswith("identifier(concat(")
    assert known[-1].value == "a"


def test_unfinished_clause_stays():
    sql = "select identifier('a' from identifier("
    found = tokenize(sql)
    assert resolve_identifier_clauses(found, parameters_of(sql)) == (found, [])


@pytest.mark.parametrize("value", ["a b", "dfs.", "", "1"])
def test_clause_without_valid_name_stays(value: str) -> None:
    sql = f"select * from identifier('{value}')"
    found = tokenize(sql)
    known, computed = resolve_identifier_clauses(found, Parameters.of_statement(sql))
    assert list(known) == found
    assert [name.strings for name in computed] == [(value,)]


def test_many_clauses_take_linear_time(assert_linear_time):
    def evaluate(sql):
        clauses = [
            IdentifierClause(found.start(), found.end(), found.end() - 2, found.end() - 1)
            for found in re.finditer(r"identifier\(.\)", sql)
        ]
        assert len(evaluate_identifier_clauses(sql, clauses, Parameters.of_statement(sql))) == len(clauses)

    assert_linear_time(evaluate, "insert into identifier(?) " * 100, "insert into identifier(?) " * 800)


@pytest.mark.parametrize(
    "unit", ["drop table identifier(f(", "insert into identifier(a(", "create table identifier(('a' || f("]
)
def test_clauses_inside_each_other_take_linear_time(assert_linear_time, unit):
    def evaluate(sql):
        found = find_change_clauses(sql, DEFAULT_DIALECT)
        clauses = [clause.name for clause in found if isinstance(clause.name, IdentifierClause)]
        assert clauses
        assert not any(evaluate_identifier_clauses(sql, clauses, Parameters.of_statement(sql)).values())

    def nested(depth):
        return unit * depth + ")" * unit.count("(") * depth

    assert_linear_time(evaluate, nested(500), nested(4000))
