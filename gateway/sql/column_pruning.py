"""The names that a statement mentions: a column that is not among them cannot be needed by it.

Why it exists: Spark tells a Python data source which rows a query wants, but not which columns. A scan that is
registered with fewer columns reads fewer (docs: the engine's facts). Nobody but Spark knows what a name means, but a
column whose name stands nowhere in the statement is not meant by any.

Guarantee: what is left out is never needed. When in doubt, the answer is "all".

Source: Spark: SqlBaseParser.g4 (selectClause, starExpr, pipe operators, ``TABLE`` arguments, NATURAL JOIN,
IDENTIFIER); ``spark.sql.parser.quotedRegexColumnNames``.
"""

import re
from collections.abc import Collection, Sequence

from gateway.sql.lexer import Token, TokenKind

_DOUBTFUL = frozenset(
    {"NATURAL", "IDENTIFIER", "IMMEDIATE", "TABLE", "TRANSFORM", "MAP", "REDUCE", "PIVOT", "UNPIVOT", "BEGIN"}
)
_MAY_BE_PATTERN = re.compile(r"[^\w\s-]")
_WORD = re.compile(r"\w+")


def find_mentioned_names(tokens: Sequence[Token], spans: Collection[tuple[int, int]]) -> frozenset[str] | None:
    """The names, case folded, that the statement mentions outside of the given spans; None if it may need any.

    Args:
        tokens: Of the whole statement.
        spans: Start and end of the references to the scan itself, whose parts are no columns.
    """
    names: set[str] = set()
    words = [token for token in tokens if not any(start <= token.start < end for start, end in spans)]
    if _has_bare_from(words):
        return None
    for index, token in enumerate(words):
        if token.keyword in _DOUBTFUL or token.kind in (TokenKind.UNKNOWN, TokenKind.URI):
            return None
        if token.is_symbol("*") and not _is_counted(words, index) and not _is_product(words, index):
            return None
        if token.is_symbol("|") and index + 1 < len(words) and words[index + 1].is_symbol(">"):
            return None
        if token.kind is TokenKind.QUOTED and _MAY_BE_PATTERN.search(token.value):
            return None  # a regular expression, if the session reads quoted names so
        if token.kind is TokenKind.STRING:
            names.update(word.casefold() for word in _WORD.findall(token.value))
        elif token.value:
            names.add(token.value.casefold())
    return frozenset(names)


def _has_bare_from(words: Sequence[Token]) -> bool:
    """Whether a FROM has no SELECT of its own before it, and so means all columns; also for ``trim(a from b)``."""
    selects = [0]
    for token in words:
        if token.is_symbol("("):
            selects.append(0)
        elif token.is_symbol(")") and len(selects) > 1:
            selects.pop()
        elif token.keyword == "SELECT":
            selects[-1] += 1
        elif token.keyword == "FROM":
            selects[-1] -= 1
            if selects[-1] < 0:
                return True
    return False


def _is_counted(words: Sequence[Token], index: int) -> bool:
    """Whether the star is that of ``count(*)``."""
    before, after = words[max(index - 2, 0) : index], words[index + 1 : index + 2]
    return (
        len(before) == 2
        and before[0].keyword == "COUNT"
        and before[1].is_symbol("(")
        and bool(after)
        and after[0].is_symbol(")")
    )


def _is_product(words: Sequence[Token], index: int) -> bool:
    """Whether the star stands between two operands: a number, a closed bracket or a name, and something to begin one.

    A name before a star is an operand only if it is no keyword: ``SELECT *`` and ``DISTINCT *`` are not products.
    """
    if index == 0 or index + 1 >= len(words):
        return False
    before, after = words[index - 1], words[index + 1]
    is_operand = before.kind is TokenKind.NUMBER or before.is_symbol(")") or before.is_symbol("]")
    begins_operand = after.kind in (TokenKind.NUMBER, TokenKind.QUOTED) or after.is_symbol("(")
    return is_operand and (begins_operand or after.keyword not in _ENDS_STAR)


_ENDS_STAR = frozenset({"", "FROM", "EXCEPT", "EXCLUDE", "REPLACE", "AS", "WHERE", "UNION", "LIMIT", "ORDER", "GROUP"})
