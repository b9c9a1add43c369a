"""Finds the tables and files that a SQL text names, for the audit log.

Not guaranteed: The finder follows keywords and does not parse the text. It may miss a name, and it may report a name
that is not a table. It must not be used to decide what a client may access.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gateway.sql.lexer import Token, TokenKind, tokenize
from gateway.sql.string_literals import read_string

_BEFORE_TABLE = frozenset(
    {"FROM", "JOIN", "INTO", "TABLE", "VIEW", "UPDATE", "OVERWRITE", "DESCRIBE", "DESC", "REFRESH", "REPLACE"}
)
_SKIPPED = frozenset({"TABLE", "VIEW", "EXTENDED", "FORMATTED", "LATERAL", "IF", "NOT", "EXISTS", "ONLY", "INTO"})
_NO_NAME = frozenset(
    {"SELECT", "VALUES", "WITH", "SET", "AS", "FUNCTION", "DATABASE", "SCHEMA", "QUERY", "CATALOG", "WHERE", "ON"}
    | {"TEMPORARY", "TEMP", "GLOBAL", "DIRECTORY", "LOCAL"}
)
_BEFORE_FILE = frozenset({"LOCATION", "INPATH", "PATH", "DIRECTORY", "JAR", "FILE", "ARCHIVE"})
_FILE_FORMATS = frozenset(
    {"parquet", "csv", "json", "orc", "text", "avro", "xml", "binaryfile", "delta", "iceberg", "lodge"}
)
_CALLS_WITH_FROM = frozenset({"EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "OVERLAY"})
_ENDS_FROM = frozenset(
    {"SELECT", "WHERE", "GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "WINDOW"}
    | {"UNION", "INTERSECT", "EXCEPT", "MINUS", "SET", "VALUES", "ON", "USING"}
)


@dataclass(frozen=True, slots=True)
class NamedInText:
    """What a SQL text names.

    Attributes:
        keyword: The first word of the text in upper case, such as ``SELECT``.
        tables: The names of tables and views, with their parts joined by dots.
        files: The paths of files and directories.
    """

    keyword: str
    tables: Sequence[str]
    files: Sequence[str]


def find_named_objects(sql: str) -> NamedInText:
    """Return the tables and files that a SQL text names."""
    tokens = tokenize(sql)
    tables: dict[str, None] = {}
    files: dict[str, None] = {}
    for parts in _names(tokens):
        if len(parts) == 2 and parts[0].lower() in _FILE_FORMATS:
            files[parts[1]] = None
        else:
            tables[".".join(parts)] = None
    for token, following in itertools.pairwise(tokens):
        if token.keyword in _BEFORE_FILE and following.kind is TokenKind.STRING:
            files[read_string(following.value) or following.value] = None
    for name in _defined(tokens):
        tables.pop(name, None)
    return NamedInText(next((token.keyword for token in tokens if token.keyword), ""), list(tables), list(files))


def _names(tokens: Sequence[Token]) -> Iterator[tuple[str, ...]]:
    """Yield the names that follow a keyword, or a comma in a list of tables."""
    before_table = _BEFORE_TABLE | {"USING"} if tokens and tokens[0].keyword == "MERGE" else _BEFORE_TABLE
    in_from: list[bool] = [False]  # for each open bracket, whether a comma separates tables
    calls: list[bool] = [False]  # for each open bracket, whether FROM is followed by a value
    position, expected = 0, False
    while position < len(tokens):
        token = tokens[position]
        keyword = token.keyword
        if token.is_symbol("("):
            in_from.append(expected)
            calls.append(position > 0 and tokens[position - 1].keyword in _CALLS_WITH_FROM)
        elif token.is_symbol(")"):
            if len(in_from) > 1:
                in_from.pop()
                calls.pop()
            expected = False
        elif token.is_symbol(","):
            expected = in_from[-1]
        elif keyword in before_table:
            in_from[-1] = expected = not calls[-1]
            in_from[-1] &= keyword == "FROM"
        elif keyword in _ENDS_FROM:
            in_from[-1] = expected = False
        elif expected and token.is_name and keyword not in _SKIPPED:
            expected = False
            if keyword not in _NO_NAME:
                parts, end = _read_parts(tokens, position)
                if end == len(tokens) or not tokens[end].is_symbol("("):
                    yield parts
                position = end
                continue
        position += 1


def _read_parts(tokens: Sequence[Token], position: int) -> tuple[tuple[str, ...], int]:
    """Return the parts of the name at a position, and the position after the name."""
    parts = [tokens[position].value]
    position += 1
    while position + 1 < len(tokens) and tokens[position].is_symbol(".") and tokens[position + 1].is_name:
        parts.append(tokens[position + 1].value)
        position += 2
    return tuple(parts), position


def _defined(tokens: Sequence[Token]) -> Iterator[str]:
    """Yield the names of common table expressions."""
    if not any(token.keyword == "WITH" for token in tokens):
        return
    for name, word, bracket in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if name.is_name and word.keyword == "AS" and bracket.is_symbol("("):
            yield name.value
