"""Evaluates strings whose value is known before Spark executes the statement.

The values come from string literals and from the parameters of the statement.

Guarantee: the values that are evaluated for a statement have at most 8 times as many characters as the statement and
its parameters, plus 1,024. This includes the values in texts of ``EXECUTE IMMEDIATE``, whose parameters can be values
again. So the time for a statement is proportional to its length.

Source: [spark-sql-grammar stringLit], [spark-sql-grammar parameterMarker], ``PosParameterizedQuery``.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Self

from gateway.errors import values_too_long
from gateway.sql.lexer import DEFAULT_DIALECT, Dialect, Token, TokenKind
from gateway.sql.string_literals import read_string

_FREE_CHARACTERS = 1024
_CHARACTERS_PER_CHARACTER = 8


class EvaluatedCharacters:
    """Counts the characters of the values that are evaluated for a statement.

    Args:
        given_characters: The length of the statement and of all its parameters.
    """

    def __init__(self, given_characters: int) -> None:
        self._limit = self._left = _FREE_CHARACTERS + _CHARACTERS_PER_CHARACTER * given_characters

    def count(self, value: str) -> None:
        """Count a value.

        Raises:
            GatewayError: If all values together have too many characters.
        """
        self._left -= len(value) + 1
        if self._left < 0:
            raise values_too_long(self._limit)


@dataclass(frozen=True, slots=True)
class Parameters:
    """The string parameters of a SQL text.

    Attributes:
        named: The values of the ``:name`` parameters, by name.
        positional: The values of the ``?`` parameters, in order. None for values that are not strings.
        evaluated: The characters that were evaluated for the whole statement so far.
        has_any: Whether the text has parameters, including those whose values are not strings.
        has_unknown: Whether only Spark can compute the value of a parameter, which may be a string.
    """

    named: Mapping[str, str]
    positional: Sequence[str | None]
    evaluated: EvaluatedCharacters = field(compare=False, repr=False)
    has_any: bool = False
    has_unknown: bool = False

    @classmethod
    def of_statement(
        cls,
        text: str,
        named: Mapping[str, str] = MappingProxyType({}),
        positional: Sequence[str | None] = (),
        *,
        has_others: bool = False,
        has_unknown: bool = False,
    ) -> Self:
        """Return the parameters of a whole statement. None of its values was evaluated so far.

        Args:
            text: The text of the statement.
            named: The values of the ``:name`` parameters, by name.
            positional: The values of the ``?`` parameters, in order. None for values that are not strings.
            has_others: Whether there are named parameters whose values are not strings.
            has_unknown: Whether only Spark can compute the value of a parameter, which may be a string.
        """
        values = (*named.values(), *positional)
        evaluated = EvaluatedCharacters(len(text) + sum(len(each or "") for each in values))
        return cls(named, positional, evaluated, bool(values) or has_others or has_unknown, has_unknown)

    def of_inner_text(
        self, named: Mapping[str, str] = MappingProxyType({}), positional: Sequence[str | None] = ()
    ) -> Self:
        """Return the parameters of a text inside this statement. Spark may compute further ones, such as variables."""
        return type(self)(named, positional, self.evaluated, has_any=True, has_unknown=self.has_unknown)


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

        Raises:
            GatewayError: If the values of the statement have too many characters.
        """
        pieces: list[str] = []
        position = 0
        if not expression:
            return None
        while position < len(expression):
            operand = self._read_operand(expression, position)
            if operand is None:
                return None
            piece, position = operand
            pieces.append(piece)
            if [token.value for token in expression[position : position + 2]] == ["|", "|"]:
                position += 2
                if position == len(expression):
                    return None
        return "".join(pieces)

    def find_strings(self, expression: Sequence[Token]) -> Sequence[str]:
        """Return the values of all string literals and parameters in an expression.

        Raises:
            GatewayError: If the values of the statement have too many characters.
        """
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
        if value is None:
            return None
        self._parameters.evaluated.count(value)
        return value, position + length
