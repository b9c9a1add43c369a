"""Finds the names that a statement mentions, to skip unneeded columns in scans.

Spark tells a Python data source which rows a query needs, but not which columns. A scan is faster if it reads fewer
columns. Only Spark can resolve the names in a statement. However, a column is certainly not needed if its name does not
occur anywhere in the statement.

A condition or an order that a DataFrame adds to a statement can use columns that the statement does not select. Their
names count as mentioned, too.

Guarantee: a skipped column is never needed. If in doubt, the scan reads all columns.

Source: [spark-sql-grammar selectClause], [spark-sql-grammar primaryExpression],
[spark-sql-grammar operatorPipeRightSide], ``spark.sql.parser.quotedRegexColumnNames``.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate

from engine.scan_source import mentioned_form
from gateway.sql.lexer import Token, TokenKind

_DOUBTFUL = frozenset(
    {"NATURAL", "IDENTIFIER", "IMMEDIATE", "TABLE", "TRANSFORM", "MAP", "REDUCE", "PIVOT", "UNPIVOT", "BEGIN"}
)
_BEFORE_BRACKET = frozenset({"WHERE", "ON", "JOIN", "USING", "HAVING"})
"""Keywords after a reference that are no alias."""

_MAY_BE_PATTERN = re.compile(r"[^\w\s-]")
_WORD = re.compile(r"\w+")
_MAX_NAMES, _MAX_CHARACTERS = 1000, 32 * 1024
"""Limits of the mentioned names, of which each scan of the statement gets a copy."""

_MAX_COPIED_CHARACTERS = 1024 * 1024
"""The limit of all copies together."""

_MAX_EXPRESSION_CHARACTERS = 4096
"""The limit of the names in the operations of a DataFrame, of which each scan of the plan gets a copy."""


def find_mentioned_names(tokens: Sequence[Token], spans: Collection[tuple[int, int]]) -> frozenset[str] | None:
    """Return the names that a statement mentions, in the form in which scans compare them.

    Args:
        tokens: All tokens of the statement.
        spans: The start and end of each reference to a scan. The parts of these references are not column names.

    Returns:
        The names. None if the statement may need any column, or mentions very many names.
    """
    names: set[str] = set()
    words = _outside(tokens, spans)
    if _needs_all_columns(words) or any(_are_columns_renamed(tokens, end) for _, end in spans):
        return None
    for index, token in enumerate(words):
        if token.keyword in _DOUBTFUL or token.kind in (TokenKind.UNKNOWN, TokenKind.URI):
            return None
        if token.is_symbol("*") and not _is_counted(words, index) and not _is_product(words, index):
            return None
        if token.is_symbol("|") and index + 1 < len(words) and words[index + 1].is_symbol(">"):
            return None
        if token.kind is TokenKind.QUOTED and _MAY_BE_PATTERN.search(token.value):
            return None  # may be a regular expression, depending on the session settings
        if token.kind is TokenKind.STRING:
            names.update(mentioned_form(word) for word in (token.value[1:-1], *_WORD.findall(token.value)))
        elif token.value:
            names.add(mentioned_form(token.value))
    is_small = sum(map(len, names)) * len(spans) <= _MAX_COPIED_CHARACTERS
    return _limited(names) if is_small else None


def find_names_of_expressions(texts: Iterable[str]) -> frozenset[str] | None:
    """Return the names that the operations of a DataFrame mention, in the form in which scans compare them.

    Args:
        texts: The names of columns and the expressions in these operations.

    Returns:
        The names. None if the operations may need any column, or mention very many names.
    """
    names: set[str] = set()
    for text in texts:
        if "``" in text:
            return None
        names.update(mentioned_form(word) for word in _WORD.findall(text))
        names.update(mentioned_form(part) for part in re.split("[.`]", text))  # may have other characters than words
    return frozenset(names) if sum(map(len, names)) <= _MAX_EXPRESSION_CHARACTERS else None


def unite_names(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    """Return the names that a statement or the operations on it mention. None if any column may be needed."""
    return None if one is None or other is None else _limited(one | other)


def _limited(names: Collection[str]) -> frozenset[str] | None:
    is_small = len(names) <= _MAX_NAMES and sum(map(len, names)) <= _MAX_CHARACTERS
    return frozenset(names) if is_small else None


def _are_columns_renamed(tokens: Sequence[Token], end: int) -> bool:
    """Return whether the columns of a reference may have other names, as in ``t AS u(x, y)``, which follow by position.

    Args:
        tokens: All tokens of the statement.
        end: The end of the reference.
    """
    index = bisect_left(tokens, end, key=lambda token: token.start)
    following = [token for token in tokens[index : index + 3] if token.keyword != "AS"]
    if following and following[0].keyword == "TABLESAMPLE":
        return True
    if len(following) < 2 or not following[0].is_name or following[0].keyword in _BEFORE_BRACKET:
        return False
    return following[1].is_symbol("(")


def _needs_all_columns(words: Sequence[Token]) -> bool:
    """Return whether a statement is, for example, DESCRIBE or SHOW COLUMNS, which need columns without naming them."""
    return _has_bare_from(words) or not any(token.keyword == "SELECT" for token in words)


def _outside(tokens: Sequence[Token], spans: Collection[tuple[int, int]]) -> Sequence[Token]:
    """Return the tokens that do not begin in a span. Both are read once, because a client chooses their numbers."""
    starts = [start for start, _ in sorted(spans)]
    ends = list(accumulate((end for _, end in sorted(spans)), max))

    def is_outside(token: Token) -> bool:
        before = bisect_right(starts, token.start)
        return before == 0 or ends[before - 1] <= token.start

    return list(filter(is_outside, tokens))


def _has_bare_from(words: Sequence[Token]) -> bool:
    """Return whether a ``FROM`` has no ``SELECT``.

    Such a query may need all columns. This function also returns True for ``trim(a from b)``.
    """
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
    """Return whether the star at an index is the argument of ``count(*)``."""
    before, after = words[max(index - 2, 0) : index], words[index + 1 : index + 2]
    return (
        len(before) == 2
        and before[0].keyword == "COUNT"
        and before[1].is_symbol("(")
        and bool(after)
        and after[0].is_symbol(")")
    )


def _is_product(words: Sequence[Token], index: int) -> bool:
    """Return whether the star at an index is a multiplication.

    The star is a multiplication if it follows a number or a closing bracket. A word before the star may be a keyword,
    as in ``SELECT *``.
    """
    if index == 0 or index + 1 >= len(words):
        return False
    before, after = words[index - 1], words[index + 1]
    is_operand = before.kind is TokenKind.NUMBER or before.is_symbol(")") or before.is_symbol("]")
    begins_operand = after.kind in (TokenKind.NUMBER, TokenKind.QUOTED) or after.is_symbol("(")
    return is_operand and (begins_operand or after.keyword not in _ENDS_STAR)


_ENDS_STAR = frozenset({"", "FROM", "EXCEPT", "EXCLUDE", "REPLACE", "AS", "WHERE", "UNION", "LIMIT", "ORDER", "GROUP"})
