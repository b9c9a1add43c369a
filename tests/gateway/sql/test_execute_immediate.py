"""The inner texts of ``EXECUTE IMMEDIATE``."""

from collections.abc import Callable

import pytest

from gateway.sql.execute_immediate import find_execute_immediate
from gateway.sql.lexer import tokenize
from gateway.sql.parameters import Parameters


def describe(sql):
    """Return the expression, text and parameters of each ``EXECUTE IMMEDIATE``."""
    parameters = Parameters.of_statement(sql, {"q": "select 2"}, ["select 3"])
    found = find_execute_immediate(tokenize(sql), parameters)
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
        ("execute immediate 'x' using session.v, :q, v w, 'd'", [("'x'", "x", {}, [None, "select 2", None, "d"])]),
        ("execute immediate 'x' using case when c then 1 end, :q n", [("'x'", "x", {"n": "select 2"}, [None])]),
    ],
)
def test_text_of_literals_and_parameters_is_known(sql, expected):
    assert describe(sql) == expected


@pytest.mark.parametrize(
    "piece", ["execute immediate 'a' ", "execute immediate (", "execute immediate a using 'b' c, "]
)
def test_time_is_linear(piece: str, assert_linear_time: Callable[..., None]) -> None:
    small, large = (piece * (size // len(piece)) for size in (5_000, 40_000))
    assert_linear_time(describe, small, large)
