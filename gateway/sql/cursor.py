"""A place among the tokens of a statement, and the steps from it that all statements share: keywords, names, brackets.

Guarantees:

1. Only as many tokens are read as are asked for; the end is seldom a reason to read them all.
2. Steps over brackets take the same time however much they hold, after the first, which reads all tokens.
"""

from collections.abc import Iterable, Iterator, Sequence

from gateway.sql.lexer import Token, TokenKind, iterate_tokens, match_brackets
from gateway.sql.name_syntax import parse_name
from gateway.sql.statement_error import StatementError, error_at
from gateway.sql.statements import IdentifierClause, Name, TableName
from gateway.sql.table_options import literal_value

_SHOWN_CHARACTERS = 40
_BLANKS_AND_SEMICOLONS = (
    "; \t\n\f\r\x0b\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u202f\u205f\u3000"
)


class Cursor:
    """Steps over the tokens of one text; semicolons at its end are not among them.

    Args:
        sql: The text.
        double_quoted_identifiers: Whether the session reads ``"a"`` as a name.

    Attributes:
        position: The index of the current token.
        statement: What the text is, for messages.
    """

    def __init__(self, sql: str, *, double_quoted_identifiers: bool = False) -> None:
        found = iterate_tokens(sql, double_quoted_identifiers=double_quoted_identifiers)
        self._sql = sql
        self._double_quoted_identifiers = double_quoted_identifiers
        self._source = _without_last_semicolons(found)
        self._tokens: list[Token] = []
        self._closing: dict[int, int] | None = None
        self.position = 0
        self.statement = ""

    @property
    def current(self) -> Token | None:
        return self.ahead(0)

    @property
    def end(self) -> int:
        """Offset after the last token.

        All tokens are read only where the text may end in a comment. Where it ends in a string or name without an end,
        blanks and semicolons there do not count.
        """
        text = self._sql.rstrip(_BLANKS_AND_SEMICOLONS)
        line = max(text.rfind("\n"), text.rfind("\r"))
        if text and not text.endswith("*/") and "--" not in text[line + 1 :] and text[max(line - 1, 0)] != "\\":
            return len(text)
        return self.all_tokens()[-1].end if self.all_tokens() else 0

    @property
    def previous_end(self) -> int:
        """Offset after the token stepped over last."""
        return self._tokens[self.position - 1].end

    def all_tokens(self) -> Sequence[Token]:
        self._tokens.extend(self._source)
        return self._tokens

    def ahead(self, count: int) -> Token | None:
        """The token that many places after the current one."""
        return self.at(self.position + count)

    def at(self, index: int) -> Token | None:
        while len(self._tokens) <= index:
            token = next(self._source, None)
            if token is None:
                return None
            self._tokens.append(token)
        return self._tokens[index]

    def keyword(self, count: int = 0) -> str:
        """The keyword that many places after the current token; empty if there is none."""
        token = self.ahead(count)
        return "" if token is None else token.keyword

    def is_symbol(self, symbol: str, count: int = 0) -> bool:
        token = self.ahead(count)
        return token is not None and token.is_symbol(symbol)

    def take(self, *words: str) -> bool:
        """Steps over these keywords if they all come next."""
        taken = all(self.keyword(count) == word for count, word in enumerate(words))
        self.position += len(words) if taken else 0
        return taken

    def take_any(self, *words: str) -> str:
        """Steps over one of these keywords. Returns: which; empty if none comes next."""
        word = self.keyword()
        if word == "" or word not in words:
            return ""
        self.position += 1
        return word

    def take_symbol(self, symbol: str) -> bool:
        taken = self.is_symbol(symbol)
        self.position += taken
        return taken

    def take_strings(self) -> str | None:
        """Steps over the strings that come next, which are one. Returns: its value; None if it has none."""
        strings: list[Token] = []
        while (token := self.current) is not None and token.kind is TokenKind.STRING:
            strings.append(token)
            self.position += 1
        return strings_value(strings)

    def take_brackets(self) -> bool:
        """Steps over the brackets that open here and all they hold; does nothing if none do, or they have no end."""
        closing = self._closing_brackets().get(self.position)
        if closing is None:
            return False
        self.position = closing + 1
        return True

    def outside_brackets(self, start: int | None = None) -> Iterator[tuple[int, Token]]:
        """The tokens that no brackets hold, with their indices; of a pair of brackets the closing one.

        After brackets without an end is nothing.

        Args:
            start: The index of the first; None for the current token.
        """
        depth = 0
        index = self.position if start is None else start
        while (token := self.at(index)) is not None:
            if token.is_symbol("("):
                depth += 1
            else:
                depth = max(depth - token.is_symbol(")"), 0)
                if depth == 0:
                    yield index, token
            index += 1

    def part(self) -> str:
        """One part of a name.

        Raises: StatementError.
        """
        value = self.maybe_part()
        if value is None:
            raise self.expected("a name")
        return value

    def maybe_part(self) -> str | None:
        """A part of a name, also as ``IDENTIFIER('part')``; None, and no step, if none comes next."""
        at = self.position
        computed = self._identifier_clause()
        if computed is not None and computed.literal is not None:
            literal = self._parts_of(computed.literal)
            if literal is not None and len(literal) == 1:
                return literal[0]
        self.position = at
        current = self.current
        if current is None or not current.is_name:
            return None
        self.position += 1
        return current.value

    def name(self) -> TableName:
        """The name of a table or view.

        Raises: StatementError.
        """
        found = self.maybe_name()
        if found is None:
            raise self.expected("a name")
        return found

    def maybe_name(self) -> TableName | None:
        """The name of a table or view; None, and no step, if what comes next is none."""
        first, at = self.current, self.position
        computed = self._identifier_clause()
        if computed is not None and not self.is_symbol("."):
            return computed
        self.position = at
        parts = self._parts()
        if first is None or parts is None:
            self.position = at
            return None
        if None in parts:
            return IdentifierClause(first.start, self.previous_end, first.start, self.previous_end, None)
        return Name(tuple(part for part in parts if part is not None), first.start, self.previous_end)

    def column_list(self) -> tuple[str, ...]:
        """The names between brackets.

        Raises: StatementError.
        """
        if not self.take_symbol("("):
            raise self.expected("'('")
        columns = [self.part()]
        while self.take_symbol(","):
            columns.append(self.part())
        if not self.take_symbol(")"):
            raise self.expected("',' or ')'")
        return tuple(columns)

    def expected(self, what: str) -> StatementError:
        """An error at the current token."""
        current = self.current
        found = "end of input" if current is None else f"'{self._sql[current.start : current.end][:_SHOWN_CHARACTERS]}'"
        return self.error(f"Syntax error at or near {found}: expected {what} in {self.statement}.")

    def error(self, message: str, token: Token | None = None) -> StatementError:
        """An error at a token, or else at the current one."""
        at = token or self.current
        return self.error_at(message, len(self._sql) if at is None else at.start)

    def error_at(self, message: str, offset: int) -> StatementError:
        return error_at(self._sql, offset, message)

    def _parts(self) -> list[str | None] | None:
        """The parts of a name; None for one that is computed. None if none comes next, or one lacks after a dot."""
        parts: list[str | None] = []
        while True:
            computed = self._identifier_clause() if self._is_part_of_more(parts) else None
            if computed is not None:
                literal = None if computed.literal is None else self._parts_of(computed.literal)
                parts += [None] if literal is None else literal
            else:
                part = self.maybe_part()
                if part is None:
                    return None
                parts.append(part)
            if not self.take_symbol("."):
                return parts

    def _parts_of(self, text: str) -> tuple[str, ...] | None:
        return parse_name(text, double_quoted_identifiers=self._double_quoted_identifiers) or None

    def _is_part_of_more(self, before: Sequence[object]) -> bool:
        """Whether ``IDENTIFIER(…)`` here is a part of a name: there is another part before or after it."""
        if self.keyword() != "IDENTIFIER":
            return False
        closing = self._closing_brackets().get(self.position + 1)
        return bool(before) or (closing is not None and self.is_symbol(".", closing + 1 - self.position))

    def _identifier_clause(self) -> IdentifierClause | None:
        """``IDENTIFIER(argument)``; None, and no step, if none comes next."""
        first = self.current
        if first is None or self.keyword() != "IDENTIFIER" or not self.is_symbol("(", 1):
            return None
        at = self.position
        self.position += 2
        literal = self.take_strings()
        if self.position == at + 2 or not self.is_symbol(")"):
            literal = None
            self.position = self._closing_brackets().get(at + 1, at)
        if self.position <= at + 2:
            self.position = at
            return None
        argument = (self._tokens[at + 2].start, self.previous_end)
        self.position += 1
        return IdentifierClause(first.start, self.previous_end, *argument, literal)

    def _closing_brackets(self) -> dict[int, int]:
        """For each opening bracket that has an end: where."""
        if self._closing is None:
            self._closing = match_brackets(self.all_tokens())
        return self._closing


def strings_value(strings: Sequence[Token]) -> str | None:
    """The text that strings beside each other mean; None if these are none, or have an escape of no character."""
    if not strings or any(token.kind is not TokenKind.STRING for token in strings):
        return None
    values = [literal_value(token) for token in strings]
    return None if None in values else "".join(value for value in values if value is not None)


def _without_last_semicolons(found: Iterable[Token]) -> Iterator[Token]:
    held: list[Token] = []
    for token in found:
        if token.is_symbol(";"):
            held.append(token)
        else:
            yield from held
            held.clear()
            yield token
