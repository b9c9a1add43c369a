"""Reads and writes Spark's string literals.

Spark reads string literals in two ways. In expressions, ``spark.sql.parser.escapedStringLiterals`` disables escape
sequences: the value is everything between the first and the last character of the literal. In other places, for example
in property lists, the setting has no effect.

Source: [spark-sql-grammar stringLit], ``SparkParserUtils.unescapeSQLString``, ``stringWithoutUnescape``.
"""

import re
from collections.abc import Sequence

from gateway.sql.lexer import DEFAULT_DIALECT, Dialect, Token, TokenKind, tokenize
from gateway.sql.piecewise_search import PIECE_CHARACTERS

_BACKSLASH = r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))"
_ESCAPE = {
    quote: re.compile(rf"{_BACKSLASH}|({quote}{quote})|([^\\{quote}]{{1,{PIECE_CHARACTERS}}}+)", re.DOTALL)
    for quote in "'\""
}
"""An escape sequence, or characters that are none. So other threads can run between the parts of a long literal."""

_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": r"\%", "_": r"\_"}


def read_string(literal: str, dialect: Dialect = DEFAULT_DIALECT) -> str | None:
    """Return the value of a string literal.

    Args:
        literal: The literal, including its quotes.
        dialect: The dialect of the session if the literal is in an expression. The default dialect otherwise.

    Returns:
        The value. None if an escape sequence does not represent a character.
    """
    if dialect.escaped_string_literals:
        return literal[1:-1]
    if literal[0] in "rR":
        return literal[2:-1]
    if literal[0] == "$":
        return literal[literal.index("$", 1) + 1 : literal.rindex("$", 0, -1)]
    try:
        quote, value = literal[0], literal[1:-1]
        if "\\" in value or quote * 2 in value:
            value = _ESCAPE[quote].sub(_unescape, value)
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le")  # combines the halves of a character
    except (ValueError, OverflowError):
        return None


def read_strings(tokens: Sequence[Token], dialect: Dialect = DEFAULT_DIALECT) -> str | None:
    """Return the value of adjacent string literals.

    Args:
        tokens: The tokens of the literals.
        dialect: The dialect of the session if the literals are in an expression. The default dialect otherwise.

    Returns:
        The value. None if there are no tokens, a token is not a string, or an escape sequence does not represent a
        character.
    """
    if not tokens or any(token.kind is not TokenKind.STRING for token in tokens):
        return None
    texts = [read_string(token.value, dialect) for token in tokens]
    return None if None in texts else "".join(text for text in texts if text is not None)


def quote_string(text: str) -> str:
    """Return a string literal with escape sequences. Only the default dialect reads it as the same value."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def text_expression(text: str) -> str:
    """Return an expression whose value is a text in all dialects."""
    if "'" in text or "\\" in text:
        return f"CAST(X'{text.encode().hex()}' AS STRING)"
    return f"'{text}'"


def write_string(text: str, dialect: Dialect = DEFAULT_DIALECT) -> str | None:
    """Return a string literal for use in an expression.

    Args:
        text: The value of the literal.
        dialect: The dialect of the session.

    Returns:
        The literal. None if the dialect cannot represent the value as a literal.
    """
    literals = (f"r'{text}'", f'r"{text}"', quote_string(text))
    if dialect.escaped_string_literals:
        literals = (f"'{text}'", f'"{text}"', "")
    return next((literal for literal in literals if read_strings(tokenize(literal, dialect), dialect) == text), None)


def _unescape(match: re.Match[str]) -> str:
    short, long, octal, character, doubled, others = match.groups()
    if others:
        return str(others)
    if short or long:
        return chr(int(short or long, 16))
    if octal:
        return chr(int(octal, 8))
    if doubled:
        return str(doubled[0])
    return _ESCAPED.get(character, character)
