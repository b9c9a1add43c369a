"""The inner texts of ``EXECUTE IMMEDIATE``."""

import pytest

from gateway.sql.execute_immediate import find_execute_immediate
from gateway.sql.lexer import tokenize
from gateway.sql.parameters import Parameters

PARAMETERS = Parameters({"q": "select 2"}, ["select 3"])


def describe(sql):
    """Return the expression, text and parameters of each ``EXECUTE IMMEDIATE``."""
    found = find_execute_immediate(tokenize(sql), PARAMETERS)
    return [(sql[one.start : one.end], one.text, one.parameters.named, one.parameters.positional) for one in found]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("select 'execute immediate'", []),
        ("execute immediate 'select 1'", [("'select 1'", "select 1", {}, [])]),
        ("EXECUTE IMMEDIATE 'it''s' ' x' || \"y\"", [("'it''s' ' x' || \"y\"", "it's xy", {}, [])]),
        ("execute immediate :q into a, b", [(":q", "select 2", {}, [])]),
        ("execute immediate ?", [("?", "select 3", {}, [])]),
        ("execute immediate text", [("text", None, {}, [])]),
        ("execute immediate upper('x')", [("upper('x')", None, {}, [])]),
        (
            "execute immediate 'x' using 'a' as n, f('b', 2) as m, 'c' k, 'd', 5",
            [("'x'", "x", {"n": "a", "k": "c"}, ["d", None])],
        ),
        ("execute immediate 'x' into v using ('a' as n)", [("'x'", "x", {"n": "a"}, [])]),
        (
            "begin execute immediate 'a' using 'u'; execute immediate (select 'b;'); end",
            [("'a'", "a", {}, ["u"]), ("(select 'b;')", None, {}, [])],
        ),
        ("execute immediate", [("", None, {}, ())]),
    ],
)
def test_text_of_literals_and_parameters_is_known(sql, expected):
    assert describe(sql) == expected
