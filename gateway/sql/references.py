"""References by workspace name in SQL text: where they are, and whether each stands for a table or for a column.

Guarantees:

1. Nothing in a string or a comment is a reference; what is in a hint is one, and none for a table.
2. A name that a statement defines itself (an alias, a common table expression) hides a workspace of the same name
   where columns are meant, anywhere in the text.

3. A name in ``IDENTIFIER(…)`` whose value is known is found like any other, as a whole or as a part of a longer name.

Not guaranteed: that each table position is known; the clauses are followed, not parsed. What is taken for a column by
mistake is still found.

Source: seed 001, 5.1.10; Spark: SqlBaseParser.g4 (fromClause, relation, multipartIdentifier, compoundStatement).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gateway.sql.identifier_clauses import resolve_identifier_clauses
from gateway.sql.lexer import Token, TokenKind, blank_out, tokenize
from gateway.sql.parameters import NO_PARAMETERS, Parameters

_OPENS_TABLE = frozenset({"FROM", "JOIN", "INTO", "TABLE", "OVERWRITE", "UPDATE", "DESCRIBE", "DESC", "USING"})
_KEEPS_TABLE = frozenset({"EXTENDED", "FORMATTED", "LATERAL", "IF", "NOT", "EXISTS"})
_LISTED_OF = frozenset({"COLUMNS", "PARTITIONS", "TBLPROPERTIES"})
_DEFINES_NEXT = frozenset({"AS", "WITH", "RECURSIVE", "FOR", "DECLARE", "VARIABLE"})
_OF_SESSION = frozenset({("session",), ("system", "session")})
_KEEPS_ITEM = frozenset({"TABLESAMPLE", "PIVOT", "UNPIVOT"})
_ENDS_FROM = frozenset(
    {"SELECT", "WHERE", "GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "WINDOW"}
    | {"QUALIFY", "UNION", "INTERSECT", "EXCEPT", "MINUS", "SET", "VALUES", "VIEW"}
)
_CALLS_WITH_FROM = frozenset({"EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "OVERLAY"})


@dataclass(frozen=True, slots=True)
class Reference:
    """A name of several parts that begins with a workspace.

    Attributes:
        start: Offset of its first character.
        end: Offset after its last character.
        workspace_parts: How many of its parts name the workspace.
        parts: All its parts, without quotes.
        is_table: Whether it stands where a table is meant; else it begins a column, or is in a hint.
        is_ambiguous: Whether it begins a column, and the statement reads something else by the name of its table.
    """

    start: int
    end: int
    workspace_parts: int
    parts: tuple[str, ...]
    is_table: bool
    is_ambiguous: bool = False


def find_references(
    sql: str,
    is_workspace: Callable[[Sequence[str]], int],
    *,
    double_quoted_identifiers: bool = False,
    parameters: Parameters = NO_PARAMETERS,
) -> list[Reference]:
    """All references in a text, in order.

    Args:
        sql: The text.
        is_workspace: How many leading parts of a name are a workspace; 0 if it begins with none.
        double_quoted_identifiers: Whether the session reads ``"a"`` as a name.
        parameters: What the parameters of the text stand for.
    """
    found = tokenize(sql, double_quoted_identifiers=double_quoted_identifiers)
    return find_references_in_tokens(resolve_identifier_clauses(found, parameters)[0], is_workspace)


def find_references_in_tokens(found: Sequence[Token], is_workspace: Callable[[Sequence[str]], int]) -> list[Reference]:
    """The same, of the tokens of a text."""
    return _Finder(found, is_workspace).references()


def replace_spans(sql: str, spans: Sequence[tuple[int, int, str]]) -> str:
    """The text with each span (start, end, replacement) replaced.

    A shorter replacement is filled up with blanks to the span's length, so that positions after it stay as they are.

    Args:
        sql: The text.
        spans: In order of their start, not overlapping.
    """
    pieces, position = [], 0
    for start, end, replacement in spans:
        pieces += [sql[position:start], replacement, blank_out(sql[start + len(replacement) : end])]
        position = end
    return "".join([*pieces, sql[position:]])


@dataclass(slots=True)
class _Frame:
    """Where in a query the walk stands, at one depth of parentheses.

    Attributes:
        opener: The token before the opening parenthesis.
        is_item: Whether the parentheses are, or end, an item of a from-list.
        expects_table: Whether a name that comes next is a table's.
        in_from: Whether a comma leads to the next table.
        after_item: Whether a name that comes next is an alias.
        merges: Whether it is in a ``MERGE``, whose ``USING`` leads to a table.
    """

    opener: Token | None = None
    is_item: bool = False
    expects_table: bool = False
    in_from: bool = False
    after_item: bool = False
    merges: bool = False


class _Finder:
    """Walks the tokens once."""

    def __init__(self, found: Sequence[Token], is_workspace: Callable[[Sequence[str]], int]) -> None:
        self._tokens = found
        self._is_workspace = is_workspace
        self._frames = [_Frame()]
        self._in_hint = False
        self._tables_and_hints: list[Reference] = []
        self._columns: list[Reference] = []
        self._hidden = set[str]()
        self._common_tables = set[str]()
        self._read_plain = set[str]()
        self._read_otherwise = set[str]()

    def references(self) -> list[Reference]:
        position = 0
        while position < len(self._tokens):
            token = self._tokens[position]
            following = self._chain_end(position) if token.is_name else position + 1
            if token.is_name:
                self._collect(position, following)
            if token.kind in (TokenKind.HINT_OPEN, TokenKind.HINT_CLOSE):
                self._in_hint = token.kind is TokenKind.HINT_OPEN
            elif not self._in_hint:
                self._step(position, following)
            position = following
        others = self._read_otherwise | (self._read_plain & self._common_tables)
        visible = [
            replace(column, is_ambiguous=column.parts[column.workspace_parts].casefold() in others)
            for column in self._columns
            if column.parts[0].casefold() not in self._hidden
        ]
        return sorted([*self._tables_and_hints, *visible], key=lambda reference: reference.start)

    def _at(self, position: int) -> Token | None:
        return self._tokens[position] if 0 <= position < len(self._tokens) else None

    def _keyword(self, position: int) -> str:
        token = self._at(position)
        return "" if token is None else token.keyword

    def _is_symbol(self, position: int, symbols: str) -> bool:
        token = self._at(position)
        return token is not None and token.kind is TokenKind.SYMBOL and token.value in symbols

    def _chain_end(self, position: int) -> int:
        """The position after the names that are joined by dots from here on."""
        position += 1
        while self._is_symbol(position, "."):
            part = self._at(position + 1)
            if part is None or not part.is_name:
                break
            position += 2
        return position

    def _collect(self, position: int, following: int) -> None:
        chain = self._tokens[position:following:2]
        self._note_table(chain)
        if len(chain) == 1 or self._is_symbol(position - 1, ".:"):
            return
        parts = tuple(token.value for token in chain)
        count = self._is_workspace(parts)
        if not 0 < count < len(parts):
            return
        is_table = self._frames[-1].expects_table and not self._in_hint
        if not is_table and self._is_symbol(following, "("):
            return
        reference = Reference(chain[0].start, chain[-1].end, count, parts, is_table)
        (self._tables_and_hints if is_table or self._in_hint else self._columns).append(reference)

    def _note_table(self, chain: Sequence[Token]) -> None:
        """Keeps the name by which columns of a table are called, if it is not one by a workspace."""
        if self._in_hint or not self._frames[-1].expects_table:
            return
        parts = tuple(token.value.casefold() for token in chain)
        if len(parts) == 1:
            self._read_plain.add(parts[0])
        elif parts[:-1] not in _OF_SESSION and self._is_workspace(parts) == 0:
            self._read_otherwise.add(parts[-1])

    def _step(self, position: int, following: int) -> None:
        """Moves the frames over a chain of names or a single other token."""
        if following == position + 1 and self._tokens[position].is_name:
            self._hide_defined(position)
        if following == position + 1 and self._keyword(position):
            self._see_word(position)
        elif self._tokens[position].is_name:
            self._see_name()
        elif self._is_symbol(position, "()"):
            self._see_parenthesis(position)
        else:
            self._see_symbol(position)

    def _hide_defined(self, position: int) -> None:
        """A single name is defined after AS, after an item of a from-list, after WITH and before AS ( of a query; in
        a script also by a declaration, as a loop's variable or as a label."""
        defined = (
            self._keyword(position - 1) in _DEFINES_NEXT
            or self._frames[-1].after_item
            or self._is_symbol(position + 1, ":")
            or self._begins_definition(position + 1)
        )
        name = self._tokens[position].value.casefold()
        if defined:
            self._hidden.add(name)
        if self._begins_definition(position + 1) or self._keyword(position - 1) in {"WITH", "RECURSIVE"}:
            self._common_tables.add(name)
        elif self._frames[-1].after_item:
            self._note_alias(position, name)

    def _note_alias(self, position: int, name: str) -> None:
        """An alias that is the table's own name, as in ``dfs.tmp.t AS t``, means nothing else."""
        before = self._tokens[position - (2 if self._keyword(position - 1) == "AS" else 1)]
        if not (before.is_name and before.value.casefold() == name):
            self._read_otherwise.add(name)

    def _begins_definition(self, position: int) -> bool:
        return self._keyword(position) == "AS" and self._is_symbol(position + 1, "(")

    def _see_word(self, position: int) -> None:
        frame, word = self._frames[-1], self._keyword(position)
        if word in _OPENS_TABLE or self._opens_listed(position):
            frame.expects_table = self._opens_table(position)
            frame.in_from = frame.in_from or (word == "FROM" and frame.expects_table)
            frame.after_item = False
        elif word in _ENDS_FROM or (word == "WHEN" and frame.merges):
            frame.expects_table = frame.in_from = frame.after_item = False
        elif frame.expects_table and word in _KEEPS_TABLE:
            pass
        elif word not in {"AS", *_KEEPS_ITEM}:
            frame.merges = frame.merges or word == "MERGE"
            self._see_name()

    def _opens_table(self, position: int) -> bool:
        """Whether a keyword leads to a table: not FROM in a function's arguments, nor the USING of a join."""
        frame, word = self._frames[-1], self._keyword(position)
        if word == "USING":
            return frame.merges
        if word != "FROM":
            return True
        in_call = frame.opener is not None and frame.opener.keyword in _CALLS_WITH_FROM
        return not in_call and self._keyword(position - 1) != "DISTINCT"

    def _opens_listed(self, position: int) -> bool:
        """``SHOW COLUMNS IN t``, ``SHOW PARTITIONS t``, ``SHOW TBLPROPERTIES t``, ``CREATE TABLE a LIKE t``."""
        word, before = self._keyword(position), self._keyword(position - 1)
        if word == "IN":
            return before == "COLUMNS"
        if word == "LIKE":
            return self._frames[-1].after_item and self._tokens[0].keyword == "CREATE"
        return before == "SHOW" and word in _LISTED_OF and word != "COLUMNS"

    def _see_name(self) -> None:
        frame = self._frames[-1]
        frame.after_item, frame.expects_table = frame.expects_table, False

    def _see_parenthesis(self, position: int) -> None:
        frame = self._frames[-1]
        if self._is_symbol(position, "("):
            is_table = frame.expects_table
            self._frames.append(
                _Frame(
                    opener=self._at(position - 1),
                    is_item=is_table or frame.after_item,
                    expects_table=is_table,
                    in_from=is_table,
                )
            )
            return
        if len(self._frames) > 1:
            self._frames.pop()
        self._frames[-1].expects_table = False
        self._frames[-1].after_item = frame.is_item
        if frame.opener is not None and self._begins_definition(position + 1):
            self._hidden.add(frame.opener.value.casefold())
            self._common_tables.add(frame.opener.value.casefold())

    def _see_symbol(self, position: int) -> None:
        frame = self._frames[-1]
        if self._is_symbol(position, ";"):
            self._frames = [_Frame()]
            return
        if self._is_symbol(position, ">") and self._is_symbol(position - 1, "|"):
            frame.in_from = False
        frame.expects_table = frame.in_from and self._is_symbol(position, ",")
        frame.after_item = False
