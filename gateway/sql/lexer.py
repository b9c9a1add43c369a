"""Splits Spark SQL text into tokens with their positions.

Lodge replaces parts of a statement and never generates a whole statement. Therefore Lodge must find names exactly where
Spark finds them: in hints, but not in strings and not in comments.

Guarantees:

1. The tokens are in order and do not overlap. Between tokens, there are only whitespace and comments.
2. Tokenizing takes linear time in the length of the text. A text with more than ``MAX_TOKENS`` tokens is refused when a
   caller reads the next token, so tokens occupy at most about 80 MB.
3. Other threads can run while a long text is read, also while a long string, name or comment is read.

Not guaranteed: the text may be invalid SQL. Spark reports the errors in invalid SQL. The kind of a word or a number is
not known if it has more than ``PIECE_CHARACTERS`` characters.

Source: `SqlBaseLexer.g4` [spark-sql-grammar], and ``UpperCaseCharStream`` for the case of keywords.
"""

import enum
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Self

from gateway.errors import statement_too_long
from gateway.sql.piecewise_search import PIECE_CHARACTERS, end_of_run, ends_in_run, find

MAX_TOKENS = 500_000
LONGEST_KEYWORD = 64
"""The maximum length of a word that can be a keyword."""

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
        is_short_word = self.kind is TokenKind.WORD and self.end - self.start <= LONGEST_KEYWORD
        return self.value.upper() if is_short_word else ""

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

# Repetitions are possessive (``*+``), so that matching takes linear time.
_BLANKS = re.compile(
    r"""(?:
      [ \t\n\f\r\x0b\xa0\u1680\u2000-\u200a\u2028\u202f\u205f\u3000]++
    | --(?:[^\\\r\n]++|\\\n|\\)*+[\r\n]
    )*+""",
    re.VERBOSE,
)
_LINE_COMMENT = re.compile(r"(?:[^\\\r\n]++|\\(?:\n|(?=.)))*+", re.DOTALL)
_URI_CHARACTERS = r"[\w/\-.?=&\#%]"
_TOKEN = re.compile(
    rf"""
      (?P<HINT_OPEN>/\*\+)
    | (?P<HINT_CLOSE>\*/)
    | (?P<NUMBER>
          (?:[0-9]++\.[0-9]*+|\.[0-9]++)(?:e[+-]?[0-9]++)?(?:bd|d|f)?(?![a-z0-9_])
        | [0-9]++e[+-][0-9]++(?:bd|d|f)?
        | [0-9]++(?:l|s|y|(?:e[0-9]++)?(?:bd|d|f)?)(?!\w) )
    | (?P<URI>[^\W\d_]++://{_URI_CHARACTERS}++)
    | (?P<WORD>\w++)
    | (?P<SYMBOL>.)
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_COMMENT_EDGE = re.compile(r"/\*(?!\+)|\*/")
_BODIES = {
    "'": re.compile(r"(?:[^'\\]++|\\.|'')*+", re.DOTALL),
    '"': re.compile(r'(?:[^"\\]++|\\.|"")*+', re.DOTALL),
    "`": re.compile(r"(?:[^`]++|``)*+"),
}
"""What can follow the first quote of a string or of a name."""

_WITH_DOUBLED = {quote: re.compile(f"(?:[^{quote}]++|{quote}(?:{quote}|(?=.)))*+", re.DOTALL) for quote in '"`'}
_TAG = re.compile("[a-z]*+", re.IGNORECASE)
_REST_OF_WORD = re.compile(r"\w*+")
_REST_OF_URI = re.compile(rf"{_URI_CHARACTERS}*+")
_KINDS = {kind.name: kind for kind in TokenKind}
_BLANK_BYTES = bytes(byte if byte in b"\r\n" else ord(" ") for byte in range(256))


class TokenReader:
    """Reads the tokens of a text one by one, and keeps them.

    Args:
        sql: The text.
        dialect: The dialect of the session.
        tokens: The tokens of the text, if they are known.
    """

    def __init__(self, sql: str, dialect: Dialect, tokens: list[Token] | None = None) -> None:
        self._sql = sql
        self._dialect = dialect
        self._tokens = [] if tokens is None else tokens
        self._position = len(sql) if tokens is not None else -1

    def __iter__(self) -> Iterator[Token]:
        """Yield all tokens. They are read when they are needed.

        Raises:
            GatewayError: If the text has more than ``MAX_TOKENS`` tokens.
        """
        index = 0
        while index < len(self._tokens) or self._read_next():
            yield self._tokens[index]
            index += 1

    def read_all(self) -> Sequence[Token]:
        """Return all tokens.

        Raises:
            GatewayError: If the text has more than ``MAX_TOKENS`` tokens.
        """
        while self._read_next():
            pass
        return self._tokens

    def _read_next(self) -> bool:
        """Read one more token, and return whether there was one."""
        sql, length = self._sql, len(self._sql)
        if self._position < 0:
            self._position = skip_blank(sql, 0)
        if self._position >= length:
            return False
        if len(self._tokens) == MAX_TOKENS:
            raise statement_too_long(MAX_TOKENS)
        if _opens_comment(sql, self._position):
            token = Token(TokenKind.UNKNOWN, self._position, length, sql[self._position :])
        else:
            token = _read_token(sql, self._position, self._dialect)
        self._tokens.append(token)
        self._position = skip_blank(sql, token.end)
        return True


class SqlText(str):
    """A SQL text with the tokens that its readers have read so far.

    All functions that read SQL texts accept it, and read its tokens instead of the text.
    """

    __slots__ = ("_plain", "_readers", "_whole")
    _plain: str
    _readers: dict[bool, TokenReader]
    _whole: "tuple[SqlText, int, int] | None"

    def __new__(cls, text: str) -> Self:
        self = super().__new__(cls, text)
        self._plain = text  # a reader that refers to this object would be a cycle, and keep the text in memory
        self._readers = {}
        self._whole = None
        return self

    def reader(self, dialect: Dialect) -> TokenReader:
        """Return the tokens in a dialect."""
        is_name = dialect.double_quoted_identifiers and '"' in self
        reader = self._readers.get(is_name)
        if reader is None:
            reader = self._readers[is_name] = TokenReader(self._plain, dialect, self._find_tokens(dialect))
        return reader

    def without(self, start: int, end: int, kept_end: int) -> "SqlText":
        """Return the text up to an offset, with spaces in place of a part that begins and ends between tokens."""
        text = SqlText(self[:start] + blank_out(self[start:end]) + self[end:kept_end])
        text._whole = self, start, end
        return text

    def _find_tokens(self, dialect: Dialect) -> list[Token] | None:
        """Return the tokens of the text if they are known from the text of which it is a part."""
        if self._whole is None:
            return None
        whole, start, end = self._whole
        tokens = whole.reader(dialect).read_all()
        kept = [token for token in tokens if token.end <= start or end <= token.start < len(self)]
        return None if kept and kept[-1].end > len(self) else kept


def tokenize(sql: str, dialect: Dialect = DEFAULT_DIALECT) -> Sequence[Token]:
    """Return all tokens of a text.

    Raises:
        GatewayError: If the text has more than ``MAX_TOKENS`` tokens.
    """
    return read_tokens(sql, dialect).read_all()


def read_tokens(sql: str, dialect: Dialect = DEFAULT_DIALECT) -> TokenReader:
    """Return the tokens of a text, for callers that need only a few of them."""
    return sql.reader(dialect) if isinstance(sql, SqlText) else TokenReader(sql, dialect)


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
        position = end_of_run(_BLANKS, sql, position)
        if sql.startswith("--", position):
            position = _find_line_end(sql, position + 2)
        elif _opens_comment(sql, position) and (end := _find_comment_end(sql, position + 2)):
            position = end
        else:
            return position


def blank_out(text: str) -> str:
    """Replace all characters of a text except line breaks with spaces."""
    return text.encode("ascii", "replace").translate(_BLANK_BYTES).decode("ascii")


def _read_token(sql: str, position: int, dialect: Dialect) -> Token:
    first = sql[position]
    if first in _BODIES:
        return _read_quoted(sql, position, dialect)
    if first == "$" and (token := _read_dollar_quoted(sql, position)):
        return token
    if first in "rR" and (token := _read_raw_string(sql, position)):
        return token
    limit = position + PIECE_CHARACTERS
    match = _TOKEN.match(sql, position, limit)
    if match is None or match.lastgroup is None:
        raise AssertionError(f"no token at offset {position}")
    group, end = match.lastgroup, match.end()
    if end == limit:
        end = end_of_run(_REST_OF_URI if group == "URI" else _REST_OF_WORD, sql, limit)
    return Token(_KINDS[group], position, end, sql[position:end])


def _read_quoted(sql: str, position: int, dialect: Dialect) -> Token:
    """Return the string or the name that begins with a quote.

    If it is unterminated, its last doubled quote is the end of it and the start of the next one.
    """
    quote = sql[position]
    end = end_of_run(_BODIES[quote], sql, position + 1)
    if not sql.startswith(quote, end):
        end = sql.rfind(quote * 2, position + 1, end)
        if end < 0:
            return Token(TokenKind.UNKNOWN, position, len(sql), sql[position:])
    if quote == "`" or (quote == '"' and dialect.double_quoted_identifiers):
        return Token(TokenKind.QUOTED, position, end + 1, _read_name(sql[position + 1 : end], quote))
    return Token(TokenKind.STRING, position, end + 1, sql[position : end + 1])


def _read_name(text: str, quote: str) -> str:
    """Return a name in which quotes are doubled."""
    if len(text) <= PIECE_CHARACTERS:
        return text.replace(quote * 2, quote)
    ends = [0, *ends_in_run(_WITH_DOUBLED[quote], text, 0), len(text)]
    return "".join(text[begin:end].replace(quote * 2, quote) for begin, end in pairwise(ends))


def _read_dollar_quoted(sql: str, position: int) -> Token | None:
    """Return a string between ``$$`` or ``$name$`` tags; None if no tag begins here."""
    tag_end = end_of_run(_TAG, sql, position + 1)
    if not sql.startswith("$", tag_end):
        return None
    tag = sql[position : tag_end + 1]
    closing = sql.find(tag, tag_end + 1)
    kind, end = (TokenKind.UNKNOWN, len(sql)) if closing < 0 else (TokenKind.STRING, closing + len(tag))
    return Token(kind, position, end, sql[position:end])


def _read_raw_string(sql: str, position: int) -> Token | None:
    """Return a string after the letter ``r``; None if no complete one begins here.

    Such a string has no escape sequences.
    """
    quote = sql[position + 1 : position + 2]
    closing = sql.find(quote, position + 2) if quote in ("'", '"') else -1
    return Token(TokenKind.STRING, position, closing + 1, sql[position : closing + 1]) if closing >= 0 else None


def _opens_comment(sql: str, position: int) -> bool:
    return sql[position : position + 2] == "/*" and not sql.startswith("+", position + 2)


def _find_line_end(sql: str, position: int) -> int:
    """Return the end of a comment that a line break ends."""
    end = end_of_run(_LINE_COMMENT, sql, position)
    return end + sql.startswith("\\", end)  # as the last character of the text


def _find_comment_end(sql: str, position: int) -> int | None:
    """Return the end of a comment, which can contain nested comments.

    Return None if the comment is unterminated.
    """
    depth = 1
    while edge := find(_COMMENT_EDGE, sql, position):
        position = edge.end()
        depth += -1 if edge.group() == "*/" else 1
        if depth == 0:
            return position
    return None
