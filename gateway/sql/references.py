"""Finds references to workspaces in SQL text, and decides which are tables.

Guarantees:

1. Strings and comments do not contain references. Hints can contain references, but these are never tables.
2. If the statement defines a name that is the same as a workspace name, for example an alias or a common table
   expression, the name does not refer to the workspace where a column is expected. This applies to the whole text.

Not guaranteed: the finder follows the clauses without parsing them, so it may miss a place where a table is expected. A
table in such a place is still found, but reported as a column.

Source: [temporary-tables §5.1.10], [spark-sql-grammar fromClause], [spark-sql-grammar relation],
[spark-sql-grammar multipartIdentifier], [spark-sql-grammar compoundStatement].
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from gateway.sql.lexer import Token, TokenKind, blank_out, match_brackets
from workspace.name_comparison import comparable_name

_BEFORE_TABLE = frozenset({"FROM", "JOIN", "INTO", "TABLE", "OVERWRITE", "UPDATE", "DESCRIBE", "DESC", "USING"})
_SKIPPED_BEFORE_TABLE = frozenset({"EXTENDED", "FORMATTED", "LATERAL", "IF", "NOT", "EXISTS"})
_SHOWN_OF_TABLE = frozenset({"COLUMNS", "PARTITIONS", "TBLPROPERTIES"})
_BEFORE_DEFINITION = frozenset({"AS", "WITH", "RECURSIVE", "FOR", "DECLARE", "VARIABLE"})
_SESSION_SCHEMAS = frozenset({("session",), ("system", "session")})
_AFTER_TABLE = frozenset({"TABLESAMPLE", "PIVOT", "UNPIVOT"})
_ENDS_FROM = frozenset(
    {"SELECT", "WHERE", "GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "WINDOW"}
    | {"QUALIFY", "UNION", "INTERSECT", "EXCEPT", "MINUS", "SET", "VALUES", "VIEW"}
)
_BEFORE_BY = frozenset({"GROUP", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE"})
_AFTER_ALIAS = frozenset({"JOIN", "CROSS", "INNER", "NATURAL", "FULL", "ANTI", "SEMI", "ON", "USING"})
_SIDES = frozenset({"LEFT", "RIGHT"})
_CALLS_WITH_FROM = frozenset({"EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "OVERLAY"})


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


@dataclass(slots=True)
class _Frame:
    """The state of the finder at one nesting level of parentheses.

    Attributes:
        opener: The token before the opening parenthesis.
        is_item: Whether the parentheses are an item of a ``FROM`` list, or the end of such an item.
        expects_table: Whether a name at this position refers to a table.
        in_from: Whether a comma at this position is followed by a table.
        after_item: Whether a name at this position is an alias.
        in_rows: Whether a comma at this position is followed by a row of ``FROM VALUES``, not by a table.
        merges: Whether the statement is ``MERGE``, in which ``USING`` is followed by a table.
    """

    opener: Token | None = None
    is_item: bool = False
    expects_table: bool = False
    in_from: bool = False
    after_item: bool = False
    in_rows: bool = False
    merges: bool = False


class _ReferenceFinder:
    """Finds references in a single pass over the tokens of a text."""

    def __init__(self, tokens: Sequence[Token], count_workspace_parts: Callable[[Sequence[str]], int]) -> None:
        self._tokens = tokens
        self._count_workspace_parts = count_workspace_parts
        self._frames = [_Frame()]
        self._in_hint = False
        self._tables_and_hints: list[Reference] = []
        self._columns: list[Reference] = []
        self._definitions = set[str]()
        self._common_tables = set[str]()
        self._unqualified_tables = set[str]()
        self._other_tables = set[str]()

    def find_references(self) -> list[Reference]:
        position = 0
        while position < len(self._tokens):
            token = self._tokens[position]
            following = self._find_chain_end(position) if token.is_name else position + 1
            if token.is_name:
                self._collect_reference(position, following)
            if token.kind in (TokenKind.HINT_OPEN, TokenKind.HINT_CLOSE):
                self._in_hint = token.kind is TokenKind.HINT_OPEN
            elif not self._in_hint:
                self._step(position, following)
            position = following
        others = self._other_tables | (self._unqualified_tables & self._common_tables)
        visible = [
            replace(column, is_ambiguous=comparable_name(column.parts[column.workspace_parts]) in others)
            for column in self._columns
            if comparable_name(column.parts[0]) not in self._definitions
        ]
        return sorted([*self._tables_and_hints, *visible], key=lambda reference: reference.start)

    @cached_property
    def _closing_brackets(self) -> Mapping[int, int]:
        return match_brackets(self._tokens)

    def _at(self, position: int) -> Token | None:
        return self._tokens[position] if 0 <= position < len(self._tokens) else None

    def _keyword(self, position: int) -> str:
        token = self._at(position)
        return "" if token is None else token.keyword

    def _is_symbol(self, position: int, symbols: str) -> bool:
        token = self._at(position)
        return token is not None and token.kind is TokenKind.SYMBOL and token.value in symbols

    def _find_chain_end(self, position: int) -> int:
        """Return the position after the dot-separated name that starts at a position."""
        position += 1
        while self._is_symbol(position, "."):
            part = self._at(position + 1)
            if part is None or not part.is_name:
                break
            position += 2
        return position

    def _collect_reference(self, position: int, following: int) -> None:
        chain = self._tokens[position:following:2]
        self._collect_table(chain)
        if len(chain) == 1 or self._is_symbol(position - 1, ".:"):
            return
        parts = tuple(token.value for token in chain)
        count = self._count_workspace_parts(parts)
        if not 0 < count < len(parts):
            return
        is_table = self._frames[-1].expects_table and not self._in_hint
        if not is_table and self._is_symbol(following, "("):
            return
        reference = Reference(chain[0].start, chain[-1].end, count, parts, is_table)
        (self._tables_and_hints if is_table or self._in_hint else self._columns).append(reference)

    def _collect_table(self, chain: Sequence[Token]) -> None:
        """Collect a table name that can qualify columns but is not in a workspace."""
        if self._in_hint or not self._frames[-1].expects_table:
            return
        parts = tuple(comparable_name(token.value) for token in chain)
        if len(parts) == 1:
            self._unqualified_tables.add(parts[0])
        elif parts[:-1] not in _SESSION_SCHEMAS and self._count_workspace_parts(parts) == 0:
            self._other_tables.add(parts[-1])

    def _step(self, position: int, following: int) -> None:
        """Update the frames for a dot-separated name or for a single other token."""
        if following == position + 1 and self._tokens[position].is_name:
            self._collect_definition(position)
        if following == position + 1 and self._keyword(position):
            self._visit_word(position)
        elif self._tokens[position].is_name:
            self._visit_name()
        elif self._is_symbol(position, "()"):
            self._visit_parenthesis(position)
        else:
            self._visit_symbol(position)

    def _collect_definition(self, position: int) -> None:
        """Collect a name that the statement defines.

        A definition follows ``AS``, ``WITH`` or an item of a ``FROM`` list, or precedes the ``AS (`` of a query. In
        scripts, declared variables, loop variables and labels are definitions too.
        """
        defined = (
            self._keyword(position - 1) in _BEFORE_DEFINITION
            or self._frames[-1].after_item
            or self._is_symbol(position + 1, ":")
            or self._is_before_query_definition(position + 1)
        )
        name = comparable_name(self._tokens[position].value)
        if defined:
            self._definitions.add(name)
        if self._is_before_query_definition(position + 1) or self._keyword(position - 1) in {"WITH", "RECURSIVE"}:
            self._common_tables.add(name)
        elif self._frames[-1].after_item:
            self._collect_alias(position, name)

    def _collect_alias(self, position: int, name: str) -> None:
        """Collect an alias, unless it is the name of the table, as in ``dfs.tmp.t AS t``."""
        before = self._tokens[position - (2 if self._keyword(position - 1) == "AS" else 1)]
        if not (before.is_name and comparable_name(before.value) == name):
            self._other_tables.add(name)

    def _is_before_query_definition(self, position: int) -> bool:
        return self._keyword(position) == "AS" and self._is_symbol(position + 1, "(")

    def _visit_word(self, position: int) -> None:
        frame, word = self._frames[-1], self._keyword(position)
        if word in _BEFORE_TABLE or self._is_before_shown_table(position):
            frame.expects_table = self._is_before_table(position)
            frame.in_from = frame.in_from or (word == "FROM" and frame.expects_table)
            frame.after_item = frame.in_rows = False
        elif word == "VALUES" and frame.expects_table:
            frame.expects_table, frame.in_rows = False, True
        elif (word in _ENDS_FROM and not self._is_alias(position)) or (word == "WHEN" and frame.merges):
            frame.expects_table = frame.in_from = frame.after_item = frame.in_rows = False
        elif frame.expects_table and (word in _SKIPPED_BEFORE_TABLE or self._is_before_stream(position)):
            pass
        elif word not in {"AS", *_AFTER_TABLE} or (frame.in_rows and self._continues_from(position + 1)):
            frame.merges = frame.merges or word == "MERGE"
            self._visit_name()

    def _is_alias(self, position: int) -> bool:
        """Return whether a keyword after a table is its alias. Spark's keywords are not reserved."""
        frame, word = self._frames[-1], self._keyword(position)
        if not frame.after_item:
            return False
        if word in _BEFORE_BY:
            return self._keyword(position + 1) != "BY"
        if frame.in_from and self._keyword(position - 1) == "AS":
            return True
        if self._is_symbol(position + 1, "("):  # the names of the columns, or an expression
            end = self._closing_brackets.get(position + 1)
            return end is not None and self._continues_from(end + 1)
        return (
            self._at(position + 1) is None or self._is_symbol(position + 1, ");") or self._continues_from(position + 1)
        )

    def _continues_from(self, position: int) -> bool:
        """Return whether a ``FROM`` clause goes on after a table."""
        if self._keyword(position) in _SIDES:
            return not self._is_symbol(position + 1, "(")
        return self._keyword(position) in _AFTER_ALIAS or self._is_symbol(position, ",")

    def _is_before_stream(self, position: int) -> bool:
        """Return whether ``STREAM`` is followed by a multipart name, and so is not a name itself."""
        is_name = self._is_symbol(position + 2, ".")
        return self._keyword(position) == "STREAM" and (is_name or self._is_symbol(position + 1, "("))

    def _is_before_table(self, position: int) -> bool:
        """Return whether the keyword is followed by a table.

        The exceptions are ``FROM`` in function arguments and ``USING`` in joins, which are not followed by a table.
        """
        frame, word = self._frames[-1], self._keyword(position)
        if word == "USING":
            return frame.merges
        if word != "FROM":
            return True
        in_call = frame.opener is not None and frame.opener.keyword in _CALLS_WITH_FROM
        return not in_call and self._keyword(position - 1) != "DISTINCT"

    def _is_before_shown_table(self, position: int) -> bool:
        """Return whether a table follows, as in ``SHOW COLUMNS IN t`` or ``LIKE t``."""
        word, before = self._keyword(position), self._keyword(position - 1)
        if word == "IN":
            return before == "COLUMNS"
        if word == "LIKE":
            return self._frames[-1].after_item and self._tokens[0].keyword == "CREATE"
        return before == "SHOW" and word in _SHOWN_OF_TABLE and word != "COLUMNS"

    def _visit_name(self) -> None:
        frame = self._frames[-1]
        if frame.in_rows:  # a name in a row, or the alias after the last row
            frame.after_item, frame.in_rows = not frame.after_item, not frame.after_item
        else:
            frame.after_item, frame.expects_table = frame.expects_table, False

    def _visit_parenthesis(self, position: int) -> None:
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
        self._frames[-1].after_item = frame.is_item or self._frames[-1].in_rows
        if frame.opener is not None and self._is_before_query_definition(position + 1):
            self._definitions.add(comparable_name(frame.opener.value))
            self._common_tables.add(comparable_name(frame.opener.value))

    def _visit_symbol(self, position: int) -> None:
        frame = self._frames[-1]
        if self._is_symbol(position, ";"):
            self._frames = [_Frame()]
            return
        if self._is_symbol(position, ">") and self._is_symbol(position - 1, "|"):
            frame.in_from = False
        frame.expects_table = frame.in_from and not frame.in_rows and self._is_symbol(position, ",")
        frame.after_item = frame.in_from and self._tokens[position].kind in (TokenKind.NUMBER, TokenKind.STRING)
