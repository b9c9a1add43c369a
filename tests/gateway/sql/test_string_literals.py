"""String literals as Spark reads them, with and without ``escapedStringLiterals``."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.sql.lexer import DEFAULT_DIALECT, Dialect, tokenize
from gateway.sql.string_literals import read_string, read_strings, write_string

ESCAPED = Dialect(escaped_string_literals=True)


@pytest.mark.parametrize(
    ("literal", "value", "escaped"),
    [
        ("r'\\n'", "\\n", "'\\n"),
        ("$$a'b$$", "a'b", "$a'b$"),
        ("$x$a$$b$x$", "a$$b", "x$a$$b$x"),
        (r"'é\101'", "éA", r"é\101"),
        ("'a\"\"b'", 'a""b', 'a""b'),
        ('"a""b"', 'a"b', 'a""b'),
        (r"'it\'s'", "it's", r"it\'s"),
        (r"'\UFFFFFFFF'", None, r"\UFFFFFFFF"),
        (r"'\uD83D\uDE00'", "\U0001f600", r"\uD83D\uDE00"),
        (r"'a\uD800b'", None, r"a\uD800b"),
        (r"'\U0000DC00'", None, r"\U0000DC00"),
    ],
)
def test_read_string(literal: str, value: str | None, escaped: str) -> None:
    assert read_string(literal) == value
    assert read_string(literal, ESCAPED) == escaped


def test_adjacent_literals_are_one_string() -> None:
    assert read_strings(tokenize("'a' r'b' \"c\"")) == "abc"
    assert read_strings(tokenize("'a' b")) is None
    assert read_strings([]) is None


@pytest.mark.parametrize(
    ("text", "literal", "escaped"),
    [
        ("a\\", r"r'a\'", None),
        ("it's", 'r"it\'s"', '"it\'s"'),
        ('it\'s "x" \\', r"""'it\'s "x" \\'""", None),
        ("a `b`", "r'a `b`'", "'a `b`'"),
        ("'x' \"y\"", r"""'\'x\' "y"'""", None),
    ],
)
def test_write_string(text: str, literal: str, escaped: str | None) -> None:
    assert write_string(text) == literal
    assert write_string(text, ESCAPED) == escaped


def test_write_string_without_double_quotes() -> None:
    assert write_string("it's", Dialect(double_quoted_identifiers=True, escaped_string_literals=True)) is None
    assert write_string("it's", Dialect(double_quoted_identifiers=True)) == 'r"it\'s"'


@given(st.text("'\"\\ab\n$r", max_size=12), st.builds(Dialect, st.booleans(), st.booleans()))
def test_written_strings_are_read_back(text: str, dialect: Dialect) -> None:
    literal = write_string(text, dialect)
    if literal is None:
        assert dialect != DEFAULT_DIALECT
    else:
        assert read_strings(tokenize(literal, dialect), dialect) == text
