"""Statements where Lodge cannot act on them: in scripts, in ``EXECUTE IMMEDIATE``, in texts that are parts of a plan.

Why it exists: Lodge answers a statement that is the whole text of a SQL command. Spark runs statements elsewhere too:
those of a script, the text of ``EXECUTE IMMEDIATE``, and either of them as the root or the input of a plan, even when a
client only asks for the plan's schema. One that creates, changes or removes a temporary table there would do so behind
Lodge's back, so it is an error that names the way out.

Guarantees:

1. No text passes that could create, change or remove a temporary table or its name where Lodge does not see it.
2. A session without temporary tables may run whatever it could run at Spark, unless it names a workspace.

Not guaranteed: that what is refused would have changed a table. Where the value of a variable or an expression decides,
and the session has temporary tables, it is refused.

Source: Spark: SqlBaseParser.g4 (compoundOrSingleStatement, executeImmediate), ``VariableSubstitution``.
"""

import enum
import re
from collections.abc import Sequence

from gateway.errors import GatewayError
from gateway.names.name_lookup import NameLookup
from gateway.sql.change_clauses import ChangeClause, ChangeKind, find_change_clauses
from gateway.sql.execute_immediate import ExecuteImmediate
from gateway.sql.identifier_clauses import evaluate_identifier_clause
from gateway.sql.lexer import Token
from gateway.sql.parameters import Parameters
from gateway.sql.statements import IdentifierClause

SUBSTITUTION = "${"
_CHANGES = ("drop", "alter", "create", "replace", "insert", "truncate", "cache", "merge", "update", "delete")
_RUNS_OTHERS = ("immediate", "begin")
_OTHER_LETTERS = (
    "\N{LATIN SMALL LETTER DOTLESS I}",
    "\N{LATIN SMALL LETTER LONG S}",
)  # whose capitals are I and S: Spark reads keywords in capitals
RUNNING_WORDS: Sequence[str] = (*_RUNS_OTHERS, SUBSTITUTION, *_OTHER_LETTERS)
"""Of the statements in a SQL command without any of these, in any letter case, Lodge sees each."""

CHANGING_WORDS: Sequence[str] = (*_CHANGES, *RUNNING_WORDS)
"""A text without any of these, in any letter case, changes nothing by name."""

_CHANGING = re.compile(rf"\b(?:{'|'.join((*_CHANGES, *_RUNS_OTHERS))})\b|\$\{{", re.IGNORECASE)
_RUNNING_OTHERS = re.compile(rf"\b(?:{'|'.join(_RUNS_OTHERS)})\b|\$\{{", re.IGNORECASE)
_QUERIES = frozenset({"SELECT", "VALUES", "TABLE", "MAP", "REDUCE", "SHOW", "DESCRIBE", "DESC", "SET", "USE"})
_MAY_BECOME_CHANGE = frozenset({"", "CREATE", "REPLACE", "DROP", "ALTER", "CACHE", "EXECUTE", "EXPLAIN", "BEGIN"})
_PERMANENT = frozenset({ChangeKind.CREATE_TABLE, ChangeKind.CREATE_VIEW, ChangeKind.CREATE_GLOBAL_TEMPORARY_VIEW})


class TextPlace(enum.Enum):
    """Where a text stands: a SQL command is seen as a whole; all others are run without Lodge."""

    COMMAND = enum.auto()
    PLAN = enum.auto()
    IMMEDIATE = enum.auto()


def may_embed_statement(text: str, place: TextPlace) -> bool:
    """Whether a text must be looked at if the session has temporary tables: a cheap look."""
    lowered = text.lower()
    is_command = place is TextPlace.COMMAND
    words, pattern = (RUNNING_WORDS, _RUNNING_OTHERS) if is_command else (CHANGING_WORDS, _CHANGING)
    return any(word in lowered for word in words) and pattern.search(text) is not None


class EmbeddedStatements:
    """Refuses the texts that would change temporary tables unseen.

    Args:
        lookup: What names mean.
    """

    def __init__(self, lookup: NameLookup) -> None:
        self._lookup = lookup

    def check(self, text: str, found: Sequence[Token], place: TextPlace, parameters: Parameters) -> None:
        """Raises: GatewayError if the text may not run.

        Args:
            text: The whole text.
            found: Its tokens.
            place: Where it stands.
            parameters: What its parameters stand for.
        """
        if not may_embed_statement(text, place):
            return
        is_script = _is_script(found)
        listed: Sequence[ChangeClause] = ()
        first = found[0].keyword if found else ""
        if (place is not TextPlace.COMMAND and first not in _QUERIES) or is_script or SUBSTITUTION in text:
            listed = find_change_clauses(
                text, double_quoted_identifiers=self._lookup.settings.double_quoted_identifiers
            )
        self._check_substitution(text, first, is_script, listed)
        if place is TextPlace.COMMAND and not is_script:
            return
        for change in listed:
            if self._concerns(change, text, parameters):
                raise _refused(change, "script" if is_script else place)

    def check_immediate(self, immediate: ExecuteImmediate, text: str) -> None:
        """Raises: GatewayError if nobody but Spark knows what it runs, and that could change a temporary table.

        Args:
            immediate: In the text.
            text: The whole text.
        """
        if immediate.text is None and (self._lookup.tables or self._lookup.is_mentioned(text)):
            raise GatewayError(
                "LODGE_EXECUTE_IMMEDIATE",
                "0A000",
                f"EXECUTE IMMEDIATE of [{text[immediate.start : immediate.end]}] cannot be seen through: it is neither "
                "a string literal nor a parameter, and this session has temporary tables or the statement names a "
                "workspace. Give the text as a literal, or run it itself: spark.sql(text).",
            )

    def _check_substitution(self, text: str, first: str, is_script: bool, listed: Sequence[ChangeClause]) -> None:
        """``${name}`` may become any text: so what decides about names must stand before it."""
        where = text.find(SUBSTITUTION)
        if where < 0 or not self._lookup.tables:
            return
        is_named = bool(listed) and all(change.name is not None and change.name.end < where for change in listed[:1])
        if is_script or (first in _MAY_BECOME_CHANGE and not is_named):
            raise GatewayError(
                "LODGE_VARIABLE_SUBSTITUTION",
                "0A000",
                f"[{text[where : where + 40]}] stands for a text that Lodge does not know, and could change a "
                "temporary table of this session. Write the text out; in Python, put it into the string that you give "
                "to spark.sql.",
            )

    def _concerns(self, change: ChangeClause, text: str, parameters: Parameters) -> bool:
        if change.kind is ChangeKind.CREATE_TEMPORARY_TABLE:
            return True
        if change.name is None:
            return False
        parts: Sequence[str] | None = change.name.parts
        if isinstance(change.name, IdentifierClause):
            parts = evaluate_identifier_clause(
                text,
                change.name,
                parameters,
                double_quoted_identifiers=self._lookup.settings.double_quoted_identifiers,
            )
        if not parts:
            return bool(self._lookup.tables)
        if len(parts) == 1 and change.kind in _PERMANENT:
            return False
        return self._lookup.concerns_lodge(parts)


def _is_script(found: Sequence[Token]) -> bool:
    """``BEGIN …``, or ``label: BEGIN …``."""
    first = found[2:3] if len(found) > 2 and found[0].is_name and found[1].is_symbol(":") else found[:1]
    return bool(first) and first[0].keyword == "BEGIN"


def _refused(change: ChangeClause, where: "TextPlace | str") -> GatewayError:
    parts = () if change.name is None else change.name.parts
    statement = f"{change.kind.value} {'.'.join(parts)}".rstrip()
    if where == "script":
        error_class, place = "LODGE_STATEMENT_IN_SCRIPT", "in a script"
    elif where is TextPlace.IMMEDIATE:
        error_class, place = "LODGE_EXECUTE_IMMEDIATE", "in EXECUTE IMMEDIATE"
    else:
        error_class, place = "LODGE_STATEMENT_IN_PLAN", "as a part of a plan"
    return GatewayError(
        error_class,
        "0A000",
        f"[{statement}] cannot run {place}, because it is about a temporary table or a workspace. Run it as a "
        "statement of its own: one spark.sql(...) with nothing else in its text.",
    )
