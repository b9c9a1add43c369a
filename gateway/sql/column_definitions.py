"""Parses the column definitions of a ``CREATE TABLE`` statement.

Spark parses the types. Here, only the options after a type are found: ``NOT NULL``, ``DEFAULT``, ``COMMENT``,
``GENERATED ALWAYS`` and constraints.

Source: [spark-sql-grammar colDefinition], [spark-sql-grammar colDefinitionOption].
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.sql.lexer import DEFAULT_DIALECT, Dialect, Token, TokenKind, tokenize
from gateway.sql.references import replace_spans

_CONSTRAINTS = frozenset({"CHECK", "CONSTRAINT", "FOREIGN", "PRIMARY", "REFERENCES", "UNIQUE"})


@dataclass(frozen=True, slots=True)
class ColumnDefinitions:
    """The definitions of the columns of a table.

    Attributes:
        text: The definitions without what Spark cannot parse in a schema. Names, types and comments are where they
            were.
        defaults: The SQL text of each default value, with the number of its column.
        unsupported: The keyword of the first clause that tables in files do not support, such as ``GENERATED``, or of a
            second ``DEFAULT``. Empty without one.
    """

    text: str
    defaults: Sequence[tuple[int, str]] = ()
    unsupported: str = ""


def parse_column_definitions(sql: str, dialect: Dialect = DEFAULT_DIALECT) -> ColumnDefinitions:
    """Parse the definitions of columns, without the brackets around them."""
    tokens = tokenize(sql, dialect)
    defaults: list[tuple[int, str]] = []
    removed: list[tuple[int, int, str]] = []
    column = position = 0
    while position < len(tokens):
        option = _option_at(tokens, position)
        is_second = option == "DEFAULT" and any(number == column for number, _ in defaults)
        if option in _CONSTRAINTS or option == "GENERATED" or is_second:
            return ColumnDefinitions(sql, unsupported=option)
        if option == "DEFAULT":
            end = _end_of_default(tokens, position + 1)
            if end > position + 1:
                defaults.append((column, sql[tokens[position + 1].start : tokens[end - 1].end]))
                removed.append((tokens[position].start, tokens[end - 1].end, ""))
            position = end
        elif tokens[position].is_symbol(","):
            column, position = column + 1, position + 1
        else:
            position = _after(tokens, position)
    return ColumnDefinitions(replace_spans(sql, removed), tuple(defaults))


def _option_at(tokens: Sequence[Token], position: int) -> str:
    """Return the keyword of the option that begins at a position. Empty if there is none.

    The first word of a definition is the name of a column, except for constraints of the table.
    """
    word = tokens[position].keyword
    following = tokens[position + 1] if position + 1 < len(tokens) else None
    if position > 0 and not tokens[position - 1].is_symbol(","):
        return word if word in _CONSTRAINTS or word in {"DEFAULT", "GENERATED"} else ""
    if word not in _CONSTRAINTS or following is None:
        return ""
    is_named = word == "CONSTRAINT" and position + 2 < len(tokens) and tokens[position + 2].keyword in _CONSTRAINTS
    return word if is_named or following.is_symbol("(") or following.keyword == "KEY" else ""


def _end_of_default(tokens: Sequence[Token], position: int) -> int:
    """Return the index after the expression of a default value."""
    start = position
    while position < len(tokens) and not tokens[position].is_symbol(","):
        if position > start and _ends_expression(tokens, position):
            break
        position = _after_brackets(tokens, position)
    return position


def _ends_expression(tokens: Sequence[Token], position: int) -> bool:
    word = tokens[position].keyword
    following = tokens[position + 1] if position + 1 < len(tokens) else None
    if word == "NOT":
        before = tokens[position - 1].keyword
        return following is not None and following.keyword == "NULL" and before != "IS"
    if word == "COMMENT":
        return following is not None and following.kind is TokenKind.STRING
    return word in _CONSTRAINTS or word in {"DEFAULT", "GENERATED"}


def _after(tokens: Sequence[Token], position: int) -> int:
    """Return the index after a token of a type, or after the brackets that it opens."""
    if not tokens[position].is_symbol("<"):
        return _after_brackets(tokens, position)
    depth = 0
    while position < len(tokens):
        depth += tokens[position].is_symbol("<") - tokens[position].is_symbol(">")
        position += 1
        if depth == 0:
            break
    return position


def _after_brackets(tokens: Sequence[Token], position: int) -> int:
    """Return the index after a token, or after the round or square brackets that it opens."""
    depth = 0
    while position < len(tokens):
        token = tokens[position]
        depth += token.is_symbol("(") + token.is_symbol("[") - token.is_symbol(")") - token.is_symbol("]")
        position += 1
        if depth <= 0:
            break
    return position
