"""Statements that hold statements."""

import pytest

from gateway.sql.statements import ExecuteImmediate, Script, recognise


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("'drop table t'", "drop table t"),
        ("'drop ' /* c */ \"table t\"", "drop table t"),
        ("'it''s \\u0074'", "it's t"),
        ("r'a\\'", "a\\"),
        ("'a' || 'b'", None),
        ("x", None),
        ("using", None),
        (":sql", None),
        ("?", None),
        ("concat('a', f(into))", None),
        ("case when a then 'b' end", None),
        ("'\\UFFFFFFFF'", None),
    ],
)
@pytest.mark.parametrize("clauses", ["", " into a, b", " using 1 as a, 2", " into a using (1)", " ; -- c"])
def test_the_text_of_execute_immediate_is_told(text: str, literal: str | None, clauses: str) -> None:
    sql = f"execute immediate {text}{clauses}"
    statement = recognise(sql)
    assert isinstance(statement, ExecuteImmediate)
    assert sql[slice(*statement.text_span)] == text
    assert statement.literal == literal


@pytest.mark.parametrize("label", ["", "x: ", "`x y` : ", "été:", "select: "])
@pytest.mark.parametrize("body", ["begin end", "BEGIN NOT ATOMIC drop table t; END", "begin"])
def test_a_script_is_recognised(label: str, body: str) -> None:
    statement = recognise(f"-- c\n{label}{body}")
    assert statement == Script(start=5 + len(label))
