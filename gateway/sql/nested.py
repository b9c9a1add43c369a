"""Statements that hold statements: ``EXECUTE IMMEDIATE`` and scripts.

Source: Spark: SqlBaseParser.g4 (executeImmediate, singleCompoundStatement).
"""

from gateway.sql.cursor import Cursor
from gateway.sql.recognised import ExecuteImmediate, Script

_ENDS_TEXT = frozenset({"INTO", "USING"})


def execute_immediate(cursor: Cursor) -> ExecuteImmediate | None:
    """What begins with ``EXECUTE``; None if no text comes after ``IMMEDIATE``."""
    if not cursor.take("EXECUTE", "IMMEDIATE") or cursor.current is None:
        return None
    first = cursor.current
    literal = immediate_literal(cursor)
    if literal is not None:
        return ExecuteImmediate(text_span=(first.start, cursor.previous_end), literal=literal)
    last = first
    for index, token in cursor.outside_brackets():
        if index > cursor.position and token.keyword in _ENDS_TEXT:
            return ExecuteImmediate(text_span=(first.start, last.end), literal=None)
        last = token
    return ExecuteImmediate(text_span=(first.start, cursor.end), literal=None)


def immediate_literal(cursor: Cursor) -> str | None:
    """The value of the text after ``IMMEDIATE``, stepped over; None, and no step, if it is no literal."""
    at = cursor.position
    literal = cursor.take_strings()
    is_all = cursor.current is None or cursor.is_symbol(";") or cursor.keyword() in _ENDS_TEXT
    if literal is None or not is_all:
        cursor.position = at
        return None
    return literal


def script(cursor: Cursor) -> Script | None:
    """What begins with ``BEGIN``, or a label and ``BEGIN``."""
    label = cursor.current
    if label is not None and label.is_name and cursor.is_symbol(":", 1) and cursor.keyword(2) == "BEGIN":
        cursor.position += 2
    begin = cursor.current
    return Script(start=begin.start) if begin is not None and begin.keyword == "BEGIN" else None
