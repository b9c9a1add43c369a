"""Evaluates strings whose value is known before Spark executes the statement.

The values come from string literals and from the parameters of the statement.

Source: [spark-sql-grammar stringLit], [spark-sql-grammar parameterMarker], ``PosParameterizedQuery``.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gateway.sql.lexer import DEFAULT_DIALECT, Dialect, Token, TokenKind
from gateway.sql.string_literals import read_string


@dataclass(frozen=True, slots=True)
class Parameters:
    """The string parameters of a SQL text.

    Attributes:
        named: The values of the ``:name`` parameters, by name.
        positional: The values of the ``?`` parameters, in order. None for values that are not strings.
    """

    named: Mapping[str, str] = field(default_factory=dict)
    positional: Sequence[str | None] = ()


NO_PARAMETERS = Parameters()


class StringEvaluator:
    """Evaluates string expressions in a SQL text.

    Args:
        tokens: All tokens of the text.
        parameters: The parameters of the text.
        dialect: The dialect of the session.
    """

    def __init__(self, tokens: Sequence[Token], parameters: Parameters, dialect: Dialect = DEFAULT_DIALECT) -> None:
        self._parameters = parameters
        self._dialect = dialect
        self._offsets = [token.start for token in tokens if token.is_symbol("?")]

    def evaluate(self, expression: Sequence[Token]) -> str | None:
        """Return the value of an expression. None if only Spark can compute the value.

        Lodge can compute the value if the expression consists of string literals and parameters that are adjacent or
        joined by ``||``.
        """
        text, position = "", 0
        if not expression:
            return None
        while position < len(expression):
            operand = self._read_operand(expression, position)
            if operand is None:
                return None
            piece, position = operand
            text += piece
            if [token.value for token in expression[position : position + 2]] == ["|", "|"]:
                position += 2
                if position == len(expression):
                    return None
        return text

    def find_strings(self, expression: Sequence[Token]) -> Sequence[str]:
        """Return the values of all string literals and parameters in an expression."""
        operands = (self._read_operand(expression, position) for position in range(len(expression)))
        return [operand[0] for operand in operands if operand is not None]

    def find_positions(self, start: int, end: int) -> Sequence[int]:
        """Return the ordinals of the ``?`` parameters between two offsets."""
        return range(bisect_left(self._offsets, start), bisect_left(self._offsets, end))

    def _read_operand(self, expression: Sequence[Token], position: int) -> tuple[str, int] | None:
        """Return the value of a literal or parameter, and the position after it."""
        token, value, length = expression[position], None, 1
        if token.kind is TokenKind.STRING:
            value = read_string(token.value, self._dialect)
        elif token.is_symbol("?"):
            ordinal = bisect_left(self._offsets, token.start)
            values = self._parameters.positional
            value = values[ordinal] if ordinal < len(values) else None
        elif token.is_symbol(":") and position + 1 < len(expression):
            following, length = expression[position + 1], 2
            value = self._parameters.named.get(following.value) if following.kind is TokenKind.WORD else None
        return None if value is None else (value, position + length)
