"""Finds references to workspaces in SQL text, and decides which are tables.

Guarantees:

1. Strings and comments do not contain references. Hints can contain references, but these are never tables.
2. If the statement defines a name that is the same as a workspace name, for example an alias or a common table
   expression, the name does not refer to the workspace where a column is expected. This applies to the whole text.

Not guaranteed: a table in a place that :mod:`gateway.sql.table_walk` misses is found, but reported as a column.

Source: [temporary-tables §5.1.10], [spark-sql-grammar multipartIdentifier].
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gateway.sql.lexer import Token, blank_out
from gateway.sql.table_walk import FoundName, TableWalk
from workspace.name_comparison import comparable_name

_SESSION_SCHEMAS = frozenset({("session",), ("system", "session")})


@dataclass(frozen=True, slots=True)
class Reference:
    """A multipart name that begins with the name of a workspace.

    Attributes:
        start: Offset of the first character of the name.
        end: Offset after the last character of the name.
        workspace_parts: The number of parts that form the workspace name.
        parts: All parts of the name, without quotes.
        is_table: Whether the name refers to a table. Otherwise, it is the start of a column name, or is in a hint.
        is_ambiguous: Whether the name is the start of a column name, and the statement also reads another table with
            the same table name.
    """

    start: int
    end: int
    workspace_parts: int
    parts: tuple[str, ...]
    is_table: bool
    is_ambiguous: bool = False


def find_references(tokens: Sequence[Token], count_workspace_parts: Callable[[Sequence[str]], int]) -> list[Reference]:
    """Return all references in a SQL text, in order.

    Args:
        tokens: All tokens of the text. To find names in ``IDENTIFIER(…)``, pass the tokens from
            :func:`gateway.sql.identifier_clauses.resolve_identifier_clauses`.
        count_workspace_parts: A function that returns how many leading parts of a name form a workspace name. 0 if the
            name does not begin with a workspace name.
    """
    return _ReferenceFinder(tokens, count_workspace_parts).find_references()


def replace_spans(sql: str, spans: Sequence[tuple[int, int, str]]) -> str:
    """Replace each span (start, end, replacement) of a SQL text.

    Replacements that are shorter than their span are padded with spaces, so that later positions do not change.

    Args:
        sql: The SQL text.
        spans: The spans, ordered by their start. They must not overlap.
    """
    pieces, position = [], 0
    for start, end, replacement in spans:
        pieces += [sql[position:start], replacement, blank_out(sql[start + len(replacement) : end])]
        position = end
    return "".join([*pieces, sql[position:]])


class _ReferenceFinder:
    """Finds references in a single walk over the tokens of a text."""

    def __init__(self, tokens: Sequence[Token], count_workspace_parts: Callable[[Sequence[str]], int]) -> None:
        self._tokens = tokens
        self._walk = TableWalk(tokens)
        self._count_workspace_parts = count_workspace_parts
        self._tables_and_hints: list[Reference] = []
        self._columns: list[Reference] = []
        self._unqualified_tables = set[str]()
        self._other_tables = set[str]()

    def find_references(self) -> list[Reference]:
        for name in self._walk.names():
            chain = self._tokens[name.position : name.end : 2]
            if name.is_table:
                self._collect_table(chain)
            self._collect_reference(name, chain)
        walk = self._walk
        others = self._other_tables | walk.aliases | (self._unqualified_tables & walk.common_tables)
        visible = [
            replace(column, is_ambiguous=comparable_name(column.parts[column.workspace_parts]) in others)
            for column in self._columns
            if comparable_name(column.parts[0]) not in walk.definitions
        ]
        return sorted([*self._tables_and_hints, *visible], key=lambda reference: reference.start)

    def _collect_reference(self, name: FoundName, chain: Sequence[Token]) -> None:
        if len(chain) == 1 or self._walk.is_symbol(name.position - 1, ".:"):
            return
        parts = tuple(token.value for token in chain)
        count = self._count_workspace_parts(parts)
        if not 0 < count < len(parts) or (not name.is_table and self._walk.is_symbol(name.end, "(")):
            return
        reference = Reference(chain[0].start, chain[-1].end, count, parts, name.is_table)
        (self._tables_and_hints if name.is_table or name.in_hint else self._columns).append(reference)

    def _collect_table(self, chain: Sequence[Token]) -> None:
        """Collect a table name that can qualify columns but is not in a workspace."""
        parts = tuple(comparable_name(token.value) for token in chain)
        if len(parts) == 1:
            self._unqualified_tables.add(parts[0])
        elif parts[:-1] not in _SESSION_SCHEMAS and self._count_workspace_parts(parts) == 0:
            self._other_tables.add(parts[-1])
