"""Checks that Spark plans each query in a SQL text once.

Beside its main query, a text may have queries in the place of a table (``FROM (SELECT …)``), queries of a ``UNION``,
and common table expressions. Spark plans a common table expression with one use as if it were written in the place of
the table.

Guarantees:

1. If the check succeeds, no query of the text is an expression, such as ``IN (SELECT …)``. Spark would copy tables to
   evaluate such a query.
2. If the check succeeds, each common table expression has at most one use.

Not guaranteed: the check fails for some texts whose queries are planned once, for example if a column has the same name
as a common table expression.

Source: [spark-sql-grammar ctes], [spark-sql-grammar namedQuery], [spark-sql-grammar relationPrimary].
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from gateway.sql.lexer import Token, match_brackets

_BEFORE_TABLES = frozenset(["FROM", "JOIN"])
_NEVER_BEFORE_FROM = frozenset(["UNION", "ALL", "DISTINCT", "EXCEPT", "INTERSECT", "MINUS"])
"""Keywords after which ``FROM`` begins a query with several bodies, or belongs to ``IS DISTINCT FROM``."""

_ONE_USE = 2
"""How often the name of a common table expression occurs: in its definition, and where it is used."""


@dataclass(frozen=True, slots=True)
class _CommonTables:
    """The clause ``WITH a AS (…), b AS (…)`` at the beginning of a text.

    Attributes:
        names: The names in lower case.
        bodies: The indexes of the brackets around the queries.
        end: The index of the token after the clause.
    """

    names: Collection[str] = ()
    bodies: Collection[int] = ()
    end: int = 0


def has_single_queries(tokens: Sequence[Token]) -> bool:
    """Return whether Spark plans each query of a statement once.

    Args:
        tokens: The tokens of the statement.
    """
    clause = _read_common_tables(tokens)
    if clause is None or clause.end >= len(tokens) or tokens[clause.end].keyword != "SELECT":
        return False
    return _have_single_uses(clause.names, tokens) and _are_tables(tokens, clause)


def _read_common_tables(tokens: Sequence[Token]) -> _CommonTables | None:
    """Return the clause at the beginning of a text. Return None if it has another form than this module knows."""
    if not tokens or tokens[0].keyword != "WITH":
        return _CommonTables()
    closing = match_brackets(tokens)
    names, bodies = [], []
    end = 0
    while not end or (end < len(tokens) and tokens[end].is_symbol(",")):
        name, body = end + 1, end + 3
        if body not in closing or tokens[body - 1].keyword != "AS" or not tokens[name].is_name:
            return None
        names.append(tokens[name].value.lower())
        bodies.append(body)
        end = closing[body] + 1
    return _CommonTables(names, bodies, end)


def _are_tables(tokens: Sequence[Token], clause: _CommonTables) -> bool:
    """Return whether each query, except the main query, is in the place of a table."""
    is_in_query = [True]
    for index, token in enumerate(tokens):
        if token.is_symbol("("):
            is_in_query.append(any(following.keyword == "SELECT" for following in tokens[index + 1 : index + 2]))
        elif token.is_symbol(")"):
            is_in_query = is_in_query[:-1] or [False]
        elif not _is_allowed(tokens, index, is_in_query, clause):
            return False
    return True


def _is_allowed(tokens: Sequence[Token], index: int, is_in_query: Sequence[bool], clause: _CommonTables) -> bool:
    match tokens[index].keyword:
        case "WITH":
            return index == 0
        case "FROM":  # not the FROM of a function, such as TRIM
            return is_in_query[-1] and tokens[index - 1].keyword not in _NEVER_BEFORE_FROM
        case "SELECT" if index != clause.end:
            if tokens[index - 1].is_symbol("("):
                is_table = tokens[index - 2].keyword in _BEFORE_TABLES and is_in_query[-2]
                return is_table or index - 1 in clause.bodies
            return is_in_query[-1] and _follows_union(tokens, index)
    return True


def _have_single_uses(names: Collection[str], tokens: Sequence[Token]) -> bool:
    """Return whether each name of a common table expression has at most one use.

    A name beside a dot belongs to a column, or to a table of a schema. Names with other letters are not compared,
    because Spark folds their case in another way.
    """
    values: Counter[str] = Counter()
    for index, token in enumerate(tokens):
        if not token.is_name:
            continue
        if not token.value.isascii():
            return False
        neighbours = tokens[max(index - 1, 0) : index + 2]
        if not any(neighbour.is_symbol(".") for neighbour in neighbours):
            values[token.value.lower()] += 1
    return all(values[name] <= _ONE_USE for name in names)


def _follows_union(tokens: Sequence[Token], index: int) -> bool:
    before = [token.keyword for token in tokens[max(index - 2, 0) : index]]
    return before[-1:] == ["UNION"] or before in (["UNION", "ALL"], ["UNION", "DISTINCT"])
