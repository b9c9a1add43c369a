"""A cursor over the tokens of a statement, with the operations that parsers need.

Methods named ``take_…`` step over the expected tokens, or do nothing if other tokens come next. Methods named
``expect_…`` raise an error if other tokens come next.

Guarantees:

1. The cursor reads only as many tokens as its callers request. Finding the end of the text rarely requires reading all
   tokens.
2. Stepping over brackets takes constant time, regardless of their content. Only the first such step reads all tokens.
"""

from collections.abc import Iterable, Iterator, Sequence

from gateway.sql.lexer import DEFAULT_DIALECT, Dialect, Token, TokenKind, match_brackets, read_tokens
from gateway.sql.name_syntax import parse_name
from gateway.sql.statement_error import StatementError, error_at
from gateway.sql.statements import IdentifierClause, Name, TableName
from gateway.sql.string_literals import read_strings

_SHOWN_CHARACTERS = 40
_BLANKS_AND_SEMICOLONS = (
    "; \t\n\f\r\x0b\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u202f\u205f\u3000"
)


class Cursor:
    """A position in the tokens of a SQL text. Semicolons at the end are ignored.

    Args:
        sql: The SQL text.
        dialect: The dialect of the session.

    Attributes:
        text: The SQL text.
        dialect: The dialect of the session.
        position: The index of the current token.
        statement: The kind of statement, for use in error messages.
    """

    def __init__(self, sql: str, dialect: Dialect = DEFAULT_DIALECT) -> None:
        self.text = sql
        self._source = _without_last_semicolons(read_tokens(sql, dialect))
        self._tokens: list[Token] = []
        self._closing: dict[int, int] | None = None
        self.dialect = dialect
        self.position = 0
        self.statement = ""

    @property
    def current(self) -> Token | None:
        return self.peek(0)

    @property
    def end(self) -> int:
        """Offset after the last token.

        All tokens are read only if the text may end in a comment. If the text ends in an unterminated string or name,
        trailing whitespace and semicolons are not part of this string or name.
        """
        text = self.text.rstrip(_BLANKS_AND_SEMICOLONS)
        line = max(text.rfind("\n"), text.rfind("\r"))
        if text and not text.endswith("*/") and "--" not in text[line + 1 :] and text[max(line - 1, 0)] != "\\":
            return len(text)
        return self.all_tokens()[-1].end if self.all_tokens() else 0

    @property
    def previous_end(self) -> int:
        """Offset after the token before the current token."""
        return self._tokens[self.position - 1].end

    def end_before(self, index: int) -> int:
        """Return the offset after the token before an index."""
        return self.all_tokens()[index - 1].end

    def text_from(self, start: int) -> str:
        """Return the text from an offset to the end of the token before the current token."""
        return self.text[start : self.previous_end]

    def all_tokens(self) -> Sequence[Token]:
        self._tokens.extend(self._source)
        return self._tokens

    def peek(self, count: int) -> Token | None:
        """Return the token that is ``count`` places after the current token."""
        return self.at(self.position + count)

    def at(self, index: int) -> Token | None:
        while len(self._tokens) <= index:
            token = next(self._source, None)
            if token is None:
                return None
            self._tokens.append(token)
        return self._tokens[index]

    def keyword(self, count: int = 0) -> str:
        """Return the keyword that is ``count`` places ahead. Empty if there is none."""
        token = self.peek(count)
        return "" if token is None else token.keyword

    def is_symbol(self, symbol: str, count: int = 0) -> bool:
        token = self.peek(count)
        return token is not None and token.is_symbol(symbol)

    def take(self, *words: str) -> bool:
        """Step over the given keywords if all of them come next.

        Returns:
            Whether the keywords came next.
        """
        taken = all(self.keyword(count) == word for count, word in enumerate(words))
        self.position += len(words) if taken else 0
        return taken

    def take_any(self, *words: str) -> str:
        """Step over one of the given keywords.

        Returns:
            The keyword. Empty if none of the keywords comes next.
        """
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
        """Step over adjacent string literals.

        Returns:
            The combined value of the literals. None if there is no literal, or an escape sequence does not represent a
            character.
        """
        start = self.position
        while (token := self.current) is not None and token.kind is TokenKind.STRING:
            self.position += 1
        return read_strings(self._tokens[start : self.position])

    def take_brackets(self) -> bool:
        """Step over the brackets that open at the current token, and over their content.

        Returns:
            True after this step. False if no bracket opens here, or the bracket is not closed.
        """
        closing = self._closing_brackets().get(self.position)
        if closing is None:
            return False
        self.position = closing + 1
        return True

    def outside_brackets(self, start: int | None = None) -> Iterator[tuple[int, Token]]:
        """Yield the tokens outside brackets, together with their indices.

        For a pair of brackets, only the closing bracket is yielded. After an opening bracket that is not closed, no
        tokens are yielded.

        Args:
            start: The index of the first token. None for the current token.
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

    def take_part(self) -> str | None:
        """Step over one part of a name, which can be ``IDENTIFIER('part')``."""
        start = self.position
        clause, parts = self._take_identifier_clause()
        if clause is not None and len(parts) == 1:
            return parts[0]
        self.position = start
        current = self.current
        if current is None or not current.is_name:
            return None
        self.position += 1
        return current.value

    def expect_part(self) -> str:
        """Step over one part of a name.

        Raises:
            StatementError: If the next token is not part of a name.
        """
        value = self.take_part()
        if value is None:
            raise self.syntax_error("a name")
        return value

    def take_name(self) -> TableName | None:
        """Step over the name of a table or view."""
        first, start = self.current, self.position
        clause, _ = self._take_identifier_clause()
        if clause is not None and not self.is_symbol("."):
            return clause
        self.position = start
        parts = self._take_parts()
        if first is None or parts is None:
            self.position = start
            return None
        if None in parts:
            return IdentifierClause(first.start, self.previous_end, first.start, self.previous_end)
        return Name(tuple(part for part in parts if part is not None), first.start, self.previous_end)

    def expect_name(self) -> TableName:
        """Step over the name of a table or view.

        Raises:
            StatementError: If the next token is not part of a name.
        """
        name = self.take_name()
        if name is None:
            raise self.syntax_error("a name")
        return name

    def expect_columns(self) -> tuple[str, ...]:
        """Step over a list of names in brackets.

        Raises:
            StatementError: If the next tokens are not a list of names.
        """
        if not self.take_symbol("("):
            raise self.syntax_error("'('")
        columns = [self.expect_part()]
        while self.take_symbol(","):
            columns.append(self.expect_part())
        if not self.take_symbol(")"):
            raise self.syntax_error("',' or ')'")
        return tuple(columns)

    def syntax_error(self, expected: str) -> StatementError:
        """Return the error for an unexpected current token."""
        current = self.current
        found = "end of input" if current is None else f"'{self.text[current.start : current.end][:_SHOWN_CHARACTERS]}'"
        return self.error(f"Syntax error at or near {found}: expected {expected} in {self.statement}.")

    def error(self, message: str, token: Token | None = None) -> StatementError:
        """Return an error at the position of a token. The default is the current token."""
        at = token or self.current
        return error_at(self.text, len(self.text) if at is None else at.start, message)

    def error_at(self, message: str, offset: int) -> StatementError:
        return error_at(self.text, offset, message)

    def _take_parts(self) -> list[str | None] | None:
        """Step over all parts of a name. A part is None if only Spark can compute it."""
        parts: list[str | None] = []
        while True:
            clause, known = self._take_identifier_clause() if self._is_part_of_longer_name(parts) else (None, ())
            if clause is not None:
                parts += known or [None]
            else:
                part = self.take_part()
                if part is None:
                    return None
                parts.append(part)
            if not self.take_symbol("."):
                return parts

    def _is_part_of_longer_name(self, before: Sequence[object]) -> bool:
        """Return whether ``IDENTIFIER(…)`` at the cursor is only one part of a name."""
        if self.keyword() != "IDENTIFIER":
            return False
        closing = self._closing_brackets().get(self.position + 1)
        return bool(before) or (closing is not None and self.is_symbol(".", closing + 1 - self.position))

    def _take_identifier_clause(self) -> tuple[IdentifierClause | None, tuple[str, ...]]:
        """Step over ``IDENTIFIER(argument)``.

        Returns:
            The clause, and the parts of its name. The clause is None if there is no such clause. The parts are empty if
            the argument is not a literal. In a longer name, Spark reads the argument as a literal and not as an
            expression.
        """
        first, start = self.current, self.position
        if first is None or self.keyword() != "IDENTIFIER" or not self.is_symbol("(", 1):
            return None, ()
        self.position += 2
        text = self.take_strings()
        if self.position == start + 2 or not self.is_symbol(")"):
            text = None
            self.position = self._closing_brackets().get(start + 1, start)
        if self.position <= start + 2:
            self.position = start
            return None, ()
        argument = (self._tokens[start + 2].start, self.previous_end)
        self.position += 1
        parts = () if text is None else parse_name(text, self.dialect)
        return IdentifierClause(first.start, self.previous_end, *argument), parts

    def _closing_brackets(self) -> dict[int, int]:
        """Return the index of the matching closing bracket for each opening bracket."""
        if self._closing is None:
            self._closing = match_brackets(self.all_tokens())
        return self._closing


def _without_last_semicolons(tokens: Iterable[Token]) -> Iterator[Token]:
    pending: list[Token] = []
    for token in tokens:
        if token.is_symbol(";"):
            pending.append(token)
        else:
            yield from pending
            pending.clear()
            yield token
