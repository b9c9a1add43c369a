"""The tokens of Spark SQL."""

import re
from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gateway.sql import lexer, piecewise_search
from gateway.sql.lexer import Dialect, TokenKind, blank_out, skip_blank, tokenize
from tests.gateway.sql.noted_patterns import MOST_CHARACTERS, NotedPattern
from tests.gateway.thread_time import least_thread_seconds

W, Q, S, N, Y, U = (
    TokenKind.WORD,
    TokenKind.QUOTED,
    TokenKind.STRING,
    TokenKind.NUMBER,
    TokenKind.SYMBOL,
    TokenKind.UNKNOWN,
)


def describe(sql: str, **dialect: bool) -> list[tuple[TokenKind, str]]:
    return [(token.kind, token.value) for token in tokenize(sql, Dialect(**dialect))]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("a é_1 1a _b", [(W, "a"), (W, "é_1"), (W, "1a"), (W, "_b")]),
        ("`a b` `c``d`", [(Q, "a b"), (Q, "c`d")]),
        (r"'it\'s' 'a''b'", [(S, r"'it\'s'"), (S, "'a''b'")]),
        (r"r'\' R" + '"\\" x', [(S, r"r'\'"), (S, 'R"\\"'), (W, "x")]),
        (r":r'\' x", [(Y, ":"), (S, r"r'\'"), (W, "x")]),
        ('"a""b"', [(S, '"a""b"')]),
        ("$$ it's $ $$ $a$ $b$ $a$", [(S, "$$ it's $ $$"), (S, "$a$ $b$ $a$")]),
        ("1 1.5 .5 1e5 1.e-5D 12L 5e+5", [(N, n) for n in ("1", "1.5", ".5", "1e5", "1.e-5D", "12L", "5e+5")]),
        ("t.1a t.1", [(W, "t"), (Y, "."), (W, "1a"), (W, "t"), (N, ".1")]),
        ("1.5x", [(N, "1"), (Y, "."), (W, "5x")]),
        ("? :x a::b", [(Y, "?"), (Y, ":"), (W, "x"), (W, "a"), (Y, ":"), (Y, ":"), (W, "b")]),
        ("a -- b\nc", [(W, "a"), (W, "c")]),
        ("a -- b \\\nc\nd", [(W, "a"), (W, "d")]),
        ("a /* b /* c */ d */ e", [(W, "a"), (W, "e")]),
        ("a /* /*+ */ b", [(W, "a"), (W, "b")]),
        ("a /*/ b */ c", [(W, "a"), (W, "c")]),
        ("/*+ b */", [(TokenKind.HINT_OPEN, "/*+"), (W, "b"), (TokenKind.HINT_CLOSE, "*/")]),
        ("file://a--b/c d", [(TokenKind.URI, "file://a--b/c"), (W, "d")]),
        ("a\u00a0b\u3000c", [(W, "a"), (W, "b"), (W, "c")]),
        ("a 'b", [(W, "a"), (U, "'b")]),
        ("a `b", [(W, "a"), (U, "`b")]),
        ('a "b', [(W, "a"), (U, '"b')]),
        ("a $x$ b", [(W, "a"), (U, "$x$ b")]),
        ("a /* b /* c */", [(W, "a"), (U, "/* b /* c */")]),
        ("", []),
    ],
)
def test_tokens_are_those_of_spark(sql: str, expected: list[tuple[TokenKind, str]]) -> None:
    """Spark: SqlBaseLexer.g4."""
    assert describe(sql) == expected


def test_double_quotes_follow_the_dialect() -> None:
    assert describe('"a b" "c""d"', double_quoted_identifiers=True) == [(Q, "a b"), (Q, 'c"d')]


def test_only_bare_words_are_keywords() -> None:
    assert [token.keyword for token in tokenize("Select `select` 'select'")] == ["SELECT", "", ""]


def test_empty_name_is_no_name() -> None:
    assert not tokenize("``")[0].is_name


def test_blanks_keep_line_ends() -> None:
    assert blank_out("ab\r\nc") == "  \r\n "


@given(st.text("'\"`\\\n\r-/*+$ab1.e:r;() \u2029", max_size=60))
def test_only_blanks_and_comments_are_between_tokens(sql: str) -> None:
    """Guarantee 1."""
    position = 0
    for token in tokenize(sql):
        assert skip_blank(sql, position) == token.start < token.end
        position = token.end
    assert skip_blank(sql, position) == len(sql)


PIECES = [
    "'",
    '"',
    "`",
    "''",
    "``",
    "'\\'",
    "/*",
    "/**/",
    "/* *",
    "*/",
    "--",
    "-- \\\n",
    "$",
    "$$",
    "$a$",
    "1.",
    "1e",
]
PIECES += ["r'", 'r"', "a://", "9", "x", " ", "`a``", "/*+", "\\"]
ADVERSARIAL = [
    *(("", piece) for piece in PIECES),
    *(("'", piece) for piece in ("'", "''", "'\\'", "r'", "\\", "x")),
    *(("`", piece) for piece in ("`", "``", "`a``", "x")),
    *(("/*", piece) for piece in ("/*", "/**/", "/* *", "*/", "/*+", "x")),
]
"""What a text begins with, and what is repeated: after a quote or comment that begins, only pieces that may end it."""


@pytest.mark.slow
@pytest.mark.parametrize(("first", "piece"), ADVERSARIAL)
def test_time_is_linear(first: str, piece: str, assert_linear_time: Callable[..., None]) -> None:
    """Guarantee 2."""
    small, large = (first + piece * (size // len(piece)) for size in (12_500, 100_000))
    assert_linear_time(tokenize, small, large)


CUTS = [
    "'",
    "''",
    "\\",
    "\\'",
    "\\\n",
    "\n",
    "\r",
    "\\\r",
    "--",
    "-",
    "/*",
    "*/",
    "/*+",
    '"',
    '""',
    "`",
    "``",
    "$",
    "$a$",
    "$ab",
]
CUTS += ["r'", 'R"', "a", "ab", "1", "12", ".", "://", " ", "\t", "(", "\u00df"]
LONGEST_WORD = re.compile(r"[\w.:/\-?=&#%]+")


@given(st.lists(st.sampled_from(CUTS), max_size=40).map("".join), st.integers(4, 16), st.booleans())
def test_tokens_do_not_depend_on_the_pieces_in_which_a_text_is_read(sql: str, piece: int, names: bool) -> None:
    """Words as long as a piece are an exception."""
    dialect = Dialect(double_quoted_identifiers=names)
    assume(all(len(word) < piece for word in LONGEST_WORD.findall(sql)))
    expected = tokenize(sql, dialect)
    with pytest.MonkeyPatch.context() as patch:
        for module in (lexer, piecewise_search):
            patch.setattr(module, "PIECE_CHARACTERS", piece)
        assert tokenize(sql, dialect) == expected


@pytest.mark.parametrize(("first", "piece"), ADVERSARIAL)
def test_other_threads_can_run_while_a_long_text_is_read(
    first: str, piece: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guarantee 3. Another thread can run between two calls of functions in C."""
    noted: list[int] = []
    for name, value in vars(lexer).copy().items():
        if isinstance(value, re.Pattern):
            monkeypatch.setattr(lexer, name, NotedPattern(value, noted))
        elif isinstance(value, dict) and any(isinstance(pattern, re.Pattern) for pattern in value.values()):
            monkeypatch.setattr(lexer, name, {key: NotedPattern(pattern, noted) for key, pattern in value.items()})
    tokenize(first + piece * (20_000 // len(piece)), Dialect(double_quoted_identifiers=True))
    assert noted
    assert max(noted) <= MOST_CHARACTERS


def test_many_lines_are_blanked_out_at_once() -> None:
    """A client chooses the number of lines. Python code for each line would keep other threads waiting."""
    lines = "--\n" * 100_000
    assert blank_out("a\u00e9\U0001f600\ud800\r\n\u2028b") == "    \r\n  "
    assert least_thread_seconds(lambda: blank_out(lines), 5) < least_thread_seconds(lambda: lines.split("\n"), 5)
