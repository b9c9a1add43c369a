"""Compares what a statement returns with Lodge and without it."""

import enum
import re

from tests.spark_sql_tests.outcomes import Failure, Outcome

_TEXT_IN_ORDER = re.compile(r"(?i)\s*(?:desc|describe|explain|show)\b")
_QUOTED_OR_COMMENT = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|--[^\n]*|/\*.*?\*/", re.DOTALL)
_ORDER_OR_BRACKET = re.compile(r"[()]|\border\s+by\b", re.IGNORECASE)


class Kind(enum.Enum):
    """How two outcomes differ."""

    FAILURE = "one of them fails"
    CONDITION = "other condition or SQLSTATE"
    MESSAGE = "other message"
    SCHEMA = "other schema"
    ROWS = "other rows"
    ORDER = "same rows in another order"


def compare(statement: str, expected: Outcome, found: Outcome, *, with_message: bool) -> Kind | None:
    """Return how the outcomes of a statement differ. None if they do not.

    Args:
        statement: The statement, as the file contains it.
        expected: Its outcome without Lodge.
        found: Its outcome with Lodge.
        with_message: Whether the messages of errors must be equal.
    """
    if isinstance(expected, Failure) and isinstance(found, Failure):
        if (expected.condition, expected.sql_state) != (found.condition, found.sql_state):
            return Kind.CONDITION
        return Kind.MESSAGE if with_message and expected.message != found.message else None
    if isinstance(expected, Failure) or isinstance(found, Failure):
        return Kind.FAILURE
    if expected.schema != found.schema:
        return Kind.SCHEMA
    if sorted(expected.rows) != sorted(found.rows):
        return Kind.ROWS
    return Kind.ORDER if expected.rows != found.rows and has_order(statement) else None


def has_order(statement: str) -> bool:
    """Return whether the order of the rows has a meaning."""
    if _TEXT_IN_ORDER.match(statement):
        return True
    depth = 0
    for part in _ORDER_OR_BRACKET.findall(_QUOTED_OR_COMMENT.sub("''", statement)):
        depth += {"(": 1, ")": -1}.get(part, 0)
        if depth == 0 and part != ")":
            return True
    return False
