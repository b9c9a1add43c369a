"""``EXECUTE IMMEDIATE``: statements inside a statement.

Source: Spark: SqlBaseParser.g4 (executeImmediate, executeImmediateUsing).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gateway.sql.lexer import Token
from gateway.sql.parameters import Parameters, StringEvaluator

_ENDS_TEXT = frozenset({"INTO", "USING"})


@dataclass(frozen=True, slots=True)
class ExecuteImmediate:
    """One ``EXECUTE IMMEDIATE``.

    Attributes:
        start: Offset of the expression whose value is the statement.
        end: Offset after that expression.
        text: Its value; None if only Spark knows it.
        parameters: Those that its ``USING`` gives to the statement.
    """

    start: int
    end: int
    text: str | None
    parameters: Parameters


def find_execute_immediate(found: Sequence[Token], parameters: Parameters) -> Sequence[ExecuteImmediate]:
    """All in a text, in order.

    Args:
        found: All tokens of the text.
        parameters: What its parameters stand for.
    """
    begins = [i + 2 for i, token in enumerate(found) if token.keyword == "EXECUTE" and _keyword(found, i + 1)]
    if not begins:
        return ()
    strings = StringEvaluator(found, parameters)
    return [_immediate(found, position, strings) for position in begins]


def _keyword(found: Sequence[Token], position: int) -> bool:
    return position < len(found) and found[position].keyword == "IMMEDIATE"


def _immediate(found: Sequence[Token], begin: int, strings: StringEvaluator) -> ExecuteImmediate:
    outside = list(_outside_brackets(found, begin))
    statement_end = outside[-1] + 1 if outside else begin
    end = next((i for i in outside if found[i].keyword in _ENDS_TEXT), statement_end)
    using = next((i for i in outside if found[i].keyword == "USING"), statement_end)
    expression = found[begin:end]
    if not expression:
        place = found[begin - 1].end
        return ExecuteImmediate(place, place, None, Parameters())
    return ExecuteImmediate(
        expression[0].start,
        expression[-1].end,
        strings.value(expression),
        _using(found[using + 1 : statement_end], strings),
    )


def _outside_brackets(found: Sequence[Token], begin: int) -> Iterator[int]:
    """The indices of the statement's tokens that no brackets hold, with the brackets themselves."""
    depth = 0
    for index in range(begin, len(found)):
        token = found[index]
        if token.is_symbol(";"):
            return
        depth -= token.is_symbol(")")
        if depth <= 0:
            yield index
        depth += token.is_symbol("(")


def _using(found: Sequence[Token], strings: StringEvaluator) -> Parameters:
    if found and found[0].is_symbol("(") and found[-1].is_symbol(")"):
        found = found[1:-1]
    named: dict[str, str] = {}
    positional: list[str | None] = []
    commas = [i for i in _outside_brackets(found, 0) if found[i].is_symbol(",")]
    for start, end in zip([0, *(i + 1 for i in commas)], [*commas, len(found)], strict=True):
        argument = found[start:end]
        if len(argument) > 1 and argument[-1].is_name:
            value = argument[:-2] if argument[-2].keyword == "AS" else argument[:-1]
            known = strings.value(value)
            if known is not None:
                named[argument[-1].value] = known
        elif argument:
            positional.append(strings.value(argument))
    return Parameters(named, positional)
