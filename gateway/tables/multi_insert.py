"""Executes ``FROM … INSERT … INSERT …``, whose clauses insert into several temporary tables.

As in Spark, the clauses are executed one after the other, and a clause that fails does not undo those before it. Spark
analyzes all clauses before it executes the first one. Therefore, Lodge lets Spark check all clauses first.

Guarantee: each clause takes effect at most once, even if a client sends its statement again. All clauses but the last
are stored in the session record under ids that are derived from the id of the statement.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from gateway.operations.responses import Response
from gateway.tables.records import TableRecords
from gateway.tables.statement_context import Execution
from gateway.tables.table_errors import StatementStartedError, statement_lost
from workspace.record_changes import find_answer, find_change

MAX_INSERT_CLAUSES = 16
"""The record of a session keeps the answers of 32 statements."""

_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class InsertClause:
    """One of the clauses.

    Attributes:
        check: Lets Spark check the insertion, and inserts nothing.
        run: Executes the insertion under an operation id.
    """

    check: Callable[[], Awaitable[None]]
    run: Callable[[str], Awaitable[Response]]


async def run_clauses(execution: Execution, records: TableRecords, clauses: Sequence[InsertClause]) -> Response:
    """Execute the clauses.

    Args:
        execution: The statement.
        records: The session records.
        clauses: The clauses. At least one.

    Raises:
        GatewayError: If a clause failed.
    """
    for clause in clauses:
        await clause.check()
    for number, clause in enumerate(clauses[:-1]):
        operation_id = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{execution.operation.id} {number}"))
        try:
            await clause.run(operation_id)
        except StatementStartedError:
            await _wait_for(execution, records, operation_id)
    return await clauses[-1].run(execution.operation.id)


async def _wait_for(execution: Execution, records: TableRecords, operation_id: str) -> None:
    """Wait until another execution of the same statement has completed a clause.

    Raises:
        GatewayError: If the clause was undone.
    """
    while True:
        record = await records.read(execution.session)
        if find_answer(record, operation_id) is not None:
            return
        if find_change(record, operation_id) is None:
            raise statement_lost()
        await asyncio.sleep(_POLL_SECONDS)
