"""Strings in a text whose value is known before Spark sees it: literals, and parameters that the client sent along.

Source: Spark: SqlBaseParser.g4 (stringLit, parameterMarker, singleStringLit), ``PosParameterizedQuery``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gateway.sql.lexer import Token, TokenKind
from gateway.sql.table_options import literal_value


@dataclass(frozen=True, slots=True)
class Parameters:
    """The values of a text's parameters that are strings.

    Attributes:
        named: Of ``:name``, by name.
        positional: Of ``?``, in order; None for one that is no string.
    """

    named: Mapping[str, str] = field(default_factory=dict)
    positional: Sequence[str | None] = ()

    @property
    def values(self) -> Sequence[str]:
        return [*self.named.values(), *(value for value in self.positional if value is not None)]


NO_PARAMETERS = Parameters()


class StringEvaluator:
    """The values of expressions in one text.

    Args:
        found: All tokens of the text.
        parameters: What its parameters stand for.
    """

    def __init__(self, found: Sequence[Token], parameters: Parameters) -> None:
        self._parameters = parameters
        self._ordinals = {token.start: ordinal for ordinal, token in enumerate(t for t in found if t.is_symbol("?"))}

    def value(self, expression: Sequence[Token]) -> str | None:
        """The value of literals and parameters beside each other or joined by ``||``; None if it is not known."""
        text, position = "", 0
        if not expression:
            return None
        while position < len(expression):
            operand = self._operand(expression, position)
            if operand is None:
                return None
            piece, position = operand
            text += piece
            if [token.value for token in expression[position : position + 2]] == ["|", "|"]:
                position += 2
                if position == len(expression):
                    return None
        return text

    def pieces(self, expression: Sequence[Token]) -> Sequence[str]:
        """All known strings in an expression, whatever becomes of them."""
        found = (self._operand(expression, position) for position in range(len(expression)))
        return [operand[0] for operand in found if operand is not None]

    def positions_between(self, start: int, end: int) -> Sequence[int]:
        """The places among the positional parameters of those that stand between two offsets."""
        return [ordinal for offset, ordinal in self._ordinals.items() if start <= offset < end]

    def _operand(self, expression: Sequence[Token], position: int) -> tuple[str, int] | None:
        """The value of a literal or parameter, and the position after it."""
        token = expression[position]
        if token.kind is TokenKind.STRING:
            value = literal_value(token)
            return None if value is None else (value, position + 1)
        if token.is_symbol("?"):
            ordinal = self._ordinals[token.start]
            values = self._parameters.positional
            value = values[ordinal] if ordinal < len(values) else None
            return None if value is None else (value, position + 1)
        if token.is_symbol(":") and position + 1 < len(expression) and expression[position + 1].kind is TokenKind.WORD:
            value = self._parameters.named.get(expression[position + 1].value)
            return None if value is None else (value, position + 2)
        return None


def string_literal(text: str) -> str:
    """A string: raw, because how escapes are read is a setting of the session, unless it holds both quotes."""
    if "'" not in text:
        return f"r'{text}'"
    if '"' not in text:
        return f'r"{text}"'
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
