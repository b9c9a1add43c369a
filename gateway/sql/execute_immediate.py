"""Parses ``EXECUTE IMMEDIATE``, which executes the value of an expression.

Source: [spark-sql-grammar executeImmediate], [spark-sql-grammar executeImmediateUsing].
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from gateway.sql.lexer import DEFAULT_DIALECT, Dialect, Token
from gateway.sql.parameters import Parameters, StringEvaluator

_ENDS_TEXT = frozenset({"INTO", "USING"})


@dataclass(frozen=True, slots=True)
class ExecuteImmediate:
    """An ``EXECUTE IMMEDIATE`` statement in a SQL text.

    Attributes:
        start: Offset of the expression whose value is the inner text.
        end: Offset after the expression.
        text: The inner text. None if only Spark can compute the inner text.
        parameters: The parameters in the ``USING`` clause.
    """

    start: int
    end: int
    text: str | None
    parameters: Parameters


def find_execute_immediate(
    tokens: Sequence[Token], parameters: Parameters, dialect: Dialect = DEFAULT_DIALECT
) -> Sequence[ExecuteImmediate]:
    """Return all ``EXECUTE IMMEDIATE`` statements of a SQL text, in order.

    Args:
        tokens: All tokens of the text.
        parameters: The parameters of the text.
        dialect: The dialect of the session.

    Raises:
        GatewayError: If the values of the statement have too many characters.
    """
    begins = [
        index + 2
        for index, (token, following) in enumerate(pairwise(tokens))
        if token.keyword == "EXECUTE" and following.keyword == "IMMEDIATE"
    ]
    if not begins:
        return []
    strings = StringEvaluator(tokens, parameters, dialect)
    limits = [*(begin - 2 for begin in begins[1:]), len(tokens)]  # a statement ends at the latest where the next begins
    return [_read(tokens, begin, limit, strings, parameters) for begin, limit in zip(begins, limits, strict=True)]


def _read(
    tokens: Sequence[Token], begin: int, limit: int, strings: StringEvaluator, outer: Parameters
) -> ExecuteImmediate:
    outside = list(_find_outside_brackets(tokens, begin, limit))
    statement_end = outside[-1] + 1 if outside else begin
    end = next((i for i in outside if tokens[i].keyword in _ENDS_TEXT), statement_end)
    using = next((i for i in outside if tokens[i].keyword == "USING"), statement_end)
    expression = tokens[begin:end]
    if not expression:
        place = tokens[begin - 1].end
        return ExecuteImmediate(place, place, None, outer.of_inner_text())
    return ExecuteImmediate(
        expression[0].start,
        expression[-1].end,
        strings.evaluate(expression),
        outer.of_inner_text(*_read_using(tokens[using + 1 : statement_end], strings)),
    )


def _find_outside_brackets(tokens: Sequence[Token], begin: int, limit: int) -> Iterator[int]:
    """Yield the indices of the tokens of a statement that are not in brackets, below a limit.

    The brackets themselves are included.
    """
    depth = 0
    for index in range(begin, limit):
        token = tokens[index]
        if token.is_symbol(";"):
            return
        depth -= token.is_symbol(")")
        if depth <= 0:
            yield index
        depth += token.is_symbol("(")


def _read_using(tokens: Sequence[Token], strings: StringEvaluator) -> tuple[Mapping[str, str], Sequence[str | None]]:
    """Return the named and the positional parameters in a ``USING`` clause.

    An argument whose value is not known has a place in the positional parameters, unless it certainly has a name.
    """
    if tokens and tokens[0].is_symbol("(") and tokens[-1].is_symbol(")"):
        tokens = tokens[1:-1]
    named: dict[str, str] = {}
    positional: list[str | None] = []
    commas = [i for i in _find_outside_brackets(tokens, 0, len(tokens)) if tokens[i].is_symbol(",")]
    for start, end in zip([0, *(i + 1 for i in commas)], [*commas, len(tokens)], strict=True):
        argument = tokens[start:end]
        if not argument:
            continue
        can_be_named = len(argument) > 1 and argument[-1].is_name
        has_as = can_be_named and argument[-2].keyword == "AS"
        known = strings.evaluate(argument[: -2 if has_as else -1]) if can_be_named else None
        if known is not None:
            named[argument[-1].value] = known
        elif not has_as:  # also the variable "session.v", the parameter ":p" and "CASE … END"
            positional.append(strings.evaluate(argument))
    return named, positional
