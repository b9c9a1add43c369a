"""Evaluates names in ``IDENTIFIER('dfs.tmp.t')`` and ``IDENTIFIER(?)``.

Spark computes such a name when it analyzes the statement. If Lodge can compute the value too, Lodge treats the name
like any other name. Otherwise, only Spark can compute the name.

Source: [spark-sql-grammar identifierReference], [spark-sql-grammar strictIdentifier].
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from gateway.sql.lexer import DEFAULT_DIALECT, Dialect, Token, TokenKind, match_brackets, tokenize
from gateway.sql.name_syntax import parse_name, read_name
from gateway.sql.parameters import Parameters, StringEvaluator
from gateway.sql.statements import IdentifierClause

_MAX_ARGUMENT_TOKENS = 1000

EvaluatedNames = Mapping[IdentifierClause, tuple[str, ...]]
"""The names in ``IDENTIFIER(…)`` clauses. A name that only Spark can compute has no parts."""


@dataclass(frozen=True, slots=True)
class UnknownName:
    """An ``IDENTIFIER(…)`` clause whose name only Spark can compute.

    Attributes:
        start: Offset of the first character of the clause.
        end: Offset after the closing bracket of the clause.
        strings: The values of the strings in the clause that Lodge can compute. Empty for a clause inside another one.
    """

    start: int
    end: int
    strings: tuple[str, ...]


def resolve_identifier_clauses(
    tokens: Sequence[Token], parameters: Parameters, dialect: Dialect = DEFAULT_DIALECT
) -> tuple[Sequence[Token], Sequence[UnknownName]]:
    """Replace each ``IDENTIFIER(…)`` clause with the tokens of its name.

    Args:
        tokens: All tokens of the text.
        parameters: The parameters of the text.
        dialect: The dialect of the session.

    Returns:
        The tokens with all known names replaced, and the clauses whose names only Spark can compute. Each replacement
        token has the offsets of the whole clause.

    Raises:
        GatewayError: If the values of the statement have too many characters.
    """
    starts = [
        index
        for index, (token, following) in enumerate(pairwise(tokens[:-1]))
        if token.keyword == "IDENTIFIER" and following.is_symbol("(")
    ]
    if not starts:
        return tokens, ()
    strings = StringEvaluator(tokens, parameters, dialect)
    literals = StringEvaluator(tokens, parameters) if dialect.escaped_string_literals else strings
    closing = match_brackets(tokens)
    replaced: list[Token] = []
    unknown: list[UnknownName] = []
    position = unknown_end = 0
    for first in starts:
        last = closing.get(first + 1)
        if first < position or last is None:
            continue
        neighbors = (*tokens[max(first - 1, 0) : first], *tokens[last + 1 : last + 2])
        is_part = any(token.is_symbol(".") for token in neighbors)  # Spark reads such an argument as a literal
        value = None
        if last - first <= _MAX_ARGUMENT_TOKENS:
            value = (literals if is_part else strings).evaluate(tokens[first + 2 : last])
        parts = () if value is None else parse_name(value, dialect)
        start, end = tokens[first].start, tokens[last].end
        if not parts:
            is_inside = first < unknown_end
            found = () if is_inside else strings.find_strings(tokens[first + 2 : last])
            unknown.append(UnknownName(start, end, tuple(found)))
            unknown_end = max(unknown_end, last)
            continue
        replaced += [*tokens[position:first], *_build_name_tokens(parts, start, end)]
        position = last + 1
    return [*replaced, *tokens[position:]], unknown


def evaluate_identifier_clauses(
    sql: str, clauses: Sequence[IdentifierClause], parameters: Parameters, dialect: Dialect = DEFAULT_DIALECT
) -> EvaluatedNames:
    """Return the names in ``IDENTIFIER(…)`` clauses.

    Args:
        sql: The whole text.
        clauses: Clauses that :func:`gateway.sql.statement_parser.parse_statement` returned.
        parameters: The parameters of the text.
        dialect: The dialect of the session.

    Returns:
        The parts of each name. Empty if only Spark can compute the name, or if it has too many tokens.

    Raises:
        GatewayError: If the values of the statement have too many characters.
    """
    tokens = tokenize(sql, dialect)
    strings = StringEvaluator(tokens, parameters, dialect)
    names: dict[IdentifierClause, tuple[str, ...]] = {}
    known: Sequence[Token] | None = None
    for clause in clauses:
        argument = _between(tokens, clause.argument_start, clause.argument_end)
        value = strings.evaluate(argument) if argument else None
        if value is not None:
            names[clause] = parse_name(value, dialect)
            continue
        if known is None:
            known, _ = resolve_identifier_clauses(tokens, parameters, dialect)
        names[clause] = read_name(
            [each for each in _between(known, clause.start, clause.end) if each.end <= clause.end]
        )
    return names


def _between(tokens: Sequence[Token], start: int, end: int) -> Sequence[Token]:
    """Return the tokens that begin between two offsets. Empty if they are too many for a name that Lodge computes.

    Clauses can be inside each other, so reading all of their tokens would take quadratic time.
    """
    first = bisect_left(tokens, start, key=_start_of)
    last = bisect_left(tokens, end, first, key=_start_of)
    return tokens[first:last] if last - first <= _MAX_ARGUMENT_TOKENS else ()


def _start_of(token: Token) -> int:
    return token.start


def _build_name_tokens(parts: Sequence[str], start: int, end: int) -> Sequence[Token]:
    tokens: list[Token] = []
    for part in parts:
        tokens += [Token(TokenKind.SYMBOL, start, end, "."), Token(TokenKind.QUOTED, start, end, part)]
    return tokens[1:]
