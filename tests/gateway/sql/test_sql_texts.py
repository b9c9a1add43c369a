"""A SQL text is divided into tokens once, and its readers see the same tokens as in a text of its own."""

import gc
import weakref
from collections.abc import Iterator, Sequence
from unittest import mock

import pytest

from gateway.errors import GatewayError
from gateway.sql import lexer
from gateway.sql.change_clauses import find_change_clauses
from gateway.sql.lexer import MAX_TOKENS, Dialect, SqlText, read_tokens, tokenize
from gateway.sql.named_objects import find_named_objects
from gateway.sql.path_texts import find_path_texts
from gateway.sql.sql_texts import SqlTexts
from gateway.sql.statement_parser import extract_query, parse_statement

DOUBLE_QUOTED = Dialect(double_quoted_identifiers=True)
CREATION = "create temporary table t as /* x */ select 'a', b from parquet.`/a` -- end\n where b > 1 ;; "


@pytest.fixture
def read() -> Iterator[list[int]]:
    """The offsets of all tokens that are read from texts."""
    offsets: list[int] = []
    original = lexer._read_token

    def read_token(sql: str, position: int, dialect: Dialect) -> lexer.Token:
        offsets.append(position)
        return original(sql, position, dialect)

    with mock.patch.object(lexer, "_read_token", read_token):
        yield offsets


def test_tokens_are_read_once_by_all_readers(read: list[int]) -> None:
    text = SqlTexts().of(CREATION)
    assert isinstance(text, SqlText)
    assert parse_statement(text) is not None
    assert [each.text for each in find_path_texts(text)] == ["/a"]
    assert find_named_objects(text).keyword == "CREATE"
    assert len(find_change_clauses(text, DOUBLE_QUOTED)) == 1
    statement = parse_statement(text)
    tokenize(extract_query(text, statement))
    assert read == sorted(set(read))


def test_readers_that_need_few_tokens_read_no_others(read: list[int]) -> None:
    text = SqlText("insert into t values " + ", ".join(["(1)"] * 1000))
    assert next(iter(read_tokens(text))).value == "insert"
    assert read == [0]


@pytest.mark.parametrize("dialects", [[Dialect(), DOUBLE_QUOTED], [DOUBLE_QUOTED, Dialect()]])
def test_double_quotes_have_the_meaning_of_each_dialect(dialects: Sequence[Dialect]) -> None:
    sql = 'select "a" from t'
    text = SqlText(sql)
    for dialect in dialects:
        assert list(tokenize(text, dialect)) == list(tokenize(sql, dialect))


@pytest.mark.parametrize(
    "sql",
    [
        CREATION,
        "create temporary table t as select 1 /* open",
        "create temporary table t as select 'open ; ",
        "create temporary table t as select `open ;",
        'create temporary table t as select "a" ; -- end',
        "explain extended create temporary table t as with a as (select 1) select /*+ broadcast(a) */ * from a",
        "insert into t (a, b) select 1, 2",
        "with a as (select 1) insert into t select * from a",
        "create temporary view v as select 1 ;",
        "cache table c as select 'a' 'b'",
    ],
)
@pytest.mark.parametrize("dialect", [Dialect(), DOUBLE_QUOTED])
def test_query_of_a_statement_has_the_tokens_of_the_same_text_alone(sql: str, dialect: Dialect) -> None:
    statement = parse_statement(sql, dialect)
    assert statement is not None
    query = extract_query(SqlText(sql), statement)
    assert list(tokenize(query, dialect)) == list(tokenize(str(query), dialect))


def test_text_with_too_many_tokens_is_refused_for_each_reader() -> None:
    text = SqlText("a " * (MAX_TOKENS + 1))
    for _ in range(2):
        with pytest.raises(GatewayError, match="500,000 words"):
            tokenize(text)


def test_memory_of_a_text_is_free_without_the_collector_of_cycles() -> None:
    texts = SqlTexts()
    text = texts.of(CREATION)
    assert isinstance(text, SqlText)
    statement = parse_statement(text)
    tokenize(extract_query(text, statement))
    reader = weakref.ref(text.reader(Dialect()))
    gc.disable()
    try:
        texts.forget()
        del text
        assert reader() is None
    finally:
        gc.enable()


def test_only_the_first_texts_of_a_request_are_kept() -> None:
    texts = SqlTexts()
    sent = [f"select {number:070000}" for number in range(3)]
    kept = [texts.of(text) for text in sent]
    assert [isinstance(text, SqlText) for text in kept] == [True, False, False]
    assert texts.of(str(kept[0])) is kept[0]
    assert isinstance(texts.of("select 1"), SqlText)
