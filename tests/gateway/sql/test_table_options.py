import pytest

from gateway.sql.lexer import tokenize
from gateway.sql.table_options import TableOptionsError, parse_table_options, string_value


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
def test_keys_and_values_are_read_as_spark_reads_them(text, values):
    options = parse(text)
    assert options.values == values
    assert text[options.end - 1] == ")"


@pytest.mark.parametrize("text", ["", "with q as (select 1)", "where (a = 1)", "with"])
def test_another_clause_is_none(text):
    assert parse(text) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("with ()", "')'"),
        ("with (a =)", "')'"),
        ("with (a = b)", "'b'"),
        ("with (a = 1", "the end"),
        ("with (a=1 b=2)", "'b'"),
        (r"with (a='\UFFFFFFFF')", "an escape of a character"),
    ],
)
def test_a_malformed_clause_names_what_was_found(text, found):
    with pytest.raises(TableOptionsError, match="was expected") as raised:
        parse(text)
    assert found in str(raised.value)


def test_a_key_that_is_there_twice_is_refused():
    with pytest.raises(TableOptionsError, match="'a', which is there already"):
        parse("with (a = 1, a = 2)")


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("r'\\n'", "\\n"),
        ("$$a'b$$", "a'b"),
        ("$x$a$$b$x$", "a$$b"),
        (r"'é\101'", "éA"),
        ("'a\"\"b'", 'a""b'),
        ('"a""b"', 'a"b'),
    ],
)
def test_string_literals_of_all_kinds(literal, value):
    assert string_value(literal) == value
