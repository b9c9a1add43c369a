"""Parses the options of a table in a query: ``FROM t WITH (key = value, …)``.

Other clauses use the same syntax for their property lists.

Source: [spark-sql-grammar optionsClause], [spark-sql-grammar propertyList].
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.sql.lexer import DEFAULT_DIALECT, Dialect, Token, TokenKind
from gateway.sql.string_literals import read_string


class TableOptionsError(Exception):
    """A malformed option list.

    Attributes:
        start: Offset of the unexpected token.
    """

    def __init__(self, expected: str, token: Token | None, end: int) -> None:
        found = "the end of the text" if token is None else repr(token.value)
        super().__init__(f"Expected {expected} but found {found} in the table options.")
        self.start = end if token is None else token.start


@dataclass(frozen=True, slots=True)
class TableOptions:
    """A parsed option list.

    Attributes:
        values: The options, as written in the text.
        end: Offset after the closing bracket.
    """

    values: dict[str, str]
    end: int


def parse_table_options(tokens: Sequence[Token], position: int) -> TableOptions | None:
    """Parse the ``WITH (…)`` clause at a position. Return None if there is none.

    Raises:
        TableOptionsError: If the clause is malformed.
    """
    if not (position + 1 < len(tokens) and tokens[position].keyword == "WITH" and tokens[position + 1].is_symbol("(")):
        return None
    return parse_property_list(tokens, position + 1)


def parse_property_list(tokens: Sequence[Token], position: int, dialect: Dialect = DEFAULT_DIALECT) -> TableOptions:
    """Parse the property list whose opening bracket is at a position.

    Args:
        tokens: All tokens of the text.
        position: The index of the opening bracket.
        dialect: The dialect for reading the values. Use the dialect of the session if the values are expressions, as in
            ``CREATE TABLE``.

    Raises:
        TableOptionsError: If the list is malformed.
    """
    reader = _Reader(tokens, position + 1)
    values: dict[str, str] = {}
    while True:
        key = reader.take_key()
        if key in values:
            raise TableOptionsError("a key that is not in the list yet", reader.last, 0)
        if reader.is_at("="):
            reader.take("=")
        values[key] = reader.take_value(dialect)
        if reader.is_at(")"):
            return TableOptions(values, reader.take(")").end)
        reader.take(",")


class _Reader:
    def __init__(self, tokens: Sequence[Token], position: int) -> None:
        self._tokens = tokens
        self._position = position

    @property
    def last(self) -> Token:
        return self._tokens[self._position - 1]

    def is_at(self, symbol: str) -> bool:
        token = self._current()
        return token is not None and token.is_symbol(symbol)

    def take(self, symbol: str) -> Token:
        if not self.is_at(symbol):
            raise self._error(repr(symbol))
        self._position += 1
        return self.last

    def take_key(self) -> str:
        parts = [self._take_key_part()]
        while self.is_at("."):
            self.take(".")
            parts.append(self._take_key_part())
        return ".".join(parts)

    def take_value(self, dialect: Dialect) -> str:
        sign = self.take("-").value if self.is_at("-") else ""
        token = self._current()
        if token is not None and token.kind is TokenKind.NUMBER:
            self._position += 1
            return sign + token.value
        if token is not None and not sign and token.kind is TokenKind.STRING:
            return self._take_strings(dialect)
        if token is not None and not sign and token.keyword in ("TRUE", "FALSE"):
            self._position += 1
            return token.value.lower()
        raise self._error("a value: a quoted string, a number, true or false")

    def _take_key_part(self) -> str:
        token = self._current()
        if token is None or not (token.is_name or token.kind is TokenKind.STRING):
            raise self._error("a key")
        text = token.value if token.is_name else self._read(token, DEFAULT_DIALECT)
        self._position += 1
        return text

    def _take_strings(self, dialect: Dialect) -> str:
        text = ""
        while (token := self._current()) is not None and token.kind is TokenKind.STRING:
            text += self._read(token, dialect)
            self._position += 1
        return text

    def _read(self, token: Token, dialect: Dialect) -> str:
        text = read_string(token.value, dialect)
        if text is None:
            raise self._error("a valid escape sequence")
        return text

    def _current(self) -> Token | None:
        return self._tokens[self._position] if self._position < len(self._tokens) else None

    def _error(self, expected: str) -> TableOptionsError:
        return TableOptionsError(expected, self._current(), self._tokens[-1].end)
