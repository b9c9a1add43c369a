"""References by workspace name in SQL text: where they are, and whether each stands for a table or for a column.

Guarantees:

1. Nothing in a string or a comment is a reference; what is in a hint is one.
2. A name that a statement defines itself (an alias, a common table expression) hides a workspace of the same name
   where columns are meant.

Source: seed 001, 5.1.10; Spark: SqlBaseParser.g4 (fromClause, relation, multipartIdentifier).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gateway.sql.lexer import Kind, Token, tokens

_OPENS_TABLE = frozenset({"from", "join", "into", "table", "overwrite", "update", "describe", "desc", "using"})
_KEEPS_TABLE = frozenset({"extended", "formatted", "lateral", "only"})
_ENDS_FROM = frozenset(
    {
        "where",
        "group",
        "order",
        "having",
        "on",
        "select",
        "union",
        "intersect",
        "except",
        "minus",
        "limit",
        "offset",
        "window",
        "qualify",
        "cluster",
        "distribute",
        "sort",
        "set",
        "values",
        "when",
        "tablesample",
        "pivot",
        "unpivot",
    }
)


@dataclass(frozen=True, slots=True)
class Reference:
    """A name of several parts that begins with a workspace.

    Attributes:
        start: Offset of its first character.
        end: Offset after its last character.
        workspace_parts: How many of its parts name the workspace.
        parts: All its parts, without quotes.
        is_table: Whether it stands where a table is meant; else it begins a column, or is in a hint.
    """

    start: int
    end: int
    workspace_parts: int
    parts: tuple[str, ...]
    is_table: bool


def find_references(
    sql: str, workspace_parts: Callable[[Sequence[str]], int], *, double_quoted_identifiers: bool = False
) -> list[Reference]:
    """All references in a text.

    Args:
        sql: The text.
        workspace_parts: How many leading parts of a name are a workspace; 0 if it begins with none.
        double_quoted_identifiers: Whether the session reads ``"a"`` as a name.
    """
    found = tokens(sql, double_quoted_identifiers=double_quoted_identifiers)
    return _Finder(found, workspace_parts).references()


def replace_spans(sql: str, spans: Sequence[tuple[int, int, str]]) -> str:
    """The text with each span (start, end, replacement) replaced; a shorter replacement is filled up with blanks.

    Args:
        sql: The text.
        spans: In order of their start, not overlapping.
    """
    pieces, position = [], 0
    for start, end, replacement in spans:
        pieces += [sql[position:start], replacement.ljust(end - start)]
        position = end
    return "".join([*pieces, sql[position:]])


class _Finder:
    """Walks the tokens once, and knows for each depth of parentheses whether it is among the tables of a query."""

    def __init__(self, found: Sequence[Token], workspace_parts: Callable[[Sequence[str]], int]) -> None:
        self._tokens = found
        self._workspace_parts = workspace_parts
        self._in_from = [False]
        self._expects_table = False
        self._in_hint = False
        self._hidden = _defined_names(found)

    def references(self) -> list[Reference]:
        references: list[Reference] = []
        position = 0
        while position < len(self._tokens):
            token = self._tokens[position]
            if not token.is_name:
                self._see_symbol(token)
                position += 1
                continue
            chain, following = self._chain(position)
            reference = self._reference(chain, following)
            if reference is not None:
                references.append(reference)
            if len(chain) == 1:
                self._see_word(token)
            else:
                self._expects_table = False
            position = following
        return references

    def _chain(self, position: int) -> tuple[Sequence[Token], int]:
        """The names joined by dots from here on, and the position after them."""
        chain = [self._tokens[position]]
        position += 1
        while (
            position + 1 < len(self._tokens)
            and self._tokens[position].value == "."
            and self._tokens[position].kind is Kind.SYMBOL
            and self._tokens[position + 1].is_name
        ):
            chain.append(self._tokens[position + 1])
            position += 2
        return chain, position

    def _reference(self, chain: Sequence[Token], following: int) -> Reference | None:
        parts = tuple(token.value for token in chain)
        count = self._workspace_parts(parts) if len(parts) > 1 else 0
        if count in (0, len(parts)):
            return None
        is_table = self._expects_table and not self._in_hint
        is_call = following < len(self._tokens) and self._tokens[following].value == "("
        if not is_table and (is_call or parts[0].casefold() in self._hidden):
            return None
        return Reference(chain[0].start, chain[-1].end, count, parts, is_table)

    def _see_word(self, token: Token) -> None:
        word = token.value.lower() if token.kind is Kind.WORD else ""
        if word in _OPENS_TABLE:
            self._expects_table = True
            self._in_from[-1] = word in {"from", "join", "using"} or self._in_from[-1]
        elif word in _ENDS_FROM:
            self._expects_table = self._in_from[-1] = False
        elif word not in _KEEPS_TABLE:
            self._expects_table = False

    def _see_symbol(self, token: Token) -> None:
        if token.kind is Kind.HINT_OPEN:
            self._in_hint = True
        elif token.kind is Kind.HINT_CLOSE:
            self._in_hint = False
        elif token.value == "(":
            self._in_from.append(self._expects_table)
        elif token.value == ")":
            if len(self._in_from) > 1:
                self._in_from.pop()
            self._expects_table = False
        elif token.value == ",":
            self._expects_table = self._in_from[-1]
        elif token.value == ";":
            self._in_from, self._expects_table = [False], False
        else:
            self._expects_table = False


def _defined_names(found: Sequence[Token]) -> frozenset[str]:
    """Single names that the statement gives: after AS, before AS ( and right after a table or a subquery."""
    names = set[str]()
    for before, token, after in zip((None, *found), found, (*found[1:], None), strict=False):
        if not token.is_name or (after is not None and after.value == "."):
            continue
        if before is not None and before.value == ".":
            continue
        follows_as = before is not None and before.is_word("as")
        follows_item = (
            before is not None
            and (before.value == ")" or before.is_name)
            and not before.is_word(*_OPENS_TABLE, *_ENDS_FROM)
        )
        precedes_as = after is not None and after.is_word("as")
        if follows_as or follows_item or precedes_as:
            names.add(token.value.casefold())
    return frozenset(names)
