"""The answers of statements that create, change and drop tables.

Creations and drops have a single row as answer, as in Drill [temporary-tables §4.2, §4.3]. All other statements have
the same answer as in Spark. For example, the answer of an insertion has no rows.
"""

from gateway.operations.operations import Runner
from gateway.operations.responses import Response, Values, build_row_response
from workspace.records import PendingChange, PendingDrop, WriteKind


def give(answer: Response) -> Runner:
    """Return a runner that returns the response without any further work."""

    async def work() -> Response:
        return answer

    return work


def answer_to(change: PendingChange, table: str) -> Values:
    """Return the answer of a completed statement that changed a temporary table."""
    if isinstance(change, PendingDrop):
        return _ok(True, f"Temporary table [{table}] was dropped.")
    return created(change.rows) if change.kind in {WriteKind.CREATION, WriteKind.REPLACEMENT} else {}


def created(rows: int) -> Values:
    """Return the answer of a statement that created a table with the given row count."""
    return {"Fragment": "0_0", "Number of records written": rows}


def not_created(reason: str) -> Response:
    """Return the answer of ``CREATE TABLE IF NOT EXISTS`` if the name already exists."""
    return build_row_response(_ok(False, reason))


def table_dropped(name: str) -> Response:
    """Return the answer of ``DROP TABLE`` for a permanent table."""
    return build_row_response(_ok(True, f"Table [{name}] dropped"))


def no_table(name: str) -> Response:
    """Return the answer of ``DROP TABLE IF EXISTS`` if the table does not exist."""
    return build_row_response(_ok(False, f"Table [{name}] was not found."))


def no_view(name: str, schema: str) -> Response:
    """Return the answer of ``DROP VIEW IF EXISTS`` if the view does not exist."""
    return build_row_response(_ok(False, f"View [{name}] not found in schema [{schema}]."))


def _ok(done: bool, summary: str) -> Values:
    return {"ok": done, "summary": summary}
