"""Rejects embedded statements that could change a temporary table.

Lodge executes a statement only if the statement is the whole text of a SQL command, or of the root of a plan that is
executed. Spark also executes the statements in a script and the text of ``EXECUTE IMMEDIATE``. Spark executes
statements even if they are the input of a relation, and even if the client requests only the schema of a plan. An
embedded statement could therefore change a temporary table without Lodge. Lodge rejects such a statement, and the error
message tells the user what to do instead.

Guarantees:

1. A text is rejected if it could create, change or remove a temporary table, or the name of a temporary table, without
   Lodge.
2. In a session without temporary tables, all texts that Spark accepts are accepted, unless they mention a workspace.

Not guaranteed: a rejected text might not have changed a table. If the session has temporary tables and the effect of a
text depends on a variable or an expression, the text is rejected.

Source: [spark-sql-grammar compoundOrSingleStatement], [spark-sql-grammar executeImmediate], ``VariableSubstitution``.
"""

import enum
import re
from collections.abc import Mapping, Sequence

from gateway.errors import GatewayError
from gateway.names.name_lookup import NameLookup
from gateway.sql.change_clauses import ChangeClause, ChangeKind, find_change_clauses
from gateway.sql.execute_immediate import ExecuteImmediate
from gateway.sql.identifier_clauses import evaluate_identifier_clauses
from gateway.sql.lexer import VARIABLE_START, Token
from gateway.sql.parameters import Parameters
from gateway.sql.piecewise_search import is_found, may_contain
from gateway.sql.statements import IdentifierClause

_CHANGES = ("drop", "alter", "create", "replace", "insert", "truncate", "cache", "merge", "update", "delete")
_RUNS_OTHERS = ("immediate", "begin")
_OTHER_LETTERS = (
    "\N{LATIN SMALL LETTER DOTLESS I}",
    "\N{LATIN SMALL LETTER LONG S}",
)  # Spark compares keywords in upper case, where these letters are I and S
RUNNING_WORDS: Sequence[str] = (*_RUNS_OTHERS, VARIABLE_START, *_OTHER_LETTERS)
"""The words of which a SQL command contains at least one if it embeds statements."""

CHANGING_WORDS: Sequence[str] = (*_CHANGES, *RUNNING_WORDS)
"""The words of which a text contains at least one if it changes a table or view."""

_CHANGING = re.compile(rf"\b(?:{'|'.join((*_CHANGES, *_RUNS_OTHERS))})\b|\$\{{", re.IGNORECASE)
_RUNNING = re.compile(rf"\b(?:{'|'.join(_RUNS_OTHERS)})\b|\$\{{", re.IGNORECASE)
_QUERIES = frozenset({"SELECT", "VALUES", "TABLE", "MAP", "REDUCE", "SHOW", "DESCRIBE", "DESC", "SET", "USE"})
_MAY_BECOME_CHANGE = frozenset({"", "CREATE", "REPLACE", "DROP", "ALTER", "CACHE", "EXECUTE", "EXPLAIN", "BEGIN"})
_PERMANENT = frozenset({ChangeKind.CREATE_TABLE, ChangeKind.CREATE_VIEW})


class TextPlace(enum.Enum):
    """Where a SQL text occurs. Lodge executes only the statement of a ``COMMAND``, or of the root of a plan."""

    COMMAND = enum.auto()
    PLAN = enum.auto()
    IMMEDIATE = enum.auto()
    SCRIPT = enum.auto()


_REFUSALS = {
    TextPlace.PLAN: ("LODGE_STATEMENT_IN_PLAN", "as part of a plan"),
    TextPlace.IMMEDIATE: ("LODGE_EXECUTE_IMMEDIATE", "in EXECUTE IMMEDIATE"),
    TextPlace.SCRIPT: ("LODGE_STATEMENT_IN_SCRIPT", "in a script"),
}


def may_embed_statement(text: str, place: TextPlace) -> bool:
    """Return whether a text may contain a statement that Lodge must reject.

    This check is fast. Its result is relevant only for sessions that have temporary tables.
    """
    is_command = place is TextPlace.COMMAND
    words, pattern = (RUNNING_WORDS, _RUNNING) if is_command else (CHANGING_WORDS, _CHANGING)
    return may_contain(words, text) and is_found(pattern, text)


class EmbeddedStatements:
    """Rejects texts that could change a temporary table without Lodge.

    Args:
        lookup: The names of the session.
    """

    def __init__(self, lookup: NameLookup) -> None:
        self._lookup = lookup

    def check(self, text: str, tokens: Sequence[Token], place: TextPlace, parameters: Parameters) -> None:
        """Check whether a text contains a statement that Lodge must reject.

        Args:
            text: The whole text.
            tokens: The tokens of the text.
            place: Where the text occurs.
            parameters: The parameters of the text.

        Raises:
            GatewayError: If the text must be rejected.
        """
        if not may_embed_statement(text, place):
            return
        if _is_script(tokens):
            place = TextPlace.SCRIPT
        clauses: Sequence[ChangeClause] = ()
        first = tokens[0].keyword if tokens else ""
        is_examined = place is TextPlace.SCRIPT or (place is not TextPlace.COMMAND and first not in _QUERIES)
        if is_examined or VARIABLE_START in text:
            clauses = find_change_clauses(text, self._lookup.settings.dialect)
        self._check_substitution(text, first, clauses, is_script=place is TextPlace.SCRIPT)
        if place is TextPlace.COMMAND:
            return
        computed = [clause.name for clause in clauses if isinstance(clause.name, IdentifierClause)]
        names: Mapping[IdentifierClause, Sequence[str]] = {}
        if computed:
            names = evaluate_identifier_clauses(text, computed, parameters, self._lookup.settings.dialect)
        for clause in clauses:
            if self._concerns_lodge(clause, names):
                raise _refused(clause, place)

    def check_immediate(self, immediate: ExecuteImmediate, text: str) -> None:
        """Check an ``EXECUTE IMMEDIATE`` statement whose inner text may be unknown.

        Args:
            immediate: The ``EXECUTE IMMEDIATE`` statement.
            text: The text that contains the statement.

        Raises:
            GatewayError: If only Spark can compute the inner text, and the inner text could change a temporary table.
        """
        if immediate.text is None and (self._lookup.tables or self._lookup.mentions_workspace(text)):
            raise GatewayError(
                "LODGE_EXECUTE_IMMEDIATE",
                "0A000",
                f"Lodge cannot evaluate the text of EXECUTE IMMEDIATE [{text[immediate.start : immediate.end]}], "
                "because it has a subquery, or its value is NULL or has more than 60,000 bytes. Lodge must check this "
                "text, because the session has temporary tables or the statement refers to a workspace. Specify the "
                "text as a string literal, or run it with spark.sql(text).",
            )

    def _check_substitution(self, text: str, first: str, clauses: Sequence[ChangeClause], *, is_script: bool) -> None:
        """Raise a GatewayError if ``${name}`` could affect which table is changed."""
        where = text.find(VARIABLE_START)
        if where < 0 or not self._lookup.tables:
            return
        name = clauses[0].name if clauses and first != "EXECUTE" else None
        is_named = name is not None and name.end < where
        if is_script or (first in _MAY_BECOME_CHANGE and not is_named):
            raise GatewayError(
                "LODGE_VARIABLE_SUBSTITUTION",
                "0A000",
                f"Lodge cannot determine the text that replaces [{text[where : where + 40]}], and this text could "
                "change a temporary table of the session. Write the statement without variables. In Python, insert "
                "the text into the string for spark.sql.",
            )

    def _concerns_lodge(self, clause: ChangeClause, names: Mapping[IdentifierClause, Sequence[str]]) -> bool:
        if clause.kind is ChangeKind.CREATE_TEMPORARY_TABLE:
            return True
        if clause.name is None:
            return False
        if clause.kind is ChangeKind.CREATE_GLOBAL_TEMPORARY_VIEW:  # its query may read a temporary table
            return bool(self._lookup.tables)
        parts = names[clause.name] if isinstance(clause.name, IdentifierClause) else clause.name.parts
        if not parts:
            return bool(self._lookup.tables)
        if len(parts) == 1 and clause.kind in _PERMANENT:
            return False
        return self._lookup.concerns_lodge(parts)


def _is_script(tokens: Sequence[Token]) -> bool:
    """Return whether a text has the form ``BEGIN …`` or ``label: BEGIN …``."""
    has_label = len(tokens) > 2 and tokens[0].is_name and tokens[1].is_symbol(":")
    first = tokens[2:3] if has_label else tokens[:1]
    return bool(first) and first[0].keyword == "BEGIN"


def _refused(clause: ChangeClause, place: TextPlace) -> GatewayError:
    parts = () if clause.name is None else clause.name.parts
    statement = f"{clause.kind.value} {'.'.join(parts)}".rstrip()
    condition, where = _REFUSALS[place]
    return GatewayError(
        condition,
        "0A000",
        f"[{statement}] cannot run {where}, because it concerns a temporary table or a workspace. Run it as a "
        "separate statement, with its own spark.sql(...) call, in Swift followed by count() or collect().",
    )
