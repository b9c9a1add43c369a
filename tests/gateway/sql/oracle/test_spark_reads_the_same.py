"""Lodge finds the tokens and the tables of a SQL text that Spark's own lexer and parser find."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from random import Random

import pytest

from gateway.errors import GatewayError
from gateway.sql.identifier_clauses import resolve_identifier_clauses
from gateway.sql.lexer import TokenKind, tokenize
from gateway.sql.named_objects import FILE_FORMATS, find_named_objects
from gateway.sql.parameters import Parameters
from gateway.sql.references import find_references
from tests.gateway.sql.oracle.random_statements import TABLE, WORKSPACE, RandomStatement
from tests.gateway.sql.oracle.spark_sql import COMMON_KIND, TABLE_KIND, SparkSqlReader
from tests.golden.corpus import groups
from tests.maven import MissingMavenError
from tests.skips import skip_missing

pytestmark = pytest.mark.slow

_STATEMENTS = 4000
_CHANGED_TEXTS = 6000
_MAX_CHARACTERS = 2000
_STRINGS = frozenset({"STRING_LITERAL", "DOUBLEQUOTED_STRING"})
_DIFFERENT_TOKENS = frozenset({"UNRECOGNIZED", "BEGIN_DOLLAR_QUOTED_STRING"})
"""Spark reports an unterminated text as errors, and divides ``$$…$$``; Lodge reads each as one token."""

_NOT_IN_PLAN = ("SET ", "EXECUTE IMMEDIATE", "CREATE FUNCTION", "CREATE TEMPORARY FUNCTION", "CREATE OR REPLACE")
"""Beginnings of statements whose plan does not contain all names, or contains them as a text."""


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSqlReader]:
    with SparkSqlReader() as reader:
        yield reader


@pytest.fixture(scope="module")
def grouped() -> Mapping[str, Sequence[str]]:
    try:
        return groups()
    except MissingMavenError as missing:
        skip_missing(str(missing))


@pytest.fixture(scope="module")
def corpus(grouped: Mapping[str, Sequence[str]]) -> Sequence[str]:
    return [text for group in grouped.values() for text in group if len(text) < _MAX_CHARACTERS]


def find_tables(text: str) -> dict[str, bool]:
    """Return whether each name in the workspace is a table, by its second part."""
    names, _ = resolve_identifier_clauses(tokenize(text), Parameters.of_statement(text))
    references = find_references(names, lambda parts: int(len(parts) > 1 and parts[0].lower() == WORKSPACE))
    return {reference.parts[1]: reference.is_table for reference in references}


def test_tables_of_random_statements(spark: SparkSqlReader) -> None:
    random, outcomes = Random(3), Counter[str]()  # noqa: S311 - must be repeatable
    statements = [RandomStatement(random) for _ in range(_STATEMENTS)]
    for statement, reading in zip(statements, spark.read([each.text for each in statements]), strict=True):
        if reading.names is None:
            outcomes["refused"] += 1
            continue
        found = find_tables(statement.text)
        for number in range(1, statement.count + 1):
            name = f"{TABLE}{number}"
            kinds = set[str]().union(*(kinds for parts, kinds in reading.names.items() if name in parts))
            if kinds:
                outcomes["table" if TABLE_KIND in kinds else "column"] += 1
                assert found.get(name, False) == (TABLE_KIND in kinds), f"{name} in {statement.text}"
    assert min(outcomes[each] for each in ("refused", "table", "column")) > _STATEMENTS / 10, outcomes


def test_tables_of_the_corpus_with_a_changed_name(spark: SparkSqlReader, corpus: Sequence[str]) -> None:
    random, outcomes = Random(4), Counter[str]()  # noqa: S311 - must be repeatable
    changed = [each for each in (_name_workspace(random.choice(corpus), random) for _ in range(_CHANGED_TEXTS)) if each]
    for text, reading in zip(changed, spark.read(changed), strict=True):
        if reading.names is None or text.strip().upper().startswith(_NOT_IN_PLAN):
            outcomes["refused"] += 1
            continue
        kinds = set[str]().union(*(kinds for parts, kinds in reading.names.items() if parts[:2] == (WORKSPACE, TABLE)))
        if TABLE_KIND in kinds or kinds <= {"COLUMN"}:
            outcomes["table" if TABLE_KIND in kinds else "column"] += 1
            assert find_tables(text).get(TABLE, False) == (TABLE_KIND in kinds), text
    assert min(outcomes[each] for each in ("table", "column")) > 100, outcomes


def test_tables_in_the_audit_log(spark: SparkSqlReader, grouped: Mapping[str, Sequence[str]]) -> None:
    """The audit log names what Spark reads, except common table expressions, and nothing that Spark does not name."""
    random, compared = Random(5), 0  # noqa: S311 - must be repeatable
    texts = [RandomStatement(random).text for _ in range(_STATEMENTS // 2)]
    of_spark = (text for name, group in grouped.items() if name.endswith(".sql") for text in group)
    texts += [
        text for text in of_spark if text.upper().startswith(("SELECT", "WITH", "FROM", "TABLE")) and "${" not in text
    ]
    for text, reading in zip(texts, spark.read(texts), strict=True):
        is_computed = "||" in text and "IDENTIFIER(" in text.upper()  # only Spark computes such a name
        if reading.names is None or is_computed or "``" in text:
            continue
        compared += 1
        common = {parts[0].lower() for parts, kinds in reading.names.items() if COMMON_KIND in kinds}
        named = find_named_objects(text)
        found = {*named.tables, *named.files}
        tables = {parts for parts, kinds in reading.names.items() if TABLE_KIND in kinds}
        read = {_shown(parts) for parts in tables if not (len(parts) == 1 and parts[0].lower() in common)}
        assert read <= found, f"{read - found} in {text}"
        if not text.startswith(("create", "cache")):  # Spark's plan contains the name of a new view in another form
            assert found <= {_shown(parts) for parts in reading.names}, text
    assert compared > _STATEMENTS / 2


def _shown(parts: Sequence[str]) -> str:
    """Return a name as the audit log shows it: the path in a name such as ``parquet.`/a` ``, otherwise the name."""
    return parts[1] if len(parts) == 2 and parts[0].lower() in FILE_FORMATS else ".".join(parts)


def _name_workspace(text: str, random: Random) -> str | None:
    """Replace a random name in a text by the name of a table in the workspace. None if the text has no name."""
    try:
        tokens = tokenize(text)
    except GatewayError:
        return None
    starts = [
        index
        for index, token in enumerate(tokens)
        if token.is_name and not (index and tokens[index - 1].is_symbol(".")) and TABLE not in token.value
    ]
    if not starts:
        return None
    first = last = random.choice(starts)
    while last + 2 < len(tokens) and tokens[last + 1].is_symbol(".") and tokens[last + 2].is_name:
        last += 2
    return f"{text[: tokens[first].start]}{WORKSPACE}.`{TABLE}`{text[tokens[last].end :]}"


def test_tokens_of_the_corpus(spark: SparkSqlReader, corpus: Sequence[str]) -> None:
    compared = 0
    for text, reading in zip(corpus, spark.read(corpus), strict=True):
        tokens = tokenize(text)
        is_unknown = any(token.kind is TokenKind.UNKNOWN for token in tokens)
        if is_unknown or any(token.kind in _DIFFERENT_TOKENS for token in reading.tokens):
            continue
        compared += 1
        for kind, spark_kinds in ((TokenKind.STRING, _STRINGS), (TokenKind.QUOTED, {"BACKQUOTED_IDENTIFIER"})):
            expected = [(each.start, each.end) for each in reading.tokens if each.kind in spark_kinds]
            assert [(each.start, each.end) for each in tokens if each.kind is kind] == expected, text
        spark_code, code = (
            "".join("".join(text[each.start : each.end].split()) for each in found)
            for found in (reading.tokens, tokens)
        )
        assert code == spark_code, text  # what remains without comments and spaces
    assert compared > 0.9 * len(corpus)
