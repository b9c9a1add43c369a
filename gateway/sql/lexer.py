"""Splits Spark SQL text into tokens with their positions.

Lodge replaces parts of a statement and never generates a whole statement. Therefore Lodge must find names exactly where
Spark finds them: in hints, but not in strings and not in comments.

Guarantees:

1. The tokens are in order and do not overlap. Between tokens, there are only whitespace and comments.
2. Tokenizing takes linear time in the length of the text. A text with more than ``MAX_TOKENS`` tokens is refused when a
   caller reads the next token, so tokens occupy at most about 80 MB.

Not guaranteed: the text may be invalid SQL. Spark reports the errors in invalid SQL.

Source: `SqlBaseLexer.g4` [spark-sql-grammar], and ``UpperCaseCharStream`` for the case of keywords.
"""

import enum
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gateway.errors import statement_too_long

MAX_TOKENS = 500_000

VARIABLE_START = "${"
"""The beginning of a variable. Spark replaces it by any text, also in names and texts, before it parses a statement."""


class TokenKind(enum.Enum):
    """The kind of a token.

    - ``SYMBOL`` is a single character. A parameter consists of the symbol ``?``, or of the symbol ``:`` and a word.
    - ``URI`` is an unquoted path. Spark parses it as a name and then rejects it.
    - ``UNKNOWN`` is an unterminated string, quoted name or comment, up to the end of the text.
    """

    WORD = enum.auto()
    QUOTED = enum.auto()
    STRING = enum.auto()
    NUMBER = enum.auto()
    URI = enum.auto()
    SYMBOL = enum.auto()
    HINT_OPEN = enum.auto()
    HINT_CLOSE = enum.auto()
    UNKNOWN = enum.auto()


class Token(NamedTuple):
    """A token of SQL text.

    Attributes:
        kind: The kind of the token.
        start: Offset of the first character of the token.
        end: Offset after the last character of the token.
        value: The text of the token. For a quoted name, the name without quotes.
    """

    kind: TokenKind
    start: int
    end: int
    value: str

    @property
    def is_name(self) -> bool:
        """Whether the token can be part of a name. Empty quoted names cannot."""
        return (self.kind is TokenKind.WORD or self.kind is TokenKind.QUOTED) and self.value != ""

    @property
    def keyword(self) -> str:
        """The word in upper case, for comparison with keywords. Empty for other tokens."""
        return self.value.upper() if self.kind is TokenKind.WORD else ""

    def is_symbol(self, symbol: str) -> bool:
        return self.kind is TokenKind.SYMBOL and self.value == symbol


@dataclass(frozen=True, slots=True)
class Dialect:
    """The session settings that change how SQL text is parsed.

    Attributes:
        double_quoted_identifiers: Whether ``"a"`` is a name (``spark.sql.ansi.doubleQuotedIdentifiers``).
        escaped_string_literals: Whether strings in expressions have no escape sequences
            (``spark.sql.parser.escapedStringLiterals``).
    """

    double_quoted_identifiers: bool = False
    escaped_string_literals: bool = False


DEFAULT_DIALECT = Dialect()

# Repetitions are possessive (``*+``), so that matching takes linear time. The exceptions are strings with doubled
# quotes. Matching such a string can backtrack to its last doubled quote. If the string is unterminated, this doubled
# quote is the end of one string and the start of the next.
_BLANK = re.compile(
    r"""(?:
      [ \t\n\f\r\x0b\xa0\u1680\u2000-\u200a\u2028\u202f\u205f\u3000]++
    | --(?:[^\\\r\n]++|\\\n|\\)*+
    )*+""",
    re.VERBOSE,
)
_TOKEN = re.compile(
    r"""
      (?P<HINT_OPEN>/\*\+)
    | (?P<HINT_CLOSE>\*/)
    | (?P<STRING>r(?:'[^']*+'|"[^"]*+") | '[^'\\]*+(?:(?:\\.|'')[^'\\]*+)*')
    | (?P<DOUBLE>"[^"\\]*+(?:(?:\\.|"")[^"\\]*+)*")
    | (?P<DOLLAR>\$[a-z]*+\$)
    | (?P<QUOTED>`[^`]*+(?:``[^`]*+)*`)
    | (?P<NUMBER>
          (?:[0-9]++\.[0-9]*+|\.[0-9]++)(?:e[+-]?[0-9]++)?(?:bd|d|f)?(?![a-z0-9_])
        | [0-9]++e[+-][0-9]++(?:bd|d|f)?
        | [0-9]++(?:l|s|y|(?:e[0-9]++)?(?:bd|d|f)?)(?!\w) )
    | (?P<URI>[^\W\d_]++://[\w/\-.?=&\#%]++)
    | (?P<WORD>\w++)
    | (?P<UNKNOWN>['"`].*+)
    | (?P<SYMBOL>.)
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_COMMENT_EDGE = re.compile(r"/\*(?!\+)|\*/")
_KINDS = {kind.name: kind for kind in TokenKind} | {"DOUBLE": TokenKind.STRING}
_BLANK_BYTES = bytes(byte if byte in b"\r\n" else ord(" ") for byte in range(256))


def tokenize(sql: str, dialect: Dialect = DEFAULT_DIALECT) -> list[Token]:
    """Return all tokens of a text."""
    return list(iterate_tokens(sql, dialect))


def iterate_tokens(sql: str, dialect: Dialect = DEFAULT_DIALECT) -> Iterator[Token]:
    """Yield the tokens of a text one by one, for callers that need only a few tokens.

    Raises:
        GatewayError: If the text has more than ``MAX_TOKENS`` tokens.
    """
    position, length, count = skip_blank(sql, 0), len(sql), 0
    while position < length:
        count += 1
        if count > MAX_TOKENS:
            raise statement_too_long(MAX_TOKENS)
        if _opens_comment(sql, position):
            token = Token(TokenKind.UNKNOWN, position, length, sql[position:])
        else:
            token = _read_token(sql, position, dialect)
        yield token
        position = skip_blank(sql, token.end)


def match_brackets(tokens: Sequence[Token]) -> dict[int, int]:
    """Return the index of the matching closing bracket for each opening bracket.

    Opening brackets without a closing bracket are omitted.
    """
    closing: dict[int, int] = {}
    opened: list[int] = []
    for index, token in enumerate(tokens):
        if token.is_symbol("("):
            opened.append(index)
        elif token.is_symbol(")") and opened:
            closing[opened.pop()] = index
    return closing


def skip_blank(sql: str, position: int) -> int:
    """Return the offset of the first character after whitespace and comments.

    An unterminated comment is not skipped.
    """
    while True:
        blank = _BLANK.match(sql, position)
        position = blank.end() if blank else position
        if not _opens_comment(sql, position):
            return position
        end = _find_comment_end(sql, position + 2)
        if end is None:
            return position
        position = end


def blank_out(text: str) -> str:
    """Replace all characters of a text except line breaks with spaces."""
    return text.encode("ascii", "replace").translate(_BLANK_BYTES).decode("ascii")


def _read_token(sql: str, position: int, dialect: Dialect) -> Token:
    match = _TOKEN.match(sql, position)
    if match is None or match.lastgroup is None:
        raise AssertionError(f"no token at offset {position}")
    text, group = match.group(), match.lastgroup
    if group == "DOLLAR":
        return _read_dollar_quoted(sql, position, text)
    if group == "QUOTED" or (group == "DOUBLE" and dialect.double_quoted_identifiers):
        return Token(TokenKind.QUOTED, position, match.end(), text[1:-1].replace(text[0] * 2, text[0]))
    return Token(_KINDS[group], position, match.end(), text)


def _read_dollar_quoted(sql: str, position: int, tag: str) -> Token:
    """Return the token of a string between two ``$$`` or ``$name$`` tags."""
    closing = sql.find(tag, position + len(tag))
    kind, end = (TokenKind.UNKNOWN, len(sql)) if closing < 0 else (TokenKind.STRING, closing + len(tag))
    return Token(kind, position, end, sql[position:end])


def _opens_comment(sql: str, position: int) -> bool:
    return sql[position : position + 2] == "/*" and not sql.startswith("+", position + 2)


def _find_comment_end(sql: str, position: int) -> int | None:
    """Return the end of a comment, which can contain nested comments.

    Return None if the comment is unterminated.
    """
    depth = 1
    while edge := _COMMENT_EDGE.search(sql, position):
        position = edge.end()
        depth += -1 if edge.group() == "*/" else 1
        if depth == 0:
            return position
    return None
