"""Walks through a SQL text, and decides for each name whether a table is expected in its place.

This is the only place that decides what a table is: the names in workspaces (:mod:`gateway.sql.references`) and the
names in the audit log (:mod:`gateway.sql.named_objects`) are found by the same walk.

Not guaranteed: the walk follows the clauses without parsing them, so it may miss a place where a table is expected.

Source: [spark-sql-grammar fromClause], [spark-sql-grammar relation], [spark-sql-grammar multipartIdentifier],
[spark-sql-grammar compoundStatement].
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from gateway.sql.lexer import Token, TokenKind, match_brackets
from workspace.name_comparison import comparable_name

_BEFORE_TABLE = frozenset({"FROM", "JOIN", "INTO", "TABLE", "OVERWRITE", "UPDATE", "DESCRIBE", "DESC", "USING"})
_ENDS_BEFORE_TABLE = frozenset({"INTO", "OVERWRITE", "UPDATE"})
_IN_FROM = frozenset({"FROM", "JOIN", "USING"})
_SKIPPED_BEFORE_TABLE = frozenset({"EXTENDED", "FORMATTED", "LATERAL", "IF", "NOT", "EXISTS"})
_BEFORE_STATEMENT = frozenset({"BEGIN", "THEN", "ELSE", "DO", "LOOP", "REPEAT", "EXPLAIN"})
_BEFORE_VIEW = frozenset({"CREATE", "REPLACE", "TEMPORARY", "TEMP", "DROP", "ALTER", "MATERIALIZED"})
_OTHER_OBJECTS = frozenset({"FUNCTION", "DATABASE", "SCHEMA", "NAMESPACE", "CATALOG", "QUERY", "DIRECTORY", "LOCAL"})
_SHOWN_OF_TABLE = frozenset({"COLUMNS", "PARTITIONS", "TBLPROPERTIES"})
_BEFORE_DEFINITION = frozenset({"AS", "WITH", "RECURSIVE", "FOR", "DECLARE", "VARIABLE"})
_AFTER_TABLE = frozenset({"TABLESAMPLE", "PIVOT", "UNPIVOT"})
_ENDS_FROM = frozenset(
    {"SELECT", "WHERE", "GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "WINDOW"}
    | {"QUALIFY", "UNION", "INTERSECT", "EXCEPT", "MINUS", "SET", "VALUES", "VIEW"}
)
_BEFORE_BY = frozenset({"GROUP", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE"})
_AFTER_ALIAS = frozenset({"JOIN", "ON", "USING", "INSERT"})
_BEFORE_JOIN = frozenset({"CROSS", "INNER", "NATURAL", "FULL", "ANTI", "SEMI", "LEFT", "RIGHT", "OUTER"})
_OPERATORS = frozenset({"AND", "OR", "NOT", "IS", "IN", "LIKE", "ILIKE", "RLIKE", "BETWEEN", "DIV", "COLLATE"})
_CALLS_WITH_FROM = frozenset({"EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "OVERLAY"})


class FoundName(NamedTuple):
    """A name in a text, with all its parts that dots connect.

    Attributes:
        position: The index of its first token.
        end: The index after its last token.
        is_table: Whether a table is expected in its place.
        in_hint: Whether it is in a hint.
        in_from: Whether it is in a ``FROM`` clause, in which a function can be in the place of a table.
    """

    position: int
    end: int
    is_table: bool
    in_hint: bool
    in_from: bool = False


@dataclass(slots=True)
class _Frame:
    """The state of the walk at one nesting level of parentheses.

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


class TableWalk:
    """A single pass over the tokens of a text.

    Args:
        tokens: All tokens of the text.
        with_views: Whether the names of views in ``CREATE VIEW`` and the like are tables too, and those after
            ``REFRESH``.

    Attributes:
        definitions: The names that the text has defined so far: aliases, common table expressions, and in scripts
            variables and labels. All names are comparable.
        common_tables: The common table expressions among them.
        aliases: The aliases of tables among them, except those that are the same as the name of the table.
    """

    def __init__(self, tokens: Sequence[Token], *, with_views: bool = False) -> None:
        self._tokens = tokens
        self._with_views = with_views
        self._frames = [_Frame()]
        self.definitions = set[str]()
        self.common_tables = set[str]()
        self.aliases = set[str]()

    def names(self) -> Iterator[FoundName]:
        """Yield the names in the text, in order."""
        position, in_hint = 0, False
        while position < len(self._tokens):
            token = self._tokens[position]
            end = self._find_chain_end(position) if token.is_name else position + 1
            if token.kind in (TokenKind.HINT_OPEN, TokenKind.HINT_CLOSE):
                in_hint = token.kind is TokenKind.HINT_OPEN
            elif in_hint:
                if token.is_name:
                    yield FoundName(position, end, is_table=False, in_hint=True)
            else:
                is_expected, in_from = self._frames[-1].expects_table, self._frames[-1].in_from
                if self._step(position, end):
                    yield FoundName(position, end, is_table=is_expected, in_hint=False, in_from=in_from)
            position = end

    @cached_property
    def _closing_brackets(self) -> Mapping[int, int]:
        return match_brackets(self._tokens)

    def at(self, position: int) -> Token | None:
        """Return the token with an index. None if there is none."""
        return self._tokens[position] if 0 <= position < len(self._tokens) else None

    def is_symbol(self, position: int, symbols: str) -> bool:
        """Return whether the token with an index is one of several symbols."""
        token = self.at(position)
        return token is not None and token.kind is TokenKind.SYMBOL and token.value in symbols

    def _keyword(self, position: int) -> str:
        token = self.at(position)
        return "" if token is None else token.keyword

    def _find_chain_end(self, position: int) -> int:
        """Return the index after the dot-separated name that starts at an index."""
        position += 1
        while self.is_symbol(position, "."):
            part = self.at(position + 1)
            if part is None or not part.is_name:
                break
            position += 2
        return position

    def _step(self, position: int, end: int) -> bool:
        """Update the frames for a dot-separated name or for a single other token. Return whether it is a name."""
        is_name = self._tokens[position].is_name
        if is_name and end == position + 1:
            self._collect_definition(position)
        if end == position + 1 and self._keyword(position):
            return self._visit_word(position)
        if is_name:
            self._visit_name()
        elif self.is_symbol(position, "()"):
            self._visit_parenthesis(position)
        else:
            self._visit_symbol(position)
        return is_name

    def _collect_definition(self, position: int) -> None:
        """Collect a name that the statement defines.

        A definition follows ``AS``, ``WITH`` or an item of a ``FROM`` list, or precedes the ``AS (`` of a query. In
        scripts, declared variables, loop variables and labels are definitions too.
        """
        defined = (
            self._keyword(position - 1) in _BEFORE_DEFINITION
            or self._frames[-1].after_item
            or self.is_symbol(position + 1, ":")
            or self._is_before_query_definition(position + 1)
        )
        name = comparable_name(self._tokens[position].value)
        if defined:
            self.definitions.add(name)
        if self._is_before_query_definition(position + 1) or self._keyword(position - 1) in {"WITH", "RECURSIVE"}:
            self.common_tables.add(name)
        elif self._frames[-1].after_item:
            self._collect_alias(position, name)

    def _collect_alias(self, position: int, name: str) -> None:
        """Collect an alias, unless it is the name of the table, as in ``dfs.tmp.t AS t``."""
        before = self._tokens[position - (2 if self._keyword(position - 1) == "AS" else 1)]
        if not (before.is_name and comparable_name(before.value) == name):
            self.aliases.add(name)

    def _is_before_query_definition(self, position: int) -> bool:
        return self._keyword(position) == "AS" and self.is_symbol(position + 1, "(")

    def _visit_word(self, position: int) -> bool:
        """Update the frames for a word that may be a keyword. Return whether it is a name."""
        frame, word = self._frames[-1], self._keyword(position)
        if self._can_precede_table(position):
            frame.expects_table = self._is_before_table(position)
            frame.in_from = (frame.in_from and word not in _ENDS_BEFORE_TABLE) or (
                word == "FROM" and frame.expects_table
            )
            frame.after_item = frame.in_rows = False
        elif word == "VALUES" and frame.expects_table:
            frame.expects_table, frame.in_rows = False, True
        elif (word in _ENDS_FROM and not self._is_alias(position)) or (word == "WHEN" and frame.merges):
            frame.expects_table = frame.in_from = frame.after_item = frame.in_rows = False
        elif frame.in_rows and word in _OPERATORS and not self._continues_from(position + 1):
            frame.after_item = False
        elif self._is_skipped(position):
            pass
        elif word == "WITH" and frame.expects_table:  # a query in brackets begins
            frame.expects_table = frame.in_from = False
        elif frame.expects_table and self._is_before_other_object(position):
            frame.expects_table = False
        elif word not in {"AS", *_AFTER_TABLE} or (frame.in_rows and self._continues_from(position + 1)):
            frame.merges = frame.merges or (word == "MERGE" and self._keyword(position + 1) in {"INTO", "WITH"})
            self._visit_name()
            return True
        return False

    def _can_precede_table(self, position: int) -> bool:
        """Return whether a word is a keyword that a table can follow. It can also be an alias, or an order."""
        frame, word = self._frames[-1], self._keyword(position)
        if (frame.in_from or frame.merges) and frame.after_item and word not in _IN_FROM:
            return False
        if word in {"DESC", "DESCRIBE"} and not self._begins_statement(position):
            return False
        return word in _BEFORE_TABLE or self._is_before_shown_table(position) or self._is_before_view(position)

    def _is_skipped(self, position: int) -> bool:
        """Return whether a word changes nothing: a unit of time in a row, options of a table, or a word before one."""
        frame, word = self._frames[-1], self._keyword(position)
        is_unit = frame.in_rows and self._keyword(position - 2) == "INTERVAL"
        has_options = word == "WITH" and frame.after_item and self.is_symbol(position + 1, "(")
        is_before_table = word in _SKIPPED_BEFORE_TABLE or self._is_before_stream(position)
        return is_unit or has_options or (frame.expects_table and is_before_table)

    def _is_alias(self, position: int) -> bool:
        """Return whether a keyword after a table is its alias. Spark's keywords are not reserved."""
        frame, word = self._frames[-1], self._keyword(position)
        if not frame.after_item or word == "SELECT":
            return False
        if word in _BEFORE_BY:
            return self._keyword(position + 1) != "BY"
        if frame.in_from and self._keyword(position - 1) == "AS":
            return True
        if self.is_symbol(position + 1, "("):  # the names of the columns, or an expression
            end = self._closing_brackets.get(position + 1)
            if end is None or not self._continues_from(end + 1):
                return False
            inside = map(self._tokens.__getitem__, range(position + 2, end))  # a slice would be copied at each bracket
            return all(token.is_name or token.is_symbol(",") for token in inside)
        return self.at(position + 1) is None or self.is_symbol(position + 1, ");") or self._continues_from(position + 1)

    def _continues_from(self, position: int) -> bool:
        """Return whether a ``FROM`` clause continues after a table."""
        end = position
        while self._keyword(end) in _BEFORE_JOIN:
            end += 1
        if end > position:
            return self._keyword(end) == "JOIN"
        return self._keyword(position) in _AFTER_ALIAS or self.is_symbol(position, ",")

    def _is_before_other_object(self, position: int) -> bool:
        """Return whether a word says that another object follows, as in ``DESCRIBE FUNCTION f``."""
        following = self.at(position + 1)
        is_followed = following is not None and (following.is_name or following.kind is TokenKind.STRING)
        return self._keyword(position) in _OTHER_OBJECTS and is_followed and not self._frames[-1].in_from

    def _is_before_stream(self, position: int) -> bool:
        """Return whether ``STREAM`` is followed by a multipart name, and so is not a name itself."""
        is_name = self.is_symbol(position + 2, ".")
        return self._keyword(position) == "STREAM" and (is_name or self.is_symbol(position + 1, "("))

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

    def _begins_statement(self, position: int) -> bool:
        is_first = position == 0 or self.is_symbol(position - 1, ";")
        return is_first or self._keyword(position - 1) in _BEFORE_STATEMENT

    def _is_before_view(self, position: int) -> bool:
        """Return whether a view follows, as in ``DROP VIEW v``, or a table as in ``REFRESH t``."""
        word, before = self._keyword(position), self._keyword(position - 1)
        if not self._with_views:
            return False
        return before in _BEFORE_VIEW if word == "VIEW" else word == "REFRESH" and position == 0

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
        if self.is_symbol(position, "("):
            is_table = frame.expects_table
            self._frames.append(
                _Frame(
                    opener=self.at(position - 1),
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
            self.definitions.add(comparable_name(frame.opener.value))
            self.common_tables.add(comparable_name(frame.opener.value))

    def _visit_symbol(self, position: int) -> None:
        frame = self._frames[-1]
        if self.is_symbol(position, ";"):
            self._frames = [_Frame()]
            return
        if self.is_symbol(position, ">") and self.is_symbol(position - 1, "|"):
            frame.in_from = False
        frame.expects_table = frame.in_from and not frame.in_rows and self.is_symbol(position, ",")
        is_literal = self._tokens[position].kind in (TokenKind.NUMBER, TokenKind.STRING)
        is_time = self._keyword(position - 2) == "AS" and self._keyword(position - 1) == "OF"
        frame.after_item = (frame.in_rows and (is_literal or self.is_symbol(position, "]"))) or (is_literal and is_time)
