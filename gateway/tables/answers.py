"""The answers of the statements that create and drop tables.

A statement that Lodge executes answers with one row. Creations and drops answer as in Drill [temporary-tables §4.2,
§4.3], everything else as in Spark: insertions answer nothing.
"""

from gateway.responses import Response, Values, build_row_response
from workspace.records import PendingChange, PendingDrop, WriteKind


def answer_to(change: PendingChange, table: str) -> Values:
    """Return the answer of a statement whose change of a temporary table is complete."""
    if isinstance(change, PendingDrop):
        return _ok(True, f"Temporary table [{table}] was dropped.")
    return created(change.rows) if change.kind is WriteKind.CREATION else {}


def created(rows: int) -> Values:
    """Return the answer of a statement that created a table with this number of rows."""
    return {"Fragment": "0_0", "Number of records written": rows}


def not_created(reason: str) -> Response:
    """Return the answer of ``CREATE TABLE IF NOT EXISTS`` for a name that is taken."""
    return build_row_response(_ok(False, reason))


def table_dropped(name: str) -> Response:
    """Return the answer of ``DROP TABLE`` for a permanent table."""
    return build_row_response(_ok(True, f"Table [{name}] dropped"))


def no_table(name: str) -> Response:
    """Return the answer of ``DROP TABLE IF EXISTS`` for a name that no table has."""
    return build_row_response(_ok(False, f"Table [{name}] was not found."))


def no_view(name: str, schema: str) -> Response:
    """Return the answer of ``DROP VIEW IF EXISTS`` for a name that no view has."""
    return build_row_response(_ok(False, f"View [{name}] not found in schema [{schema}]."))


def _ok(done: bool, summary: str) -> Values:
    return {"ok": done, "summary": summary}
