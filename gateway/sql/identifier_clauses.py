"""Names that stand in strings or parameters: ``IDENTIFIER('dfs.tmp.t')``, ``IDENTIFIER(:name)``, ``IDENTIFIER(?)``.

Why it exists: Spark computes such a name when it analyses the statement. Where its value is known here already, it is
a name like any other; where it is not, only Spark can tell.

Source: Spark: SqlBaseParser.g4 (identifierReference, strictIdentifier #identifierLiteral).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.sql.lexer import Token, TokenKind, match_brackets, tokenize
from gateway.sql.name_syntax import parse_name, read_name
from gateway.sql.parameters import Parameters, StringEvaluator
from gateway.sql.statements import IdentifierClause


@dataclass(frozen=True, slots=True)
class UnknownName:
    """An ``IDENTIFIER(…)`` whose name only Spark knows.

    Attributes:
        start: Offset of its first character.
        end: Offset after its closing bracket.
        pieces: The strings in it that are known.
    """

    start: int
    end: int
    pieces: tuple[str, ...]


def resolve_identifier_clauses(
    found: Sequence[Token], parameters: Parameters
) -> tuple[Sequence[Token], Sequence[UnknownName]]:
    """The tokens with each ``IDENTIFIER(…)`` of a known name as that name's, all at the place of the clause.

    Returns: The tokens, and the clauses of names that are not known.
    """
    starts = [i for i, token in enumerate(found[:-2]) if token.keyword == "IDENTIFIER" and found[i + 1].is_symbol("(")]
    if not starts:
        return found, ()
    strings = StringEvaluator(found, parameters)
    closing = match_brackets(found)
    replaced: list[Token] = []
    computed: list[UnknownName] = []
    position = 0
    for first in starts:
        last = closing.get(first + 1)
        if first < position or last is None:
            continue
        argument = found[first + 2 : last]
        value = strings.value(argument)
        parts = () if value is None else parse_name(value)
        start, end = found[first].start, found[last].end
        if not parts:
            computed.append(UnknownName(start, end, tuple(strings.pieces(argument))))
            continue
        replaced += [*found[position:first], *_name_tokens(parts, start, end)]
        position = last + 1
    return [*replaced, *found[position:]], computed


def evaluate_identifier_clause(
    sql: str, clause: IdentifierClause, parameters: Parameters, *, double_quoted_identifiers: bool = False
) -> tuple[str, ...] | None:
    """The parts of the name that a clause stands for; None if only Spark knows them.

    Args:
        sql: The whole text.
        clause: As :func:`gateway.sql.statement_parser.parse_statement` found it.
        parameters: Of the text.
        double_quoted_identifiers: Whether the session reads ``"a"`` as a name.
    """
    found = tokenize(sql, double_quoted_identifiers=double_quoted_identifiers)
    argument = [token for token in found if clause.argument_start <= token.start < clause.argument_end]
    value = StringEvaluator(found, parameters).value(argument)
    if value is not None:
        return parse_name(value) or None
    known, _ = resolve_identifier_clauses(found, parameters)
    return read_name([token for token in known if clause.start <= token.start and token.end <= clause.end]) or None


def _name_tokens(parts: Sequence[str], start: int, end: int) -> Sequence[Token]:
    dotted: list[Token] = []
    for part in parts:
        dotted += [Token(TokenKind.SYMBOL, start, end, "."), Token(TokenKind.QUOTED, start, end, part)]
    return dotted[1:]
