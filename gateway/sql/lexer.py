"""Spark SQL's tokens, with their places in the text.

Why it exists: Lodge replaces spans of a statement and never writes one anew, so it must see names exactly where Spark
sees them: not in strings, not in comments, but in hints.

Guarantee: the tokens are in order and do not overlap; between them is nothing but white space and comments. The time
is linear in the length of the text.

Source: Spark: SqlBaseLexer.g4.
"""

import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass


class Kind(enum.Enum):
    """What a token is. ``UNKNOWN`` is a string or comment that does not end, up to the end of the text."""

    WORD = enum.auto()
    QUOTED = enum.auto()
    STRING = enum.auto()
    NUMBER = enum.auto()
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

    kind: Kind
    start: int
    end: int
    value: str

    @property
    def is_name(self) -> bool:
        return self.kind in (Kind.WORD, Kind.QUOTED)

    def is_word(self, *words: str) -> bool:
        """Whether it is one of these keywords (lower case)."""
        return self.kind is Kind.WORD and self.value.lower() in words


_TOKEN = re.compile(
    r"""
      (?P<space>\s+ | --(?:\\\n|[^\r\n])*)
    | (?P<hint>/\*\+)
    | (?P<comment>/\*)
    | (?P<hint_close>\*/)
    | (?P<raw>[rR](?:'[^']*'|"[^"]*"))
    | (?P<string>'(?:[^'\\]|\\.)*')
    | (?P<double>"(?:[^"\\]|\\.)*")
    | (?P<quoted>`(?:[^`]|``)*`)
    | (?P<number>\d+\.\d*(?:[eE][+-]?\d+)?(?:[A-Za-z]{1,2})?(?!\w) | \.\d+(?:[eE][+-]?\d+)?(?:[A-Za-z]{1,2})?(?!\w)
               | \d+[eE][+-]?\d+(?!\w))
    | (?P<word>\w+)
    | (?P<open>['"`])
    | (?P<symbol>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_KINDS = {
    "raw": Kind.STRING,
    "string": Kind.STRING,
    "number": Kind.NUMBER,
    "word": Kind.WORD,
    "symbol": Kind.SYMBOL,
    "hint": Kind.HINT_OPEN,
    "hint_close": Kind.HINT_CLOSE,
}


def tokens(sql: str, *, double_quoted_identifiers: bool = False) -> list[Token]:
    """All tokens of a text.

    Args:
        sql: The text.
        double_quoted_identifiers: Whether the session reads ``"a"`` as a name
            (``spark.sql.ansi.doubleQuotedIdentifiers``).
    """
    return list(_tokens(sql, double_quoted_identifiers))


def _tokens(sql: str, double_quoted_identifiers: bool) -> Iterator[Token]:
    position = 0
    while match := _TOKEN.match(sql, position):
        group, start, position = match.lastgroup, match.start(), match.end()
        text = match.group()
        if group == "space":
            continue
        if group == "comment":
            end = _comment_end(sql, position)
            if end is None:
                yield Token(Kind.UNKNOWN, start, len(sql), sql[start:])
                return
            position = end
        elif group == "open":
            yield Token(Kind.UNKNOWN, start, len(sql), sql[start:])
            return
        elif group == "quoted":
            yield Token(Kind.QUOTED, start, position, text[1:-1].replace("``", "`"))
        elif group == "double" and double_quoted_identifiers:
            yield Token(Kind.QUOTED, start, position, text[1:-1])
        else:
            yield Token(_KINDS.get(group or "", Kind.STRING), start, position, text)


def _comment_end(sql: str, position: int) -> int | None:
    """The end of a bracketed comment, which may hold others."""
    depth = 1
    while edge := _COMMENT_EDGE.search(sql, position):
        position = edge.end()
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return position
    return None
