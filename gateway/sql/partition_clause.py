"""Parses ``PARTITION (column = constant, …)``.

Source: [spark-sql-grammar partitionSpec].
"""

from gateway.sql.cursor import Cursor
from gateway.sql.lexer import Token, TokenKind
from gateway.sql.statements import Partition

_CONSTANTS = frozenset({"NULL", "TRUE", "FALSE", "DEFAULT"})


def parse_partition(cursor: Cursor) -> Partition | None:
    """Step over a ``PARTITION`` clause, if there is one.

    Returns:
        The columns, and the texts of their values. Empty without a clause. None if the clause is malformed.
    """
    if not cursor.take("PARTITION"):
        return ()
    found: list[tuple[str, str | None]] = []
    if not cursor.take_symbol("("):
        return None
    while (name := cursor.take_part()) is not None:
        value = _take_value(cursor) if cursor.take_symbol("=") else None
        if value == "":
            break
        found.append((name, value))
        if cursor.take_symbol(")"):
            return tuple(found)
        if not cursor.take_symbol(","):
            break
    return None


def _take_value(cursor: Cursor) -> str:
    """Step over a constant, and return its text. Empty if there is none, or Spark would not parse it as a constant."""
    first = cursor.current
    tokens: list[Token] = []
    while (token := cursor.current) is not None and not (token.is_symbol(",") or token.is_symbol(")")):
        tokens.append(token)
        cursor.position += 1
    kinds = [token.kind for token in tokens]
    is_constant = (
        kinds in ([TokenKind.STRING], [TokenKind.NUMBER])
        or (len(tokens) == 1 and (tokens[0].keyword in _CONSTANTS or tokens[0].is_symbol("?")))
        or (kinds == [TokenKind.SYMBOL, TokenKind.NUMBER] and tokens[0].is_symbol("-"))
        or (len(tokens) == 2 and tokens[0].is_symbol(":") and tokens[1].is_name)
        or (kinds == [TokenKind.WORD, TokenKind.STRING])
        or (len(tokens) > 1 and tokens[0].keyword == "INTERVAL")
    )
    return cursor.text_from(first.start) if first is not None and is_constant else ""
