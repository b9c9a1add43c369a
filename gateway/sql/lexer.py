"""Spark SQL's tokens, with their places in the text.

Why it exists: Lodge replaces spans of a statement and never writes one anew, so it must see names exactly where Spark
sees them: not in strings, not in comments, but in hints.

Guarantees:

1. The tokens are in order and do not overlap; between them is nothing but white space and comments.
2. The time is linear in the length of the text, whatever the text.

Not guaranteed: that the text is valid SQL. What Spark refuses is for Spark to report.

Source: Spark: SqlBaseLexer.g4, and ``UpperCaseCharStream`` for the case of keywords.
"""

import enum
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


class TokenKind(enum.Enum):
    """What a token is.

    ``SYMBOL`` is one character; a parameter is the symbol ``?``, or ``:`` and a word. ``URI`` is a path that Spark
    takes for a bare name only to refuse it. ``UNKNOWN`` is a string, quoted name or comment without its end, up to the
    end of the text.
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


@dataclass(frozen=True, slots=True)
class Token:
    """One token.

    Attributes:
        kind: What it is.
        start: Offset of its first character.
        end: Offset after its last character.
        value: A quoted name without its quotes; else the token as it stands.
    """

    kind: TokenKind
    start: int
    end: int
    value: str

    @property
    def is_name(self) -> bool:
        """Whether it can be a part of a name; an empty name, which Spark refuses, cannot."""
        return (self.kind is TokenKind.WORD or self.kind is TokenKind.QUOTED) and self.value != ""

    @property
    def keyword(self) -> str:
        """The bare word in upper case, as Spark compares keywords; empty for all else."""
        return self.value.upper() if self.kind is TokenKind.WORD else ""

    def is_symbol(self, symbol: str) -> bool:
        return self.kind is TokenKind.SYMBOL and self.value == symbol


# Repetitions are possessive (``*+``), so that none is tried again in another way. Only what may hold doubled quotes
# gives back, up to the last pair: in an unfinished string, it is an end and a new beginning.
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
_NOT_LINE_END = re.compile(r"[^\r\n]")


def tokenize(sql: str, *, double_quoted_identifiers: bool = False) -> list[Token]:
    """All tokens of a text.

    Args:
        sql: The text.
        double_quoted_identifiers: Whether the session reads ``"a"`` as a name
            (``spark.sql.ansi.doubleQuotedIdentifiers``).
    """
    return list(iterate_tokens(sql, double_quoted_identifiers=double_quoted_identifiers))


def iterate_tokens(sql: str, *, double_quoted_identifiers: bool = False) -> Iterator[Token]:
    """The same tokens one by one, for those who need only the first."""
    position, length = skip_blank(sql, 0), len(sql)
    while position < length:
        if _opens_comment(sql, position):
            token = Token(TokenKind.UNKNOWN, position, length, sql[position:])
        else:
            token = _token(sql, position, double_quoted_identifiers)
        yield token
        position = skip_blank(sql, token.end)


def match_brackets(found: Sequence[Token]) -> dict[int, int]:
    """For each opening bracket among tokens that has an end: where. Indices of tokens."""
    closing: dict[int, int] = {}
    opened: list[int] = []
    for index, token in enumerate(found):
        if token.is_symbol("("):
            opened.append(index)
        elif token.is_symbol(")") and opened:
            closing[opened.pop()] = index
    return closing


def skip_blank(sql: str, position: int) -> int:
    """The offset of the first character from here on that is neither white space nor in a comment.

    A comment without an end is not skipped.
    """
    while True:
        blank = _BLANK.match(sql, position)
        position = blank.end() if blank else position
        if not _opens_comment(sql, position):
            return position
        end = _comment_end(sql, position + 2)
        if end is None:
            return position
        position = end


def blank_out(text: str) -> str:
    """As many blanks as the text is long, with its line ends kept: positions after it stay as they are."""
    return _NOT_LINE_END.sub(" ", text)


def _token(sql: str, position: int, double_quoted_identifiers: bool) -> Token:
    match = _TOKEN.match(sql, position)
    if match is None or match.lastgroup is None:
        raise AssertionError(f"no token at offset {position}")
    text, group = match.group(), match.lastgroup
    if group == "DOLLAR":
        return _dollar_quoted(sql, position, text)
    if group == "QUOTED" or (group == "DOUBLE" and double_quoted_identifiers):
        return Token(TokenKind.QUOTED, position, match.end(), text[1:-1].replace(text[0] * 2, text[0]))
    return Token(_KINDS[group], position, match.end(), text)


def _dollar_quoted(sql: str, position: int, tag: str) -> Token:
    """A string between two tags, ``$$`` or ``$name$``."""
    closing = sql.find(tag, position + len(tag))
    kind, end = (TokenKind.UNKNOWN, len(sql)) if closing < 0 else (TokenKind.STRING, closing + len(tag))
    return Token(kind, position, end, sql[position:end])


def _opens_comment(sql: str, position: int) -> bool:
    return sql[position : position + 2] == "/*" and not sql.startswith("+", position + 2)


def _comment_end(sql: str, position: int) -> int | None:
    """The end of a bracketed comment, which may hold others; None if it has none."""
    depth = 1
    while edge := _COMMENT_EDGE.search(sql, position):
        position = edge.end()
        depth += -1 if edge.group() == "*/" else 1
        if depth == 0:
            return position
    return None
