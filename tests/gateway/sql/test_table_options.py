import pytest

from gateway.sql.lexer import Dialect, tokenize
from gateway.sql.table_options import TableOptionsError, parse_property_list, parse_table_options


def parse(text):
    return parse_table_options(tokenize(text), 0)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("with (header = true)", {"header": "true"}),
        ("WITH ('header' 'TRUE', delimiter=';') x", {"header": "TRUE", "delimiter": ";"}),
        ("with (`a`.b.c = -1.5, n 7)", {"a.b.c": "-1.5", "n": "7"}),
        (r"with (delimiter = '\t', quote = '\'', text = 'it''s')", {"delimiter": "\t", "quote": "'", "text": "it's"}),
        ("with (a = 'one ' 'two')", {"a": "one two"}),
    ],
)
def test_keys_and_values(text, values):
    options = parse(text)
    assert options.values == values
    assert text[options.end - 1] == ")"


@pytest.mark.parametrize("text", ["", "with q as (select 1)", "where (a = 1)", "with"])
def test_another_clause_has_no_options(text):
    assert parse(text) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("with ()", "')'"),
        ("with (a =)", "')'"),
        ("with (a = b)", "'b'"),
        ("with (a = 1", "the end"),
        ("with (a=1 b=2)", "'b'"),
        (r"with (a='\UFFFFFFFF')", "a valid escape sequence"),
    ],
)
def test_malformed_clause_is_reported(text, found):
    with pytest.raises(TableOptionsError, match="Expected") as raised:
        parse(text)
    assert found in str(raised.value)


def test_values_follow_the_dialect():
    values = parse_property_list(
        tokenize(r"('\u0061' = '\t', b 'x' 'y')"), 0, Dialect(escaped_string_literals=True)
    ).values
    assert values == {"a": r"\t", "b": "xy"}


def test_duplicate_key_is_refused():
    with pytest.raises(TableOptionsError, match="a key that is not in the list yet"):
        parse("with (a = 1, a = 2)")
