"""The options of a table in a query: ``FROM t WITH (key = value, …)``, Spark's own clause.

Source: Spark: SqlBaseParser.g4 (optionsClause, propertyList), ``SparkParserUtils.unescapeSQLString``.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.sql.lexer import Token, TokenKind

_BACKSLASH = r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))"
_ESCAPE = {quote: re.compile(f"{_BACKSLASH}|({quote}{quote})", re.DOTALL) for quote in "'\""}
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": r"\%", "_": r"\_"}


class TableOptionsError(Exception):
    """The clause is malformed.

    Attributes:
        start: Offset of the token that was not expected.
    """

    def __init__(self, expected: str, token: Token | None, end: int) -> None:
        found = "the end of the text" if token is None else repr(token.value)
        super().__init__(f"In the options of a table, {expected} was expected and {found} was found.")
        self.start = end if token is None else token.start


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The clause.

    Attributes:
        values: By key, as written.
        end: Offset after the closing bracket.
    """

    values: dict[str, str]
    end: int


def parse_table_options(tokens: Sequence[Token], position: int) -> TableOptions | None:
    """The clause that begins at this token; None if none does.

    Raises:
        TableOptionsError.
    """
    if not (position + 1 < len(tokens) and tokens[position].keyword == "WITH" and tokens[position + 1].is_symbol("(")):
        return None
    return parse_property_list(tokens, position + 1)


def parse_property_list(tokens: Sequence[Token], position: int) -> TableOptions:
    """What stands in brackets, the first of which is this token.

    Raises:
        TableOptionsError.
    """
    reader = _Reader(tokens, position + 1)
    values: dict[str, str] = {}
    while True:
        key = reader.key()
        if key in values:
            raise TableOptionsError(f"another key than {key!r}, which is there already,", reader.last, 0)
        if reader.has("="):
            reader.take("=")
        values[key] = reader.value()
        if reader.has(")"):
            return TableOptions(values, reader.take(")").end)
        reader.take(",")


class _Reader:
    def __init__(self, tokens: Sequence[Token], position: int) -> None:
        self._tokens = tokens
        self._position = position

    @property
    def last(self) -> Token:
        return self._tokens[self._position - 1]

    def has(self, symbol: str) -> bool:
        token = self._token()
        return token is not None and token.is_symbol(symbol)

    def take(self, symbol: str) -> Token:
        token = self._token()
        if token is None or not token.is_symbol(symbol):
            raise self._error(repr(symbol))
        self._position += 1
        return token

    def key(self) -> str:
        parts = [self._key_part()]
        while self.has("."):
            self.take(".")
            parts.append(self._key_part())
        return ".".join(parts)

    def value(self) -> str:
        sign = self.take("-").value if self.has("-") else ""
        token = self._token()
        if token is not None and token.kind is TokenKind.NUMBER:
            self._position += 1
            return sign + token.value
        if token is not None and not sign and token.kind is TokenKind.STRING:
            return self._strings()
        if token is not None and not sign and token.keyword in ("TRUE", "FALSE"):
            self._position += 1
            return token.value.lower()
        raise self._error("a value: text between quotes, a number, true or false")

    def _key_part(self) -> str:
        token = self._token()
        if token is None or not (token.is_name or token.kind is TokenKind.STRING):
            raise self._error("a key")
        self._position += 1
        return token.value if token.is_name else self._text(token)

    def _strings(self) -> str:
        """Strings that stand beside each other are one."""
        text = ""
        while (token := self._token()) is not None and token.kind is TokenKind.STRING:
            text += self._text(token)
            self._position += 1
        return text

    def _text(self, token: Token) -> str:
        value = literal_value(token)
        if value is None:
            raise self._error("an escape of a character")
        return value

    def _token(self) -> Token | None:
        return self._tokens[self._position] if self._position < len(self._tokens) else None

    def _error(self, expected: str) -> TableOptionsError:
        return TableOptionsError(expected, self._token(), self._tokens[-1].end)


def literal_value(token: Token) -> str | None:
    """What a string literal means; None if it holds an escape of a character that is none."""
    try:
        return string_value(token.value)
    except (ValueError, OverflowError):
        return None


def string_value(literal: str) -> str:
    """The text that a string literal means. In it, only its own quote doubled means one.

    Raises: ValueError, OverflowError for an escape of a character that there is none of.
    """
    if literal[0] in "rR":
        return literal[2:-1]
    if literal[0] == "$":
        return literal[literal.index("$", 1) + 1 : literal.rindex("$", 0, -1)]
    return _ESCAPE[literal[0]].sub(_unescaped, literal[1:-1])


def _unescaped(match: re.Match[str]) -> str:
    short, long, octal, character, doubled = match.groups()
    if short or long:
        return chr(int(short or long, 16))
    if octal:
        return chr(int(octal, 8))
    if doubled:
        return str(doubled[0])
    return _ESCAPED.get(character, character)
